//! `patchbay:host/http`: requests to the origins that the operator granted.

use std::{sync::Arc, time::Duration};

use patchbay_policy::{Capability, Permits};

use crate::{
    BoxFuture, Fault,
    bindings::patchbay::host::{http as wit, types::Error as WitError},
    state::{CallAccess, GuestState},
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
    pub placement: RequestedPlacement,
}

/// Where a credential goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPlacement {
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
    /// Checks whether a request to `url` with the credentials of `auth` is permitted, before anything of its body is
    /// accepted.
    ///
    /// # Errors
    /// The [`Fault`] that [`Http::send`] would return for it.
    fn check(&self, url: &str, auth: &[Auth], permits: &Permits) -> Result<(), Fault>;

    /// Sends a request. Gives the answer and the capabilities that it took.
    fn send<'a>(
        &'a self,
        request: HttpRequest,
        permits: &'a Permits,
    ) -> BoxFuture<'a, Result<(HttpResponse, Vec<Capability>), Fault>>;
}

/// Checks whether a request to `url` may be sent. May ask a person.
pub(crate) async fn check(access: &CallAccess, url: &str) -> Result<(), WitError> {
    let checked = access.permitted(|permits| access.services.http.check(url, &[], permits)).await;
    checked.map_err(|fault| access.tell(fault))
}

/// The one function behind `patchbay:host/http` and `wasi:http`. May ask a person.
pub(crate) async fn send(access: &CallAccess, request: HttpRequest) -> Result<HttpResponse, WitError> {
    let http = &access.services.http;
    if access.services.permit_source.is_some() {
        // Whatever else is wrong with the request is for `send` to find.
        let (url, auth) = (&request.url, &request.auth);
        let _ = access.permitted(|permits| http.check(url, auth, permits)).await;
    }
    match http.send(request, &access.permits()).await {
        Ok((response, used)) => {
            used.iter().for_each(|capability| access.note_use(capability));
            Ok(response)
        }
        Err(fault) => Err(access.tell(fault)),
    }
}

impl wit::Host for GuestState {
    async fn send(&mut self, request: wit::Request) -> wasmtime::Result<Result<wit::Response, WitError>> {
        self.count_host_call()?;
        let access = match self.access() {
            Ok(access) => Arc::clone(access),
            Err(denied) => return Ok(Err(denied)),
        };
        let left = self.budget.clock.time_left();
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
        let answer = send(&access, request).await.map(|HttpResponse { status, headers, body }| {
            let pair = |(name, value)| wit::Pair { name, value };
            wit::Response { status, headers: headers.into_iter().map(pair).collect(), body }
        });
        Ok(answer)
    }
}

fn auth(auth: wit::Auth) -> Auth {
    let placement = match auth.placement {
        wit::Placement::Header(wit::Pair { name, value }) => RequestedPlacement::Header { name, prefix: value },
        wit::Placement::Query(name) => RequestedPlacement::Query(name),
    };
    Auth { credential: auth.credential, placement }
}
