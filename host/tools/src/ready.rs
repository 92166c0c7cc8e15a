//! Components that are ready to be called: loaded, with the schemas of their tools compiled. Made once a digest, as long as there is room.

use std::{collections::BTreeMap, sync::Arc};

use jsonschema::Validator;
use patchbay_core::{Digest, Name};
use patchbay_sandbox::{Failure, Loaded};
use patchbay_skill::Skill;
use patchbay_store::StoreError;

use crate::{Tools, schema};

pub(crate) struct Ready {
    pub(crate) component: Arc<Loaded>,
    validators: BTreeMap<Name, Validator>,
}

/// Why a component is not ready.
pub(crate) enum NotReady {
    Store(StoreError),
    Failure(Failure),
}

impl Ready {
    /// The schema of one of its tools.
    pub(crate) fn validator(&self, tool: &Name) -> Option<&Validator> {
        self.validators.get(tool)
    }
}

impl Tools {
    /// The component `digest` of `skill`.
    pub(crate) async fn ready(&self, skill: &Skill, digest: Digest) -> Result<Arc<Ready>, NotReady> {
        if let Some(ready) = self.held.ready.get(&digest) {
            return Ok(ready);
        }
        let bytes = self.store.component(&digest).map_err(NotReady::Store)?;
        let component = self.sandbox.load(digest, bytes).await.map_err(NotReady::Failure)?;
        let mut validators = BTreeMap::new();
        for tool in skill.tools.iter() {
            let validator = schema::compile(&tool.input_schema)
                .map_err(|problem| NotReady::Failure(Failure::InvalidComponent(problem)))?;
            validators.insert(tool.name.clone(), validator);
        }
        let ready = Arc::new(Ready { component, validators });
        self.held.ready.keep(digest, Arc::clone(&ready));
        Ok(ready)
    }
}
