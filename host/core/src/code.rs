//! The stable codes of outcomes, in one table. Every crate returns them; `docs/codes.md` is generated from the table.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Declares every code once: the variant, the stable word, and its meaning. `docs/codes.md` is generated from it.
macro_rules! codes {
    ($($section:literal { $($variant:ident = $word:literal, $meaning:literal;)* })*) => {
        /// A stable word for what happened. A released code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $meaning] $variant,)*)*
        }

        impl Code {
            /// Every code: its section, the code, and its meaning.
            pub const TABLE: &'static [(&'static str, Code, &'static str)] =
                &[$($(($section, Code::$variant, $meaning),)*)*];

            /// Returns the stable word.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($(Code::$variant => $word,)*)*
                }
            }
        }
    };
}

codes! {
    "A line succeeded" {
        SkillsListed = "skills_listed", "`/skills`: the snapshot has skills.";
        SkillsEmpty = "skills_empty", "`/skills`: the snapshot has no skills.";
        SkillHelp = "skill_help", "`/help`: metadata of one skill.";
        SkillsReloaded = "skills_reloaded", "`/reload_skills`: the session has a new snapshot.";
        SkillAdded = "skill_added", "A skill's instructions are in the conversation.";
        AgentSet = "agent_set", "`/agent`: the session has another persona.";
        ModeSet = "mode_set", "`/mode`: how far tools may go without asking.";
        CommandsListed = "commands_listed", "`/commands`: the available commands.";
        ToolResult = "tool_result", "A tool ran and returned a result.";
        ModelSet = "model_set", "`/model`: the agent in view has another model.";
        ProvidersListed = "providers_listed", "`/providers`: the list of providers.";
        Answered = "answered", "The model answered.";
        MessageDropped = "message_dropped", "`/drop`: the last message is no longer sent to the model.";
        ChangeShown = "change_shown", "`/diff`: how a turn or command changed files.";
        ChangeUndone = "change_undone", "`/undo`, `/rewind`: at least one file has its earlier contents again.";
        RewindListed = "rewind_listed", "`/rewind`: the messages to the agent in view, if any.";
        Rewound = "rewound", "`/rewind`: a new agent continues from before the message, and is in view.";
        HistoryListed = "history_listed", "`/history`: the last messages of the agent in view and their answers.";
        HistoryEmpty = "history_empty", "`/history`: the agent in view has no messages.";
        Forked = "forked", "`/fork`: the session has a new agent, which is in view.";
        Killed = "killed", "`/kill`: the agent and its descendants are dead.";
        AgentsListed = "agents_listed", "`/agents`: the tree of agents.";
        Switched = "switched", "`/switch`: another agent is in view.";
        CaptureStarted = "capture_started", "`/capture`: lines to this agent are kept and not sent to a model.";
        Captured = "captured", "The line was captured.";
        CaptureCancelled = "capture_cancelled", "`/cancel`: capturing has ended; nothing was sent.";
        MailSent = "mail_sent", "`/mail-send`: the mail is in the inbox of its recipient.";
        MailListed = "mail_listed", "`/mail-check`, `/mail-filter`: the inbox of the agent in view.";
        MailEmpty = "mail_empty", "`/mail-check`, `/mail-filter`: the list is empty.";
        MailRead = "mail_read", "`/mail-read`: one mail, which is marked as read.";
        MailDeleted = "mail_deleted", "`/mail-delete`: the mail is deleted.";
        Compacted = "compacted", "`/compact`: the conversation is summarised.";
        ContextListed = "context_listed", "`/context`: what fills the context window.";
        UsageListed = "usage_listed", "`/usage`: the tokens of the session.";
        Renamed = "renamed", "`/rename`: the session has a new title.";
        Quit = "quit", "`/quit`: the front should leave. Nothing is lost.";
    }
    "A line was refused" {
        ParseError = "parse_error", "A `/` without a name.";
        UnknownCommand = "unknown_command", "No built-in and no alias has that name.";
        InvalidArgs = "invalid_args", "An argument is missing, or not accepted.";
        AliasAmbiguous = "alias_ambiguous", "Several skills claim the alias; `/skill NAME` works.";
        SkillNotFound = "skill_not_found", "The snapshot has no skill of that name.";
        SkillNotForModels = "skill_not_for_models", "The skill can only be invoked by a user.";
        SkillFileNotFound = "skill_file_not_found", "The skill has no file at that path.";
        SkillFileBinary = "skill_file_binary", "A file of a skill is neither text nor an image or PDF that can be shown.";
        SkillFilesMissing = "skill_files_missing", "An older build stored the skill without its files; `/reload_skills` reads them.";
        PersonaNotFound = "persona_not_found", "No persona has that name, or its folder contains no persona file.";
        PersonaUnreadable = "persona_unreadable", "A file of the persona cannot be read.";
        ToolNotFound = "tool_not_found", "No skill of the snapshot and no available MCP server has a tool of that name.";
        InvalidInput = "invalid_input", "A tool's input does not satisfy its schema.";
        UnknownModel = "unknown_model", "No provider has such a model, or several list it.";
        ModelRetired = "model_retired", "The provider no longer finds the model: it was shut down, deprecated or \
            removed from the provider's list.";
        InvalidThinkingLevel = "invalid_thinking_level", "The text after the `/` is not a thinking level.";
        ProviderPending = "provider_pending", "The provider waits for the operator's approval; the message names the command.";
        ProviderUnusable = "provider_unusable", "The provider does not exist or cannot be used; the message says why.";
        ChangeNotFound = "change_not_found", "`/diff`, `/undo`, `/rewind`: no such file change was found.";
        ChangeKept = "change_kept", "`/undo`, `/rewind`: no file could be restored; the message says why.";
        MessageNotFound = "message_not_found", "`/rewind`: no message has this number.";
        TurnRunning = "turn_running", "The command does not work while a turn runs.";
        CompactEmpty = "compact_empty", "`/compact`: there are no answers since the last summary.";
        NothingUnanswered = "nothing_unanswered", "`/retry`, `/drop`: the last message has an answer, or there is no message.";
        QueueFull = "queue_full", "100 lines or 1 MiB of lines wait for their turns; the line was not stored.";
        LineTakenBack = "line_taken_back", "The waiting line was taken back; it did not run.";
        LineWaits = "line_waits", "The session was closed while the line waited for its turn; the line is stored with the session.";
        AgentNotFound = "agent_not_found", "The session has no agent with that UUID.";
        AgentDead = "agent_dead", "The agent was killed. You can look at it, but not talk to it.";
        AmbiguousUuid = "ambiguous_uuid", "Several agents of the session have a UUID with this prefix.";
        NoParent = "no_parent", "The root agent has no parent.";
        KillRoot = "kill_root", "The root agent cannot be killed.";
        KillAncestor = "kill_ancestor", "An agent cannot kill itself or its ancestors.";
        LimitAgents = "limit_agents", "The session has reached its limit of living agents (`limits.agents`).";
        LimitDepth = "limit_depth", "The agent is too far below the root to have children (`limits.agent_depth`).";
        UnclosedQuote = "unclosed_quote", "A quoted text has no closing quote.";
        CaptureActive = "capture_active", "`/capture`: the agent is already capturing.";
        CaptureInactive = "capture_inactive", "`/cancel`: the agent is not capturing.";
        MailNotFound = "mail_not_found", "The inbox has no mail with that number.";
        MailTooLong = "mail_too_long", "The mail is longer than 64 KiB.";
        LimitMail = "limit_mail", "The inbox of the recipient is full (`limits.mails`).";
        ModelValidationFailed = "model_validation_failed", "`set_agent_model`: the model did not answer a test; nothing was changed.";
        AttachmentsCaptured = "attachments_captured", "A line with attachments cannot be captured.";
        AttachmentRefused = "attachment_refused", "A file cannot be attached; the message says why. Nothing was sent.";
        AttachmentUnreadable = "attachment_unreadable", "The chosen model cannot read what is attached; nothing was sent.";
        LineTooLong = "line_too_long", "The line is longer than the limit and was discarded.";
    }
    "A turn ended early" {
        TurnCancelled = "turn_cancelled", "The turn was cancelled; the partial answer is kept.";
        TurnRounds = "turn_rounds", "The turn reached its limit of requests to the model (`limits.turn_requests`).";
        LimitRequests = "limit_requests", "The session's agents reached their limit of requests since the last \
            message (`limits.tree_requests`).";
        LimitWakes = "limit_wakes", "Mail has woken the agent as often as allowed since the last message \
            (`limits.wakes`); its mail waits.";
        TurnInterrupted = "turn_interrupted", "The process ended during the turn, or the agent was killed; the \
            partial answer is kept.";
        LimitTokens = "limit_tokens", "The session has used up its tokens (`limits.session_tokens`).";
        LimitBudget = "limit_budget", "A request could cost more than is left of `[budget]`; nothing was sent, and the message has the amounts.";
        PriceUnknown = "price_unknown", "`[budget]` is set, and the price of the model is not known; nothing was sent.";
        LimitResults = "limit_results", "The session reached its limit of stored tool results since the last \
            message (`limits.result_bytes`).";
        CompactionFailed = "compaction_failed", "The conversation could not be summarised; it is kept as it was.";
    }
    "A tool failed" {
        ToolFailed = "tool_failed", "The skill or the MCP server reported a failure; `data.kind` is the skill's own kind of error.";
        Denied = "denied", "The tool lacks a grant, or may not be called; the message says how to allow it.";
        CredentialPlacement = "credential_placement", "The operator did not allow a credential in this part of the request; the message says how to allow it.";
        Blocked = "blocked", "The operator has blocked the component; the message names the command to unblock it.";
        Trap = "trap", "The component trapped: `unreachable`, an invalid memory access, or a panic.";
        InvalidOutput = "invalid_output", "The result of the component or of the MCP server violates the contract.";
        InvalidComponent = "invalid_component", "The bytes are not a component of a world that the host supports.";
        ComponentMissing = "component_missing", "The stored component of a snapshot is missing or damaged.";
        LimitFuel = "limit_fuel", "The call used up its fuel, the deterministic budget of instructions.";
        LimitTime = "limit_time", "The call exceeded its wall-clock limit.";
        LimitMemory = "limit_memory", "The instance exceeded its limit of memory or tables.";
        LimitHostCalls = "limit_host_calls", "The call exceeded its limit of host calls.";
        LimitInput = "limit_input", "The input exceeds the limit for tools or for skill instructions, or is longer \
            than a question to the user can show.";
        LimitInstructions = "limit_instructions", "A skill that repeats its input would have instructions of more \
            than 1 MiB.";
        LimitOutput = "limit_output", "The component or the tool of an MCP server exceeded its limit of output bytes.";
        LimitLog = "limit_log", "The call exceeded its limit of log bytes.";
        LimitWrite = "limit_write", "The skill exceeded the limit of bytes written to the workspace in one session (`limits.write_bytes`).";
        LimitCompile = "limit_compile", "Compiling the component exceeded its limit of time or memory.";
        Unavailable = "unavailable", "The host currently cannot run components, an MCP server is unavailable, or \
            too many questions are open; the message says why.";
        Cancelled = "cancelled", "The call was cancelled before it had any effect.";
        OutcomeUnknown = "outcome_unknown", "The call was interrupted after it had begun an effect; whether it took \
            effect is not known. Patchbay never repeats it.";
        NotRun = "not_run", "The call was not run, or had no effect: the process ended first, or the answer that requested it was cut off.";
    }
    "A model did not answer" {
        MissingCredentials = "missing_credentials", "The provider's key is missing or cannot be used; nothing was sent, and the message says where to put it.";
        KeyCommandFailed = "key_command_failed", "The provider's key command (`key_command`) returned no key; \
            nothing was sent.";
        ProviderAuthentication = "provider_authentication", "The provider rejects the key.";
        ProviderRateLimit = "provider_rate_limit", "Too many requests, or an exhausted quota; the message says when to try again, if known.";
        ProviderInvalidRequest = "provider_invalid_request", "The provider rejects the request as invalid.";
        ProviderContextWindow = "provider_context_window", "The conversation is longer than the model can read, \
            even after a summary.";
        ProviderNotFound = "provider_not_found", "The provider does not know the model or the address.";
        ProviderServer = "provider_server", "The provider reports an internal error.";
        ProviderTimeout = "provider_timeout", "The provider, or the whole exchange, took too long.";
        ProviderContentFilter = "provider_content_filter", "The provider's content filter rejected the request or its answer.";
        ProviderNetwork = "provider_network", "The connection to the provider could not be opened, or broke.";
        ProviderUnknown = "provider_unknown", "The provider failed for an unknown reason.";
        AdapterViolation = "adapter_violation", "The provider's adapter broke the contract; the message says how.";
        LimitExchange = "limit_exchange", "The provider's adapter, or the answer, exceeded a limit of `[exchange]`.";
    }
    "A skill was kept out of a snapshot" {
        MissingSkillMd = "missing_skill_md", "The folder or the component has no SKILL.md.";
        MalformedFrontmatter = "malformed_frontmatter", "The frontmatter cannot be parsed.";
        InvalidName = "invalid_name", "A name is invalid, or differs from the folder's name.";
        InvalidCommandAlias = "invalid_command_alias", "The alias is not a valid command name.";
        CommandAliasCollision = "command_alias_collision", "The alias is a built-in command or a reserved name.";
        Ineligible = "ineligible", "The system lacks something that the skill requires: the operating system, a variable or a binary.";
        MissingRequiredTools = "missing_required_tools", "A tool that the skill requires is not in the snapshot.";
        CommandToolMissing = "command_tool_missing", "The skill's `command_tool` is not a tool that it can call.";
        SeveralComponents = "several_components", "More than one component claims to be the skill.";
        AliasShadowed = "alias_shadowed", "The alias belongs to a skill of a higher root; the skill itself is loaded.";
        RootLimit = "root_limit", "The root exceeds a limit of `[limits.root]`; this skill and all after it are left out.";
        NameShadowed = "name_shadowed", "A skill of an extra root or of a package has the name of a skill of a higher root, or of a package that was added earlier; it is left out.";
        PackageChanged = "package_changed", "Files of a package's skills differ from `packages.lock`; all of its skills are \
            left out.";
        PackagesLockInvalid = "packages_lock_invalid", "`packages.lock` cannot be read or parsed; the skills of all packages are left out.";
        SkillFilesLimited = "skill_files_limited", "The skill exceeds a limit on files; it is loaded without them.";
        SkillFileSkipped = "skill_file_skipped", "A file of the skill is left out: it is a link out of the folder or not a regular file, its name is not UTF-8, it cannot be read, or it grew over a limit while it was read.";
        FrontmatterMended = "frontmatter_mended", "A line of the frontmatter was read as if it were quoted; the \
            skill is loaded.";
        UntrustedShadow = "untrusted_shadow", "A skill of an untrusted workspace may not take a lower root's name or alias.";
    }
    "A package was refused, or a part of it left out" {
        PackageManifestMissing = "package_manifest_missing", "The folder has no `plugin.json`, and nothing of a plugin in Claude Code's form.";
        PackageManifestInvalid = "package_manifest_invalid", "`plugin.json` breaks the specification of Agent Plugins, or `.claude-plugin/plugin.json` cannot be used.";
        PackageSchemaUnsupported = "package_schema_unsupported", "`plugin.json` targets a version of Agent Plugins other than 1.0.0 and 1.1.0.";
        PackageFileRefused = "package_file_refused", "A file cannot be copied faithfully: a link that leads out, a hard link, a device, a pipe or a socket, a name that some systems cannot store, or something unreadable.";
        PackageLimit = "package_limit", "The package exceeds a limit on files, bytes, depth or skills.";
        PackageTextsDiffer = "package_texts_differ", "The instructions in a component differ from the SKILL.md \
            beside it; the skill is left out.";
        PackageEmpty = "package_empty", "The package has no skills and no usable servers.";
        PackageFieldIgnored = "package_field_ignored", "A field of `plugin.json` is not in the specification and is ignored.";
        PackagePartUnused = "package_part_unused", "A part of the package is for other clients and is not used.";
        PackageServersInvalid = "package_servers_invalid", "`mcp.json` breaks the specification, or a file of servers in Claude Code's form cannot be used; none of its servers are loaded.";
        PackageServerInvalid = "package_server_invalid", "A server of the package breaks the specification and is left out.";
        PackageServerUnsupported = "package_server_unsupported", "A server of the package needs a transport, such as the deprecated `sse`, or a setting that Patchbay does not support, and is left out.";
        MarketplaceInvalid = "marketplace_invalid", "A `marketplace.json`, or an entry of it, cannot be used.";
        PackageUnstable = "package_unstable", "The folder changed while it was copied.";
        PackageExists = "package_exists", "A package of this name is already installed.";
        PackageNotFound = "package_not_found", "No package of this name is installed.";
        PackageOlder = "package_older", "The version found is lower than the installed version, or is not the one that `--to` names.";
        PackageAsksMore = "package_asks_more", "`--yes` does not accept a version that requests more access.";
        NameTaken = "name_taken", "`plugin allow`: another MCP server has the name.";
        PackagesBusy = "packages_busy", "Another `patchbay plugin` command is changing the packages.";
        NotConfirmed = "not_confirmed", "The user answered no, or there was no terminal to ask on; nothing was \
            changed.";
        DownloadFailed = "download_failed", "A package could not be downloaded; the message says why.";
        DigestMismatch = "digest_mismatch", "A downloaded file has the wrong digest or size.";
        ArchiveInvalid = "archive_invalid", "An archive has an entry that a package may not have, or is damaged or too large.";
        RegistryFailed = "registry_failed", "A registry has no such package, serves something else under its name, or refused the request.";
        VersionChanged = "version_changed", "A version in a registry differs from an earlier download, or from what \
            `plugin push` is sending.";
        SignatureInvalid = "signature_invalid", "A signature is damaged or too large, is for another purpose or by a key of another kind, or does not match.";
        SignatureRequired = "signature_required", "`[plugins] require_signature`: no publisher of `config.toml` has signed the package.";
        SignerChanged = "signer_changed", "The package has another signer than the pinned one, or none.";
        SourceRefused = "source_refused", "`config.toml` does not allow packages from this source.";
        PublisherExceeded = "publisher_exceeded", "The package asks for a capability that `config.toml` does not allow its publisher.";
    }
    "The host failed" {
        SnapshotNewer = "snapshot_newer", "The session was written by a newer version of Patchbay.";
        StoreFailed = "store_failed", "The database failed; everything acknowledged before is stored.";
        BuildFailed = "build_failed", "A plugin could not be built; the message says why.";
        FixtureInvalid = "fixture_invalid", "`plugin test`: a fixture cannot be used; the message says where and why.";
        FixtureNewer = "fixture_newer", "`plugin test`: a fixture was written for a newer version of Patchbay.";
        NotRecorded = "not_recorded", "`plugin test`: the tool made a host call that its fixture has no result for.";
        PluginNotCreated = "plugin_not_created", "`plugin new` could not create the plugin's folder.";
        ToolsNotInstalled = "tools_not_installed", "`plugin tools install` failed.";
        GrantNotFound = "grant_not_found", "The grant does not exist.";
        TrustNotFound = "trust_not_found", "The workspace was not trusted.";
        TokenNotFound = "token_not_found", "`patchbay token`: no token has that name.";
        SessionNotFound = "session_not_found", "No stored session has that id, or `--continue` found none in the workspace.";
        SessionInUse = "session_in_use", "Another process has the session open.";
        SessionFenced = "session_fenced", "Another process has taken over the session; this process can no longer write it.";
        SessionClosed = "session_closed", "The session was closed before the line.";
        FolderUnusable = "folder_unusable", "A folder or file that Patchbay needs cannot be used.";
        ConfigInvalid = "config_invalid", "`config.toml` is invalid.";
        McpServerNotFound = "mcp_server_not_found", "Neither `config.toml` nor an installed package has an MCP server of that name.";
        PortUnusable = "port_unusable", "`patchbay mcp --http` or `patchbay serve` cannot listen on the port.";
        ServerUnreachable = "server_unreachable", "`patchbay acp --connect` has no connection to the server.";
        ServerRefused = "server_refused", "`patchbay acp --connect`: the server refuses the token, the workspace or the connection.";
        ClientGone = "client_gone", "The client that sent the line has disconnected, so its files and terminals are \
            out of reach. The turn continues.";
        NotFound = "not_found", "`patchbay serve`: nothing has this id, or this token may not see it.";
        TokenRight = "token_right", "`patchbay serve`: the token lacks the right that this requires.";
        QuestionClosed = "question_closed", "`patchbay serve`: the question was answered already, or its call was stopped.";
        ServerDraining = "server_draining", "`patchbay serve`: the server is shutting down and accepts no new lines.";
        LinkUsed = "link_used", "`patchbay serve --open`: the link has already been used, or is older than 60 seconds.";
        ClientProtocol = "client_protocol", "The client of `patchbay mcp` broke the protocol before it was connected.";
        Timeout = "timeout", "`exec` reached its timeout.";
        Internal = "internal", "A bug in Patchbay. Please report it.";
    }
}

impl Code {
    /// Returns the code of a stored word.
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
