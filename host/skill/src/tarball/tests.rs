//! Tests with archives that a well-behaved program would not write.

use std::collections::BTreeMap;

use flate2::{Compression, write::GzEncoder};
use tar::{Builder, Header};
use tempfile::TempDir;

use super::*;

/// An entry of an archive: its raw name, its kind, and its contents or link target.
type Made<'a> = (&'a [u8], EntryType, &'a [u8]);

fn packed(entries: &[Made<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, contents) in entries {
        let mut header = Header::new_gnu();
        // The builder itself refuses names such as these.
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(*kind);
        header.set_mode(0o6777);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        if is_link {
            header.as_old_mut().linkname[..contents.len()].copy_from_slice(contents);
        }
        let contents: &[u8] = if is_link { b"" } else { contents };
        header.set_size(contents.len() as u64);
        header.set_cksum();
        builder.append(&header, contents).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Returns the unpacked files and links, by their paths.
fn unpacked(archive: &[u8]) -> Result<(TempDir, BTreeMap<String, String>), TarballError> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let result = unpack_tarball(archive, &root);
    let beside: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["root"], "nothing is written outside");
    result?;
    let (mut files, mut folders) = (BTreeMap::new(), vec![root.clone()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let name = entry.path().strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_symlink() {
                files.insert(name, format!("-> {}", fs::read_link(entry.path()).unwrap().display()));
            } else {
                files.insert(name, fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    Ok((folder, files))
}

fn refused(entries: &[Made<'_>]) -> String {
    unpacked(&packed(entries)).unwrap_err().to_string()
}

const FILE: EntryType = EntryType::Regular;

#[test]
fn files_folders_and_inner_links_are_unpacked_without_their_modes() {
    let archive = packed(&[
        (b"pax_global_header", EntryType::XGlobalHeader, b""),
        (b"./greet-1.0/", EntryType::Directory, b""),
        (b"greet-1.0/skills/greet/SKILL.md", FILE, b"text"),
        (b"greet-1.0/skills/same", EntryType::Symlink, b"./greet"),
        (b"greet-1.0/skills/greet/up", EntryType::Symlink, b"../../plugin.json"),
        (b"greet-1.0/plugin.json", FILE, b"{}"),
    ]);
    let (folder, files) = unpacked(&archive).unwrap();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(
        files,
        [
            ("greet-1.0/plugin.json", "{}"),
            ("greet-1.0/skills/greet/SKILL.md", "text"),
            ("greet-1.0/skills/greet/up", "-> ../../plugin.json"),
            ("greet-1.0/skills/same", "-> ./greet"),
        ]
    );
    let root = folder.path().join("root");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&root.join("greet-1.0/plugin.json").metadata().unwrap().permissions());
    assert_eq!(mode & 0o7111, 0, "{mode:o}");

    let found = |path| {
        unpacked_folder(&root, path).map(|found| found.strip_prefix(root.canonicalize().unwrap()).unwrap().to_owned())
    };
    assert_eq!(unpacked_folder(&root, None).unwrap(), root.join("greet-1.0"));
    assert_eq!(found(Some("greet-1.0/skills/same")).unwrap(), Path::new("greet-1.0/skills/greet"));
    let missing = found(Some("skills")).unwrap_err();
    assert_eq!(missing.to_string(), "the archive has no folder 'skills'; it has greet-1.0");
    assert!(found(Some("../x")).unwrap_err().to_string().contains("leads out of the package"));
}

#[test]
fn names_that_lead_out_are_refused() {
    for (name, words) in [
        (&b"/etc/passwd"[..], "the archive's entry '/etc/passwd' has an absolute name"),
        (b"../x", "the archive's entry '../x' leads out of the package with '..'"),
        (b"a/../../x", "the archive's entry 'a/../../x' leads out of the package with '..'"),
        (b"a\\b", "the archive's entry 'a\\b' has a backslash or a control character in its name"),
        (b"a\nb", "the archive's entry 'a b' has a backslash or a control character in its name"),
        (b"\xff", "the archive's entry '\u{fffd}' has a name that is not UTF-8"),
        (&b"a/".repeat(33), &format!("the archive's entry '{}' is too many folders deep", "a/".repeat(33))),
    ] {
        assert_eq!(refused(&[(name, FILE, b"")]), words);
    }
    assert_eq!(
        refused(&[(b"a", FILE, b""), (b"./a", FILE, b"")]),
        "the archive's entry './a' occurs twice (some systems ignore letter case)"
    );
}

#[test]
fn links_that_may_lead_out_and_special_files_are_refused() {
    for target in [&b"/etc/passwd"[..], b"../..", b"d/../..", b"../../x", b"", b"x/../y", b"a\nb"] {
        let error = refused(&[(b"d/link", EntryType::Symlink, target)]);
        assert!(error.ends_with("', which may lead out of the package"), "{error}");
    }
    // Nothing is written through a link, wherever it leads.
    let error = refused(&[(b"d", EntryType::Symlink, b"e"), (b"e/x", FILE, b""), (b"d/x", FILE, b"through")]);
    assert!(error.starts_with("cannot unpack 'd': "), "{error}");
    for (kind, what) in [
        (EntryType::Link, "a hard link"),
        (EntryType::Char, "a device"),
        (EntryType::Block, "a device"),
        (EntryType::Fifo, "a pipe"),
        (EntryType::new(b'Z'), "of an unknown kind"),
    ] {
        assert_eq!(
            refused(&[(b"x", kind, b"")]),
            format!("the archive's entry 'x' is {what}, which a package may not have")
        );
    }
}

#[test]
fn unpacked_bytes_and_entries_are_limited() {
    let half = vec![0; usize::try_from(UNPACKED_BYTES).unwrap() / 2 + 1];
    let bomb = packed(&[(b"a", FILE, &half), (b"b", FILE, &half)]);
    assert!(bomb.len() < 1 << 20);
    let error = unpacked(&bomb).unwrap_err();
    assert_eq!(
        (error.to_string(), error.code()),
        ("the archive has more than 64 MiB unpacked, the limit of a package".to_owned(), Code::ArchiveInvalid)
    );
    // A single name that unpacks to more than all limits together.
    let name = vec![b'a'; usize::try_from(UNPACKED_BYTES + ENTRIES * ENTRY_BYTES).unwrap()];
    assert!(matches!(
        unpacked(&packed(&[(b"x", EntryType::GNULongName, &name), (b"x", FILE, b"")])),
        Err(TarballError::TooLarge)
    ));
    let names: Vec<String> = (0..=ENTRIES).map(|number| format!("d{number}/")).collect();
    let many: Vec<_> = names.iter().map(|_| (&b"d/"[..], EntryType::Directory, &b""[..])).collect();
    assert!(matches!(unpacked(&packed(&many)), Err(TarballError::TooMany)));
}

#[test]
fn damaged_archives_are_refused() {
    let archive = packed(&[(b"a", FILE, b"contents"), (b"b", FILE, &[7; 2000])]);
    for end in (0..archive.len()).step_by(7) {
        // A tar file may end anywhere between two entries.
        if let Err(error) = unpacked(&archive[..end]) {
            assert!(matches!(error, TarballError::Damaged(_)), "{error}");
        }
    }
    let error = unpacked(b"<html>not found</html>").unwrap_err();
    assert_eq!(error.to_string(), "cannot read the archive: invalid gzip header; expected a .tar.gz");
}

#[test]
fn full_disk_is_not_called_a_damaged_archive() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = copy(&b"contents"[..], Full, b"a.txt").unwrap_err();
    assert_eq!(error.code(), Code::FolderUnusable, "{error}");
}
