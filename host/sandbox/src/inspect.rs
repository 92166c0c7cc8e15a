//! What bytes are, without compiling or running them.

use patchbay_core::text;
use wasmparser::{CanonicalFunction, CanonicalOption, ComponentExternalKind, Encoding, Parser, Payload};

use crate::{Failure, Limits};

/// The outer shape of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Names of what it imports, in its own order.
    pub imports: Vec<String>,
    /// Names of what it exports, in its own order.
    pub exports: Vec<String>,
    /// What its core modules want before one instruction runs.
    pub needs: Needs,
    /// Whether it uses the component model's async functions.
    pub is_async: bool,
}

/// The most that any one core module declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Memories of its own.
    pub memories: u32,
    /// Bytes of these at the start, together.
    pub memory_bytes: u64,
    /// Tables of its own.
    pub tables: u32,
    /// Elements of its largest table at the start.
    pub table_elements: u64,
}

const PAGE: u64 = 64 << 10;

const SKILL: &str = "patchbay:skill/skill@0.1.";
const OFFERED: &[&str] = &["patchbay:host/", "patchbay:skill/types@0.1."];
/// Packages of WASI 0.2, closed and virtual.
const WASI: &[&str] = &["cli", "clocks", "filesystem", "http", "io", "random", "sockets"];

/// Whether the host has something of this name; the linker judges the rest.
fn is_offered(import: &str) -> bool {
    let wasi = |import: &str| {
        let (package, interface) = import.strip_prefix("wasi:")?.split_once('/')?;
        Some(WASI.contains(&package) && interface.split_once('@')?.1.starts_with("0.2."))
    };
    OFFERED.iter().any(|offered| import.starts_with(offered)) || wasi(import) == Some(true)
}

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
    let mut module = Needs::default();
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
            Payload::ModuleSection { .. } => {
                depth += 1;
                module = Needs::default();
            }
            Payload::ComponentSection { .. } => depth += 1,
            Payload::MemorySection(section) => {
                for memory in section {
                    let Ok(memory) = memory else { return invalid("a damaged memory".to_owned()) };
                    module.memories += 1;
                    let bytes = memory.initial.saturating_mul(PAGE);
                    module.memory_bytes = module.memory_bytes.saturating_add(bytes);
                }
                shape.needs.add(module);
            }
            Payload::TableSection(section) => {
                for table in section {
                    let Ok(table) = table else { return invalid("a damaged table".to_owned()) };
                    module.tables += 1;
                    module.table_elements = module.table_elements.max(table.ty.initial);
                }
                shape.needs.add(module);
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    let Ok(function) = function else { return invalid("a damaged canonical function".to_owned()) };
                    shape.is_async |= is_async(&function);
                }
            }
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

fn is_async(function: &CanonicalFunction) -> bool {
    match function {
        CanonicalFunction::Lift { options, .. } | CanonicalFunction::Lower { options, .. } => {
            options.iter().any(|option| matches!(option, CanonicalOption::Async | CanonicalOption::Callback(_)))
        }
        CanonicalFunction::ResourceNew { .. }
        | CanonicalFunction::ResourceDrop { .. }
        | CanonicalFunction::ResourceRep { .. } => false,
        // Tasks, streams, futures, threads: all the others came with async.
        _ => true,
    }
}

impl Needs {
    fn add(&mut self, module: Needs) {
        self.memories = self.memories.max(module.memories);
        self.memory_bytes = self.memory_bytes.max(module.memory_bytes);
        self.tables = self.tables.max(module.tables);
        self.table_elements = self.table_elements.max(module.table_elements);
    }

    /// Whether an instance may have so much.
    ///
    /// # Errors
    /// [`Failure::Memory`] names the first thing that is too much.
    pub fn check(&self, limits: &Limits) -> Result<(), Failure> {
        let wants = |wanted: String, limit: String| Err(Failure::Memory { wanted, limit });
        if self.memories > Limits::MEMORIES {
            return wants(format!("{} memories", self.memories), Limits::MEMORIES.to_string());
        }
        if self.memory_bytes > limits.memory_bytes as u64 {
            let wanted = format!("{} bytes of memory and tables", self.memory_bytes);
            return wants(wanted, format!("{} bytes", limits.memory_bytes));
        }
        if self.tables > Limits::TABLES {
            return wants(format!("{} tables", self.tables), Limits::TABLES.to_string());
        }
        if self.table_elements > Limits::TABLE_ELEMENTS as u64 {
            return wants(format!("{} table elements", self.table_elements), Limits::TABLE_ELEMENTS.to_string());
        }
        Ok(())
    }
}

impl Shape {
    /// Whether this is the component of a skill, and imports only what the host has.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`] names what is missing or too much.
    pub fn check_skill(&self) -> Result<(), Failure> {
        let invalid = |message: String| Err(Failure::InvalidComponent(message));
        if !self.exports.iter().any(|export| export.starts_with(SKILL)) {
            let exports = if self.exports.is_empty() {
                "nothing".to_owned()
            } else {
                text::excerpt(&self.exports.join(", "), 200)
            };
            return invalid(format!("another world: a skill exports {SKILL}x, this component exports {exports}"));
        }
        if self.is_async {
            return invalid(
                "it uses the component model's async functions, which this host does not run; build it without them \
                 (componentize-qjs: --sync)"
                    .to_owned(),
            );
        }
        match self.imports.iter().find(|import| !is_offered(import)) {
            Some(import) => {
                let import = text::excerpt(import, 200);
                invalid(format!("it imports '{import}', which this host does not offer"))
            }
            None => Ok(()),
        }
    }
}
