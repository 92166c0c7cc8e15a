//! One provider, put together of what its adapter suggests and what the operator decided.

use std::sync::Arc;

use patchbay_core::Name;

use super::{Consent, Entry, Source};
use crate::{ProviderConfig, Settings, adapters::Adapter, route::Base};

/// A provider as its adapter suggests and the operator decided.
pub(super) fn entry(name: &Name, source: Source, adapter: &Arc<Adapter>, settings: &Settings) -> Entry {
    let manifest = &adapter.manifest;
    let none = ProviderConfig::default();
    let config = settings.providers.get(name).unwrap_or(&none);
    // What the adapter suggests counts for the provider that is called as it is; another instance would collide with it.
    let suggests = source != Source::Config;
    let own_origin = || manifest.default_base_url.clone().filter(|_| suggests);
    let base_url = config.origin.clone().or_else(own_origin);
    let named = config.origin.is_some();
    let own_variable = || {
        let hint = manifest.credential.as_ref()?.env.clone();
        hint.filter(|_| source == Source::Bundled || (source == Source::File && !named))
    };
    let variable = config.env.clone().or_else(own_variable).filter(|variable| !variable.is_empty());
    let own_prefixes = || if suggests { manifest.model_prefixes.clone() } else { Vec::new() };
    let mut models = if suggests { manifest.models.clone() } else { Vec::new() };
    for model in &config.models {
        models.retain(|there| there.id != model.0.id);
        models.push(model.0.clone());
    }
    let (base, refused) = match base_url.as_deref().map(|url| Base::parse(url, config.allow_private)) {
        None if requires_origin(adapter) || (source == Source::Config && manifest.default_base_url.is_some()) => {
            (None, Some(format!("it needs to know where its requests go: origin in [providers.{name}] of config.toml")))
        }
        None => (None, None),
        Some(Ok(base)) => (Some(base), None),
        Some(Err(why)) => {
            let hint =
                if config.allow_private { "" } else { "; for a machine of your own network, allow_private = true" };
            (None, Some(format!("its origin cannot be used: {why}{hint}")))
        }
    };
    let needs_origin = base_url.is_none() && refused.is_some();
    let suggested_here =
        source == Source::File && !named && base_url.as_deref().is_some_and(|url| !Base::is_public(url));
    let refused = refused.or_else(|| {
        suggested_here.then(|| {
            format!(
                "it suggests an origin that is none of the internet; to allow that, name it in [providers.{name}] of \
                 config.toml"
            )
        })
    });
    // Keys lie in one file by name: that of a skill's credential may not go to a provider.
    let skills = variable.is_some() && settings.credentials.contains(name);
    let refused = refused.or_else(|| {
        skills.then(|| {
            format!(
                "its key would be the entry '{name}' of credentials.json, which belongs to [credentials.{name}] of \
                 config.toml; give that table and its entry another name{}",
                if source == Source::Bundled { "" } else { ", or the provider" }
            )
        })
    });
    Entry {
        name: name.clone(),
        source,
        adapter: Arc::clone(adapter),
        base_url,
        base,
        variable,
        prefixes: config.prefixes.clone().unwrap_or_else(own_prefixes),
        models,
        context_window: config.context_window,
        options: config.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        consent: if source == Source::File && !named { Consent::Asked } else { Consent::Given },
        refused,
        needs_origin,
    }
}

fn requires_origin(adapter: &Adapter) -> bool {
    adapter.manifest.extra.iter().any(|(name, _)| name == "requires-origin")
}
