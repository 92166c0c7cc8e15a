//! `patchbay:host/http`: requests to the origins that the operator granted.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use patchbay_policy::{Capability, Permits};

use crate::{
    EffectBody, Fault, GuestEffect,
    bindings::patchbay::host::{http as wit, types::Error as WitError},
    state::{CallAccess, GuestState},
};

/// A request of a guest. Nothing is checked yet.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The HTTP method, such as `GET`.
    pub method: String,
    /// The complete URL of the request.
    pub url: String,
    /// Pairs of header names and values.
    pub headers: Vec<(String, String)>,
    /// Credentials that the host adds.
    pub auth: Vec<Auth>,
    /// The body, or `None` for a request without one.
    pub body: Option<Vec<u8>>,
    /// Time limit; at most the rest of the call's time.
    pub timeout: Duration,
}

/// A credential and its placement. The guest names it and never sees the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// The name of the credential to use.
    pub credential: String,
    /// Where the host puts the secret.
    pub placement: RequestedPlacement,
}

/// Where the host puts a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedPlacement {
    /// The secret is put into a header.
    Header {
        /// The name of the header to set.
        name: String,
        /// Text before the secret, such as `Bearer `.
        prefix: String,
    },
    /// The secret is put into the query parameter with this name.
    Query(String),
}

/// A response, bounded and with every secret removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code of the response.
    pub status: u16,
    /// Pairs of header names and values.
    pub headers: Vec<(String, String)>,
    /// The body of the response, decompressed.
    pub body: Vec<u8>,
}

/// The response, and the capabilities that the request used.
pub type HttpFuture<'a> = BoxFuture<'a, Result<(HttpResponse, Vec<Capability>), Fault>>;

/// Sends requests: checks each against the permits and sends it through `egress`.
pub trait Http: Send + Sync {
    /// Checks whether a request to `url` with the credentials of `auth` is permitted, before any of its body is accepted.
    ///
    /// # Errors
    /// The [`Fault`] that [`Http::send`] would return for this request.
    fn check(&self, url: &str, auth: &[Auth], permits: &Permits) -> Result<(), Fault>;

    /// Sends a request. Returns the response and the capabilities that it used.
    fn send<'a>(&'a self, request: HttpRequest, permits: &'a Permits) -> HttpFuture<'a>;
}

impl HttpRequest {
    /// Returns the effect of sending it with `body`.
    fn effect<'a>(&'a self, body: EffectBody<'a>) -> GuestEffect<'a> {
        GuestEffect::Request { method: &self.method, url: &self.url, headers: &self.headers, auth: &self.auth, body }
    }
}

/// Checks whether a request is permitted before its body is read. Only `has_body` is known about the body. May ask the user.
/// Returns the permits for [`send`].
pub(crate) async fn check(access: &CallAccess, head: &HttpRequest, has_body: bool) -> Result<Arc<Permits>, WitError> {
    let effect = head.effect(if has_body { EffectBody::Streamed } else { EffectBody::None });
    let checked = access.permitted(effect, |permits| access.services.http.check(&head.url, &head.auth, permits)).await;
    checked.map_err(|fault| access.guest_error(fault))
}

/// Sends a request with `permits`, which apply only to this request.
pub(crate) async fn send(
    access: &CallAccess,
    request: HttpRequest,
    permits: &Permits,
) -> Result<HttpResponse, WitError> {
    match access.services.http.send(request, permits).await {
        Ok((response, used)) => {
            used.iter().for_each(|capability| access.note_use(capability));
            Ok(response)
        }
        Err(fault) => Err(access.guest_error(fault)),
    }
}

/// Checks and sends a request whose body is known. May ask the user.
async fn ask_and_send(access: &CallAccess, request: HttpRequest) -> Result<HttpResponse, WitError> {
    let permits = if access.services.permit_source.is_some() {
        let effect = request.effect(request.body.as_deref().map_or(EffectBody::None, EffectBody::Whole));
        let check = |permits: &Permits| access.services.http.check(&request.url, &request.auth, permits);
        match Box::pin(access.permitted(effect, check)).await {
            Ok(permits) => permits,
            Err(fault @ Fault::Denied(_)) => return Err(access.guest_error(fault)),
            // `send` reports the failure, after it has checked the rest of the request.
            Err(Fault::Failed { .. }) => access.permits(),
        }
    } else {
        let effect = request.effect(request.body.as_deref().map_or(EffectBody::None, EffectBody::Whole));
        if let Some(denial) = access.gate_denial(effect) {
            return Err(access.deny(denial));
        }
        access.permits()
    };
    send(access, request, &permits).await
}

impl wit::Host for GuestState {
    async fn send(&mut self, request: wit::Request) -> wasmtime::Result<Result<wit::Response, WitError>> {
        self.count_host_call()?;
        let access = or_return!(self.access().map(Arc::clone));
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
        let answer = ask_and_send(&access, request).await.map(|HttpResponse { status, headers, body }| {
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
