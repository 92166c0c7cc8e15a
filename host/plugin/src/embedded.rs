//! The files inside the binary: the contract, the SDKs and their templates. `build.rs` collects them, and generates the Rust
//! bindings.

/// Path in the repository and content of each file, sorted by path.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the files below `folder`, such as `sdk/js/templates/skill`, with their paths relative to it, sorted.
pub(crate) fn files_below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(path, content)| Some((path.strip_prefix(folder)?.strip_prefix('/')?, *content)))
}

/// Returns the content of one file, or nothing if the repository does not have it.
pub(crate) fn file(path: &str) -> &'static [u8] {
    FILES.binary_search_by_key(&path, |(path, _)| path).map_or(&[], |at| FILES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_bindings_are_generated_with_all_interfaces() {
        let code = str::from_utf8(file("sdk/rust/src/bindings.rs")).unwrap();
        for part in ["mod workspace_search", "mod tool_calls", "macro_rules! __export_sdk_impl", "trait Guest"] {
            assert!(code.contains(part), "{part}");
        }
        assert!(!code.starts_with("//! Generated from the contract."), "the source is not generated");
    }
}
