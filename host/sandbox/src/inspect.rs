//! What bytes are, without compiling or running them.

use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload};

use crate::Failure;

/// The outer shape of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Names of what it imports, in its own order.
    pub imports: Vec<String>,
    /// Names of what it exports, in its own order.
    pub exports: Vec<String>,
}

const SKILL: &str = "patchbay:skill/skill@0.1.";
const OFFERED: &[&str] = &["patchbay:host/", "patchbay:skill/types@0.1."];

/// Reads the shape of a component.
///
/// # Errors
/// [`Failure::InvalidComponent`] where the bytes are something else, or end too early.
pub fn shape(bytes: &[u8]) -> Result<Shape, Failure> {
    let invalid = |message: String| Err(Failure::InvalidComponent(message));
    if !bytes.starts_with(b"\0asm") {
        return invalid("not WebAssembly: it does not begin with the four bytes '\\0asm'".to_owned());
    }
    let mut shape = Shape::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => return invalid(format!("damaged or cut short: {error}")),
        };
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return invalid(
                    "a core module, not a component; 'patchbay plugin build' makes a component of it".to_owned(),
                );
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    match import {
                        Ok(import) => shape.imports.push(import.name.name.to_owned()),
                        Err(error) => return invalid(format!("a damaged import: {error}")),
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    match export {
                        Ok(export) if export.kind == ComponentExternalKind::Instance => {
                            shape.exports.push(export.name.name.to_owned());
                        }
                        Ok(_) => {}
                        Err(error) => return invalid(format!("a damaged export: {error}")),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(shape)
}

impl Shape {
    /// Whether this is the component of a skill, and imports only what the host has.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`] names what is missing or too much.
    pub fn check_skill(&self) -> Result<(), Failure> {
        let invalid = |message: String| Err(Failure::InvalidComponent(message));
        if !self.exports.iter().any(|export| export.starts_with(SKILL)) {
            let exports = if self.exports.is_empty() { "nothing".to_owned() } else { self.exports.join(", ") };
            return invalid(format!("another world: a skill exports {SKILL}x, this component exports {exports}"));
        }
        match self.imports.iter().find(|import| !OFFERED.iter().any(|offered| import.starts_with(offered))) {
            Some(import) => invalid(format!("it imports '{import}', which this host does not offer")),
            None => Ok(()),
        }
    }
}
