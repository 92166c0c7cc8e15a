//! The environment of a fenced program: variables by name, so a secret is passed only if the user names it.

/// Names of variables that are passed.
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

/// Returns the variables of this process that a fenced program receives: variables for toolchains, and `names`.
/// Variables that are not UTF-8 are left out.
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
