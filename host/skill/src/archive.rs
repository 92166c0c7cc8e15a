//! The custom section `patchbay:files` of a skill in one file: a ustar archive with the skill's files other than SKILL.md.
//!
//! The crate `plugin` writes it; `package.rs` reads it. An archive is a pure function of the files: regular files only,
//! sorted by the bytes of their paths, with mode, owner and time zero.

use std::{collections::BTreeMap, ops::Range};

use patchbay_core::{Code, text};

use crate::{
    Problem,
    listing::{self, Totals},
};

/// Name of the custom section that contains the archive.
pub const FILES_SECTION: &str = "patchbay:files";

/// The unit of the format: a header, and the multiple to which contents are padded.
const BLOCK: usize = 512;
const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const CHECKSUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: Range<usize> = 257..265;
const PREFIX: Range<usize> = 345..500;
const USTAR: &[u8] = b"ustar\x0000";

/// Writes an archive of `files`, which are contents by path.
///
/// # Errors
/// `skill_files_limited` over a limit of a skill; `skill_file_skipped` for a path that the format cannot contain.
pub fn write_archive(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Problem> {
    let mut totals = Totals::default();
    let mut archive = Vec::new();
    for (path, contents) in files {
        totals.add(path, contents.len() as u64)?;
        let (prefix, name) = split(path).ok_or_else(|| {
            let message = format!("The path '{}' does not fit into an archive; shorten it.", text::excerpt(path, 80));
            Problem::new(Code::SkillFileSkipped, message)
        })?;
        let mut header = [0; BLOCK];
        put(&mut header, NAME, name.as_bytes());
        put(&mut header, PREFIX, prefix.as_bytes());
        // Mode, owner and group, and the time, in octal digits.
        for field in [100..107, 108..115, 116..123, 136..147] {
            header[field].fill(b'0');
        }
        put(&mut header, SIZE, format!("{:011o}", contents.len()).as_bytes());
        header[TYPE] = b'0';
        put(&mut header, MAGIC, USTAR);
        let sum = checksum(&header);
        put(&mut header, CHECKSUM, format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(contents);
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.extend([0; 2 * BLOCK]);
    Ok(archive)
}

/// Returns the files of an archive: the place of the contents in `archive`, by path.
///
/// # Errors
/// `invalid_component` for anything that [`write_archive`] would not write, `skill_files_limited` over a limit of a skill.
pub(crate) fn read_archive(archive: &[u8]) -> Result<BTreeMap<String, Range<usize>>, Problem> {
    let invalid = |what: &str| {
        let message = format!("The section '{FILES_SECTION}' is not a valid archive: {what}.");
        Problem::new(Code::InvalidComponent, message)
    };
    let (mut files, mut totals, mut at) = (BTreeMap::<String, _>::new(), Totals::default(), 0);
    loop {
        let header = archive.get(at..at + BLOCK).ok_or_else(|| invalid("it is cut short"))?;
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        at += BLOCK;
        let number = |field| octal(&header[field]).ok_or_else(|| invalid("a number is malformed"));
        if number(CHECKSUM)? != checksum(header) || header[MAGIC] != *USTAR {
            return Err(invalid("a header is damaged"));
        }
        let field = |field: Range<usize>| {
            let end = header[field.clone()].iter().position(|byte| *byte == 0).unwrap_or(field.len());
            std::str::from_utf8(&header[field.start..field.start + end]).map_err(|_| invalid("a path is not UTF-8"))
        };
        let (prefix, name) = (field(PREFIX)?, field(NAME)?);
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let shown = text::excerpt(&path, 80);
        if header[TYPE] != b'0' {
            return Err(invalid(&format!("'{shown}' is not a regular file")));
        }
        if !listing::is_file_path(&path) {
            return Err(invalid(&format!("'{shown}' is not the path of a file of a skill")));
        }
        if files.last_key_value().is_some_and(|(last, _)| *last >= path) {
            return Err(invalid(&format!("'{shown}' is not in the order of paths")));
        }
        let size = number(SIZE)?;
        totals.add(&path, size)?;
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size));
        let end = end.filter(|end| *end <= archive.len()).ok_or_else(|| invalid("it is cut short"))?;
        files.insert(path, at..end);
        at = end.next_multiple_of(BLOCK);
    }
    if archive[at..].iter().any(|byte| *byte != 0) {
        return Err(invalid("something follows its end"));
    }
    Ok(files)
}

/// Splits a path into the two fields of a header, at a `/`.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= NAME.len() {
        return Some(("", path));
    }
    let fits = |(prefix, name): &(&str, &str)| prefix.len() <= PREFIX.len() && name.len() <= NAME.len();
    path.match_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..])).find(fits)
}

fn put(header: &mut [u8; BLOCK], field: Range<usize>, value: &[u8]) {
    for (to, from) in header[field].iter_mut().zip(value) {
        *to = *from;
    }
}

/// Returns the sum of a header's bytes, with blanks in place of the checksum.
fn checksum(header: &[u8]) -> u64 {
    let byte = |(at, byte): (usize, &u8)| u64::from(if CHECKSUM.contains(&at) { b' ' } else { *byte });
    header.iter().enumerate().map(byte).sum()
}

/// Parses octal digits, which a NUL or a blank ends.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(field.len());
    let digits = std::str::from_utf8(&field[..end]).ok()?;
    u64::from_str_radix(digits, 8).ok().filter(|_| !digits.starts_with('+'))
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
        assert!(problem(&[]).ends_with("is not a valid archive: it is cut short."));
        assert!(problem(&good[..BLOCK + 2]).ends_with("cut short."));
        assert!(problem(&[&good[..], &[1]].concat()).ends_with("something follows its end."));
        // Each header with its contents has two blocks.
        let swapped = [&good[2 * BLOCK..4 * BLOCK], &good[..2 * BLOCK], &good[4 * BLOCK..]].concat();
        assert!(problem(&swapped).ends_with("'a.md' is not in the order of paths."));
        let edited = |at: usize, byte: u8| {
            let mut archive = good.clone();
            archive[at] = byte;
            let sum = checksum(&archive[..BLOCK]);
            archive[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            problem(&archive)
        };
        assert!(edited(TYPE, b'2').ends_with("'a.md' is not a regular file."));
        assert!(edited(0, b'/').ends_with("'/.md' is not the path of a file of a skill."));
        assert!(edited(0, 0xff).ends_with("a path is not UTF-8."));
        assert!(edited(SIZE.start, b'7').contains("8 MiB"));
        assert!(edited(MAGIC.start, b'x').ends_with("a header is damaged."));
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
