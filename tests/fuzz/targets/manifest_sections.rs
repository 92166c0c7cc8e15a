//! Any bytes as a component: its embedded SKILL.md and files, and its outer structure. Also any bytes as an archive of files.
#![no_main]

use std::{collections::BTreeMap, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, Name, text};
use patchbay_sandbox::{Failure, Limits, inspect};
use patchbay_skill::{FILES_SECTION, FileSet, Manifest, Problem, SECTION, embedded_skill_md, write_archive};

static NAME: LazyLock<Name> = LazyLock::new(|| "calc".parse().expect("a name"));

/// A component without sections.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fuzz_target!(|bytes: &[u8]| {
    let read = embedded_skill_md(bytes);
    assert_eq!(read, embedded_skill_md(bytes), "it reads the same each time");
    shaped(bytes, &read);
    files(bytes, &read);
    files(&with_section(EMPTY, FILES_SECTION, &repaired(bytes)), &Ok(None));
    let added = embedded_skill_md(&with_section(bytes, SECTION, b"added"));
    match read {
        Ok(None) => {
            assert!(sections(bytes, SECTION).is_empty());
            assert_eq!(added, Ok(Some("added".to_owned())), "what is embedded is found");
        }
        Ok(Some(skill_md)) => {
            assert_eq!(sections(bytes, SECTION), [skill_md.as_bytes()]);
            assert!(added.is_err_and(|problem| problem.message.contains("twice")));
            assert!(skill_md.len() <= 256 << 10);
            let _ = Manifest::parse(&skill_md, &NAME);
        }
        Err(problem) => {
            refused(&problem, &[Code::MalformedFrontmatter, Code::InvalidComponent]);
            // A frontmatter is only checked if the section exists.
            if problem.code == Code::MalformedFrontmatter {
                let found = sections(bytes, SECTION);
                let too_large = found[0].len() > 256 << 10;
                assert!(found.len() > 1 || too_large || std::str::from_utf8(found[0]).is_err());
            }
        }
    }
});

/// Runs the checks of a component before it is compiled.
fn shaped(bytes: &[u8], read: &Result<Option<String>, Problem>) {
    let shape = inspect::shape(bytes);
    assert_eq!(shape, inspect::shape(bytes), "it has the same shape each time");
    let words = match &shape {
        Ok(shape) => {
            let is_invalid = read.as_ref().is_err_and(|problem| problem.code == Code::InvalidComponent);
            assert!(!is_invalid || sections(bytes, FILES_SECTION).len() > 1, "{read:?}");
            assert_eq!(
                inspect::shape(&with_section(bytes, SECTION, b"")),
                Ok(shape.clone()),
                "a custom section is no part of it"
            );
            for name in shape.imports.iter().chain(&shape.exports) {
                assert!(
                    name.is_empty() || bytes.windows(name.len()).any(|window| window == name.as_bytes()),
                    "{name:?}"
                );
            }
            [shape.check_skill().err(), shape.needs.check(&Limits::default()).err()]
        }
        Err(failure) => {
            assert!(matches!(failure, Failure::InvalidComponent(_)));
            [Some(failure.clone()), None]
        }
    };
    for words in words.into_iter().flatten().map(|failure| failure.to_string()) {
        assert!(!words.is_empty() && words.chars().count() <= 500, "{words:?}");
        assert_eq!(words, text::clean_line(&words), "a failure is one clean line");
    }
}

/// Reads the files of a component whose SKILL.md was read before, and writes them again.
fn files(bytes: &[u8], skill_md: &Result<Option<String>, Problem>) {
    let set = match (FileSet::from_component(bytes), skill_md) {
        (Err(problem), Err(expected)) => return assert_eq!(problem, *expected),
        (Err(problem), Ok(_)) => return refused(&problem, &[Code::InvalidComponent, Code::SkillFilesLimited]),
        (Ok(set), _) => set,
    };
    let text = skill_md.as_ref().expect("the files are read, and so is the SKILL.md").as_ref();
    assert_eq!(set.get("SKILL.md").map(|file| &file.contents[..]), text.map(String::as_bytes));
    let contents = |set: &FileSet| -> BTreeMap<String, Vec<u8>> {
        set.others().map(|(path, file)| (path.to_owned(), file.contents.to_vec())).collect()
    };
    let read = contents(&set);
    for path in read.keys() {
        assert!(path.split('/').all(|name| !name.is_empty() && !name.starts_with('.')), "{path:?}");
        assert!(!path.contains('\0') && (path.contains('/') || !path.ends_with(".wasm")), "{path:?}");
    }
    let archive = write_archive(&read).expect("files that were read can be written");
    let again =
        FileSet::from_component(&with_section(EMPTY, FILES_SECTION, &archive)).expect("an archive that was written");
    assert_eq!(contents(&again), read);
}

/// Returns an archive with correct checksums, because mutations would hardly ever produce them.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(512) {
        // The mark of a header.
        if block[257..265] == *b"ustar\x0000" {
            block[148..156].fill(b' ');
            let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    archive
}

fn refused(problem: &Problem, codes: &[Code]) {
    let Problem { code, message } = problem;
    assert!(codes.contains(code), "{problem:?}");
    assert!(!message.is_empty() && message.chars().count() <= 500, "{message:?}");
    assert_eq!(*message, text::clean_line(message), "a diagnostic is one clean line");
}

/// Appends a custom section.
fn with_section(bytes: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let body = [&leb128(name.len())[..], name.as_bytes(), data].concat();
    [bytes, &[0], &leb128(body.len()), &body].concat()
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns the outermost custom sections with this name, up to the first incomplete one.
fn sections<'a>(bytes: &'a [u8], name: &str) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((section, after)) = section(rest, name) {
        found.extend(section);
        rest = after;
    }
    found
}

/// Returns the first section, if it is a custom one of this name, and the rest.
fn section<'a>(bytes: &'a [u8], wanted: &str) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let (id, rest) = bytes.split_first()?;
    let (body, after) = sized(rest)?;
    let ours = if *id == 0 {
        let (name, data) = sized(body)?;
        (name == wanted.as_bytes()).then_some(data)
    } else {
        None
    };
    Some((ours, after))
}

/// Returns the bytes after their LEB128 length, and the rest.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes[at + 1..].split_at_checked(length);
        }
    }
    None
}
