//! Pins models at the first start with the home of an older build: agents keep the provider that has answered them, even if the
//! name of their model now belongs to another provider.

use patchbay_agent::{Chosen, ModelOverride};
use patchbay_core::text;
use patchbay_provider::MovedName;
use patchbay_store::{AgentModel, PinnedModels, StoreError};

use crate::Host;

impl Host {
    /// Stores the providers of agents whose model's name belongs to another provider in this build. Must be called before agents
    /// are read. Returns a notice if `default_model` is such a name. Only the first call for a home does anything.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub(crate) async fn pin_models(&self) -> Result<Option<String>, StoreError> {
        if !self.store.has_unpinned_models().await? {
            return Ok(None);
        }
        let default = match self.providers.default_model().await {
            Some(text) => self.providers.moved(&text).await?.map(|moved| (text, moved)),
            None => None,
        };
        let chosen = |moved: &MovedName| Chosen { model: Some(moved.from.clone()), model_override: None };
        let mut pinned =
            PinnedModels { default: default.as_ref().map(|(_, moved)| chosen(moved).to_row()), overrides: Vec::new() };
        for json in self.store.model_overrides().await? {
            let Some(ModelOverride::Model(name)) = serde_json::from_str(&json).ok() else { continue };
            let Some(MovedName { from, .. }) = self.providers.moved(&name).await? else { continue };
            let replacement = Chosen { model: None, model_override: Some(ModelOverride::Model(from.as_argument())) };
            let AgentModel { model_override, .. } = replacement.to_row();
            pinned.overrides.extend(model_override.map(|new| (json, new)));
        }
        let is_first = self.store.pin_models(pinned).await?;
        Ok(default.filter(|_| is_first).map(|(text, MovedName { from, to })| {
            let (old, new, name) = (&from.provider, &to.provider, from.as_argument());
            format!(
                "default_model '{}' now belongs to provider '{new}', no longer to '{old}'. Agents of earlier sessions keep \
                 '{old}'. To keep it for new agents as well: default_model = \"{name}\" in config.toml.",
                text::excerpt(&text, 80)
            )
        }))
    }
}
