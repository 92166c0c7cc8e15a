//! A skill in one file: a component with its SKILL.md embedded.

use patchbay_core::Code;
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
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| invalid(&format!("Damaged or cut short: {error}.")))? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => {
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
