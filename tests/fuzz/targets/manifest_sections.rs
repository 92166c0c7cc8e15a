//! Any bytes as a component: the SKILL.md embedded in it, and its outer shape.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, Name, text};
use patchbay_sandbox::{Failure, Limits, inspect};
use patchbay_skill::{Manifest, Problem, SECTION, embedded_skill_md};

static NAME: LazyLock<Name> = LazyLock::new(|| "calc".parse().expect("a name"));

fuzz_target!(|bytes: &[u8]| {
    let read = embedded_skill_md(bytes);
    assert_eq!(read, embedded_skill_md(bytes), "it reads the same each time");
    shaped(bytes, &read);
    let added = embedded_skill_md(&with_section(bytes, b"added"));
    match read {
        Ok(None) => {
            assert!(sections(bytes).is_empty());
            assert_eq!(added, Ok(Some("added".to_owned())), "what is embedded is found");
        }
        Ok(Some(skill_md)) => {
            assert_eq!(sections(bytes), [skill_md.as_bytes()]);
            assert!(added.is_err_and(|problem| problem.message.contains("twice")));
            assert!(skill_md.len() <= 256 << 10);
            let _ = Manifest::parse(&skill_md, &NAME);
        }
        Err(problem) => {
            refused(&problem);
            // A frontmatter is only checked if the section exists.
            if problem.code == Code::MalformedFrontmatter {
                let found = sections(bytes);
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
            assert!(!read.as_ref().is_err_and(|problem| problem.code == Code::InvalidComponent), "{read:?}");
            assert_eq!(
                inspect::shape(&with_section(bytes, b"")),
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

fn refused(problem: &Problem) {
    let Problem { code, message } = problem;
    assert!(matches!(code, Code::MalformedFrontmatter | Code::InvalidComponent), "{problem:?}");
    assert!(!message.is_empty() && message.chars().count() <= 500, "{message:?}");
    assert_eq!(*message, text::clean_line(message), "a diagnostic is one clean line");
}

fn with_section(bytes: &[u8], data: &[u8]) -> Vec<u8> {
    let mut all = bytes.to_vec();
    // One byte each: the lengths are below 128.
    all.extend([0, u8::try_from(1 + SECTION.len() + data.len()).expect("short"), SECTION.len() as u8]);
    all.extend(SECTION.as_bytes());
    all.extend(data);
    all
}

/// Returns the sections with the name of SKILL.md among the outermost sections, as far as they are complete.
fn sections(bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((section, after)) = section(rest) {
        found.extend(section);
        rest = after;
    }
    found
}

/// Returns the first section, if it has that name, and the rest.
fn section(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (id, rest) = bytes.split_first()?;
    let (body, after) = sized(rest)?;
    let ours = if *id == 0 {
        let (name, data) = sized(body)?;
        (name == SECTION.as_bytes()).then_some(data)
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
