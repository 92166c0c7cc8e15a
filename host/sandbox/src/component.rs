//! Loads a component: checks its bytes, compiles or deserializes it, and links it. Called by the engine.

use patchbay_core::{Digest, text};
use wasmtime::{
    Store,
    component::{Component, InstancePre, Linker},
};

use crate::{
    Failure, Limits,
    bindings::{SkillPlugin, SkillPluginPre},
    engine::EngineParts,
    inspect::{self, ComponentShape, Needs},
    state::GuestState,
};

/// The WIT world of skill components. Their answers are stored by digest and this world.
pub const WORLD: &str = "patchbay:skill@0.1";

/// A skill's component, compiled and checked, ready to be instantiated.
pub struct Loaded(pub(crate) LinkedComponent<SkillPluginPre<GuestState>>);

impl Loaded {
    /// Returns the digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }
}

/// A component that can be instantiated.
pub(crate) struct LinkedComponent<P> {
    pub(crate) digest: Digest,
    pub(crate) pre: P,
    /// Number of pool slots that one instance needs.
    pub(crate) slots: u32,
}

/// A world of the contract, implemented by the type that instantiates its components.
pub(crate) trait PluginWorld: Send + Sync + Sized + 'static {
    type Guest: Send + Sync;

    /// Checks that a component exports this world and imports nothing else.
    fn check(shape: &ComponentShape) -> Result<(), Failure>;

    /// Returns the linker with the world's imports.
    fn linker(parts: &EngineParts) -> &Linker<GuestState>;

    fn new(pre: InstancePre<GuestState>) -> wasmtime::Result<Self>;

    fn instantiate(&self, store: &mut Store<GuestState>) -> impl Future<Output = wasmtime::Result<Self::Guest>> + Send;
}

impl PluginWorld for SkillPluginPre<GuestState> {
    type Guest = SkillPlugin;

    fn check(shape: &ComponentShape) -> Result<(), Failure> {
        shape.check_skill()
    }

    fn linker(parts: &EngineParts) -> &Linker<GuestState> {
        &parts.skills
    }

    fn new(pre: InstancePre<GuestState>) -> wasmtime::Result<Self> {
        Self::new(pre)
    }

    fn instantiate(&self, store: &mut Store<GuestState>) -> impl Future<Output = wasmtime::Result<SkillPlugin>> + Send {
        self.instantiate_async(store)
    }
}

/// Checks bytes before the compiler reads them. The pool would reject them later, with a less helpful message.
pub(crate) fn check_bytes<W: PluginWorld>(limits: &Limits, bytes: &[u8]) -> Result<(), Failure> {
    let shape = inspect::shape(bytes)?;
    W::check(&shape)?;
    shape.needs.check(limits)
}

/// Compiles a component in this process.
pub(crate) fn compile(parts: &EngineParts, bytes: &[u8]) -> Result<Component, Failure> {
    Component::new(&parts.engine, bytes).map_err(invalid)
}

/// Loads code that the same engine compiled earlier.
///
/// The caller guarantees that this build wrote `artefact`: its digest is stored separately and was checked.
#[allow(unsafe_code)]
pub(crate) fn deserialize(parts: &EngineParts, artefact: &[u8]) -> Result<Component, Failure> {
    // SAFETY: `precompile` wrote the bytes, and the caller checked by their digest that they have not changed.
    unsafe { Component::deserialize(&parts.engine, artefact) }.map_err(invalid)
}

/// Checks the needs of a compiled component and links it.
pub(crate) fn link<W: PluginWorld>(
    parts: &EngineParts,
    limits: &Limits,
    digest: Digest,
    component: &Component,
) -> Result<LinkedComponent<W>, Failure> {
    let needs = needs(component)?;
    needs.check(limits)?;
    let slots = needs.memories.div_ceil(Limits::MEMORIES_PER_SLOT).max(needs.tables.div_ceil(Limits::TABLES_PER_SLOT));
    let ty = component.component_type();
    let newer = || ty.imports(&parts.engine).map(|(name, _)| name).find(|name| is_newer(name));
    let pre = W::linker(parts).instantiate_pre(component).and_then(W::new).map_err(|error| match newer() {
        Some(import) => Failure::InvalidComponent(format!(
            "it needs '{}', from a newer contract than this host's ({CONTRACT}); update Patchbay",
            text::excerpt(import, 200)
        )),
        None => invalid(error),
    })?;
    Ok(LinkedComponent { digest, pre, slots: slots.max(1) })
}

/// The version of the contract.
const CONTRACT: &str = "0.1.2";

/// Returns whether an import is of a later version `0.1.N` of the contract.
fn is_newer(import: &str) -> bool {
    let number = |version: &str| version.strip_prefix("0.1.").and_then(|number| number.parse::<u32>().ok());
    let version = import.strip_prefix("patchbay:").and_then(|rest| rest.split_once('@'));
    version.is_some_and(|(_, version)| number(version) > number(CONTRACT))
}

/// Returns the needs of all instances of the component's modules; a module can be instantiated several times.
fn needs(component: &Component) -> Result<Needs, Failure> {
    let needs = component.resources_required().ok_or_else(|| {
        Failure::InvalidComponent("it imports core modules, which this host does not offer".to_owned())
    })?;
    Ok(Needs {
        memories: needs.num_memories,
        memory_bytes: needs.max_initial_memory_size.unwrap_or(0),
        tables: needs.num_tables,
        table_elements: needs.max_initial_table_size.unwrap_or(0),
    })
}

/// Returns wasmtime's error for bytes that it does not accept, on one line.
pub(crate) fn invalid(error: wasmtime::Error) -> Failure {
    Failure::InvalidComponent(text::excerpt(&format!("{error:#}"), 400))
}
