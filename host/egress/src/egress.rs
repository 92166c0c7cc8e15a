//! Sends requests. Called for the HTTP requests of skills and for the exchanges of providers.

use std::sync::Arc;

use reqwest::{Client, redirect, retry};

use crate::{
    Answer, EgressError, EgressLimits, Request, Resolver, Response, SystemResolver,
    exchange::Exchange,
    permits::SendPermits,
    pools::{Key, Pools},
    resolve::CheckedResolver,
    tls::{Tls, Trust},
};

/// Sends all requests of the process. Cheap to clone.
#[derive(Clone)]
pub struct Egress(Arc<EgressParts>);

struct EgressParts {
    limits: EgressLimits,
    resolver: Arc<dyn Resolver>,
    tls: Tls,
    pools: Pools,
    permits: SendPermits,
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl Egress {
    /// Returns a sender that uses the system's resolver and certificates. It opens neither connections nor files before the first
    /// request.
    pub fn new(limits: EgressLimits) -> Self {
        Self::with(limits, Arc::new(SystemResolver), Trust::System)
    }

    pub(crate) fn with(limits: EgressLimits, resolver: Arc<dyn Resolver>, trust: Trust) -> Self {
        let permits = SendPermits::new(&limits);
        Self(Arc::new(EgressParts { limits, resolver, tls: Tls::new(trust), pools: Pools::default(), permits }))
    }

    /// Sends `request` and returns the whole response, whatever its status.
    ///
    /// # Errors
    /// [`EgressError`]; its [`kind`](EgressError::kind) is the one that plugins see.
    pub async fn send(&self, request: Request) -> Result<Response, EgressError> {
        self.open(request).await?.whole().await
    }

    /// Sends `request` and returns the response once its head has arrived. The body follows in pieces.
    ///
    /// # Errors
    /// [`EgressError`]; its [`kind`](EgressError::kind) is the one that plugins see.
    pub async fn open(&self, request: Request) -> Result<Answer, EgressError> {
        let answer = self.exchange(&request).await;
        // Path and query are not logged: both can be secret.
        let origin = request.target.origin();
        match &answer {
            Ok(answer) => tracing::debug!(%origin, owner = request.owner, status = answer.status, "answered"),
            Err(error) => tracing::debug!(%origin, owner = request.owner, kind = error.kind(), "no response"),
        }
        answer
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, EgressError> {
        let limits = &self.0.limits;
        let (outgoing, scrub) = request.build(limits)?;
        let origin = request.target.origin().clone();
        let exchange = Arc::new(Exchange::new(origin, limits.clone(), scrub, request.timeout));
        let permit = self.0.permits.take(&request.owner);
        let permit = exchange.within("waiting for other requests", permit).await?;
        let answer = async {
            let client = self.client(request).await?;
            client.execute(outgoing).await.map_err(|error| exchange.fault(&error))
        };
        let response = exchange.within("the head of the response", answer).await??;
        Answer::new(response, request, exchange, permit)
    }

    /// Returns the client whose connections the request may use.
    async fn client(&self, request: &Request) -> Result<Client, EgressError> {
        let (key, pools) = (Key::of(request), &self.0.pools);
        if let Some(client) = pools.get(&key) {
            return Ok(client);
        }
        let tls = if key.plain { self.0.tls.plain()? } else { self.0.tls.safe().await? };
        let limits = &self.0.limits;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(CheckedResolver { resolver: self.0.resolver.clone(), reach: key.reach })
            .http1_only()
            .http1_max_headers(limits.response_headers)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .https_only(!key.plain)
            .connect_timeout(limits.connect())
            .pool_idle_timeout(Pools::IDLE)
            .pool_max_idle_per_host(Pools::IDLE_PER_HOST)
            .build()
            .map_err(|error| EgressError::Setup { cause: error.to_string() })?;
        Ok(pools.keep(key, client))
    }
}
