//! Runs a module's own initialisation when its plugin is built, and stores the resulting memory and globals in the
//! module. Each call then begins with the initialised state. Called by `plugin build`.
//!
//! The format is the same as wizer's: the module exports a function without parameters and
//! results, which calls no import.

use std::ops::Range;

use patchbay_core::text;
use wasm_encoder::{
    ConstExpr, DataCountSection, DataSection, ExportKind, ExportSection, GlobalSection, GlobalType, MemorySection,
    MemoryType, Module as Encoder, RawSection, ValType,
};
use wasmparser::{DataKind, ExportSectionReader, ExternalKind, Operator, Parser, Payload, TypeRef};
use wasmtime::{Config, Engine, Instance, Linker, Module, Store, Val};

use crate::Failure;

/// The export that initialises the module.
pub const INITIALIZE: &str = "wizer_initialize";

/// Fuel for the initialisation, about one unit for each instruction.
const FUEL: u64 = 1_000_000_000;
/// Parts of the memory with fewer zero bytes between them are stored as one, because each part costs about as many bytes itself.
const GAP: usize = 16;
/// Names of the exports by which the state is read. No module has such names.
const MEMORY: &str = "\u{1}memory";
const GLOBAL: &str = "\u{1}global";

/// Returns the module after its initialisation; `None` if it does not export [`INITIALIZE`].
///
/// # Errors
/// [`Failure::InvalidComponent`] if the module cannot be stored with its state, or if the initialisation failed.
pub fn preinitialize(module: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
    let invalid = |reason: String| Failure::InvalidComponent(format!("{INITIALIZE}: {}", text::excerpt(&reason, 400)));
    let parts = Parts::read(module).map_err(|error| invalid(error.to_string()))?;
    if !parts.initializes {
        return Ok(None);
    }
    if let Some(reason) = parts.unsupported {
        return Err(invalid(reason.to_owned()));
    }
    let state = SavedState::after(&parts, module).map_err(|error| invalid(format!("{error:#}")))?;
    Ok(Some(rewrite(&parts, module, &state)))
}

/// The parts of a module that change.
#[derive(Default)]
struct Parts {
    initializes: bool,
    /// Why its state cannot be stored.
    unsupported: Option<&'static str>,
    memory: Option<MemoryType>,
    globals: Vec<Global>,
}

/// A global variable of the module.
struct Global {
    ty: GlobalType,
    value: ConstExpr,
}

impl Parts {
    fn read(module: &[u8]) -> wasmparser::Result<Self> {
        let mut parts = Self::default();
        let mut has_data = false;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        if !matches!(import?.ty, TypeRef::Func(_)) {
                            parts.unsupported = Some("only functions may be imported");
                        }
                    }
                }
                Payload::MemorySection(section) => {
                    for memory in section {
                        let memory = memory?;
                        let ty = MemoryType {
                            minimum: memory.initial,
                            maximum: memory.maximum,
                            memory64: memory.memory64,
                            shared: memory.shared,
                            page_size_log2: memory.page_size_log2,
                        };
                        if parts.memory.replace(ty).is_some() || ty.memory64 || ty.shared {
                            parts.unsupported = Some("the module must have one plain memory");
                        }
                    }
                }
                Payload::GlobalSection(section) => {
                    for global in section {
                        parts.add_global(global?)?;
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        parts.initializes |= export?.name == INITIALIZE;
                    }
                }
                Payload::StartSection { .. } => parts.unsupported = Some("the module must have no start function"),
                Payload::DataSection(section) => {
                    has_data = true;
                    for data in section {
                        if matches!(data?.kind, DataKind::Passive) {
                            parts.unsupported = Some("the module must have no passive data");
                        }
                    }
                }
                _ => {}
            }
        }
        if parts.memory.is_none() || !has_data {
            parts.unsupported = Some("the module must have one plain memory and data");
        }
        Ok(parts)
    }

    fn add_global(&mut self, global: wasmparser::Global<'_>) -> wasmparser::Result<()> {
        let val_type = match global.ty.content_type {
            wasmparser::ValType::I32 => Some(ValType::I32),
            wasmparser::ValType::I64 => Some(ValType::I64),
            wasmparser::ValType::F32 => Some(ValType::F32),
            wasmparser::ValType::F64 => Some(ValType::F64),
            _ => None,
        };
        let value = match global.init_expr.get_operators_reader().read()? {
            Operator::I32Const { value } => Some(ConstExpr::i32_const(value)),
            Operator::I64Const { value } => Some(ConstExpr::i64_const(value)),
            Operator::F32Const { value } => Some(ConstExpr::f32_const(f32::from_bits(value.bits()).into())),
            Operator::F64Const { value } => Some(ConstExpr::f64_const(f64::from_bits(value.bits()).into())),
            _ => None,
        };
        match (val_type, value) {
            (Some(val_type), Some(value)) => {
                let ty = GlobalType { val_type, mutable: global.ty.mutable, shared: global.ty.shared };
                self.globals.push(Global { ty, value });
            }
            _ => self.unsupported = Some("the module must have globals of numbers with constant values"),
        }
        Ok(())
    }
}

/// The state of a module after its initialisation.
struct SavedState {
    memory: Vec<u8>,
    /// The values of the globals.
    globals: Vec<ConstExpr>,
}

impl SavedState {
    /// Runs the initialisation. Calling an import traps.
    fn after(parts: &Parts, module: &[u8]) -> wasmtime::Result<Self> {
        let mut config = Config::new();
        config.consume_fuel(true).cranelift_nan_canonicalization(true).wasm_backtrace_max_frames(None);
        let engine = Engine::new(&config)?;
        let module = Module::new(&engine, instrument(parts, module))?;
        let mut store = Store::new(&engine, ());
        store.set_fuel(FUEL)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&module)?;
        let instance = linker.instantiate(&mut store, &module)?;
        instance.get_typed_func::<(), ()>(&mut store, INITIALIZE)?.call(&mut store, ())?;
        Self::read(parts, &mut store, &instance)
    }

    fn read(parts: &Parts, store: &mut Store<()>, instance: &Instance) -> wasmtime::Result<Self> {
        let missing = |what: &str| wasmtime::Error::msg(format!("{what} is missing"));
        let memory = instance.get_memory(&mut *store, MEMORY).ok_or_else(|| missing("the memory"))?;
        let memory = memory.data(&*store).to_vec();
        let mut globals = Vec::with_capacity(parts.globals.len());
        for (index, global) in parts.globals.iter().enumerate() {
            if !global.ty.mutable {
                globals.push(global.value.clone());
                continue;
            }
            let found = instance.get_global(&mut *store, &format!("{GLOBAL}{index}"));
            globals.push(match found.ok_or_else(|| missing("a global"))?.get(&mut *store) {
                Val::I32(value) => ConstExpr::i32_const(value),
                Val::I64(value) => ConstExpr::i64_const(value),
                Val::F32(bits) => ConstExpr::f32_const(f32::from_bits(bits).into()),
                Val::F64(bits) => ConstExpr::f64_const(f64::from_bits(bits).into()),
                _ => return Err(missing("a global that is a number")),
            });
        }
        Ok(Self { memory, globals })
    }
}

/// Returns the module with exports for its memory and its mutable globals.
fn instrument(parts: &Parts, module: &[u8]) -> Vec<u8> {
    copy(module, |payload, encoder| {
        let Payload::ExportSection(section) = payload else { return false };
        let mut exports = exported(section, |_| true);
        exports.export(MEMORY, ExportKind::Memory, 0);
        for (index, _) in parts.globals.iter().enumerate().filter(|(_, global)| global.ty.mutable) {
            exports.export(&format!("{GLOBAL}{index}"), ExportKind::Global, number(index));
        }
        encoder.section(&exports);
        true
    })
}

/// Returns the module with the state as its initial state, and without the initialisation.
fn rewrite(parts: &Parts, module: &[u8], state: &SavedState) -> Vec<u8> {
    let stored = stored_parts(&state.memory);
    copy(module, |payload, encoder| {
        match payload {
            Payload::MemorySection(_) => {
                let minimum = state.memory.len().div_ceil(PAGE) as u64;
                let mut section = MemorySection::new();
                if let Some(ty) = &parts.memory {
                    section.memory(MemoryType { minimum, ..*ty });
                }
                encoder.section(&section);
            }
            Payload::GlobalSection(_) => {
                let mut section = GlobalSection::new();
                for (global, value) in parts.globals.iter().zip(&state.globals) {
                    section.global(global.ty, value);
                }
                encoder.section(&section);
            }
            Payload::ExportSection(section) => {
                encoder.section(&exported(section, |name| name != INITIALIZE));
            }
            Payload::DataCountSection { .. } => {
                encoder.section(&DataCountSection { count: number(stored.len()) });
            }
            Payload::DataSection(_) => {
                let mut section = DataSection::new();
                for range in &stored {
                    // The memory is a 32-bit memory, so each address has 32 bits.
                    let offset = ConstExpr::i32_const(number(range.start).cast_signed());
                    section.active(0, &offset, state.memory.get(range.clone()).unwrap_or_default().iter().copied());
                }
                encoder.section(&section);
            }
            _ => return false,
        }
        true
    })
}

const PAGE: usize = 64 << 10;

/// Copies a module. `change` writes the replacement of a section, or returns false to copy the section.
fn copy(module: &[u8], mut change: impl FnMut(&Payload<'_>, &mut Encoder) -> bool) -> Vec<u8> {
    let mut encoder = Encoder::new();
    // `Parts::read` has already parsed the whole module.
    for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
        if change(&payload, &mut encoder) {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            encoder.section(&RawSection { id, data: module.get(range).unwrap_or_default() });
        }
    }
    encoder.finish()
}

/// Returns the exports with the names that `keep` accepts.
fn exported(section: &ExportSectionReader<'_>, keep: impl Fn(&str) -> bool) -> ExportSection {
    let mut exports = ExportSection::new();
    for export in section.clone().into_iter().map_while(Result::ok).filter(|export| keep(export.name)) {
        let kind = match export.kind {
            ExternalKind::Func | ExternalKind::FuncExact => ExportKind::Func,
            ExternalKind::Table => ExportKind::Table,
            ExternalKind::Memory => ExportKind::Memory,
            ExternalKind::Global => ExportKind::Global,
            ExternalKind::Tag => ExportKind::Tag,
        };
        exports.export(export.name, kind, export.index);
    }
    exports
}

/// Returns the ranges of the memory that are not zero; short gaps are part of a range.
fn stored_parts(memory: &[u8]) -> Vec<Range<usize>> {
    let mut ranges = Vec::<Range<usize>>::new();
    for (at, _) in memory.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        match ranges.last_mut() {
            Some(last) if at - last.end < GAP => last.end = at + 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges
}

/// Converts an index or an address of a module, which has 32 bits.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module whose initialisation writes 7 and 9 to its memory, which it grows, and sets a global to 5.
    const WAT: &str = r#"(module
        (import "host" "f" (func $f))
        (memory (export "memory") 1)
        (global $g (mut i32) (i32.const 1))
        (global $fixed i32 (i32.const 8))
        (data (i32.const 100) "old")
        (func (export "wizer_initialize")
            (i32.store8 (i32.const 100) (i32.const 7))
            (drop (memory.grow (i32.const 1)))
            (i32.store8 (i32.const 70000) (i32.const 9))
            (global.set $g (i32.const 5)))
        (func (export "sum") (result i32)
            (i32.add (i32.add (i32.load8_u (i32.const 100)) (i32.load8_u (i32.const 70000)))
                (i32.add (global.get $g) (global.get $fixed))))
        (func (export "call") (call $f)))"#;

    fn text(wat: &str) -> Vec<u8> {
        wat::parse_str(wat).unwrap()
    }

    #[test]
    fn state_after_initialisation_is_stored() {
        let module = preinitialize(&text(WAT)).unwrap().unwrap();
        assert_eq!(preinitialize(&text(WAT)).unwrap().unwrap(), module, "the bytes differ");
        let engine = Engine::default();
        let module = Module::new(&engine, &module).unwrap();
        let names: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
        assert_eq!(names, ["memory", "sum", "call"]);
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&module).unwrap();
        let instance = linker.instantiate(&mut store, &module).unwrap();
        let sum = instance.get_typed_func::<(), i32>(&mut store, "sum").unwrap().call(&mut store, ()).unwrap();
        assert_eq!(sum, 7 + 9 + 5 + 8);
    }

    #[test]
    fn modules_without_initialisation_are_unchanged() {
        let module = text(r#"(module (import "x" "m" (memory 1)) (func (export "f")))"#);
        assert_eq!(preinitialize(&module).unwrap(), None);
    }

    #[test]
    fn initialisation_without_end_or_with_imports_is_refused() {
        for (changed, words) in
            [("(call $f) (i32.store8", "wizer_initialize: "), ("(loop (br 0)) (i32.store8", "all fuel consumed")]
        {
            let wat = WAT.replacen("(i32.store8", changed, 1);
            let error = preinitialize(&text(&wat)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let wat =
            WAT.replace("(import \"host\" \"f\" (func $f))", "(import \"host\" \"t\" (table 1 funcref)) (func $f)");
        let error = preinitialize(&text(&wat)).unwrap_err().to_string();
        assert_eq!(error, "wizer_initialize: only functions may be imported");
    }
}
