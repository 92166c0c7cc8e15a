//! Finds the SKILL.md and the other files in the component of a single-file skill.
//!
//! Called by `reading.rs` and `file_set.rs` for `NAME.wasm`, and by the crate `plugin`, which writes the sections.

use patchbay_core::{Code, text};
use wasmparser::{BinaryReaderError, Chunk, Parser, Payload};

use crate::{Problem, archive::FILES_SECTION};

/// Size limit of a SKILL.md, as a file or embedded, in bytes. It is limited because it is added to a conversation.
pub const SKILL_MD_BYTES: u64 = 256 << 10;

/// Name of the custom section that contains the SKILL.md.
pub const SECTION: &str = "patchbay:skill.md";

/// The sections that make a component a single-file skill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Embedded<'a> {
    pub(crate) skill_md: Option<&'a str>,
    /// The archive of the other files, unchecked.
    pub(crate) files: Option<&'a [u8]>,
}

/// Returns the SKILL.md that is embedded in a component; `None` if there is none.
///
/// # Errors
/// `invalid_component` if the bytes are not valid WebAssembly, or have several archives of files; `malformed_frontmatter` if
/// the section is not UTF-8, is larger than [`SKILL_MD_BYTES`], or appears twice.
pub fn embedded_skill_md(bytes: &[u8]) -> Result<Option<String>, Problem> {
    Ok(embedded(bytes)?.skill_md.map(str::to_owned))
}

/// Returns the data embedded in a component, with the errors of [`embedded_skill_md`].
pub(crate) fn embedded(bytes: &[u8]) -> Result<Embedded<'_>, Problem> {
    let invalid = |message: &str| Problem::new(Code::InvalidComponent, message.to_owned());
    if !bytes.starts_with(b"\0asm") {
        return Err(invalid("Not WebAssembly: it does not begin with the four bytes '\\0asm'."));
    }
    let mut found = Embedded::default();
    let (mut parser, mut at) = (Parser::new(0), 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let damaged = |error: BinaryReaderError| {
            invalid(&format!("Damaged or truncated: {}.", text::excerpt(&error.to_string(), 200)))
        };
        let Chunk::Parsed { consumed, payload } = parser.parse(rest, true).map_err(damaged)? else {
            return Err(invalid("Truncated."));
        };
        at += consumed;
        match payload {
            // The host does not read the sections of nested modules and components; the compiler checks them.
            Payload::ModuleSection { unchecked_range: range, .. }
            | Payload::ComponentSection { unchecked_range: range, .. } => {
                at = range.end;
                if at > bytes.len() {
                    return Err(invalid("Truncated within a nested module or component."));
                }
            }
            Payload::CustomSection(section) if section.name() == SECTION => {
                let malformed =
                    |what: &str| Problem::new(Code::MalformedFrontmatter, format!("The section '{SECTION}' {what}."));
                if section.data().len() as u64 > SKILL_MD_BYTES {
                    return Err(malformed(&format!("is over {SKILL_MD_BYTES} bytes, the limit of a SKILL.md")));
                }
                let text = std::str::from_utf8(section.data()).map_err(|_| malformed("is not UTF-8"))?;
                if found.skill_md.replace(text).is_some() {
                    return Err(malformed("appears twice"));
                }
            }
            Payload::CustomSection(section) if section.name() == FILES_SECTION => {
                let twice = found.files.replace(section.data()).is_some();
                if twice {
                    return Err(invalid(&format!("The section '{FILES_SECTION}' appears twice.")));
                }
            }
            // Only the parser knows whether the last section is complete.
            Payload::End(_) => return Ok(found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    /// Returns a component with one section for each of `texts`, which must be short.
    fn component(texts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = COMPONENT.to_vec();
        for text in texts {
            let size = u8::try_from(1 + SECTION.len() + text.len()).unwrap();
            bytes.extend([&[0, size, 17], SECTION.as_bytes(), text].concat());
        }
        bytes
    }

    #[test]
    fn section_must_be_utf8_and_appear_once() {
        assert_eq!(embedded_skill_md(&component(&[])), Ok(None));
        assert_eq!(embedded_skill_md(&component(&[b"x"])), Ok(Some("x".to_owned())));
        let message = |bytes: &[u8]| embedded_skill_md(bytes).unwrap_err().message;
        assert_eq!(message(&component(&[b"x", b"x"])), "The section 'patchbay:skill.md' appears twice.");
        assert_eq!(message(&component(&[b"\xff"])), "The section 'patchbay:skill.md' is not UTF-8.");
        assert_eq!(message(b"hello"), "Not WebAssembly: it does not begin with the four bytes '\\0asm'.");
    }

    #[test]
    fn section_has_the_size_limit_of_a_file() {
        let section = |size: usize| {
            let text = vec![b'x'; size];
            // The LEB128 length has three bytes; the length of the name has one.
            let length = (1 + SECTION.len() + size) as u32;
            let leb = [length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8];
            [COMPONENT, &[0], &leb, &[17], SECTION.as_bytes(), &text].concat()
        };
        let most = SKILL_MD_BYTES as usize;
        assert!(embedded_skill_md(&section(most)).unwrap().is_some());
        assert_eq!(
            embedded_skill_md(&section(most + 1)).unwrap_err().message,
            "The section 'patchbay:skill.md' is over 262144 bytes, the limit of a SKILL.md."
        );
    }

    #[test]
    fn section_of_a_nested_component_is_ignored() {
        let inner = component(&[b"x"]);
        let mut outer = COMPONENT.to_vec();
        outer.extend([4, u8::try_from(inner.len()).unwrap()]);
        outer.extend(&inner);
        assert_eq!(embedded_skill_md(&outer), Ok(None));
    }

    /// If the file is cut between two sections, the parser reports a normal end. Found by fuzzing.
    #[test]
    fn component_that_is_cut_short_is_refused() {
        let inner = component(&[b"x"]);
        let outer = [COMPONENT, &[4, u8::try_from(inner.len() + 1).unwrap()], &inner].concat();
        let problem = embedded_skill_md(&outer).unwrap_err();
        assert_eq!(problem.message, "Truncated within a nested module or component.");
        // A code section of 9 bytes, with no functions, and one with a function.
        for count in [0, 1] {
            let module = [b"\0asm\x01\0\0\0", &[10, 9, count][..]].concat();
            let problem = embedded_skill_md(&module).unwrap_err();
            assert!(problem.message.starts_with("Damaged or truncated: "), "{problem}");
        }
    }

    /// The parser's message has several lines if the header is invalid. Found by fuzzing.
    #[test]
    fn parser_error_is_reported_on_one_line() {
        let problem = embedded_skill_md(b"\0asm\x05\x02\0\x01").unwrap_err();
        assert_eq!(problem.code, Code::InvalidComponent);
        assert!(problem.message.starts_with("Damaged or truncated: ") && !problem.message.contains('\n'), "{problem}");
    }
}
