//! Skill components built from WebAssembly text. They need no toolchain, and can do things that no compiler emits. Begin with
//! [`Guest::default`], which echoes, or with one of the builders below. Write WAT only if the exact bytes matter.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::calls::SAY;

/// Builds the component of a skill.
///
/// Its memory: the result of a call at 0, the list of tools at 512, their strings from 1024, and the canonical ABI's heap from
/// 65536.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Name, description and input schema of each tool.
    pub tools: Vec<(String, String, String)>,
    /// WAT statements at the start of `tools`.
    pub before_tools: String,
    /// The body of `call`, in WAT. Parameters: `$tool $tool_len $input $input_len $blobs $blobs_len`. Result:
    /// the address of the result record.
    pub call: String,
    /// Additional imports, globals, functions, tables and memories, in WAT.
    pub more: String,
    /// WAT statements at the start of `cabi_realloc`, by which the host allocates memory of the guest.
    pub before_realloc: String,
    /// Initial pages of the memory.
    pub pages: u32,
}

impl Default for Guest {
    /// Returns a guest with the tool `run`, which accepts any object and returns its input as text.
    fn default() -> Self {
        Self {
            tools: vec![("run".into(), "Echoes its input".into(), r#"{"type":"object"}"#.into())],
            before_tools: String::new(),
            call: ECHO.into(),
            more: String::new(),
            before_realloc: String::new(),
            pages: 4,
        }
    }
}

/// A body of `call` that returns `ok([text(input)])`.
pub const ECHO: &str = "
    (i32.store8 (i32.const 0) (i32.const 0))
    (i32.store (i32.const 4) (i32.const 64))
    (i32.store (i32.const 8) (i32.const 1))
    (i32.store8 (i32.const 64) (i32.const 0))
    (i32.store (i32.const 68) (local.get $input))
    (i32.store (i32.const 72) (local.get $input_len))
    (i32.const 0)";

/// Where [`Guest::answering`] stores its text: above the memory that the canonical ABI allocates for short inputs.
const ANSWER: u32 = 131_072;

impl Guest {
    /// A guest with `call` as the body of its tool. See [`Guest::call`] for the parameters and the result.
    pub fn calling(call: &str) -> Self {
        Self { call: call.into(), ..Self::default() }
    }

    /// A guest whose tool always returns `text`.
    pub fn answering(text: &str) -> Self {
        let call = format!("(call $say (i32.const {ANSWER}) (i32.const {}))", text.len());
        Self::calling(&call).with(SAY).with(&data(ANSWER, text.as_bytes()))
    }

    /// A guest whose tool returns two texts per attachment: its media type and its content.
    pub fn returning_attachments() -> Self {
        let call = "
            (local $blob i32) (local $at i32)
            (local.set $blob (local.get $blobs))
            (local.set $at (i32.const 4096))
            (block $done (loop $next
              (br_if $done (i32.eqz (local.get $blobs_len)))
              (call $text (local.get $at) (local.get $blob))
              (call $text (i32.add (local.get $at) (i32.const 20)) (i32.add (local.get $blob) (i32.const 8)))
              (local.set $at (i32.add (local.get $at) (i32.const 40)))
              (local.set $blob (i32.add (local.get $blob) (i32.const 16)))
              (local.set $blobs_len (i32.sub (local.get $blobs_len) (i32.const 1)))
              (br $next)))
            (i32.store8 (i32.const 0) (i32.const 0))
            (i32.store (i32.const 4) (i32.const 4096))
            (i32.store (i32.const 8) (i32.div_u (i32.sub (local.get $at) (i32.const 4096)) (i32.const 20)))
            (i32.const 0)";
        Self::calling(call).with(
            "(func $text (param $at i32) (param $from i32)
              (i32.store8 (local.get $at) (i32.const 0))
              (i32.store offset=4 (local.get $at) (i32.load (local.get $from)))
              (i32.store offset=8 (local.get $at) (i32.load offset=4 (local.get $from))))",
        )
    }

    /// A guest whose tool never returns.
    pub fn spinning() -> Self {
        Self::calling("(loop $forever (br $forever)) unreachable")
    }

    /// A guest whose tool reports its input as progress, which a test can wait for, and then hangs.
    pub fn reporting_and_spinning() -> Self {
        let guest = Self::calling(
            "(call $report (local.get $input) (local.get $input_len)) (loop $forever (br $forever)) (unreachable)",
        );
        guest.with(r#"(import "patchbay:host/progress@0.1.0" "report" (func $report (param i32 i32)))"#)
    }

    /// A guest whose tool traps immediately.
    pub fn trapping() -> Self {
        Self::calling("unreachable")
    }

    /// Adds imports, functions and so on, in WAT. See [`Guest::more`].
    #[must_use]
    pub fn with(mut self, more: &str) -> Self {
        self.more.push_str(more);
        self
    }

    /// Returns a component of the current contract that also imports a host interface that is not part of any world.
    pub fn importing(&self, interface: &str) -> Vec<u8> {
        let mut contract = present_contract();
        let world = format!(
            "package test:importer@0.1.0;
             world importer {{ include patchbay:skill/skill-plugin@0.1.2; import patchbay:host/{interface}@0.1.2; }}"
        );
        contract.push_str("importer.wit", &world).expect("a world");
        component_of(&contract, &self.wat().replace("@0.1.0", "@0.1.2"), "test:importer/importer")
    }

    /// Returns the core module as WAT.
    pub fn wat(&self) -> String {
        let mut records = Vec::<u8>::new();
        let mut strings = Vec::<u8>::new();
        let strings_at = 1024 + 32 * self.tools.len() as u32;
        for (name, description, schema) in &self.tools {
            for text in [name, description, schema] {
                records.extend((strings_at + strings.len() as u32).to_le_bytes());
                records.extend((text.len() as u32).to_le_bytes());
                strings.extend(text.as_bytes());
            }
            records.extend([0; 8]);
        }
        let (imports, rest) = imports_first(&self.more);
        format!(
            r#"(module
  {imports}
  (memory (export "memory") {pages})
  (global $heap (mut i32) (i32.const 65536))
  {rest}
  {realloc}
  (func (export "patchbay:skill/skill@0.1.0#tools") (result i32)
    {before_tools}
    (i32.store (i32.const 512) (i32.const 1024))
    (i32.store (i32.const 516) (i32.const {count}))
    (i32.const 512))
  (func (export "patchbay:skill/skill@0.1.0#call")
    (param $tool i32) (param $tool_len i32) (param $input i32) (param $input_len i32) (param $blobs i32) (param $blobs_len i32)
    (result i32)
    {call}){data})"#,
            pages = self.pages,
            before_tools = self.before_tools,
            realloc = realloc(&self.before_realloc),
            data = data(1024, records.iter().chain(&strings)),
            count = self.tools.len(),
            call = self.call,
        )
    }

    /// Returns the bytes of the component.
    pub fn component(&self) -> Vec<u8> {
        component(&self.wat(), "patchbay:skill/skill-plugin")
    }

    /// Encodes the component with an embedded SKILL.md, as `plugin build` does.
    pub fn packaged(&self, skill_md: &str) -> Vec<u8> {
        package(self.component(), skill_md)
    }
}

/// Returns a data segment for [`Guest::with`].
pub fn data<'a>(at: u32, bytes: impl IntoIterator<Item = &'a u8>) -> String {
    let bytes: String = bytes.into_iter().map(|byte| format!("\\{byte:02x}")).collect();
    format!("\n(data (i32.const {at}) \"{bytes}\")\n")
}

/// Separates the imports, which must come first in a module, from the other lines.
pub(crate) fn imports_first(more: &str) -> (String, String) {
    let (imports, rest): (Vec<&str>, Vec<&str>) =
        more.lines().partition(|line| line.trim_start().starts_with("(import"));
    (imports.join("\n  "), rest.join("\n  "))
}

/// Returns the function by which the host allocates memory of a guest. It only moves the global `$heap`.
pub(crate) fn realloc(before: &str) -> String {
    format!(
        r#"(func (export "cabi_realloc") (param $old i32) (param $old_len i32) (param $align i32) (param $len i32) (result i32)
    (local $at i32)
    {before}
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get $len)))
    (if (i32.gt_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536)))
      (then (drop (memory.grow (i32.add (i32.shr_u (local.get $len) (i32.const 16)) (i32.const 1))))))
    (local.get $at))"#
    )
}

/// Encodes a core module as a component of `world`, such as `patchbay:skill/skill-plugin`.
pub fn component(wat: &str, world: &str) -> Vec<u8> {
    component_of(&contract(), wat, world)
}

/// Like [`component`], for another version of the contract.
pub fn component_of(resolve: &Resolve, wat: &str, world: &str) -> Vec<u8> {
    let module = module_of(resolve, wat, world);
    ComponentEncoder::default().module(&module).expect("a module").validate(true).encode().expect("a component")
}

/// Returns a core module with its world's metadata, as a compiler writes it: the input of `plugin build`.
pub fn module_of(resolve: &Resolve, wat: &str, world: &str) -> Vec<u8> {
    let (package, world) = world.split_once('/').expect("PACKAGE/WORLD");
    let package =
        resolve.package_names.iter().find(|(name, _)| name.to_string().starts_with(package)).expect("a package");
    let world = resolve.select_world(&[*package.1], Some(world)).expect("a world");
    let mut module = wat::parse_str(wat).expect("a module");
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).expect("metadata");
    module
}

/// Embeds a SKILL.md into a component, as a custom section.
pub fn package(mut component: Vec<u8>, skill_md: &str) -> Vec<u8> {
    use wasm_encoder::ComponentSection as _;
    let section = wasm_encoder::CustomSection { name: "patchbay:skill.md".into(), data: skill_md.as_bytes().into() };
    section.append_to_component(&mut component);
    component
}

/// Parses the first released version of the contract. Guests in WAT are built against it and have the version in the names of
/// their exports, which makes them tests of old plugins as well.
pub fn contract() -> Resolve {
    packages("wit/frozen/0.1.0")
}

/// Parses the current version of the contract.
pub fn present_contract() -> Resolve {
    packages("wit")
}

fn packages(folder: &str) -> Resolve {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut resolve = Resolve::default();
    for package in ["host", "skill", "provider"] {
        resolve.push_dir(wit.join(package)).expect("the contract parses");
    }
    resolve
}
