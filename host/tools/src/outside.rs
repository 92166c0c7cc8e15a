//! Tools that run outside of the sandbox and of the host: tools of MCP servers, and tools that a front offers. A session lists them
//! for each turn; they are not part of a snapshot. They are called like all other tools: the input is checked, the decision about
//! the tool is enforced, time and output are limited, and the call is recorded before it begins.

mod gate;
mod run;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use patchbay_core::{CallId, Code, Digest, Hasher, text};
use patchbay_policy::ToolDecision;
use patchbay_sandbox::{Content, ProgressSink, clean_schema};
use patchbay_schema::{PatternBudget, Schema};
use patchbay_store::GrantRow;
use serde_json::Value;

use self::gate::PassedGate;
use crate::{input_json, record::JournalName};

/// The tools outside of the sandbox that a turn or a command can call. The list stays the same from its beginning to its end.
pub type OutsideTools = Arc<[Arc<dyn OutsideTool>]>;

/// A tool that runs outside of the sandbox and of the host.
pub trait OutsideTool: Send + Sync {
    /// Returns the tool's declaration and settings.
    fn spec(&self) -> &OutsideSpec;

    /// Returns whether it may be called. Read at each call.
    fn decision(&self) -> ToolDecision;

    /// Returns an input as text for the question to the user, with the most important part first.
    fn input_for_question(&self, input: &Value) -> String {
        input_json(input)
    }

    /// Returns whether a call is refused if a question cannot show all of its input. Users
    /// should never allow hidden input.
    fn is_shown_whole(&self) -> bool {
        false
    }

    /// Returns the terms on which the user is asked about a call.
    fn terms<'a>(&'a self, _input: &'a Value) -> BoxFuture<'a, CallTerms> {
        Box::pin(async { CallTerms::default() })
    }

    /// Runs the tool. Dropping the future stops the call. The caller cleans the answer and enforces the limits on time and output,
    /// but the tool itself must limit the memory that it uses until then.
    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>>;
}

/// A call of a tool outside of the sandbox. Only [`Tools::run`](crate::Tools::run) creates one, after the call has passed the
/// schema, the mode, the decision and the user, so no other code can run such a tool:
///
/// ```compile_fail,E0451
/// use patchbay_core::CallId;
/// use patchbay_sandbox::ProgressSink;
/// use patchbay_tools::{CallTerms, OutsideCall, OutsideTool};
/// use serde_json::Value;
///
/// async fn run(tool: &dyn OutsideTool, id: CallId, input: &Value, progress: &dyn ProgressSink) {
///     let _ = tool.call(OutsideCall { id, input, progress, terms: CallTerms::default(), gate: todo!() }).await;
/// }
/// ```
pub struct OutsideCall<'a> {
    /// The id that identifies the call.
    pub id: CallId,
    /// The input, which satisfies the schema.
    pub input: &'a Value,
    /// Receives partial output; cleaned and bounded by the caller.
    pub progress: &'a dyn ProgressSink,
    /// The terms on which it was allowed; the default ones if no question was needed.
    pub terms: CallTerms,
    /// Proves that the call passed all checks.
    #[expect(dead_code, reason = "its existence is the proof")]
    gate: PassedGate,
}

/// The terms on which the user is asked about a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTerms {
    /// Facts for the user, one line each, the most important first.
    pub notes: Vec<String>,
    /// Whether a yes only covers this call, and earlier answers do not allow it.
    pub only_once: bool,
    /// Whether `always` only covers this input, on the same terms.
    pub only_this_input: bool,
    /// The reason if the call fails without a question.
    pub refusal: Option<String>,
    /// Further files and folders that the call reads, as the notes show them.
    pub read: Vec<PathBuf>,
    /// Further files and folders that it changes, as the notes show them.
    pub write: Vec<PathBuf>,
}

/// Where a tool outside of the sandbox comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideOrigin {
    /// An MCP server that the operator configured.
    Mcp,
    /// The client of a front, such as an editor, or an MCP server that it named.
    Client,
}

impl OutsideOrigin {
    /// Returns the name that the journal and stored decisions use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Client => "client",
        }
    }
}

/// A tool outside of the sandbox as its source declares it, before it is checked.
#[derive(Clone, Debug)]
pub struct OutsideDeclaration {
    /// The full name, for models: 1 to 64 letters, digits, `_` and `-`.
    pub name: String,
    /// Where the tool comes from.
    pub origin: OutsideOrigin,
    /// The source in the journal, such as `mcp__github`.
    pub group: String,
    /// The tool's own name at its source.
    pub tool: String,
    /// The tool's description, for models.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// Whether its source claims that it is destructive.
    pub is_destructive: bool,
    /// Whether the operator declared that it changes nothing. If so, it may be called in plan mode.
    pub is_read_only: bool,
    /// How the operator can allow it: a sentence without its full stop, for denials.
    pub advice: String,
    /// Further facts that a stored decision depends on, such as the command of a server.
    pub identity: Digest,
    /// Whether a stored decision applies to one workspace only.
    pub per_workspace: bool,
    /// Whether tools of skills may call it.
    pub for_skills: bool,
    /// The time limit of one call.
    pub time: Duration,
    /// The setting of `time` for errors: a key of `config.toml`, or why it is fixed.
    pub time_key: String,
}

/// The declaration and settings of a tool outside of the sandbox. Its texts are cleaned,
/// and its schema can be enforced.
#[derive(Debug)]
pub struct OutsideSpec {
    declaration: OutsideDeclaration,
    schema: Schema,
    digest: Digest,
}

impl OutsideSpec {
    /// Length limit of a description, in bytes. A longer description is cut.
    pub const DESCRIPTION_BYTES: usize = 8 << 10;
    /// Size limit of a schema, in bytes.
    pub const SCHEMA_BYTES: usize = 64 << 10;

    /// The capability of a stored decision.
    const CAPABILITY: &'static str = "call";

    /// Checks and cleans a declaration. `patterns` is the budget that all tools of one source share. Compiling a hostile
    /// schema takes about 50 ms.
    ///
    /// # Errors
    /// Why the tool cannot be used: a sentence about its schema.
    pub fn new(mut declaration: OutsideDeclaration, patterns: &mut PatternBudget) -> Result<Self, String> {
        let name = text::excerpt(&declaration.name, 80);
        let size = declaration.input_schema.to_string().len();
        if size > Self::SCHEMA_BYTES {
            let limit = Self::SCHEMA_BYTES;
            return Err(format!("The schema of tool '{name}' has {size} bytes; the limit is {limit}."));
        }
        let schema = Schema::compile(&declaration.input_schema, patterns).map_err(|error| error.of_tool(&name))?;
        let cleaned = clean_schema(std::mem::take(&mut declaration.input_schema), &name);
        declaration.input_schema = cleaned.map_err(|failure| format!("{failure}."))?;
        declaration.description = cut(&text::clean(&declaration.description));
        let digest = digest(&declaration);
        Ok(Self { declaration, schema, digest })
    }

    /// Returns the full name of the tool.
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Returns the description for models.
    pub fn description(&self) -> &str {
        &self.declaration.description
    }

    /// Returns the JSON Schema of the input.
    pub fn input_schema(&self) -> &Value {
        &self.declaration.input_schema
    }

    /// Returns whether tools of skills may call it.
    pub(crate) fn is_for_skills(&self) -> bool {
        self.declaration.for_skills
    }

    /// Returns the digest of the source and the declaration, which a stored decision is bound to.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the stored decision that allows every call in `workspace`.
    pub(crate) fn grant(&self, workspace: &str) -> GrantRow {
        let OutsideDeclaration { origin, name, per_workspace, .. } = &self.declaration;
        GrantRow {
            root: origin.as_str().to_owned(),
            workspace: if *per_workspace { workspace.to_owned() } else { String::new() },
            skill: name.clone(),
            capability: Self::CAPABILITY.to_owned(),
            place: workspace.to_owned(),
            skill_digest: self.digest.to_string(),
        }
    }

    /// Returns the stored decision that allows a call with this input in `workspace`.
    pub(crate) fn grant_of_input(&self, workspace: &str, input: Digest) -> GrantRow {
        let input = input.to_string();
        GrantRow { capability: format!("{}:{input}", Self::CAPABILITY), ..self.grant(workspace) }
    }

    /// Returns the tool's identity in the journal.
    pub(crate) fn journal_name(&self) -> JournalName<'_> {
        let OutsideDeclaration { origin, group, tool, .. } = &self.declaration;
        JournalName { root: origin.as_str(), skill: group, tool, component: self.digest }
    }
}

/// Returns the digest that a stored decision is bound to: a source that declares a tool
/// differently needs a new decision.
fn digest(declaration: &OutsideDeclaration) -> Digest {
    let OutsideDeclaration { name, tool, description, input_schema, is_destructive, identity, .. } = declaration;
    let mut hasher = Hasher::default();
    hasher.field("patchbay outside tool").field(identity.to_string()).field(name).field(tool).field(description);
    hasher.field(input_schema.to_string()).field([u8::from(*is_destructive)]);
    hasher.finish()
}

/// Returns a description of at most [`OutsideSpec::DESCRIPTION_BYTES`].
fn cut(description: &str) -> String {
    let description = description.trim();
    if description.len() <= OutsideSpec::DESCRIPTION_BYTES {
        return description.to_owned();
    }
    let room = OutsideSpec::DESCRIPTION_BYTES - '…'.len_utf8();
    let end = (0..=room).rev().find(|end| description.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &description[..end])
}

/// Why a call of a tool outside of the sandbox failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutsideError {
    /// The tool reported a failure, with this message.
    #[error("{0}")]
    Failed(String),
    /// The source of the tool is not available, or has disconnected.
    #[error("{0}")]
    Unavailable(String),
    /// The client that offers the tool has left.
    #[error("its client has disconnected")]
    ClientGone,
    /// The source broke its protocol.
    #[error("the response is invalid: {0}")]
    InvalidAnswer(String),
    /// The call exceeded its time.
    #[error("call exceeded its time limit of {limit_ms} ms ({key})")]
    Time {
        /// The limit in milliseconds.
        limit_ms: u128,
        /// The setting, as in [`OutsideDeclaration::time_key`].
        key: String,
    },
    /// The input is larger than the limit.
    #[error("the input of {size} bytes is over the limit of {limit} (limits.input_bytes)")]
    Input {
        /// The size that exceeds the limit, in bytes.
        size: usize,
        /// The exceeded limit, in bytes.
        limit: usize,
    },
    /// The input is too long to be shown to the user.
    #[error(
        "a question to the user can show {limit} characters, and this input has {size}; write long contents to a \
         file, and pass its path"
    )]
    Question {
        /// The characters of the input as it is shown.
        size: usize,
        /// The characters that a question can show.
        limit: usize,
    },
    /// The answer is larger than the limit.
    #[error("the response has more than {limit} bytes ({key})")]
    Output {
        /// The exceeded limit, in bytes.
        limit: usize,
        /// The setting that determines the limit.
        key: &'static str,
    },
}

impl OutsideError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Failed(_) => Code::ToolFailed,
            Self::Unavailable(_) => Code::Unavailable,
            Self::ClientGone => Code::ClientGone,
            Self::InvalidAnswer(_) => Code::InvalidOutput,
            Self::Time { .. } => Code::LimitTime,
            Self::Input { .. } | Self::Question { .. } => Code::LimitInput,
            Self::Output { .. } => Code::LimitOutput,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declaration() -> OutsideDeclaration {
        OutsideDeclaration {
            name: "mcp__files__read".to_owned(),
            origin: OutsideOrigin::Mcp,
            group: "mcp__files".to_owned(),
            tool: "read".to_owned(),
            description: "Reads.".to_owned(),
            input_schema: json!({"type": "object"}),
            is_destructive: false,
            advice: String::new(),
            identity: Digest::of(b"server"),
            is_read_only: false,
            per_workspace: false,
            for_skills: true,
            time: Duration::from_secs(1),
            time_key: "mcp.files.call_ms".to_owned(),
        }
    }

    fn spec(declaration: OutsideDeclaration) -> Result<OutsideSpec, String> {
        OutsideSpec::new(declaration, &mut PatternBudget::default())
    }

    #[test]
    fn schema_that_cannot_be_enforced_is_refused() {
        let refused = |input_schema| spec(OutsideDeclaration { input_schema, ..declaration() }).unwrap_err();
        let error = refused(json!({"type": "object", "unevaluatedProperties": false}));
        assert!(error.starts_with("The schema of tool 'mcp__files__read' uses 'unevaluatedProperties'"), "{error}");
        let error = refused(json!({"type": "object", "title": "x".repeat(OutsideSpec::SCHEMA_BYTES)}));
        assert!(error.contains("the limit is 65536"), "{error}");
        let error = refused(json!({"type": "object", "properties": {"a\u{200b}": {}}}));
        assert!(error.contains("invisible characters"), "{error}");
    }

    #[test]
    fn description_is_cleaned_and_cut() {
        let described = |description: &str| {
            let spec = spec(OutsideDeclaration { description: description.to_owned(), ..declaration() }).unwrap();
            spec.description().to_owned()
        };
        assert_eq!(described(" a\u{202e}b "), "ab");
        let long = described(&"ä".repeat(OutsideSpec::DESCRIPTION_BYTES));
        assert!(long.len() <= OutsideSpec::DESCRIPTION_BYTES && long.ends_with("ä…"), "{}", long.len());
    }

    #[test]
    fn decision_is_bound_to_source_and_declaration() {
        let of = |change: fn(&mut OutsideDeclaration)| {
            let mut declaration = declaration();
            change(&mut declaration);
            spec(declaration).unwrap().grant("/w")
        };
        let plain = of(|_| {});
        assert_eq!((&*plain.root, &*plain.workspace, &*plain.skill), ("mcp", "", "mcp__files__read"));
        assert_eq!(plain, of(|it| it.advice = "other".to_owned()));
        for other in [
            of(|it| it.identity = Digest::of(b"another")),
            of(|it| it.description = "Deletes.".to_owned()),
            of(|it| it.input_schema = json!({"type": "object", "required": ["x"]})),
            of(|it| it.is_destructive = true),
        ] {
            assert_ne!(plain.skill_digest, other.skill_digest);
        }
        assert_eq!(of(|it| it.per_workspace = true).workspace, "/w");
    }
}
