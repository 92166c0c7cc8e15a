//! Any bytes as the archive of a package, both unchanged and compressed.
#![no_main]

use std::{fs, io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_skill::{UNPACKED_BYTES, unpack_tarball, unpacked_folder};

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(bytes).expect("a vector can be written");
    judge(&packed.finish().expect("a vector can be written"));
});

fn judge(archive: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("a folder");
    let unpacked = unpack_tarball(archive, &root);
    let beside = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(beside, 1, "nothing is beside the folder");
    if let Err(error) = &unpacked {
        let message = error.to_string();
        assert!(message.chars().count() <= 1000 && message == text::clean_line(&message), "{message:?}");
    }
    let root = root.canonicalize().expect("the folder");
    assert!(walk(&root, &root) <= UNPACKED_BYTES);
    if unpacked.is_ok() {
        assert!(unpacked_folder(&root, None).is_ok_and(|found| found.starts_with(&root)));
        let parts = String::from_utf8_lossy(archive);
        let path = parts.lines().next().unwrap_or_default();
        assert!(unpacked_folder(&root, Some(path)).map_or(true, |found| found.starts_with(&root)));
    }
}

/// Returns the size of all files in bytes. A link must be dangling or lead to a path inside.
fn walk(folder: &Path, root: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = path.symlink_metadata().expect("an entry");
        if kind.is_symlink() {
            assert!(path.canonicalize().map_or(true, |there| there.starts_with(root)), "{path:?}");
        } else if kind.is_dir() {
            bytes += walk(&path, root);
        } else {
            assert!(kind.is_file());
            bytes += kind.len();
        }
    }
    bytes
}
