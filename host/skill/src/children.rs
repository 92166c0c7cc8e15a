//! Lists the children of a root that may be skills, judging by their directory entries alone. Called by `discover.rs`.

use std::{collections::BTreeMap, ffi::OsString, io};

use cap_std::fs::Dir;
use patchbay_core::Name;

/// The type of a child of a root according to its directory entry, without a further system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildKind {
    Folder,
    /// A file, a link, or unknown.
    Other,
}

/// Returns the children of a root that may be skills: the first `most` by name, and one more if there are more. It iterates over
/// all entries but keeps only these, which makes the result independent of the file system's order.
pub(crate) fn children(folder: &Dir, most: usize) -> io::Result<BTreeMap<OsString, ChildKind>> {
    let mut names = BTreeMap::new();
    for entry in folder.entries()? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let bytes = name.as_encoded_bytes();
        let plain_file = kind.is_file() && !bytes.ends_with(b".wasm");
        if bytes.starts_with(b".") || plain_file {
            continue;
        }
        names.insert(name, if kind.is_dir() { ChildKind::Folder } else { ChildKind::Other });
        if names.len() > most.saturating_add(1) {
            names.pop_last();
        }
    }
    Ok(names)
}

/// Returns the last segment of a child's path.
pub(crate) fn own_name(child: &str) -> &str {
    child.rsplit('/').next().unwrap_or(child)
}

/// Returns whether a root with these children, sorted by name, has a file `NAME.wasm` beside the folder `NAME/`.
pub(crate) fn is_claimed_twice(children: &[(OsString, ChildKind)], name: &Name) -> bool {
    let file = OsString::from(format!("{name}.wasm"));
    children.binary_search_by(|(child, _)| child.cmp(&file)).is_ok()
}
