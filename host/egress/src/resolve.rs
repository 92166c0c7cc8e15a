//! Looks up names and checks their addresses. The HTTP library calls it, and connects only to checked addresses.

use std::{future::Future, io, net::IpAddr, net::SocketAddr, pin::Pin, sync::Arc};

use reqwest::dns::{Addrs, Name, Resolve};

use crate::{AddressScope, EgressError};

/// The future of [`Resolver::resolve`], which returns the addresses of a name.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up names, once for each connection.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of `host`, a name in lower case, in the order in which they are tried.
    fn resolve(&self, host: &str) -> Resolving;
}

/// Resolves names with the system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> Resolving {
        let host = host.to_owned();
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

/// Looks up a name and checks its addresses. The HTTP library connects to exactly the addresses returned here, without another
/// lookup.
pub(crate) struct CheckedResolver {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) reach: AddressScope,
}

impl CheckedResolver {
    /// Returns the addresses of `host`. A single refused address refuses the whole name, because legitimate names do
    /// not have such addresses.
    async fn addresses(resolving: Resolving, host: String, reach: AddressScope) -> Result<Vec<IpAddr>, EgressError> {
        let addresses =
            resolving.await.map_err(|error| EgressError::Resolve { host: host.clone(), cause: error.to_string() })?;
        if addresses.is_empty() {
            return Err(EgressError::Resolve { host, cause: "it has no address".to_owned() });
        }
        for address in &addresses {
            reach.check(&host, *address)?;
        }
        Ok(addresses)
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> reqwest::dns::Resolving {
        let host = name.as_str().to_owned();
        let (resolving, reach) = (self.resolver.resolve(&host), self.reach);
        Box::pin(async move {
            let addresses = Self::addresses(resolving, host, reach).await?;
            // The library replaces port 0 with the port of the request.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
