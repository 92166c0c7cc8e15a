use patchbay_core::{Digest, text};
use wasmtime::component::Component;

use crate::{
    Failure, Limits,
    bindings::SkillPluginPre,
    call::State,
    engine::Machine,
    inspect::{self, Needs},
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

pub(crate) fn compile(machine: &Machine, limits: &Limits, digest: Digest, bytes: &[u8]) -> Result<Loaded, Failure> {
    let shape = inspect::shape(bytes)?;
    shape.check_skill()?;
    // Judged before the compiler sees it: the pool would refuse it there, in words of its own.
    shape.needs.check(limits)?;
    let component = Component::new(&machine.engine, bytes).map_err(invalid)?;
    let needs = needs(&component)?;
    needs.check(limits)?;
    let slots = needs.memories.div_ceil(Limits::MEMORIES_PER_SLOT).max(needs.tables.div_ceil(Limits::TABLES_PER_SLOT));
    let pre = machine.linker.instantiate_pre(&component).map_err(invalid)?;
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
