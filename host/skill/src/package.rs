//! A skill in one file: a component with its SKILL.md embedded.

use patchbay_core::{Code, text};
use wasmparser::{Parser, Payload};

use crate::Problem;

/// The custom section that holds the SKILL.md.
pub const SECTION: &str = "patchbay:skill.md";

/// The SKILL.md embedded in a component, if there is one.
///
/// # Errors
/// `invalid_component` where the bytes are not WebAssembly; `malformed_frontmatter` where the section is no text or
/// comes twice.
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
                let text = std::str::from_utf8(section.data()).map_err(|_| {
                    Problem::new(Code::MalformedFrontmatter, format!("The section '{SECTION}' is not UTF-8."))
                })?;
                if found.replace(text.to_owned()).is_some() {
                    let message = format!("The section '{SECTION}' comes twice.");
                    return Err(Problem::new(Code::MalformedFrontmatter, message));
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
