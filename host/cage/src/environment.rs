//! The environment of a fenced program. Variables are passed by name, so a secret is passed only if the user lists its variable.

/// Names of the variables that are always passed.
const NAMES: &[&str] = &[
    "CARGO_HOME",
    "COLORTERM",
    "GOCACHE",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NVM_DIR",
    "PATH",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "TERM",
    "TZ",
    "USER",
    "VOLTA_HOME",
];

/// Returns the variables of this process that a fenced program receives: those of toolchains and the locale, and `names`. Variables
/// that are not UTF-8 are left out.
pub fn closed_environment(names: &[String]) -> Vec<(String, String)> {
    let is_passed =
        |name: &str| NAMES.contains(&name) || name.starts_with("LC_") || names.iter().any(|passed| passed == name);
    let mut passed: Vec<_> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_passed(name))
        .collect();
    passed.sort();
    passed
}
