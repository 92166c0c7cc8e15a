//! What the sources must keep to: the arrows of the house, the contract, the bundled plugins, the documents that are
//! generated or state defaults.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod contract;
mod documents;
mod plugins;

use std::path::{Path, PathBuf};

/// A path of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
