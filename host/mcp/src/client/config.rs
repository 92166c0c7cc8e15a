//! `[mcp.NAME]` of `config.toml`.

use std::collections::BTreeMap;

use patchbay_core::Name;
use patchbay_egress::{CommandLine, Target, is_variable};
use patchbay_policy::ToolDecision;
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of entries in the `tools` table of a server.
const TOOLS: usize = 1_000;

/// A server whose tools models may call: a program that is started, or the address of one that runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerConfig {
    /// The program of the server and its arguments: `["PROGRAM", "ARG"]`. A program without `/` is looked up in the absolute
    /// folders of PATH, one with `/` must be absolute. It is run without a shell.
    pub command: Option<CommandLine>,
    /// Variables of your environment that the program receives, in addition to HOME, LANG, LC_ALL, LOGNAME, PATH, SHELL, TERM,
    /// TMPDIR, TZ and USER. It receives no others. Values of variables whose names look like secrets, such as GITHUB_TOKEN, are
    /// removed from everything that the program sends.
    pub env: Vec<String>,
    /// The address of a server that is already running, instead of `command`: https, or http to this machine. It must speak
    /// Streamable HTTP.
    pub url: Option<String>,
    /// The credential that requests to `url` carry as `Authorization: Bearer`: the name of a table `[credentials.NAME]`.
    pub credential: Option<Name>,
    /// Whether the program is started in the folder of the workspace instead of the configuration folder. Many programs load code
    /// from the folder that they are started in, so such a server only starts in workspaces that you trust (`patchbay trust add
    /// DIR`), and an answer of *always* counts for only one workspace.
    pub in_workspace: bool,
    /// A decision for each tool, by its name at the server: `allow`, `ask` or `deny`. Without one, a tool that the server marks as
    /// read-only is allowed; you are asked about any other, and it is denied where you cannot be asked.
    pub tools: BTreeMap<String, ToolDecision>,
    /// Set this if you know that its tools change nothing. They may then be called in [plan mode](using.md#modes).
    pub read_only: bool,
    /// Time limit for starting the server, in milliseconds. Enough for a program that is downloaded first.
    #[schemars(range(min = 100, max = 600_000))]
    pub start_ms: u64,
    /// Time limit of one call, in milliseconds (`limit_time`).
    #[schemars(range(min = 100, max = 3_600_000))]
    pub call_ms: u64,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            env: Vec::new(),
            url: None,
            credential: None,
            in_workspace: false,
            tools: BTreeMap::new(),
            read_only: false,
            start_ms: 60_000,
            call_ms: 120_000,
        }
    }
}

impl McpServerConfig {
    /// Describes the problem with the table. The message shows no value that may be a secret.
    pub fn problem(&self) -> Option<String> {
        let wrong = match (&self.command, &self.url) {
            (None, None) => Some("set `command`, the program of the server and its arguments, or `url`, its address"),
            (Some(_), Some(_)) => Some("a server is a program or an address: set `command` or `url`, not both"),
            (Some(_), None) if self.credential.is_some() => Some("`credential` is for servers with a `url`; use `env`"),
            (None, Some(_)) if !self.env.is_empty() || self.in_workspace => {
                Some("`env` and `in_workspace` are for servers with a `command`")
            }
            (None, Some(url)) if Target::parse(url).is_err() => {
                Some("`url` is not the address of a server; write https://HOST/PATH")
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Some(wrong.to_owned());
        }
        if !self.env.iter().all(|name| is_variable(name)) {
            return Some("`env` has names of variables, without values: [\"GITHUB_TOKEN\"]".to_owned());
        }
        (self.tools.len() > TOOLS).then(|| format!("`tools` has at most {TOOLS} entries"))
    }
}
