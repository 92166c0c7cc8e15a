//! `wasi:http` by the way of `patchbay:host/http`: the same checks, the same way out, no sender of its own.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::{
    Budget, HttpRequest, HttpResponse,
    bindings::patchbay::host::types::Error as WitError,
    capability,
    state::{Reach, State},
};

/// What sends the requests of a guest that speaks `wasi:http`.
pub(super) struct Hooks {
    /// None where nothing is granted.
    reach: Option<Reach>,
    budget: Budget,
}

impl Hooks {
    pub(super) fn new(state: &State) -> Self {
        Self { reach: state.reach.clone(), budget: state.budget.clone() }
    }
}

type Sent = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for Hooks {
    /// Egress sets it.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let (reach, budget) = (self.reach.clone(), self.budget.clone());
        Box::new(async move {
            let reach = reach.ok_or(Error::HttpRequestDenied)?;
            let request = read(request, &budget, options.as_ref()).await?;
            let response = capability::http::send(&reach, request).await.map_err(error)?;
            let io: Box<dyn Future<Output = Result<(), Error>> + Send> = Box::new(async { Ok(()) });
            Ok((answer(response)?, io))
        })
    }
}

/// The whole request, its body bounded as everything that a guest hands out.
async fn read(
    request: Request<WasiBody>,
    budget: &Budget,
    options: Option<&RequestOptions>,
) -> Result<HttpRequest, Error> {
    let (parts, body) = request.into_parts();
    let limit = budget.output_bytes;
    let body = Limited::new(body, limit).collect().await.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(_) => Error::HttpRequestBodySize(Some(limit as u64)),
    })?;
    let body = body.to_bytes();
    let mut headers = Vec::with_capacity(parts.headers.len());
    for (name, value) in &parts.headers {
        // It follows from the body.
        if name == header::CONTENT_LENGTH {
            continue;
        }
        let value = value
            .to_str()
            .map_err(|_| Error::HttpRequestHeaderSize { field_name: Some(name.to_string()), field_size: None })?;
        headers.push((name.to_string(), value.to_owned()));
    }
    let mut timeout = budget.time_left();
    if let Some(asked) = options.and_then(|options| options.first_byte_timeout) {
        timeout = timeout.min(asked);
    }
    Ok(HttpRequest {
        method: parts.method.to_string(),
        url: parts.uri.to_string(),
        headers,
        auth: Vec::new(),
        body: (!body.is_empty()).then(|| body.to_vec()),
        timeout,
    })
}

fn answer(response: HttpResponse) -> Result<Response<WasiBody>, Error> {
    let HttpResponse { status, headers, body } = response;
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::builder().status(status).body(body).map_err(|_| Error::HttpProtocolError)?;
    for (name, value) in headers {
        // A header that this form cannot hold is left out rather than the whole answer.
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
            answer.headers_mut().append(name, value);
        }
    }
    Ok(answer)
}

/// The words of `wasi:http` for what went wrong.
fn error(error: WitError) -> Error {
    match error.kind.as_str() {
        "denied" => Error::HttpRequestDenied,
        "timeout" => Error::HttpResponseTimeout,
        "too-large" => Error::HttpResponseBodySize(None),
        "invalid" => Error::HttpRequestUriInvalid,
        _ => Error::InternalError(Some(error.message)),
    }
}
