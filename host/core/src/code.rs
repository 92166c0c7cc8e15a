use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Declares every code once: the variant, the stable word, and what it means. `docs/codes.md` is generated from it.
macro_rules! codes {
    ($($section:literal { $($variant:ident = $word:literal, $meaning:literal;)* })*) => {
        /// A stable word for what happened. A released code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $meaning] $variant,)*)*
        }

        impl Code {
            /// Every code: its section, the code, and what it means.
            pub const TABLE: &'static [(&'static str, Code, &'static str)] =
                &[$($(($section, Code::$variant, $meaning),)*)*];

            /// The stable word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(Code::$variant => $word,)*)*
                }
            }
        }
    };
}

codes! {
    "A line went well" {
        SkillsListed = "skills_listed", "`/skills`: the snapshot has skills.";
        SkillsEmpty = "skills_empty", "`/skills`: the snapshot has none.";
        SkillHelp = "skill_help", "`/help`: metadata of one skill.";
        SkillsReloaded = "skills_reloaded", "`/reload_skills`: the session has a new snapshot.";
        SkillAdded = "skill_added", "A skill's instructions are in the conversation.";
        AgentSet = "agent_set", "`/agent`: the persona is switched.";
        CommandsListed = "commands_listed", "`/commands`: what works now.";
        ToolResult = "tool_result", "A tool ran and answered.";
        ModelSet = "model_set", "`/model`: the agent in view has another model.";
        ProvidersListed = "providers_listed", "`/providers`: what providers there are.";
        Answered = "answered", "The model answered.";
        Quit = "quit", "`/quit`: the front should leave. Nothing is lost.";
    }
    "A line was refused" {
        ParseError = "parse_error", "A `/` without a name.";
        UnknownCommand = "unknown_command", "No built-in and no alias has that name.";
        InvalidArgs = "invalid_args", "An argument is missing, or not accepted.";
        AliasAmbiguous = "alias_ambiguous", "Several skills claim the alias; `/skill NAME` works.";
        SkillNotFound = "skill_not_found", "The snapshot has no skill of that name.";
        PersonaNotFound = "persona_not_found", "No persona has that name, or its folder has none of a persona's files.";
        PersonaUnreadable = "persona_unreadable", "The persona is there, and one of its files cannot be read.";
        ToolNotFound = "tool_not_found", "The snapshot has no tool of that name.";
        InvalidInput = "invalid_input", "A tool's input does not satisfy its schema.";
        UnknownModel = "unknown_model", "No provider has such a model.";
        InvalidThinkingLevel = "invalid_thinking_level", "What follows the `/` is no thinking level.";
        ProviderPending = "provider_pending", "The provider waits for the operator's yes; the message names the command.";
        ProviderUnusable = "provider_unusable", "The provider is gone, or cannot be used; the message says why.";
        TurnRunning = "turn_running", "The model cannot be switched while a turn runs.";
        LineTooLong = "line_too_long", "A line is over the limit; nothing of it was kept.";
    }
    "A turn ended early" {
        TurnCancelled = "turn_cancelled", "The turn was cancelled; what came is kept.";
        TurnRounds = "turn_rounds", "The turn made as many requests to the model as it may (`limits.turn_requests`).";
        LimitTokens = "limit_tokens", "The session has used up its tokens (`limits.session_tokens`).";
        CompactionFailed = "compaction_failed", "The conversation could not be summarised; it is kept as it was.";
    }
    "A tool failed" {
        ToolFailed = "tool_failed", "The skill itself says that it failed; `data.kind` is the skill's word.";
        Denied = "denied", "The tool lacks a grant; the message names the command that gives it.";
        CredentialPlacement = "credential_placement", "The skill wants a credential at a place of a request that the operator did not allow; the message says what would allow it.";
        Blocked = "blocked", "The operator has blocked the component; the message names the command that lifts it.";
        Trap = "trap", "The component trapped: it ran into `unreachable`, a bad pointer, or its own panic.";
        InvalidOutput = "invalid_output", "The component's answer is not what the contract says.";
        InvalidComponent = "invalid_component", "The bytes are no component of a world that the host knows.";
        ComponentMissing = "component_missing", "The stored component of a snapshot is gone or damaged.";
        LimitFuel = "limit_fuel", "The call used up its fuel, the deterministic budget of instructions.";
        LimitTime = "limit_time", "The call ran over its wall-clock deadline.";
        LimitMemory = "limit_memory", "The instance wanted more memory or tables than it may have.";
        LimitHostCalls = "limit_host_calls", "The call made more host calls than it may.";
        LimitInput = "limit_input", "The input is larger than a tool may be given.";
        LimitOutput = "limit_output", "The component handed over more bytes than it may.";
        LimitLog = "limit_log", "The call wrote more log than it may.";
        LimitWrite = "limit_write", "The skill wrote more bytes to the workspace than it may in one session (`limits.write_bytes`).";
        LimitCompile = "limit_compile", "Compiling the component took longer, or more memory, than it may.";
        Unavailable = "unavailable", "The host cannot run components now; the message says why.";
        Cancelled = "cancelled", "The call was given up before it ended, and before it had any effect.";
        OutcomeUnknown = "outcome_unknown", "The call was interrupted after it had begun an effect; whether it took effect is not known. It is never repeated by itself.";
        NotRun = "not_run", "The call was not run, or had no effect: the process ended before.";
    }
    "A model did not answer" {
        MissingCredentials = "missing_credentials", "The provider's key is not known; nothing was sent, and the message says where it belongs.";
        ProviderAuthentication = "provider_authentication", "The provider refuses the key.";
        ProviderRateLimit = "provider_rate_limit", "Too many requests, or a quota that is used up; the message says when to try again, where that is known.";
        ProviderInvalidRequest = "provider_invalid_request", "The provider says that the request is wrong.";
        ProviderNotFound = "provider_not_found", "The provider knows no such model, or no such address.";
        ProviderServer = "provider_server", "The provider is in trouble.";
        ProviderTimeout = "provider_timeout", "The provider, or the whole exchange, took too long.";
        ProviderContentFilter = "provider_content_filter", "A filter of the provider's refused the request or its answer.";
        ProviderNetwork = "provider_network", "There is no connection to the provider, or it broke.";
        ProviderUnknown = "provider_unknown", "The provider failed in a way that nobody here knows.";
        AdapterViolation = "adapter_violation", "The provider's adapter broke the contract; the message says how.";
        LimitExchange = "limit_exchange", "The provider's adapter went over a limit of `[exchange]`.";
    }
    "A skill was kept out of a snapshot" {
        MissingSkillMd = "missing_skill_md", "No SKILL.md in the folder or the component.";
        MalformedFrontmatter = "malformed_frontmatter", "The frontmatter cannot be read.";
        InvalidName = "invalid_name", "A name is against the rule, or not the folder's.";
        InvalidCommandAlias = "invalid_command_alias", "The alias is no valid command name.";
        CommandAliasCollision = "command_alias_collision", "The alias is a built-in command, or a name that is reserved for one.";
        Ineligible = "ineligible", "The system, the environment or a binary is not as the skill demands.";
        MissingRequiredTools = "missing_required_tools", "A tool that the skill builds on is not in the snapshot.";
        CommandToolMissing = "command_tool_missing", "The skill's `command_tool` is no tool that it can call.";
        SeveralComponents = "several_components", "More than one component claims to be the skill.";
        AliasShadowed = "alias_shadowed", "The alias belongs to a skill of a higher root; the skill itself stays.";
        RootLimit = "root_limit", "The root is over a limit of `[limits.root]`; this skill and all behind it are left out.";
        SkillFilesLimited = "skill_files_limited", "The skill has more files than a skill may; it stays without them.";
        SkillFileSkipped = "skill_file_skipped", "A file of the skill is left out: a link out of its folder, or no regular file.";
        FrontmatterMended = "frontmatter_mended", "A line of the frontmatter was read as if it were quoted; the skill stays.";
        UntrustedShadow = "untrusted_shadow", "A skill of an untrusted workspace may not take a lower root's name or alias.";
    }
    "The host could not go on" {
        SnapshotNewer = "snapshot_newer", "The session was written by a newer Patchbay.";
        StoreFailed = "store_failed", "The database refused; what was acknowledged before is safe.";
        BuildFailed = "build_failed", "A plugin could not be built; the message says why.";
        GrantNotFound = "grant_not_found", "There was no such grant to take back.";
        TrustNotFound = "trust_not_found", "The workspace was not trusted.";
        SessionNotFound = "session_not_found", "No stored session has that id.";
        SessionInUse = "session_in_use", "Another process holds the session.";
        SessionFenced = "session_fenced", "Another process has taken the session over; this one can no longer write it.";
        SessionClosed = "session_closed", "The session was closed in this process before the line.";
        FolderUnusable = "folder_unusable", "A folder or file that Patchbay needs cannot be used.";
        ConfigInvalid = "config_invalid", "`config.toml` cannot be used as it is.";
        Timeout = "timeout", "`exec` ran into its time-out.";
        Internal = "internal", "A fault of Patchbay's own. Please report it.";
    }
}

impl Code {
    /// The code that a stored word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::TABLE.iter().map(|(_, code, _)| *code).find(|code| code.as_str() == word)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        Self::from_word(&word).ok_or_else(|| serde::de::Error::custom(format!("unknown code '{word}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_round_trip() {
        for (_, code, _) in Code::TABLE {
            assert_eq!(Code::from_word(code.as_str()), Some(*code), "two codes read {code}");
        }
    }
}
