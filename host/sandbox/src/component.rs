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

/// The world that a skill's component implements. Answers are kept by digest and world.
pub const WORLD: &str = "patchbay:skill@0.1";

/// A skill's component, compiled and checked, ready to be instantiated.
pub struct Loaded(pub(crate) LinkedComponent<SkillPluginPre<GuestState>>);

impl Loaded {
    /// The digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }
}

/// A component that is ready to be instantiated.
pub(crate) struct LinkedComponent<P> {
    pub(crate) digest: Digest,
    pub(crate) pre: P,
    /// Slots of the pool that one instance takes.
    pub(crate) slots: u32,
}

/// A world of the contract, as what makes instances of one of its components.
pub(crate) trait PluginWorld: Send + Sync + Sized + 'static {
    /// An instance.
    type Guest: Send + Sync;

    /// Whether a component is of this world, and wants nothing that this world has not.
    fn check(shape: &ComponentShape) -> Result<(), Failure>;

    /// What the world offers.
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

/// Judges bytes before the compiler sees them: the pool would refuse them there, in words of its own.
pub(crate) fn check_bytes<W: PluginWorld>(limits: &Limits, bytes: &[u8]) -> Result<(), Failure> {
    let shape = inspect::shape(bytes)?;
    W::check(&shape)?;
    shape.needs.check(limits)
}

/// Compiles in this process.
pub(crate) fn compile(parts: &EngineParts, bytes: &[u8]) -> Result<Component, Failure> {
    Component::new(&parts.engine, bytes).map_err(invalid)
}

/// Takes up what the same engine compiled before.
///
/// The caller has made sure that `artefact` is what this build wrote: its digest is kept apart from it.
#[allow(unsafe_code)]
pub(crate) fn deserialize(parts: &EngineParts, artefact: &[u8]) -> Result<Component, Failure> {
    // SAFETY: the bytes were written by `precompile` and have not changed since, as the caller's check of their digest shows.
    unsafe { Component::deserialize(&parts.engine, artefact) }.map_err(invalid)
}

/// Checks what a compiled component needs, and links it.
pub(crate) fn link<W: PluginWorld>(
    parts: &EngineParts,
    limits: &Limits,
    digest: Digest,
    component: &Component,
) -> Result<LinkedComponent<W>, Failure> {
    let needs = needs(component)?;
    needs.check(limits)?;
    let slots = needs.memories.div_ceil(Limits::MEMORIES_PER_SLOT).max(needs.tables.div_ceil(Limits::TABLES_PER_SLOT));
    let pre = W::linker(parts).instantiate_pre(component).and_then(W::new).map_err(invalid)?;
    Ok(LinkedComponent { digest, pre, slots: slots.max(1) })
}

/// What all instances of the component's modules want: one module may be in it several times.
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

/// wasmtime's words about bytes that it does not accept, on one line.
pub(crate) fn invalid(error: wasmtime::Error) -> Failure {
    Failure::InvalidComponent(text::excerpt(&format!("{error:#}"), 400))
}
