//! Finds paths of this machine in built files, for the tests of reproducible builds.

use std::{env, path::Path};

/// Returns the paths of this machine that `bytes` contains: the home folder, cargo's folders, the checkout, and the build
/// folder.
pub fn local_paths_in(bytes: &[u8]) -> Vec<String> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let variables = ["HOME", "CARGO_HOME", "CARGO_TARGET_DIR"].map(|name| env::var(name).unwrap_or_default());
    let mut paths: Vec<String> = variables.into_iter().collect();
    paths.extend(checkout.canonicalize().ok().map(|path| path.to_string_lossy().into_owned()));
    paths.extend(["/.cargo/", "/registry/src/", "/.rustup/"].map(str::to_owned));
    let as_folder = |path: String| format!("{}/", path.trim_end_matches('/'));
    let mut paths: Vec<String> = paths.into_iter().map(as_folder).collect();
    paths.retain(|path| path.len() > 1 && bytes.windows(path.len()).any(|window| window == path.as_bytes()));
    paths
}
