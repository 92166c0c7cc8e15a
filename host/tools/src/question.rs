//! Questions to a person and their answers. `approval` asks them; fronts show them.

use patchbay_core::{AgentId, Asker, Digest, Hasher};
use patchbay_policy::{Capability, Identity};

use crate::{Act, command_line};

/// A question to a person: may this happen?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The caller of the outermost tool.
    pub asker: Asker,
    /// What it is about.
    pub subject: QuestionSubject,
    /// The full names of the running tools, from the outermost to the one that needs the answer.
    pub chain: Vec<String>,
    /// The canonical path of the session's workspace.
    pub workspace: String,
    /// The reason in the skill's manifest, cleaned, on one line of at most 200 characters; `None` if it gives none.
    pub reason: Option<String>,
    /// Whether the answer can be for what is shown only: the skill would write in the person's home folder.
    pub only_once: bool,
    /// What [`Approval::Always`] stores; `None` if that answer is not offered.
    pub grant: Option<OfferedGrant>,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionSubject {
    /// A capability that a skill needs.
    Capability(SkillCapability),
    /// A call of a tool outside of the sandbox.
    Tool(CalledTool),
    /// A tool of the host that would move an agent to another provider.
    Provider(ProviderMove),
}

/// An agent's move to another provider, which a model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMove {
    /// The agent, whose conversation the provider would receive.
    pub agent: AgentId,
    /// The provider that it has now; `None` if its model is no longer known.
    pub from: Option<String>,
    /// The provider that it would have.
    pub to: String,
    /// The model that it would have; `None` for the provider's default.
    pub model: Option<String>,
}

impl ProviderMove {
    /// Returns the digest of all its parts.
    fn digest(&self) -> Digest {
        let Self { agent, from, to, model } = self;
        let mut hasher = Hasher::default();
        hasher.field("move").field(agent.to_string()).field(to);
        for part in [from, model] {
            hasher.field([u8::from(part.is_some())]).field(part.as_deref().unwrap_or_default());
        }
        hasher.finish()
    }
}

/// A capability that a skill needs for one act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillCapability {
    /// What the skill is about to do with it.
    pub act: Act,
    /// The skill.
    pub skill: Identity,
    /// The requested capability with its scope.
    pub capability: Capability,
    /// The digest of the skill's files.
    pub digest: Digest,
}

/// A call of a tool outside of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledTool {
    /// The tool's full name.
    pub name: String,
    /// The input as JSON or as the command line that it runs, cleaned, on one line. Of more than [`CalledTool::INPUT`]
    /// characters, the middle is left out, with a note of how many.
    pub input: String,
    /// The digest of the whole input.
    pub input_digest: Digest,
    /// The digest of the tool's source and declaration.
    pub digest: Digest,
    /// Whether its source marks it as destructive.
    pub is_destructive: bool,
}

impl CalledTool {
    /// Maximum length of [`CalledTool::input`] in characters, without the note.
    pub const INPUT: usize = Act::LINE;
}

/// What an answer for the session applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ApprovalScope {
    Capability(Identity, Digest, Capability),
    Tool(String, Digest),
    /// From one provider to another, whichever agent and model.
    Provider(Option<String>, String),
}

impl QuestionSubject {
    pub(crate) fn scope(&self) -> ApprovalScope {
        match self {
            Self::Capability(SkillCapability { skill, capability, digest, .. }) => {
                ApprovalScope::Capability(skill.clone(), *digest, capability.clone())
            }
            Self::Tool(tool) => ApprovalScope::Tool(tool.name.clone(), tool.digest),
            Self::Provider(ProviderMove { from, to, .. }) => ApprovalScope::Provider(from.clone(), to.clone()),
        }
    }

    /// Returns the digest of what is shown, which [`Approval::Once`] is bound to.
    pub(crate) fn shown_digest(&self) -> Digest {
        match self {
            Self::Capability(capability) => capability.act.digest,
            Self::Tool(tool) => tool.input_digest,
            Self::Provider(moved) => moved.digest(),
        }
    }

    /// Returns the question itself, for people.
    pub fn title(&self) -> String {
        match self {
            Self::Capability(SkillCapability { skill, capability, .. }) => {
                format!("May the {} skill '{}' use '{capability}'?", skill.root, skill.name)
            }
            Self::Tool(tool) => format!("May the tool '{}' be called?", tool.name),
            Self::Provider(ProviderMove { agent, to, .. }) => {
                format!("May agent {} move to provider '{to}'?", agent.short())
            }
        }
    }

    /// Returns what an answer decides, without a full stop: `the user skill 'notes' may use 'kv'`, or that it may not.
    pub fn decided(&self, is_allowed: bool) -> String {
        let may = if is_allowed { "may" } else { "may not" };
        match self {
            Self::Capability(SkillCapability { skill, capability, .. }) => {
                format!("the {} skill '{}' {may} use '{capability}'", skill.root, skill.name)
            }
            Self::Tool(tool) => format!("the tool '{}' {may} be called", tool.name),
            Self::Provider(ProviderMove { agent, to, .. }) => {
                format!("agent {} {may} move to provider '{to}'", agent.short())
            }
        }
    }

    /// Returns what the person should know of the subject itself, a line each, the most important first.
    pub fn facts(&self) -> Vec<String> {
        match self {
            Self::Capability(capability) => capability.act.lines.clone(),
            Self::Tool(tool) => {
                let destructive = "its source says that it deletes or overwrites something".to_owned();
                let input = format!("with {}", tool.input);
                std::iter::once(input).chain(tool.is_destructive.then_some(destructive)).collect()
            }
            Self::Provider(ProviderMove { from, to, model, .. }) => {
                let model = model.as_deref().map(|model| format!("model: {}", command_line([model])));
                let from = from.as_ref().map_or(String::new(), |from| format!(" instead of '{from}'"));
                let sent = format!("its whole conversation will be sent to '{to}'{from}");
                std::iter::once(sent).chain(model).collect()
            }
        }
    }
}

/// The decision that the answer [`Approval::Always`] stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedGrant {
    /// What is allowed: for a skill the command that stores the same grant.
    pub what: String,
    /// Where it is valid.
    pub covers: &'static str,
    /// How long it is valid; `None` if it is until it is removed.
    pub scope: Option<String>,
}

impl OfferedGrant {
    /// Where a decision is valid that belongs to a skill or tool of one workspace.
    pub const ONE_WORKSPACE: &str = "in this workspace";
    /// Where any other decision is valid.
    pub const EVERY_WORKSPACE: &str = "in every workspace";
}

impl Question {
    /// Maximum length of [`Question::reason`] in characters.
    pub const REASON: usize = 200;

    /// Returns whether another tool made the call that needs the answer.
    pub(crate) fn is_of_nested_call(&self) -> bool {
        self.chain.len() > 1
    }

    /// Returns the answers that a front offers.
    pub fn answers(&self) -> Vec<Approval> {
        let all = [Approval::Once, Approval::Call, Approval::Session, Approval::Always, Approval::No];
        all.into_iter().filter(|answer| self.allows(*answer)).collect()
    }

    /// Returns whether `answer` may be given.
    pub fn allows(&self, answer: Approval) -> bool {
        match answer {
            Approval::Once | Approval::No | Approval::Never => true,
            Approval::Call => !self.only_once && matches!(self.subject, QuestionSubject::Capability(_)),
            Approval::Session => !self.only_once,
            Approval::Always => !self.only_once && self.grant.is_some(),
        }
    }
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Allowed for what the question shows, and for nothing else.
    Once,
    /// The capability is allowed for this call, to its end, but not for the calls that it makes.
    Call,
    /// Allowed while this process has the session: for this skill and its current files, or this tool as it is declared.
    Session,
    /// Allowed and stored as a grant or decision.
    Always,
    /// Not allowed for this call, nor for a later one of the same tool or capability within the same outermost call.
    No,
    /// Not allowed while this process has the session, for what [`Approval::Session`] would allow. For editors.
    Never,
}

impl Approval {
    /// Returns whether the call may go on.
    pub fn is_yes(self) -> bool {
        !matches!(self, Self::No | Self::Never)
    }

    /// Returns the answer as the journal names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Call => "call",
            Self::Session => "session",
            Self::Always => "always",
            Self::No => "no",
            Self::Never => "never",
        }
    }
}
