use patchbay_core::{Digest, text};
use wasmtime::component::Component;

use crate::{
    Failure, Limits,
    bindings::SkillPluginPre,
    engine::Machine,
    inspect::{self, Needs},
    state::State,
};

/// The world that a skill's component implements. Answers are kept by digest and world.
pub const WORLD: &str = "patchbay:skill@0.1";

/// A compiled and checked component, ready to be instantiated.
pub struct Loaded {
    pub(crate) digest: Digest,
    pub(crate) pre: SkillPluginPre<State>,
    /// Slots of the pool that one instance takes.
    pub(crate) slots: u32,
}

impl Loaded {
    /// The digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Judges bytes before the compiler sees them: the pool would refuse them there, in words of its own.
pub(crate) fn judge(limits: &Limits, bytes: &[u8]) -> Result<(), Failure> {
    let shape = inspect::shape(bytes)?;
    shape.check_skill()?;
    shape.needs.check(limits)
}

/// Compiles in this process.
pub(crate) fn compile(machine: &Machine, bytes: &[u8]) -> Result<Component, Failure> {
    Component::new(&machine.engine, bytes).map_err(invalid)
}

/// Takes up what the same engine compiled before.
///
/// The caller has made sure that `artefact` is what this build wrote: its digest is kept apart from it.
#[allow(unsafe_code)]
pub(crate) fn revive(machine: &Machine, artefact: &[u8]) -> Result<Component, Failure> {
    // SAFETY: the bytes were written by `precompile` and have not changed since, as the caller's check of their digest shows.
    unsafe { Component::deserialize(&machine.engine, artefact) }.map_err(invalid)
}

/// Checks what a compiled component needs, and links it.
pub(crate) fn link(
    machine: &Machine,
    limits: &Limits,
    digest: Digest,
    component: &Component,
) -> Result<Loaded, Failure> {
    let needs = needs(component)?;
    needs.check(limits)?;
    let slots = needs.memories.div_ceil(Limits::MEMORIES_PER_SLOT).max(needs.tables.div_ceil(Limits::TABLES_PER_SLOT));
    let pre = machine.linker.instantiate_pre(component).map_err(invalid)?;
    let pre = SkillPluginPre::new(pre).map_err(invalid)?;
    Ok(Loaded { digest, pre, slots: slots.max(1) })
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
