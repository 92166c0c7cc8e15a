//! `[terminal.cage]` of `config.toml`.

use schemars::JsonSchema;
use serde::Deserialize;

/// What programs of `terminal__run` may use besides the workspace: `[terminal.cage]` in `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CageSettings {
    /// Further files and folders that programs can read and execute, such as toolchains. `~/` is your home folder; anything else
    /// must be absolute.
    pub read: Vec<String>,
    /// Further folders that programs can change, such as caches. A folder is refused if it is or contains your home folder, or if
    /// it contains or is in a folder of `PATH`, `~/.ssh`, a shell startup file or one of Patchbay's folders.
    pub write: Vec<String>,
    /// Names of further environment variables that programs receive. By default they receive those that toolchains need, and
    /// none that can be a secret.
    pub env: Vec<String>,
}
