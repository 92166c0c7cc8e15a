use patchbay_core::{Digest, text};
use wasmtime::component::Component;

use crate::{Failure, Limits, bindings::SkillPluginPre, call::State, engine::Machine, inspect};

/// The world that a skill's component implements. Answers are kept by digest and world.
pub const WORLD: &str = "patchbay:skill@0.1";

/// A compiled and checked component, ready to be instantiated.
pub struct Loaded {
    pub(crate) digest: Digest,
    pub(crate) pre: SkillPluginPre<State>,
}

impl Loaded {
    /// The digest of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

pub(crate) fn compile(machine: &Machine, digest: Digest, bytes: &[u8]) -> Result<Loaded, Failure> {
    inspect::shape(bytes)?.check_skill()?;
    let component = Component::new(&machine.engine, bytes).map_err(invalid)?;
    check_resources(&component)?;
    let pre = machine.linker.instantiate_pre(&component).map_err(invalid)?;
    let pre = SkillPluginPre::new(pre).map_err(invalid)?;
    Ok(Loaded { digest, pre })
}

/// What the component needs before it runs a single instruction. Judged here, where it has a name; the pool would only
/// say that it has no room.
fn check_resources(component: &Component) -> Result<(), Failure> {
    let needs = component.resources_required().ok_or_else(|| {
        Failure::InvalidComponent("it imports core modules, which this host does not offer".to_owned())
    })?;
    let too_many = |what: &str, wanted: u64, limit: u64| {
        Err(Failure::Memory { wanted: format!("{wanted} {what}"), limit: format!("{limit}") })
    };
    if needs.num_memories > Limits::MEMORIES {
        return too_many("memories", needs.num_memories.into(), Limits::MEMORIES.into());
    }
    if needs.num_tables > Limits::TABLES {
        return too_many("tables", needs.num_tables.into(), Limits::TABLES.into());
    }
    match needs.max_initial_table_size {
        Some(size) if size > Limits::TABLE_ELEMENTS as u64 => {
            too_many("table elements", size, Limits::TABLE_ELEMENTS as u64)
        }
        _ => Ok(()),
    }
}

/// wasmtime's words about bytes that it does not accept, on one line.
pub(crate) fn invalid(error: wasmtime::Error) -> Failure {
    Failure::InvalidComponent(text::excerpt(&format!("{error:#}"), 400))
}
