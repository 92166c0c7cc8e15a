use std::{future::Future, io, net::IpAddr, net::SocketAddr, pin::Pin, sync::Arc};

use reqwest::dns::{Addrs, Name, Resolve};

use crate::{EgressError, Reach};

/// The addresses of a name, to come.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up names. It is asked once for each connection.
pub trait Resolver: Send + Sync {
    /// The addresses that `host`, a name in lower case, stands for; the first is tried first.
    fn resolve(&self, host: &str) -> Resolving;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Resolver for System {
    fn resolve(&self, host: &str) -> Resolving {
        let host = host.to_owned();
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

/// What stands between a name and the socket: the connection is made to the addresses that come out here, and to no
/// other, so that what was checked is what is dialled.
pub(crate) struct Guard {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) reach: Reach,
}

impl Guard {
    /// The addresses of `host`. If a single one is out of reach the name is refused: an honest name has none.
    async fn addresses(resolving: Resolving, host: String, reach: Reach) -> Result<Vec<IpAddr>, EgressError> {
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

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> reqwest::dns::Resolving {
        let host = name.as_str().to_owned();
        let (resolving, reach) = (self.resolver.resolve(&host), self.reach);
        Box::pin(async move {
            let addresses = Self::addresses(resolving, host, reach).await?;
            // Port 0 is replaced by the request's.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
