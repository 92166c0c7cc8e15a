//! The files inside the binary: the contract, the SDKs and their templates. `build.rs` collects them.

/// Path in the repository and content of each file, sorted by path.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Returns the files below `folder`, such as `sdk/js/templates/skill`, with their paths relative to it, sorted.
pub(crate) fn files_below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FILES.iter().filter_map(move |(path, content)| Some((path.strip_prefix(folder)?.strip_prefix('/')?, *content)))
}

/// Returns the content of one file, which exists in the repository; empty if it does not.
pub(crate) fn file(path: &str) -> &'static [u8] {
    FILES.binary_search_by_key(&path, |(path, _)| path).map_or(&[], |at| FILES[at].1)
}
