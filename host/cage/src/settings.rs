//! `[terminal.cage]` of `config.toml`.

use schemars::JsonSchema;
use serde::Deserialize;

/// What programs of `terminal__run` may use besides the workspace: `[terminal.cage]` in `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CageSettings {
    /// Additional files and folders that programs can read and execute, such as toolchains. Each path is absolute or begins with
    /// `~/`.
    pub read: Vec<String>,
    /// Additional folders that programs can change, such as caches. A folder is refused if it is or contains your home folder, or
    /// if it contains or is inside a folder of `PATH`, `~/.ssh`, a shell startup file or one of Patchbay's folders.
    pub write: Vec<String>,
    /// Names of additional environment variables that programs receive. By default they receive the ones that toolchains need, and
    /// none that could hold a secret.
    pub env: Vec<String>,
}
