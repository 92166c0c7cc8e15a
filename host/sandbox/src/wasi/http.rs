//! Implements `wasi:http` with the checks and the sender of `patchbay:host/http`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header, request::Parts};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::Semaphore;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::{
    Budget, HttpRequest, HttpResponse,
    bindings::patchbay::host::types::Error as WitError,
    capability,
    limiter::{Memory, Reservation},
    state::{CallAccess, GuestState},
};

/// Concurrent requests of one call. Further requests wait, and their bodies are not read yet.
const AT_ONCE: usize = 4;
/// Bytes of one write to a request's body; two such writes can wait to be read.
const CHUNK: usize = 64 << 10;
/// The same for a guest that cannot send requests. This is enough to reach the error.
const CHUNK_IN_VAIN: usize = 4 << 10;

/// Sends the requests of a guest that uses `wasi:http`.
pub(super) struct Hooks {
    /// `None` if no capability is granted.
    access: Option<Arc<CallAccess>>,
    budget: Budget,
    /// Counts bodies until the guest has read them.
    memory: Arc<Memory>,
    request_permits: Arc<Semaphore>,
}

impl Hooks {
    pub(super) fn new(state: &GuestState) -> Self {
        let memory = Arc::clone(state.limiter.memory());
        let request_permits = Arc::new(Semaphore::new(AT_ONCE));
        Self { access: state.access.clone(), budget: state.budget.clone(), memory, request_permits }
    }
}

type SendResult = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for Hooks {
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        if self.access.is_some() { CHUNK } else { CHUNK_IN_VAIN }
    }

    /// False, because egress sets the header `Host`.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = SendResult> + Send> {
        let (access, budget) = (self.access.clone(), self.budget.clone());
        let (memory, request_permits) = (Arc::clone(&self.memory), Arc::clone(&self.request_permits));
        Box::new(async move {
            // The permit is checked first: without it, no byte of the body is read, and buffered bytes are freed.
            let access = access.ok_or(Error::HttpRequestDenied)?;
            let (parts, streamed) = request.into_parts();
            let mut request = head(&parts)?;
            let permits = capability::http::check(&access, &request, !streamed.is_end_stream()).await.map_err(error)?;
            let _slot = request_permits.acquire().await;
            let mut body = memory.reserve();
            request.body = read(streamed, &budget, &mut body).await?;
            request.timeout = timeout(&budget, options.as_ref());
            let response = capability::http::send(&access, request, &permits).await.map_err(error)?;
            drop(body);
            let io: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
            Ok((answer(response, memory.reserve())?, io))
        })
    }
}

/// Returns a request without its body and its time limit.
fn head(parts: &Parts) -> Result<HttpRequest, Error> {
    let mut headers = Vec::with_capacity(parts.headers.len());
    for (name, value) in &parts.headers {
        // The host computes this header from the body.
        if name == header::CONTENT_LENGTH {
            continue;
        }
        let value = value
            .to_str()
            .map_err(|_| Error::HttpRequestHeaderSize { field_name: Some(name.to_string()), field_size: None })?;
        headers.push((name.to_string(), value.to_owned()));
    }
    Ok(HttpRequest {
        method: parts.method.to_string(),
        url: parts.uri.to_string(),
        headers,
        auth: Vec::new(),
        body: None,
        timeout: Duration::ZERO,
    })
}

/// Reads a whole body; `None` if it is empty. Its size is limited like all output of a guest, and counted in `kept`.
async fn read(mut body: WasiBody, budget: &Budget, kept: &mut Reservation) -> Result<Option<Vec<u8>>, Error> {
    let limit = budget.host_call_bytes;
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame?.into_data() else { continue };
        if whole.len() + data.len() > limit || !kept.grow(data.len()) {
            return Err(Error::HttpRequestBodySize(Some(limit as u64)));
        }
        whole.extend_from_slice(&data);
    }
    Ok((!whole.is_empty()).then_some(whole))
}

/// Returns the time limit of a request that is sent now.
fn timeout(budget: &Budget, options: Option<&RequestOptions>) -> Duration {
    let left = budget.clock.time_left();
    options.and_then(|options| options.first_byte_timeout).map_or(left, |asked| left.min(asked))
}

/// The body of a response, counted as the call's memory until it is dropped.
struct ReservedBody {
    body: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

fn answer(response: HttpResponse, mut reservation: Reservation) -> Result<Response<WasiBody>, Error> {
    let HttpResponse { status, headers, body } = response;
    if !reservation.grow(body.len()) {
        return Err(Error::HttpResponseBodySize(Some(body.len() as u64)));
    }
    let body = Bytes::from_owner(ReservedBody { body, _reservation: reservation });
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(status).body(body).map_err(|_| Error::HttpProtocolError)?;
    for (name, value) in headers {
        // A header that cannot be represented is omitted; the response is kept.
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
            answer.headers_mut().append(name, value);
        }
    }
    Ok(answer)
}

/// Returns the error of `wasi:http` for a failure.
fn error(error: WitError) -> Error {
    match error.kind.as_str() {
        "denied" => Error::HttpRequestDenied,
        "timeout" => Error::HttpResponseTimeout,
        "too-large" => Error::HttpResponseBodySize(None),
        "invalid" => Error::HttpRequestUriInvalid,
        _ => Error::InternalError(Some(error.message)),
    }
}
