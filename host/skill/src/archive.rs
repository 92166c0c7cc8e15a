//! The custom section `patchbay:files` of a single-file skill: a ustar archive with the skill's files other than SKILL.md.
//!
//! The crate `plugin` writes it; `embedded.rs` reads it. An archive is a pure function of the files: regular files only,
//! sorted by the bytes of their paths, with mode, owner and time zero.

use std::{collections::BTreeMap, ops::Range};

use patchbay_core::{Code, text};
use tar::{Archive, Builder, EntryType, Header};

use crate::{
    Problem,
    listing::{self, Totals},
};

/// Name of the custom section that contains the archive.
pub const FILES_SECTION: &str = "patchbay:files";

/// The block size of the format: a header is one block, and contents are padded to whole blocks.
const BLOCK: usize = 512;

/// Writes an archive of `files`, which maps paths to contents.
///
/// # Errors
/// `skill_files_limited` if a limit for skills is exceeded; `skill_file_skipped` for a path that does not fit into the format.
pub fn write_archive(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Problem> {
    let mut totals = Totals::default();
    let mut archive = Builder::new(Vec::new());
    for (path, contents) in files {
        totals.add(path, contents.len() as u64)?;
        let unfit = |_| {
            let message = format!("The path '{}' does not fit into an archive; shorten it.", text::excerpt(path, 80));
            Problem::new(Code::SkillFileSkipped, message)
        };
        let mut header = Header::new_ustar();
        header.set_path(path).map_err(unfit)?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0);
        header.set_size(contents.len() as u64);
        header.set_cksum();
        archive.append(&header, &contents[..]).map_err(unfit)?;
    }
    archive
        .into_inner()
        .map_err(|error| Problem::new(Code::SkillFileSkipped, format!("The archive cannot be written: {error}.")))
}

/// Returns the files of an archive: for each path, the range of its contents in `archive`.
///
/// # Errors
/// `invalid_component` for anything that [`write_archive`] would not write, `skill_files_limited` if a limit for skills is
/// exceeded.
pub(crate) fn read_archive(archive: &[u8]) -> Result<BTreeMap<String, Range<usize>>, Problem> {
    let invalid = |what: &str| {
        let message = format!("The section '{FILES_SECTION}' is not a valid archive: {what}.");
        Problem::new(Code::InvalidComponent, message)
    };
    let damaged = |_| invalid("a header is damaged");
    let (mut files, mut totals, mut at) = (BTreeMap::<String, _>::new(), Totals::default(), 0);
    // In raw mode, extensions of the format are returned as entries, which are then refused.
    for entry in Archive::new(archive).entries().map_err(damaged)?.raw(true) {
        let entry = entry.map_err(damaged)?;
        if entry.header().as_ustar().is_none() {
            return Err(invalid("a header is damaged"));
        }
        let path = entry.path_bytes();
        let path = std::str::from_utf8(&path).map_err(|_| invalid("a path is not UTF-8"))?;
        let shown = text::excerpt(path, 80);
        if entry.header().as_bytes()[156] != b'0' {
            return Err(invalid(&format!("'{shown}' is not a regular file")));
        }
        if !listing::is_file_path(path) {
            return Err(invalid(&format!("'{shown}' is not the path of a file of a skill")));
        }
        if files.last_key_value().is_some_and(|(last, _)| last.as_str() >= path) {
            return Err(invalid(&format!("'{shown}' is not in the order of paths")));
        }
        totals.add(path, entry.size())?;
        let place = || {
            let start = usize::try_from(entry.raw_file_position()).ok()?;
            let end = start.checked_add(usize::try_from(entry.size()).ok()?)?;
            (end <= archive.len()).then_some(start..end)
        };
        let contents = place().ok_or_else(|| invalid("it is truncated"))?;
        at = contents.end.next_multiple_of(BLOCK);
        files.insert(path.to_owned(), contents);
    }
    match archive.get(at..).unwrap_or_default() {
        end if end.len() < BLOCK => Err(invalid("it is truncated")),
        end if end.iter().any(|byte| *byte != 0) => Err(invalid("it has data after its end")),
        _ => Ok(files),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        files.iter().map(|(path, contents)| ((*path).to_owned(), contents.as_bytes().to_vec())).collect()
    }

    fn read(archive: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, Problem> {
        Ok(read_archive(archive)?.into_iter().map(|(path, range)| (path, archive[range].to_vec())).collect())
    }

    #[test]
    fn archive_has_its_files() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(100));
        let files = files(&[("a.md", "one"), ("b/c.txt", ""), (&long, &"x".repeat(513))]);
        let archive = write_archive(&files).unwrap();
        assert_eq!(archive.len() % BLOCK, 0);
        assert_eq!(read(&archive).unwrap(), files);
        let unsplit = [("f".repeat(101), Vec::new())].into();
        assert_eq!(write_archive(&unsplit).unwrap_err().code, Code::SkillFileSkipped);
        assert_eq!(write_archive(&BTreeMap::new()).and_then(|archive| read(&archive)).unwrap(), BTreeMap::new());
    }

    #[test]
    fn other_tools_read_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("files.tar");
        std::fs::write(&archive, write_archive(&files(&[("a/b.md", "hello"), ("c", "")])).unwrap()).unwrap();
        let listed = std::process::Command::new("tar").arg("tf").arg(&archive).output().unwrap();
        assert_eq!(String::from_utf8(listed.stdout).unwrap(), "a/b.md\nc\n");
    }

    #[test]
    fn malformed_archive_is_refused() {
        let good = write_archive(&files(&[("a.md", "one"), ("b.md", "two")])).unwrap();
        let problem = |archive: &[u8]| read_archive(archive).unwrap_err().message;
        assert!(problem(&[]).ends_with("is not a valid archive: it is truncated."));
        assert!(problem(&good[..BLOCK + 2]).ends_with("truncated."));
        assert!(problem(&[&good[..], &[1]].concat()).ends_with("it has data after its end."));
        // Each file takes two blocks: header and contents.
        let swapped = [&good[2 * BLOCK..4 * BLOCK], &good[..2 * BLOCK], &good[4 * BLOCK..]].concat();
        assert!(problem(&swapped).ends_with("'a.md' is not in the order of paths."));
        let edited = |at: usize, byte: u8| {
            let mut archive = good.clone();
            archive[at] = byte;
            let mut header = Header::new_ustar();
            header.as_mut_bytes().copy_from_slice(&archive[..BLOCK]);
            header.set_cksum();
            archive[..BLOCK].copy_from_slice(header.as_bytes());
            problem(&archive)
        };
        assert!(edited(156, b'2').ends_with("'a.md' is not a regular file."));
        assert!(edited(0, b'/').ends_with("'/.md' is not the path of a file of a skill."));
        assert!(edited(0, 0xff).ends_with("a path is not UTF-8."));
        assert!(edited(124, b'7').contains("8 MiB"));
        assert!(edited(257, b'x').ends_with("a header is damaged."));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0..2048_usize, byte: u8, cut in 0..2049_usize) {
            let mut archive = write_archive(&files(&[("a.md", "one")])).unwrap();
            archive[at] = byte;
            archive.truncate(cut);
            for (path, range) in read_archive(&archive).into_iter().flatten() {
                prop_assert!(listing::is_file_path(&path) && range.end <= archive.len());
            }
        }
    }
}
