use std::sync::Arc;

use patchbay_core::Name;
use patchbay_egress::Origin;
use patchbay_sandbox::adapter::LoadedAdapter;

/// All that a completion needs to know of its provider: the adapter that serves it to its end, whatever the registry becomes
/// meanwhile, and what the operator decided.
#[derive(Clone)]
pub(crate) struct Route {
    /// The provider.
    pub(crate) provider: Name,
    /// What serves it.
    pub(crate) adapter: Arc<LoadedAdapter>,
    /// Where its requests go; none: it has no network.
    pub(crate) base: Option<Base>,
    /// Its secret; none: it has none.
    pub(crate) credential: Option<RouteCredential>,
    /// The operator's settings for the adapter.
    pub(crate) options: Vec<(String, String)>,
}

/// The base URL of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Whom it asks.
    pub(crate) origin: Origin,
    /// What every path begins with: empty, or `/` and more, without one at its end.
    pub(crate) path: String,
    /// Whether private addresses, and plain http to them, are allowed.
    pub(crate) allow_private: bool,
}

/// The secret of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteCredential {
    /// What the adapter names it by.
    pub(crate) id: String,
    /// The environment variable that may hold it; `credentials.json` has it under the provider's name.
    pub(crate) variable: String,
    /// The page that gives one.
    pub(crate) obtain_url: Option<String>,
}
