//! A skill in one file: a component with its SKILL.md embedded.

use patchbay_core::{Code, text};
use wasmparser::{Parser, Payload};

use crate::Problem;

/// The largest SKILL.md, in bytes, wherever it stands: it goes into a conversation.
pub const SKILL_MD_BYTES: u64 = 256 << 10;

/// The custom section that holds the SKILL.md.
pub const SECTION: &str = "patchbay:skill.md";

/// The SKILL.md embedded in a component, if there is one.
///
/// # Errors
/// `invalid_component` where the bytes are not WebAssembly; `malformed_frontmatter` where the section is no text, is
/// longer than a SKILL.md may be, or comes twice.
pub fn embedded_skill_md(bytes: &[u8]) -> Result<Option<String>, Problem> {
    let invalid = |message: &str| Problem::new(Code::InvalidComponent, message.to_owned());
    if !bytes.starts_with(b"\0asm") {
        return Err(invalid("Not WebAssembly: it does not begin with the four bytes '\\0asm'."));
    }
    let mut found = None;
    // Where what stands within ends: the parser also takes the end of the bytes for its end.
    let mut within = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload
            .map_err(|error| invalid(&format!("Damaged or cut short: {}.", text::excerpt(&error.to_string(), 200))))?
        {
            Payload::ModuleSection { unchecked_range: range, .. }
            | Payload::ComponentSection { unchecked_range: range, .. } => within.push(range.end),
            Payload::End(at) => match within.pop() {
                Some(end) if end != at => {
                    return Err(invalid("Cut short within a module or component that stands in it."));
                }
                _ => {}
            },
            Payload::CustomSection(section) if within.is_empty() && section.name() == SECTION => {
                let malformed =
                    |what: &str| Problem::new(Code::MalformedFrontmatter, format!("The section '{SECTION}' {what}."));
                if section.data().len() as u64 > SKILL_MD_BYTES {
                    return Err(malformed(&format!("is over {SKILL_MD_BYTES} bytes, the most of a SKILL.md")));
                }
                let text = std::str::from_utf8(section.data()).map_err(|_| malformed("is not UTF-8"))?;
                if found.replace(text.to_owned()).is_some() {
                    return Err(malformed("comes twice"));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    /// A component with the section for each of `texts`, which are short.
    fn component(texts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = COMPONENT.to_vec();
        for text in texts {
            let size = u8::try_from(1 + SECTION.len() + text.len()).unwrap();
            bytes.extend([&[0, size, 17], SECTION.as_bytes(), text].concat());
        }
        bytes
    }

    #[test]
    fn the_section_is_found_where_it_stands_once_and_is_text() {
        assert_eq!(embedded_skill_md(&component(&[])), Ok(None));
        assert_eq!(embedded_skill_md(&component(&[b"x"])), Ok(Some("x".to_owned())));
        let message = |bytes: &[u8]| embedded_skill_md(bytes).unwrap_err().message;
        assert_eq!(message(&component(&[b"x", b"x"])), "The section 'patchbay:skill.md' comes twice.");
        assert_eq!(message(&component(&[b"\xff"])), "The section 'patchbay:skill.md' is not UTF-8.");
        assert_eq!(message(b"hello"), "Not WebAssembly: it does not begin with the four bytes '\\0asm'.");
    }

    #[test]
    fn a_section_is_no_larger_than_a_file() {
        let section = |size: usize| {
            let text = vec![b'x'; size];
            // Three bytes of LEB128 each; the length of the name is one byte.
            let length = (1 + SECTION.len() + size) as u32;
            let leb = [length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8];
            [COMPONENT, &[0], &leb, &[17], SECTION.as_bytes(), &text].concat()
        };
        let most = SKILL_MD_BYTES as usize;
        assert!(embedded_skill_md(&section(most)).unwrap().is_some());
        assert_eq!(
            embedded_skill_md(&section(most + 1)).unwrap_err().message,
            "The section 'patchbay:skill.md' is over 262144 bytes, the most of a SKILL.md."
        );
    }

    #[test]
    fn a_section_of_something_within_is_not_its_own() {
        let inner = component(&[b"x"]);
        let mut outer = COMPONENT.to_vec();
        outer.extend([4, u8::try_from(inner.len()).unwrap()]);
        outer.extend(&inner);
        assert_eq!(embedded_skill_md(&outer), Ok(None));
    }

    /// Where the cut falls between two sections, the parser sees an end like any other; found by fuzzing.
    #[test]
    fn what_is_cut_short_is_no_component() {
        let inner = component(&[b"x"]);
        let outer = [COMPONENT, &[4, u8::try_from(inner.len() + 1).unwrap()], &inner].concat();
        let problem = embedded_skill_md(&outer).unwrap_err();
        assert_eq!(problem.message, "Cut short within a module or component that stands in it.");
    }

    /// The parser's words have several lines where a module within has a bad head; found by fuzzing.
    #[test]
    fn what_is_damaged_is_said_on_one_line() {
        let damaged = [COMPONENT, &[1, 8], b"\x05\x02\0\x01\x0d\0\x01\0"].concat();
        let problem = embedded_skill_md(&damaged).unwrap_err();
        assert_eq!(problem.code, Code::InvalidComponent);
        assert!(problem.message.starts_with("Damaged or cut short: ") && !problem.message.contains('\n'), "{problem}");
    }
}
