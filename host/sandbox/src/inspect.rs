//! Reads the imports, exports and needs of a component without compiling or running it. Used before each compilation and
//! by `patchbay plugin inspect`.

use patchbay_core::text;
use wasmparser::{CanonicalFunction, CanonicalOption, ComponentExternalKind, Encoding, Parser, Payload};

use crate::{Failure, Limits};

/// The imports, exports and needs of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentShape {
    /// Names of the imports, in the component's order.
    pub imports: Vec<String>,
    /// Names of the exports, in the component's order.
    pub exports: Vec<String>,
    /// The needs of its core modules at instantiation.
    pub needs: Needs,
    /// Whether it uses the component model's async functions.
    pub is_async: bool,
}

/// The highest needs of any one core module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Number of memories in the module.
    pub memories: u32,
    /// Initial size of these memories together, in bytes.
    pub memory_bytes: u64,
    /// Number of tables in the module.
    pub tables: u32,
    /// Initial elements of the largest table.
    pub table_elements: u64,
}

const PAGE: u64 = 64 << 10;

/// The exports and imports of a world.
struct WorldSpec {
    /// The kind of component that implements it, for messages.
    what: &'static str,
    export: &'static str,
    /// Prefixes of the names that it may import in addition to WASI; the linker checks the rest.
    offered: &'static [&'static str],
    /// Where its components belong, for messages.
    location: &'static str,
    /// How an author exports it in each language, for messages.
    declared: &'static str,
}

const SKILL: WorldSpec = WorldSpec {
    what: "a skill",
    export: "patchbay:skill/skill@0.1.",
    offered: &["patchbay:host/", "patchbay:skill/types@0.1."],
    location: "a folder 'skills'",
    declared: "Declare the tools: in Rust with skill! { … } in src/lib.rs, in JavaScript with `export const skill = defineSkill({ … })`, \
               in Python with @tool, in C with PATCHBAY_TOOLS(…)",
};
const ADAPTER: WorldSpec = WorldSpec {
    what: "a provider's adapter",
    export: "patchbay:provider/adapter@0.1.",
    offered: &["patchbay:host/log@0.1.", "patchbay:host/types@0.1.", "patchbay:provider/types@0.1."],
    location: "the folder 'providers' of the configuration",
    declared: "Declare it: in Rust with provider! { … }, in JavaScript with `export const adapter = defineProvider({ … })`",
};
/// The refusal of async functions, with the option that turns them off in each toolchain.
const ASYNC: &str = "it uses the component model's async functions, which this host does not run; build it without them \
                     (componentize-qjs: --sync; wit-bindgen: without --async, in Rust without `async` in generate!; a toolchain \
                     for WASI 0.3: its target for WASI 0.2, such as wasm32-wasip2)";
/// WASI 0.2 packages that the host provides, in a virtual form that has no access to the machine.
const WASI: &[&str] = &["cli", "clocks", "filesystem", "http", "io", "random", "sockets"];

impl WorldSpec {
    fn offers(&self, import: &str) -> bool {
        let wasi = |import: &str| {
            let (package, interface) = import.strip_prefix("wasi:")?.split_once('/')?;
            Some(WASI.contains(&package) && interface.split_once('@')?.1.starts_with("0.2."))
        };
        self.offered.iter().any(|offered| import.starts_with(offered)) || wasi(import) == Some(true)
    }
}

/// Returns the imports, exports and needs of a component.
///
/// # Errors
/// [`Failure::InvalidComponent`] if the bytes are not a component or end too early.
pub fn shape(bytes: &[u8]) -> Result<ComponentShape, Failure> {
    let invalid = |message: String| Err(Failure::InvalidComponent(message));
    // The parser's message can have several lines.
    let damaged = |what: &str, error| invalid(format!("{what}: {}", text::excerpt(&format!("{error}"), 200)));
    if !bytes.starts_with(b"\0asm") {
        return invalid("not WebAssembly: it does not begin with the four bytes '\\0asm'".to_owned());
    }
    let mut shape = ComponentShape::default();
    // Where the enclosing modules and components must end, because the parser also accepts the end of the bytes.
    let mut within = Vec::new();
    let mut module = Needs::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => return damaged("damaged or truncated", error),
        };
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if within.is_empty() => {
                return invalid("a core module, not a component; 'patchbay plugin build' turns it into one".to_owned());
            }
            Payload::ModuleSection { unchecked_range: range, .. } => {
                within.push(range.end);
                module = Needs::default();
            }
            Payload::ComponentSection { unchecked_range: range, .. } => within.push(range.end),
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
            Payload::End(at) => match within.pop() {
                Some(end) if end != at => {
                    return invalid("truncated within a nested module or component".to_owned());
                }
                _ => {}
            },
            Payload::ComponentImportSection(section) if within.is_empty() => {
                for import in section {
                    match import {
                        Ok(import) => shape.imports.push(import.name.name.to_owned()),
                        Err(error) => return damaged("a damaged import", error),
                    }
                }
            }
            Payload::ComponentExportSection(section) if within.is_empty() => {
                for export in section {
                    match export {
                        Ok(export) if export.kind != ComponentExternalKind::Type => {
                            shape.exports.push(export.name.name.to_owned());
                        }
                        Ok(_) => {}
                        Err(error) => return damaged("a damaged export", error),
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
        // Tasks, streams, futures and threads: everything else was added with async.
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

    /// Checks that these needs are within the limits of an instance.
    ///
    /// # Errors
    /// [`Failure::Memory`] for the first need over its limit.
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

impl ComponentShape {
    /// Checks that this is a skill component and imports only interfaces that the host provides.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`] names the missing or forbidden interface.
    pub fn check_skill(&self) -> Result<(), Failure> {
        self.check(&SKILL, &ADAPTER)
    }

    /// Checks that this is the adapter of a provider and imports only interfaces that adapters may use.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`] names the missing or forbidden interface.
    pub fn check_adapter(&self) -> Result<(), Failure> {
        self.check(&ADAPTER, &SKILL)
    }

    /// Returns whether this has the export of a provider's adapter, valid or not.
    pub fn is_adapter(&self) -> bool {
        self.has(&ADAPTER)
    }

    fn check(&self, world: &WorldSpec, other: &WorldSpec) -> Result<(), Failure> {
        let invalid = |message: String| Err(Failure::InvalidComponent(message));
        let WorldSpec { what, export, declared, .. } = world;
        if !self.has(world) {
            if self.has(other) {
                let WorldSpec { what: other, location, .. } = other;
                return invalid(format!("this is {other}, not {what}; put it into {location}"));
            }
            let exports = if self.exports.is_empty() {
                "nothing".to_owned()
            } else {
                text::excerpt(&self.exports.join(", "), 200)
            };
            return invalid(format!("{what} exports {export}x, but this component exports {exports}. {declared}"));
        }
        if self.is_async {
            return invalid(ASYNC.to_owned());
        }
        match self.imports.iter().find(|import| !world.offers(import)) {
            Some(import) => {
                let import = text::excerpt(import, 200);
                invalid(format!("it imports '{import}', which this host does not offer to {what}"))
            }
            None => Ok(()),
        }
    }

    fn has(&self, world: &WorldSpec) -> bool {
        self.exports.iter().any(|export| export.starts_with(world.export))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    fn refused(bytes: &[&[u8]]) -> String {
        shape(&bytes.concat()).unwrap_err().to_string()
    }

    #[test]
    fn nested_module_is_read_to_its_end() {
        let shape = shape(&[COMPONENT, &[1, 13], MODULE, &[5, 3, 1, 0, 2]].concat()).unwrap();
        assert_eq!((shape.needs.memories, shape.needs.memory_bytes), (1, 2 * PAGE));
        // If the cut is between two sections, the parser sees a normal end; found by fuzzing.
        let cut = refused(&[COMPONENT, &[1, 14], MODULE, &[5, 3, 1, 0, 2]]);
        assert_eq!(cut, "truncated within a nested module or component");
    }

    /// An author who exported a function should not read that nothing is exported.
    #[test]
    fn exported_functions_are_named() {
        let shape = ComponentShape { exports: vec!["greet".to_owned()], ..ComponentShape::default() };
        let refused = shape.check_skill().unwrap_err().to_string();
        assert!(
            refused.contains("this component exports greet. Declare the tools: in Rust with skill! {"),
            "{refused}"
        );
    }

    /// The parser's message has several lines if a nested module has a bad header; found by fuzzing.
    #[test]
    fn damage_is_reported_on_one_line() {
        let words = refused(&[COMPONENT, &[1, 8], b"\x05\x02\0\x01\x0d\0\x01\0"]);
        assert!(words.starts_with("damaged or truncated: ") && !words.contains('\n'), "{words}");
    }
}
