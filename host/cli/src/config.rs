//! `config.toml`. Every key has a default; unknown keys are errors. The types document each key, its default and its range;
//! `docs/config.md` is generated from them.

mod ranges;

#[cfg(test)]
mod document;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Name, text};
use patchbay_egress::{CredentialConfig, EgressLimits};
use patchbay_mcp::client::McpServerConfig;
use patchbay_plugin::{PackageRules, PluginRules, PublisherConfig};
use patchbay_provider::{CatalogueSettings, ExchangeLimits, ProviderConfig, Settings};
use patchbay_repl::TerminalSettings;
use patchbay_sandbox::Limits;
use patchbay_serve::ServeSettings;
use patchbay_session::{CompactionSettings, ContextSettings, SessionLimits};
use patchbay_store::{BudgetSettings, JournalSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::CliError;

#[derive(Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ConfigFile {
    /// Limits of one plugin call, and of a session with its agents. The error names the exceeded limit, and the session continues.
    #[schemars(with = "LimitsTable")]
    pub(crate) limits: Limits,
    /// The keys of `[limits]` that do not apply to single calls.
    #[serde(skip)]
    pub(crate) session_limits: SessionLimits,
    /// Spending limits for models: [operating.md](operating.md#what-models-may-cost). Read when Patchbay starts.
    ///
    /// ```toml
    /// [budget]
    /// session = "2.00"
    /// day = "20.00"
    /// ```
    pub(crate) budget: BudgetSettings,
    /// How much of each tool call is kept: [operating.md](operating.md#the-journal).
    pub(crate) journal: JournalSettings,
    /// Limits of one network request of a plugin, and of its response.
    pub(crate) egress: EgressLimits,
    /// A secret that the host adds to a skill's requests, and the only origin that may receive it:
    /// [operating.md](operating.md#credentials). The secret itself is never in `config.toml`.
    ///
    /// ```toml
    /// [credentials.github]
    /// origin = "https://api.github.com"
    ///
    /// [credentials.build-server]
    /// origin = "http://localhost:8080"
    /// env = "CI_KEY"
    /// ```
    pub(crate) credentials: BTreeMap<Name, CredentialConfig>,
    /// Additional skill folders, such as `["~/.agents/skills", "~/.claude/skills"]`, to share skills with other programs.
    /// Their skills rank below the bundled ones, and a later folder above an earlier one. `~/` is your home folder; any other
    /// path must be absolute. Plugins cannot write to these folders. This list is read when Patchbay starts; `/reload_skills`
    /// only reads the skills in the folders again.
    pub(crate) skill_roots: Vec<String>,
    /// The model of agents for which none was chosen, in the syntax of `/model`: `claude-sonnet-5-5/med`, or
    /// `PROVIDER:MODEL/LEVEL`. By default `demo-1`, which only echoes and uses no network.
    pub(crate) default_model: Option<String>,
    /// A provider of models: [providers.md](providers.md). A table configures the adapter of the same name, or makes
    /// another instance of an adapter. A change takes effect in about a second in an open
    /// terminal, `patchbay acp` and `patchbay serve`.
    ///
    /// ```toml
    /// [providers.local]
    /// adapter = "openai-compatible"
    /// origin = "http://localhost:11434/v1"
    /// models = ["llama3.2:3b"]
    /// ```
    pub(crate) providers: BTreeMap<Name, ProviderConfig>,
    /// An MCP server whose tools models may call: [mcp.md](mcp.md#tools-of-mcp-servers). Read when Patchbay starts.
    ///
    /// ```toml
    /// [mcp.github]
    /// command = ["npx", "-y", "@modelcontextprotocol/server-github"]
    /// env = ["GITHUB_PERSONAL_ACCESS_TOKEN"]
    /// tools = { create_issue = "ask", get_issue = "allow", merge_pull_request = "deny" }
    /// ```
    pub(crate) mcp: BTreeMap<Name, McpServerConfig>,
    /// Which packages `patchbay plugin add`, `update` and `sync` accept: [packages-publishers.md](packages-publishers.md#rules-of-an-operator).
    ///
    /// ```toml
    /// [plugins]
    /// sources = ["oci://ghcr.io/acme/*", "/srv/plugins/*"]
    /// require_signature = true
    /// ```
    pub(crate) plugins: PluginRules,
    /// A publisher of packages, by its keys: [packages-publishers.md](packages-publishers.md#rules-of-an-operator).
    ///
    /// ```toml
    /// [publishers.acme]
    /// keys = ["SHA256:Yk8TpDmdIVkU9zLDs3MHYVnJDi6HfzWoIvdyFBT6EHo"]
    /// sources = ["oci://ghcr.io/acme/*"]
    /// capabilities = ["kv", "http:*.acme.example"]
    /// ```
    pub(crate) publishers: BTreeMap<Name, PublisherConfig>,
    /// When lists of models are fetched from providers: [providers-models.md](providers-models.md#the-list-of-models).
    pub(crate) catalogue: CatalogueSettings,
    /// The provider to use for a model's id, or for all ids with a prefix. Routes take precedence over catalogues and the
    /// providers' own prefixes. A change takes effect in about a second in an open
    /// terminal, `patchbay acp` and `patchbay serve`.
    ///
    /// ```toml
    /// [routes]
    /// "gpt-oss:20b" = "local"
    /// ```
    pub(crate) routes: BTreeMap<String, Name>,
    /// Limits of one completion of a provider. A completion over a limit ends with an error that names the limit; the session
    /// continues.
    pub(crate) exchange: ExchangeLimits,
    /// When a conversation that gets too long for its model is summarised.
    pub(crate) compaction: CompactionSettings,
    /// How many skills and tools a model is shown. It can search for the rest:
    /// [skill-reference.md](skill-reference.md#what-a-model-sees). A conversation keeps its first selection for each model until the skills
    /// change.
    pub(crate) context: ContextSettings,
    /// Stored sessions: [operating.md](operating.md#sessions).
    pub(crate) sessions: SessionSettings,
    /// How clients reach `patchbay serve`. Read when it starts.
    ///
    /// ```toml
    /// [serve]
    /// listen = "127.0.0.1:7420"
    /// hosts = ["patchbay.example.org"]
    /// ```
    pub(crate) serve: ServeSettings,
    /// Appearance and behaviour of the terminal: [terminal.md](terminal.md). A change takes effect at the next start.
    pub(crate) terminal: TerminalSettings,
}

/// All keys of `[limits]`, for the schema only: if serde read flattened fields, it would lose the position of an error. The table
/// is therefore read twice, and `ranges` rejects unknown keys.
#[derive(Default, Serialize, JsonSchema)]
#[serde(default)]
struct LimitsTable {
    #[serde(flatten)]
    calls: Limits,
    #[serde(flatten)]
    session: SessionLimits,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SessionPart {
    limits: SessionLimits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SessionSettings {
    /// Days that a session is kept after its last use; 0 keeps all. `patchbay sessions gc` removes older ones; starting
    /// Patchbay never does. Run `gc` from a timer to clean up regularly.
    #[schemars(range(min = 0, max = 36_500))]
    pub(crate) keep_days: u32,
    /// Whether calls are recorded: input, result and everything a skill's tool receives from outside, without credentials. A
    /// recorded call can become a test: [fixtures.md](fixtures.md#from-a-real-call). `--record` does the same for one run.
    pub(crate) record: bool,
}

impl ConfigFile {
    /// Returns the paths of `skill_roots`. Without a home folder, paths that begin with `~/` are left out.
    pub(crate) fn skill_roots(&self, home: Option<&Path>) -> Vec<PathBuf> {
        let path = |written: &String| match (written.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => Some(home.join(below)),
            (Some(_), None) => None,
            (None, _) => Some(PathBuf::from(written)),
        };
        self.skill_roots.iter().filter_map(path).collect()
    }

    /// Returns the rules for packages.
    pub(crate) fn package_rules(&self) -> PackageRules {
        PackageRules { plugins: self.plugins.clone(), publishers: self.publishers.clone() }
    }

    /// Returns the settings of providers.
    pub(crate) fn settings(self) -> Settings {
        let credentials = self.credentials.into_keys().collect();
        Settings { providers: self.providers, routes: self.routes, default_model: self.default_model, credentials }
    }
}

/// Reads `config.toml` in the folder `config`; a missing file means defaults.
pub(crate) fn read(config: &Path) -> Result<ConfigFile, CliError> {
    let path = config.join("config.toml");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ConfigFile::default()),
        Err(error) => return Err(CliError::io(&path)(error)),
    };
    parse(&text).map_err(|error| CliError::new(Code::ConfigInvalid, format!("{}: {error}", path.display())))
}

fn parse(toml: &str) -> Result<ConfigFile, String> {
    let mut config: ConfigFile = typed(toml)?;
    config.session_limits = typed::<SessionPart>(toml)?.limits;
    ranges::check(toml)?;
    if let Some(root) = config.skill_roots.iter().find(|root| !root.starts_with("~/") && !root.starts_with('/')) {
        let root = text::excerpt(root, 200);
        return Err(format!("skill_roots: '{root}' is not an absolute path; begin it with '/' or '~/'"));
    }
    if let Some(why) = config.serve.problem() {
        return Err(why);
    }
    for (name, provider) in &config.providers {
        if let Some(why) = provider.problem() {
            return Err(format!("[providers.{name}]: {why}"));
        }
    }
    if let Some(why) = config.package_rules().problem() {
        return Err(why);
    }
    for (name, server) in &config.mcp {
        if let Some(why) = server.problem() {
            return Err(format!("[mcp.{name}]: {why}"));
        }
    }
    Ok(config)
}

fn typed<T: DeserializeOwned>(toml: &str) -> Result<T, String> {
    toml::from_str(toml).map_err(|error| located(toml, error.span().map(|span| span.start), &unquoted(error.message())))
}

/// Prefixes `message` with the line and column of byte `at` in `text`. The line itself is not shown, since it may contain a
/// secret.
fn located(text: &str, at: Option<usize>, message: &str) -> String {
    let Some(before) = at.and_then(|at| text.get(..at)) else { return message.to_owned() };
    let (line, column) = (before.split('\n').count(), before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    format!("line {line}, column {column}: {message}")
}

/// Removes the value from serde's message about a string in place of another type, since the value may be a secret. If a list was
/// expected, adds an example.
fn unquoted(message: &str) -> String {
    let list = "expected a list, such as [\"one\", \"two\"]";
    match (message.split_once("string \""), message.rsplit_once("\", expected")) {
        (Some((before, _)), Some((_, after))) => {
            format!("{before}a string, expected{after}").replace("expected a sequence", list)
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_defaults_and_errors_name_the_position() {
        assert_eq!(parse(""), Ok(ConfigFile::default()));
        assert_eq!(parse("[limits]\nfuel = 5").map(|config| config.limits.fuel), Ok(5));
        let unknown = parse("[limits]\nfule = 5").unwrap_err();
        assert!(unknown.starts_with("line 2, column 1: unknown field `fule`, expected one of `agent"), "{unknown}");
        for key in ["fuel", "agents"] {
            let bad = parse(&format!("[limits]\n{key} = \"x\"")).unwrap_err();
            assert!(bad.contains(&format!("line 2, column {}", key.len() + 4)), "{bad}");
        }
        let both = parse("[limits]\nfuel = 5\nagents = 6\nroot.skills = { own = 7, untrusted = 8 }").unwrap();
        let session = &both.session_limits;
        assert_eq!((both.limits.fuel, session.agents, session.root.skills.own), (5, 6, 7));
        let path = parse("[credentials.a]\norigin = \"https://a.org/v1\"").unwrap_err();
        assert!(path.contains("neither path nor query") && path.contains("line 2, column 10"), "{path}");
    }

    #[test]
    fn budget_is_in_dollars_and_errors_name_value_and_place() {
        let config = parse("[budget]\nsession = \"2.00\"\nday = \"20\"").unwrap();
        let amount = |amount: &str| amount.parse().ok();
        assert_eq!(config.budget, BudgetSettings { session: amount("2"), day: amount("20.00") });
        let error = parse("[budget]\n  day = \"2,00\"").unwrap_err();
        assert!(error.starts_with("line 2, column 9: '2,00' is not an amount in US dollars"), "{error}");
    }

    #[test]
    fn key_has_one_source() {
        let command = "key_command = [\"gcloud\"]\nkey_command_ms = 1";
        assert!(
            parse(&format!("[providers.a]\n{command}\n[credentials.b]\norigin = \"https://b.org\"\n{command}")).is_ok()
        );
        let two = parse(&format!("[providers.a]\nenv = \"A\"\n{command}")).unwrap_err();
        assert_eq!(two, "[providers.a]: a key has one source: set `env` or `key_command`, not both");
        let two = parse(&format!("[credentials.a]\norigin = \"https://a.org\"\nenv = \"A\"\n{command}")).unwrap_err();
        assert!(two.contains("set `env` or `key_command`, not both"), "{two}");
        for table in ["[providers.a]", "[credentials.a]\norigin = \"https://a.org\""] {
            for ms in ["0", "600001"] {
                let error = parse(&format!("{table}\nkey_command_ms = {ms}")).unwrap_err();
                assert!(error.contains("it must be from 1 to 600000"), "{error}");
            }
        }
    }

    #[test]
    fn mcp_server_is_a_program_and_decisions() {
        let config = parse("[mcp.files]\ncommand = [\"npx\", \"files\"]\ntools = { \"a.b\" = \"deny\" }").unwrap();
        let server = &config.mcp["files"];
        assert_eq!(server.tools["a.b"], patchbay_policy::ToolDecision::Deny);
        for (keys, words) in [
            ("env = [\"A\"]", "[mcp.x]: set `command`"),
            ("command = [\"a\"]\nenv = [\"TOKEN=sk-12345\"]", "[mcp.x]: `env` has names of variables, without values"),
            ("command = \"npx sk-12345\"", "a string, expected a list, such as [\"one\", \"two\"]"),
            ("command = [\"./sk-12345\"]", "a name without '/', which is looked up in PATH, or an absolute path"),
            ("command = [\"a\"]\ntools = { b = \"sk-12345\" }", "line 3"),
            ("command = [\"a\"]\nstart_ms = 1", "it must be from 100 to 600000"),
        ] {
            let error = parse(&format!("[mcp.x]\n{keys}")).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn errors_do_not_show_values() {
        for text in [
            "[providers.a]\nkey_command = \"sk-12345\"",
            "[providers.a]\nkey_command = [\"./sk-12345\"]",
            "[providers.a]\nkey_command = [1, \"sk-12345\"]",
            "[providers.a]\nenv = [\"A\", \"sk-12345\"]",
            "[credentials.a]\ntoken = \"sk-12345\"",
            "[credentials]\na = \"sk-12345\"",
            "credentials = \"sk-12345\"",
            "[journal]\nkeep = \"sk-12345\"",
            "[journal]\nkeep = \"\\\", expected sk-12345\"",
            "[credentials.a]\norigin = \"https://a.org\"\nenv = \"sk-12345\"",
            "[credentials.a]\norigin = \"sk-12345\"",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with("line ") && !error.contains("12345"), "{text}: {error}");
        }
    }
}
