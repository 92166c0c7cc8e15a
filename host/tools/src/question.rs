//! Questions to the user and their answers. `approval` asks them; fronts show them.

use patchbay_core::{AgentId, Asker, Digest, Hasher, text};
use patchbay_policy::{Capability, Identity};

use crate::{Act, FileDiff, TerminalCommand, command_line};

/// A question to the user: may this happen?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The caller of the outermost tool.
    pub asker: Asker,
    /// The subject of the question.
    pub subject: QuestionSubject,
    /// The full names of the running tools, from the outermost to the one that needs the answer.
    pub chain: Vec<String>,
    /// The canonical path of the session's workspace.
    pub workspace: String,
    /// The reason in the skill's manifest, cleaned, on one line of at most 200 characters; `None` if it gives none.
    pub reason: Option<String>,
    /// Whether the answer can only cover what is shown, because it concerns the user's home folder or goes beyond what is usual.
    pub only_once: bool,
    /// The grant that [`Approval::Always`] stores, or `None` if that answer is not offered.
    pub grant: Option<OfferedGrant>,
}

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionSubject {
    /// A capability that a skill needs.
    Capability(SkillCapability),
    /// A call of a tool outside of the sandbox.
    Tool(CalledTool),
    /// A tool of the host that would move an agent to another provider.
    Provider(ProviderMove),
}

/// An agent's move to another provider, as a model requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMove {
    /// The agent, whose conversation the provider would receive.
    pub agent: AgentId,
    /// The current provider, or `None` if its model is unknown by now.
    pub from: Option<String>,
    /// The provider that it would move to.
    pub to: String,
    /// The model that it would use; `None` for the provider's default.
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
    /// The use of the capability that the skill is about to make.
    pub act: Box<Act>,
    /// The skill that needs the capability.
    pub skill: Identity,
    /// The requested capability, as written in the manifest.
    pub capability: Capability,
    /// The scope of an answer for more than this act: the capability, or for `http:*` only the
    /// host that the request goes to.
    pub offered: Capability,
    /// The digest of the skill's files.
    pub digest: Digest,
}

/// A call of a tool outside of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledTool {
    /// The tool's full name, including its skill or server.
    pub name: String,
    /// The input as JSON or as the command line that it runs, cleaned, on one line. If it has more than [`CalledTool::INPUT`]
    /// characters, the middle is left out, with a note of how many.
    pub input: String,
    /// The digest of the whole input and the notes.
    pub input_digest: Digest,
    /// The digest of the tool's source and declaration.
    pub digest: Digest,
    /// Whether its source marks it as destructive.
    pub is_destructive: bool,
    /// The most important facts for the user.
    pub notes: Vec<String>,
    /// Whether [`Approval::Always`] only covers this input.
    pub only_this_input: bool,
}

impl CalledTool {
    /// Maximum length of [`CalledTool::input`] in characters, without the note about omitted text.
    pub const INPUT: usize = Act::LINE;
    /// Maximum length of a command in the title, in characters. The facts contain the whole command.
    const COMMAND: usize = 200;

    /// Describes the call's act, as far as the host knows it.
    fn act(&self) -> String {
        match self.name.strip_prefix("mcp__").and_then(|name| name.split_once("__")) {
            Some((server, tool)) => format!("Call {server}: {tool}"),
            None if self.name == TerminalCommand::TOOL => format!("Run {}", text::excerpt(&self.input, Self::COMMAND)),
            None => format!("Call {}", self.name),
        }
    }
}

/// The scope of an answer for the session.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ApprovalScope {
    Capability(Identity, Digest, Capability),
    /// One act of a skill, by its digest.
    Act(Identity, Digest, Digest),
    /// A capability, for the files below a folder of the workspace.
    Folder(Identity, Digest, Capability, String),
    Tool(String, Digest),
    /// One input of a tool, by its digest.
    Input(String, Digest, Digest),
    /// A move from one provider to another, for any agent and model.
    Provider(Option<String>, String),
}

impl QuestionSubject {
    pub(crate) fn scope(&self) -> ApprovalScope {
        match self {
            Self::Capability(SkillCapability { skill, offered, digest, .. }) => {
                ApprovalScope::Capability(skill.clone(), *digest, offered.clone())
            }
            Self::Tool(tool) => ApprovalScope::Tool(tool.name.clone(), tool.digest),
            Self::Provider(ProviderMove { from, to, .. }) => ApprovalScope::Provider(from.clone(), to.clone()),
        }
    }

    /// Returns the scope of [`Approval::Wide`], or `None` if nothing wider can be allowed.
    pub(crate) fn wide_scope(&self) -> Option<ApprovalScope> {
        match self {
            Self::Capability(SkillCapability { skill, capability, offered, digest, .. }) if capability != offered => {
                Some(ApprovalScope::Capability(skill.clone(), *digest, capability.clone()))
            }
            Self::Capability(_) | Self::Tool(_) | Self::Provider(_) => None,
        }
    }

    /// Returns the scopes of [`Approval::Exact`]: the act shown, and the same act once it is done. The first scope applies to this
    /// question. Empty if only this act can be allowed.
    pub(crate) fn exact_scopes(&self) -> Vec<ApprovalScope> {
        match self {
            Self::Capability(SkillCapability { act, skill, digest, .. }) => {
                let scope = |act| ApprovalScope::Act(skill.clone(), *digest, act);
                std::iter::once(act.digest).chain(act.digest_again).map(scope).collect()
            }
            Self::Tool(tool) => vec![ApprovalScope::Input(tool.name.clone(), tool.digest, tool.input_digest)],
            Self::Provider(_) => Vec::new(),
        }
    }

    /// Returns the folder that [`Approval::Folder`] would allow, without a trailing slash; `None` if no file below a folder is
    /// changed.
    pub fn folder(&self) -> Option<&str> {
        match self {
            Self::Capability(SkillCapability { act, .. }) => {
                act.path.as_deref()?.rsplit_once('/').map(|(folder, _)| folder)
            }
            Self::Tool(_) | Self::Provider(_) => None,
        }
    }

    /// Returns the scopes of [`Approval::Folder`] that cover the act: its folder, and all parent folders.
    pub(crate) fn folder_scopes(&self) -> impl Iterator<Item = ApprovalScope> + '_ {
        let (of, folder) = match self {
            Self::Capability(of) => (Some(of), self.folder()),
            Self::Tool(_) | Self::Provider(_) => (None, None),
        };
        let folders = std::iter::successors(folder, |folder| folder.rsplit_once('/').map(|(parent, _)| parent));
        folders.filter_map(move |folder| {
            let SkillCapability { skill, digest, capability, .. } = of?;
            Some(ApprovalScope::Folder(skill.clone(), *digest, capability.clone(), folder.to_owned()))
        })
    }

    /// Returns the digest of the act shown, which [`Approval::Once`] is bound to.
    pub(crate) fn shown_digest(&self) -> Digest {
        match self {
            Self::Capability(capability) => capability.act.digest,
            Self::Tool(tool) => tool.input_digest,
            Self::Provider(moved) => moved.digest(),
        }
    }

    /// Returns the question to show: the act, described with the values that will be used. Cleaned, on one line.
    pub fn title(&self) -> String {
        format!("{}?", self.act())
    }

    /// Returns the subject of the question, using only the host's own words and names, for places where text could be parsed as
    /// markup.
    pub fn topic(&self) -> String {
        match self {
            Self::Tool(tool) => format!("Call {}?", tool.name),
            Self::Capability(_) | Self::Provider(_) => self.request().unwrap_or_else(|| self.title()),
        }
    }

    /// Describes the act, without a full stop.
    fn act(&self) -> String {
        match self {
            Self::Capability(SkillCapability { act, .. }) => act.title.clone(),
            Self::Tool(tool) => tool.act(),
            Self::Provider(ProviderMove { agent, to, .. }) => {
                format!("Move agent {} to provider '{to}'", agent.short())
            }
        }
    }

    /// Describes the decision in an answer, without a full stop: the act that was shown, or the scope of a wider answer.
    pub fn decided(&self, answer: Approval) -> String {
        match (self, answer) {
            (Self::Capability(SkillCapability { skill, capability, .. }), Approval::Folder) => {
                let folder = command_line([self.folder().unwrap_or_default()]);
                format!("'{capability}' below {folder}/ for the {} skill '{}'", skill.root, skill.name)
            }
            (Self::Capability(SkillCapability { skill, capability, offered, .. }), wide) if wide.is_wide() => {
                let allowed = if wide == Approval::Wide { capability } else { offered };
                format!("'{allowed}' for the {} skill '{}'", skill.root, skill.name)
            }
            (Self::Tool(tool), Approval::Always) if tool.only_this_input => tool.act(),
            (Self::Tool(tool), wide) if wide.is_wide() => format!("every call of {}", tool.name),
            _ => self.act(),
        }
    }

    /// Returns the facts that the user should know about the act itself, one per line, the most important first.
    pub fn facts(&self) -> Vec<String> {
        match self {
            Self::Capability(capability) => capability.act.lines.clone(),
            Self::Tool(tool) => {
                let destructive = "its source says that it deletes or overwrites something".to_owned();
                let input = format!("with {}", tool.input);
                let rest = std::iter::once(input).chain(tool.is_destructive.then_some(destructive));
                tool.notes.iter().cloned().chain(rest).collect()
            }
            Self::Provider(ProviderMove { from, to, model, .. }) => {
                let model = model.as_deref().map(|model| format!("model: {}", command_line([model])));
                let from = from.as_ref().map_or(String::new(), |from| format!(" instead of '{from}'"));
                let sent = format!("its whole conversation will be sent to '{to}'{from}");
                std::iter::once(sent).chain(model).collect()
            }
        }
    }

    /// Returns how the act changes a text file.
    pub fn diff(&self) -> Option<&FileDiff> {
        match self {
            Self::Capability(capability) => capability.act.diff.as_ref(),
            Self::Tool(_) | Self::Provider(_) => None,
        }
    }

    /// Returns which skill requests which capability, or `None` if the chain of calls already shows it.
    pub fn request(&self) -> Option<String> {
        match self {
            Self::Capability(SkillCapability { skill, capability, .. }) => {
                Some(format!("the {} skill '{}' asks for '{capability}'", skill.root, skill.name))
            }
            Self::Tool(_) | Self::Provider(_) => None,
        }
    }
}

/// The decision that the answer [`Approval::Always`] stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedGrant {
    /// The grant, which only applies to this workspace. For a skill, this is the command that stores the same grant.
    pub what: String,
    /// The command that revokes the grant.
    pub take_back: String,
    /// The condition under which it is valid; `None` if it is valid until it is removed.
    pub scope: Option<String>,
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
        // The usual answers, then the narrower ones.
        let usual = [Approval::Once, Approval::Session, Approval::Always, Approval::Wide, Approval::No];
        let narrower = [Approval::Call, Approval::Exact, Approval::Folder];
        usual.into_iter().chain(narrower).filter(|answer| self.allows(*answer)).collect()
    }

    /// Returns whether `answer` may be given.
    pub fn allows(&self, answer: Approval) -> bool {
        match answer {
            Approval::Once | Approval::No | Approval::Never => true,
            Approval::Call => !self.only_once && matches!(self.subject, QuestionSubject::Capability(_)),
            Approval::Session => !self.only_once,
            Approval::Exact => !self.only_once && !self.subject.exact_scopes().is_empty(),
            Approval::Folder => !self.only_once && self.subject.folder().is_some(),
            Approval::Wide => !self.only_once && self.subject.wide_scope().is_some(),
            Approval::Always => !self.only_once && self.grant.is_some(),
        }
    }
}

/// A user's answer, and any reason given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAnswer {
    /// The decision of the user.
    pub approval: Approval,
    /// Why the answer is no, cleaned, at most [`PersonAnswer::SAID`] characters. The model reads it.
    pub said: Option<String>,
    /// The name of the client that answered; `None` for the process's own front, and for an earlier answer.
    pub client: Option<String>,
}

impl PersonAnswer {
    /// Maximum length of [`PersonAnswer::said`] in characters.
    pub const SAID: usize = 2_000;

    /// Returns a no with the user's reason `why`; white space alone does not count.
    pub fn no(why: &str) -> Self {
        let said = text::excerpt(why.trim(), Self::SAID);
        Self { said: (!said.is_empty()).then_some(said), ..Approval::No.into() }
    }
}

impl From<Approval> for PersonAnswer {
    fn from(approval: Approval) -> Self {
        Self { approval, said: None, client: None }
    }
}

/// How much a user allows with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Approval {
    /// Allowed for this act only.
    Once,
    /// The capability is allowed for this call, to its end, but not for the calls that it makes.
    Call,
    /// Exactly this is allowed while this process has the session: the same act of this skill with its current files,
    /// or the same input of this tool as it is declared. If the act replaces or deletes a file, the file must match the
    /// question, or the state that the act left.
    Exact,
    /// The capability is allowed for files below the folder of this one while this process has the session, for
    /// this skill and its current files.
    Folder,
    /// Allowed while this process has the session: for this skill and its current files, or this tool as it is declared.
    Session,
    /// Allowed in this workspace from now on: stored as a grant or decision.
    Always,
    /// Allowed while this process has the session, like [`Approval::Session`], for everything that the manifest requests: every
    /// host of `http:*`, and not only the host of this request.
    Wide,
    /// Not allowed for this call, nor for a later one of the same tool or capability within the same outermost call.
    No,
    /// Not allowed while this process has the session, for what [`Approval::Session`] would allow. Only editors offer this.
    Never,
}

impl Approval {
    /// Returns whether the call may continue.
    pub fn is_yes(self) -> bool {
        !matches!(self, Self::No | Self::Never)
    }

    /// Whether the answer covers more than the act shown.
    fn is_wide(self) -> bool {
        !matches!(self, Self::Once | Self::Exact | Self::No)
    }

    /// Returns the answer as the journal names it.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
