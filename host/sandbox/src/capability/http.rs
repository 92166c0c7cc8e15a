//! `patchbay:host/http`: requests to the origins that the operator granted.

use std::time::Duration;

use patchbay_policy::{Capability, Permits};

use crate::{
    BoxFuture, Fault,
    bindings::patchbay::host::{http as wit, types::Error as WitError},
    state::{Reach, State},
};

/// A request as a guest makes it: nothing in it has been checked.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Credentials that the host is to put in.
    pub auth: Vec<Auth>,
    /// The body, if it has one.
    pub body: Option<Vec<u8>>,
    /// How long it may take, at most what is left to the call.
    pub timeout: Duration,
}

/// A credential and where it goes. The guest names it and never sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The credential's name.
    pub credential: String,
    /// Where it goes.
    pub placement: Placement,
}

/// Where a credential goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A header.
    Header {
        /// Its name.
        name: String,
        /// What stands before the secret, such as `Bearer `.
        prefix: String,
    },
    /// A parameter of the query.
    Query(String),
}

/// An answer, bounded and scrubbed of every secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

/// Who sends requests: checks each against what the call may do, and sends it by the process's one way out.
pub trait Http: Send + Sync {
    /// Whether a request to `url` may be sent at all, before anything of its body is accepted.
    ///
    /// # Errors
    /// The [`Fault`] that [`Http::send`] would return for it.
    fn check(&self, url: &str, permits: &Permits) -> Result<(), Fault>;

    /// Sends a request. Gives the answer and the capabilities that it took.
    fn send<'a>(
        &'a self,
        request: HttpRequest,
        permits: &'a Permits,
    ) -> BoxFuture<'a, Result<(HttpResponse, Vec<Capability>), Fault>>;
}

/// Whether a request to `url` may be sent.
pub(crate) fn check(reach: &Reach, url: &str) -> Result<(), WitError> {
    reach.services.http.check(url, &reach.permits).map_err(|fault| reach.tell(fault))
}

/// The one function behind `patchbay:host/http` and `wasi:http`.
pub(crate) async fn send(reach: &Reach, request: HttpRequest) -> Result<HttpResponse, WitError> {
    match reach.services.http.send(request, &reach.permits).await {
        Ok((response, used)) => {
            used.iter().for_each(|capability| reach.note_use(capability));
            Ok(response)
        }
        Err(fault) => Err(reach.tell(fault)),
    }
}

impl wit::Host for State {
    async fn send(&mut self, request: wit::Request) -> wasmtime::Result<Result<wit::Response, WitError>> {
        self.count_host_call()?;
        let reach = match self.reach() {
            Ok(reach) => reach,
            Err(denied) => return Ok(Err(denied)),
        };
        let left = self.budget.time_left();
        let timeout = request.timeout_ms.map_or(left, |ms| left.min(Duration::from_millis(ms.into())));
        let pair = |pair: wit::Pair| (pair.name, pair.value);
        let request = HttpRequest {
            method: request.method,
            url: request.url,
            headers: request.headers.into_iter().map(pair).collect(),
            auth: request.auth.into_iter().map(auth).collect(),
            body: request.body,
            timeout,
        };
        let answer = send(reach, request).await.map(|HttpResponse { status, headers, body }| {
            let pair = |(name, value)| wit::Pair { name, value };
            wit::Response { status, headers: headers.into_iter().map(pair).collect(), body }
        });
        Ok(answer)
    }
}

fn auth(auth: wit::Auth) -> Auth {
    let placement = match auth.placement {
        wit::Placement::Header(wit::Pair { name, value }) => Placement::Header { name, prefix: value },
        wit::Placement::Query(name) => Placement::Query(name),
    };
    Auth { credential: auth.credential, placement }
}
