//! Provider adapters that follow a script: the actions of each step are written in JSON. The canonical ABI layout is computed from
//! the types of the contract. For host tests that need an adapter with chosen behaviour, valid or not.

use std::fmt::Write as _;

use serde_json::{Value, json};
use wit_parser::{Resolve, SizeAlign, Type, TypeDefKind, TypeOwner};

use crate::guest::{component_of, contract, data, imports_first, module_of, present_contract, realloc};

const WORLD: &str = "patchbay:provider/provider-plugin";
/// The world of an adapter with all optional interfaces. Each adapter exports some of them.
const OWN_WORLD: &str = "test:adapter/adapter";

/// Builds the component of an adapter.
///
/// Values are JSON and use the names of the contract:
/// - a record is an object; missing fields are zero, empty or absent;
/// - a case of a variant or an enum is its name, or an object `{NAME: PAYLOAD}`;
/// - bytes are a string.
///
/// To break the contract, a string may be given as a list of bytes, a string or list as `{"at": ADDRESS, "len": LENGTH}`, and a
/// case as its number.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// The result of `describe`.
    pub manifest: Value,
    /// The result of `explain-thinking`.
    pub plan: Value,
    /// The actions of each step: of `begin`, then of each `resume`. Later steps repeat the last entry.
    pub steps: Vec<Value>,
    /// The actions of each step of `catalogue`; `None` if it is not exported. Later steps repeat the last entry.
    pub listing: Vec<Value>,
    /// The result of `models.facts`; `None` if it is not exported.
    pub facts: Option<Value>,
    /// The result of `thinking.explain`; `None` if it is not exported.
    pub level_plan: Option<Value>,
    /// WAT statements at the start of `describe`.
    pub before_describe: String,
    /// WAT statements at the start of `explain-thinking`.
    pub before_explain: String,
    /// WAT statements at the start of `begin`.
    pub before_begin: String,
    /// WAT statements at the start of `resume`; `$step` is 1 in the first call.
    pub before_resume: String,
    /// Additional imports, globals, functions, tables and memories, in WAT.
    pub more: String,
    /// WAT statements at the start of `cabi_realloc`, by which the host allocates memory of the adapter.
    pub before_realloc: String,
    /// Initial pages of memory, in addition to those that hold the values.
    pub pages: u32,
}

impl Default for Adapter {
    /// Returns an adapter `scripted` with one model `scripted-1`, which answers `hi` without sending a request.
    fn default() -> Self {
        Self {
            manifest: json!({
                "name": "scripted", "display-name": "Scripted", "version": "1", "model-prefixes": ["scripted-"],
                "models": [{ "id": "scripted-1", "size": "normal" }],
            }),
            plan: json!({ "description": ["Thinking: off"] }),
            steps: vec![json!([
                { "emit": { "started": "scripted-1" } },
                { "emit": { "block-start": { "index": 0, "kind": "text" } } },
                { "emit": { "block-delta": { "index": 0, "text": "hi" } } },
                { "emit": { "block-end": { "index": 0 } } },
                { "finish": { "stop": "end-turn", "raw": "stop" } },
            ])],
            listing: Vec::new(),
            facts: None,
            level_plan: None,
            before_describe: String::new(),
            before_explain: String::new(),
            before_begin: String::new(),
            before_resume: String::new(),
            more: String::new(),
            before_realloc: String::new(),
            pages: 1,
        }
    }
}

impl Adapter {
    /// Returns the default adapter with these steps.
    pub fn script(steps: &[Value]) -> Self {
        Self { steps: steps.to_vec(), ..Self::default() }
    }

    /// Returns the default adapter with some keys of its manifest replaced.
    pub fn manifest(changed: &Value) -> Self {
        let mut adapter = Self::default();
        for (key, value) in changed.as_object().expect("an object") {
            adapter.manifest[key] = value.clone();
        }
        adapter
    }

    /// Adds imports, functions and so on, in WAT. See [`Adapter::more`].
    #[must_use]
    pub fn with(mut self, more: &str) -> Self {
        self.more.push_str(more);
        self
    }

    /// Encodes the component, for the first version of the contract, or for the current version if it exports an optional
    /// interface.
    pub fn component(&self) -> Vec<u8> {
        let optional = [
            ("catalogue", !self.listing.is_empty()),
            ("models", self.facts.is_some()),
            ("thinking", self.level_plan.is_some()),
        ];
        let mut exports = String::new();
        for (interface, _) in optional.iter().filter(|(_, is_exported)| *is_exported) {
            write!(exports, "export patchbay:provider/{interface}@{PRESENT};").expect("a String accepts all writes");
        }
        if exports.is_empty() {
            return self.component_of(&contract());
        }
        let world = format!(
            "package test:adapter; world adapter {{ include patchbay:provider/provider-plugin@{PRESENT}; {exports} }}"
        );
        let mut contract = present_contract();
        contract.push_str("adapter.wit", &world).expect("a world");
        component_of(&contract, &self.wat_of(&contract), OWN_WORLD)
    }

    /// Encodes the component for another version of the contract.
    pub fn component_of(&self, contract: &Resolve) -> Vec<u8> {
        component_of(contract, &self.wat_of(contract), WORLD)
    }

    /// Returns the core module with its world's metadata, as a compiler writes it: the input of `plugin build`.
    pub fn module(&self) -> Vec<u8> {
        module_of(&contract(), &self.wat_of(&contract()), WORLD)
    }

    fn wat_of(&self, contract: &Resolve) -> String {
        let mut memory = Memory::new(contract);
        let manifest = memory.value("manifest", &self.manifest);
        let plan = memory.value("thinking-plan", &self.plan);
        let steps: Vec<u32> = self.steps.iter().map(|actions| memory.list_of("action", actions)).collect();
        let listing: Vec<u32> = self.listing.iter().map(|actions| memory.list_of("listing-action", actions)).collect();
        let facts = self.facts.as_ref().map(|facts| memory.text(facts));
        let level_plan = self.level_plan.as_ref().map(|plan| memory.value("level-plan", plan));
        let optional = Self::optional(&listing, facts, level_plan);
        let package = contract.package_names.keys().find(|name| name.name == "provider").expect("a package");
        let version = package.version.as_ref().expect("a version").to_string();
        self.wat(&memory.bytes, manifest, plan, &steps, &optional, &version)
    }

    /// Returns the functions of the optional interfaces.
    fn optional(listing: &[u32], facts: Option<u32>, level_plan: Option<u32>) -> String {
        let mut functions = String::new();
        if let Some((last, others)) = listing.split_last() {
            let steps: String = others.iter().enumerate().map(|(step, at)| case_of_step(step, *at)).collect();
            write!(
                functions,
                r#"
  (func $list (result i32) {steps} (i32.const {last}))
  (func (export "patchbay:provider/catalogue@{PRESENT}#begin") (param i32 i32 i32 i32 i32) (result i32) (call $list))
  (func (export "patchbay:provider/catalogue@{PRESENT}#resume") (param i32 i32 i32 i32 i32) (result i32)
    (global.set $step (i32.add (global.get $step) (i32.const 1)))
    (call $list))"#
            )
            .expect("a String accepts all writes");
        }
        if let Some(facts) = facts {
            write!(
                functions,
                r#"
  (func (export "patchbay:provider/models@{PRESENT}#facts") (param i32 i32 i32 i32) (result i32) (i32.const {facts}))"#
            )
            .expect("a String accepts all writes");
        }
        if let Some(plan) = level_plan {
            write!(
                functions,
                r#"
  (func (export "patchbay:provider/thinking@{PRESENT}#explain") (param i32 i32 i32 i32 i32 i32 i32) (result i32)
    (i32.const {plan}))"#
            )
            .expect("a String accepts all writes");
        }
        functions
    }

    fn wat(&self, bytes: &[u8], manifest: u32, plan: u32, steps: &[u32], optional: &str, version: &str) -> String {
        let (last, others) = steps.split_last().expect("a step");
        let answer: String = others.iter().enumerate().map(|(step, at)| case_of_step(step, *at)).collect();
        let (imports, rest) = imports_first(&self.more);
        let heap = (BASE as usize + bytes.len()).next_multiple_of(64 << 10);
        format!(
            r#"(module
  {imports}
  (memory (export "memory") {pages})
  (global $heap (mut i32) (i32.const {heap}))
  (global $step (mut i32) (i32.const 0))
  {rest}
  {realloc}
  (func $answer (result i32)
    ;; The arguments are ignored, so their memory is free.
    (global.set $heap (i32.const {heap}))
    {answer}
    (i32.const {last}))
  (func (export "patchbay:provider/adapter@{version}#describe") (result i32)
    {before_describe}
    (i32.const {manifest}))
  (func (export "patchbay:provider/adapter@{version}#explain-thinking") (param i32 i32 i32 i32 i32) (result i32)
    {before_explain}
    (i32.const {plan}))
  (func (export "patchbay:provider/adapter@{version}#begin") (param $request i32) (result i32)
    {before_begin}
    (call $answer))
  (func (export "patchbay:provider/adapter@{version}#resume") (param i32 i32 i32 i32 i32) (result i32)
    (global.set $step (i32.add (global.get $step) (i32.const 1)))
    {before_resume}
    (call $answer)){optional}{data})"#,
            pages = u32::try_from(heap >> 16).expect("32 bits") + self.pages,
            before_describe = self.before_describe,
            before_explain = self.before_explain,
            before_begin = self.before_begin,
            before_resume = self.before_resume,
            realloc = realloc(&self.before_realloc),
            data = data(BASE, bytes),
        )
    }
}

/// Returns statements that return `at` in a step.
fn case_of_step(step: usize, at: u32) -> String {
    format!("(if (i32.eq (global.get $step) (i32.const {step})) (then (return (i32.const {at}))))\n")
}

/// The current version of the contract.
const PRESENT: &str = "0.1.2";

/// Address of the first value. A test's own statements may use the memory below it.
const BASE: u32 = 1024;

/// Memory image with values in the canonical ABI layout.
struct Memory<'a> {
    contract: &'a Resolve,
    sizes: SizeAlign,
    bytes: Vec<u8>,
}

impl<'a> Memory<'a> {
    fn new(contract: &'a Resolve) -> Self {
        let mut sizes = SizeAlign::default();
        sizes.fill(contract);
        Self { contract, sizes, bytes: Vec::new() }
    }

    /// Finds a type of the package `patchbay:provider`, following a type that an interface uses from another to its definition.
    fn named(&self, name: &str) -> Type {
        let is_used = |kind: &TypeDefKind| matches!(kind, TypeDefKind::Type(Type::Id(_)));
        let provider = |owner: TypeOwner| match owner {
            TypeOwner::Interface(interface) => self.contract.interfaces[interface]
                .package
                .is_some_and(|package| self.contract.packages[package].name.name == "provider"),
            _ => false,
        };
        let found = self
            .contract
            .types
            .iter()
            .find(|(_, def)| def.name.as_deref() == Some(name) && !is_used(&def.kind) && provider(def.owner));
        Type::Id(found.expect("a type of the contract").0)
    }

    /// Writes a value of a named type and returns its address.
    fn value(&mut self, name: &str, value: &Value) -> u32 {
        let ty = self.named(name);
        let at = self.room(1, &ty);
        self.lay(at, &ty, value);
        at
    }

    /// Writes a string and its pointer and length; returns the address of the pointer.
    fn text(&mut self, text: &Value) -> u32 {
        let at = self.room(2, &Type::U32);
        self.list(at, &Type::U8, text);
        at
    }

    /// Writes a list and its pointer and length; returns the address of the pointer.
    fn list_of(&mut self, name: &str, items: &Value) -> u32 {
        let ty = self.named(name);
        let at = self.room(2, &Type::U32);
        self.list(at, &ty, items);
        at
    }

    fn size(&self, ty: &Type) -> usize {
        self.sizes.size(ty).size_wasm32()
    }

    /// Reserves aligned space for `count` values and returns its address.
    fn room(&mut self, count: usize, ty: &Type) -> u32 {
        let at = self.bytes.len().next_multiple_of(self.sizes.align(ty).align_wasm32());
        self.bytes.resize(at + count * self.size(ty), 0);
        BASE + u32::try_from(at).expect("32 bits")
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let at = (at - BASE) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes `value` at an address.
    fn lay(&mut self, at: u32, ty: &Type, value: &Value) {
        // The memory is already zero, which is the first case, the empty string, and no value.
        if value.is_null() {
            return;
        }
        let number = || value.as_u64().unwrap_or_else(|| panic!("no number: {value}"));
        match ty {
            Type::Bool => self.put(at, &[u8::from(value.as_bool().expect("a truth"))]),
            Type::U8 => self.put(at, &number().to_le_bytes()[..1]),
            Type::U16 => self.put(at, &number().to_le_bytes()[..2]),
            Type::U32 => self.put(at, &number().to_le_bytes()[..4]),
            Type::U64 => self.put(at, &number().to_le_bytes()),
            Type::String => self.list(at, &Type::U8, value),
            Type::Id(id) => {
                let contract = self.contract;
                match &contract.types[*id].kind {
                    TypeDefKind::Type(ty) => self.lay(at, ty, value),
                    TypeDefKind::List(ty) => self.list(at, ty, value),
                    TypeDefKind::Option(ty) => self.case(at, &[None, Some(ty)], 1, value),
                    TypeDefKind::Record(record) => {
                        for key in value.as_object().expect("an object").keys() {
                            assert!(record.fields.iter().any(|field| field.name == *key), "no field '{key}'");
                        }
                        let offsets = self.sizes.field_offsets(record.fields.iter().map(|field| &field.ty));
                        let offsets: Vec<_> = offsets.iter().map(|(offset, _)| offset.size_wasm32()).collect();
                        for (field, offset) in record.fields.iter().zip(offsets) {
                            self.lay(at + offset as u32, &field.ty, &value[&field.name]);
                        }
                    }
                    TypeDefKind::Enum(of) => {
                        let names: Vec<_> = of.cases.iter().map(|case| case.name.as_str()).collect();
                        let (case, _) = find(&names, value);
                        self.put(at, &[case]);
                    }
                    TypeDefKind::Variant(of) => {
                        let names: Vec<_> = of.cases.iter().map(|case| case.name.as_str()).collect();
                        let payloads: Vec<_> = of.cases.iter().map(|case| case.ty.as_ref()).collect();
                        let (case, payload) = find(&names, value);
                        self.case(at, &payloads, case, payload);
                    }
                    other => panic!("no value of {other:?} is laid down"),
                }
            }
            other => panic!("no value of {other:?} is laid down"),
        }
    }

    /// Writes a case of a variant and its payload.
    fn case(&mut self, at: u32, payloads: &[Option<&Type>], case: u8, value: &Value) {
        self.put(at, &[case]);
        if let Some(Some(ty)) = payloads.get(usize::from(case)) {
            // The contract has no variant with more than 256 cases.
            let offset = self.sizes.payload_offset(wit_parser::Int::U8, payloads.iter().copied());
            self.lay(at + offset.size_wasm32() as u32, ty, value);
        }
    }

    /// Writes the items of a list, then its pointer and length at `at`.
    fn list(&mut self, at: u32, ty: &Type, value: &Value) {
        let (items, len) = match value {
            Value::Null => (0, 0),
            Value::String(text) => {
                let items = self.room(text.len(), &Type::U8);
                self.put(items, text.as_bytes());
                (items, text.len())
            }
            Value::Array(values) => {
                let items = self.room(values.len(), ty);
                let size = self.size(ty);
                for (index, value) in values.iter().enumerate() {
                    self.lay(items + (index * size) as u32, ty, value);
                }
                (items, values.len())
            }
            Value::Object(raw) => {
                let part = |key: &str| raw[key].as_u64().expect("an address and a length");
                (u32::try_from(part("at")).expect("32 bits"), part("len") as usize)
            }
            other => panic!("no list: {other}"),
        };
        self.put(at, &items.to_le_bytes());
        self.put(at + 4, &u32::try_from(len).expect("32 bits").to_le_bytes());
    }
}

/// Returns the number of the case that `value` names, and its payload.
fn find<'v>(names: &[&str], value: &'v Value) -> (u8, &'v Value) {
    let number = |name: &str| {
        let found = names.iter().position(|known| *known == name);
        u8::try_from(found.unwrap_or_else(|| panic!("no case '{name}'"))).expect("few cases")
    };
    match value {
        Value::String(name) => (number(name), &Value::Null),
        Value::Number(raw) => (u8::try_from(raw.as_u64().expect("a number")).expect("a byte"), &Value::Null),
        Value::Object(one) if one.len() == 1 => {
            let (name, held) = one.iter().next().expect("one");
            (number(name), held)
        }
        other => panic!("no case: {other}"),
    }
}
