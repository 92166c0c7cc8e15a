//! Rules of the sources: dependencies between crates and their features, compatibility of the contract, bundled plugins, generated
//! documents, versions, plain words.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod contract;
mod documents;
mod features;
mod inputs;
mod limits;
mod plugins;
mod shape;
mod versions;
mod walks;
mod wit;
mod words;

use std::path::{Path, PathBuf};

/// Returns the absolute path of `path` in the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
