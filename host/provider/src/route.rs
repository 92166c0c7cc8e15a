//! Routes requests: the model prefixes that select a provider, its base URL, and the path of a request below it.
//!
//! - [`prefix`]: whether a prefix matches a model's name. The registry uses it.
//! - [`Base`]: the base URL of a provider. The registry parses it once for each provider.
//! - [`join`]: the URL of one request. The exchange calls it for each request of an adapter.
//! - [`Route`]: everything that one completion needs of its provider.

mod base;
mod path;
pub(crate) mod prefix;

use std::sync::Arc;

use patchbay_core::Name;
use patchbay_egress::SecretRef;
use patchbay_sandbox::adapter::LoadedAdapter;

pub(crate) use self::{
    base::Base,
    path::{JoinError, join},
};

/// The provider data that one completion needs. It is copied from the registry once, because a reload must not affect a
/// running completion.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) provider: Name,
    pub(crate) adapter: Arc<LoadedAdapter>,
    /// Where its requests go; `None` for a provider that sends none.
    pub(crate) base: Option<Base>,
    /// Its credential; `None` if it needs none.
    pub(crate) credential: Option<RouteCredential>,
    /// The operator's options for the adapter: names and values.
    pub(crate) options: Vec<(String, String)>,
    /// The known facts about the model, as JSON; `None` if nothing is known.
    pub(crate) model_facts: Option<String>,
}

/// The credential of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteCredential {
    /// The adapter's name for it.
    pub(crate) id: String,
    /// The key, under the provider's name.
    pub(crate) secret: SecretRef,
    /// The page where the user can get a key, if the adapter names one.
    pub(crate) obtain_url: Option<String>,
}
