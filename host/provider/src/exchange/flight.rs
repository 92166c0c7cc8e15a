//! The one request in flight: its head, its body in pieces of a bounded size, and its deadlines.

use std::pin::Pin;

use bytes::BytesMut;
use patchbay_egress::{Answer, Egress, EgressError, Request, RequestError};
use patchbay_sandbox::adapter::Input;
use tokio::time::{Instant, timeout_at};

use super::{Breach, Stop};
use crate::ExchangeLimits;

/// Bytes of one chunk for an adapter: many events in one step, and no step without end.
const CHUNK: usize = 16 << 10;

/// A request and its answer. Dropping it closes the connection, unless the answer is whole.
pub(super) struct Flight {
    way: State,
    /// When the silence has lasted too long; none while nobody listens.
    until: Option<Instant>,
    /// Whether the body has begun.
    begun: bool,
    /// What came and was not handed on.
    held: BytesMut,
    /// How the body ended, where that is known before all of it is handed on.
    end: Option<Result<(), EgressError>>,
    limits: ExchangeLimits,
}

enum State {
    Opening(Pin<Box<dyn Future<Output = Result<Answer, EgressError>> + Send>>),
    Body(Box<Answer>),
}

impl Flight {
    /// Nothing is sent before it is first listened to; its time runs from now.
    pub(super) fn new(egress: &Egress, request: Request, limits: &ExchangeLimits) -> Self {
        let egress = egress.clone();
        Self {
            way: State::Opening(Box::pin(async move { egress.open(request).await })),
            until: Some(Instant::now() + limits.first_byte()),
            begun: false,
            held: BytesMut::new(),
            end: None,
            limits: limits.clone(),
        }
    }

    /// What comes next. Of no use any more after [`Input::End`], [`Input::TransportFailed`] or an error. A call that is
    /// given up loses nothing.
    pub(super) async fn next(&mut self) -> Result<Input, Stop> {
        match self.listen().await {
            Ok(input) => Ok(input),
            Err(error) => failed(error, &self.limits),
        }
    }

    async fn listen(&mut self) -> Result<Input, EgressError> {
        let limits = &self.limits;
        let until = *self.until.get_or_insert_with(|| Instant::now() + limits.idle());
        let silent = |begun: bool| match begun {
            true => EgressError::Timeout { what: "the next piece of the answer", key: "idle_ms", ms: limits.idle_ms },
            false => EgressError::Timeout {
                what: "the first byte of the answer",
                key: "first_byte_ms",
                ms: limits.first_byte_ms,
            },
        };
        let answer = match &mut self.way {
            State::Opening(opening) => {
                let mut answer = timeout_at(until, opening).await.map_err(|_| silent(self.begun))??;
                let (status, headers) = (answer.status, std::mem::take(&mut answer.headers));
                self.way = State::Body(Box::new(answer));
                return Ok(Input::Head { status, headers });
            }
            State::Body(answer) => answer,
        };
        let mut until = until;
        while self.held.is_empty() && self.end.is_none() {
            match timeout_at(until, answer.chunk()).await.map_err(|_| silent(self.begun))? {
                Ok(Some(piece)) => self.held.extend_from_slice(&piece),
                Ok(None) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
            self.begun = true;
            // A withheld piece counts as data, so that the idle timer starts again.
            until = Instant::now() + limits.idle();
            self.until = Some(until);
        }
        // A server sends small pieces faster than an adapter steps: those that are there go into one.
        while self.held.len() < CHUNK && self.end.is_none() {
            // The connection is a task of its own, which hands on its next piece once this one is taken.
            tokio::task::yield_now().await;
            match answer.chunk_ready() {
                Some(Ok(Some(piece))) => self.held.extend_from_slice(&piece),
                Some(Ok(None)) => self.end = Some(Ok(())),
                Some(Err(error)) => self.end = Some(Err(error)),
                None => break,
            }
        }
        // The adapter's own time is nobody's silence.
        self.until = None;
        if !self.held.is_empty() {
            let length = self.held.len().min(CHUNK);
            return Ok(Input::Chunk(self.held.split_to(length).to_vec()));
        }
        self.end.clone().unwrap_or(Ok(())).map(|()| Input::End)
    }
}

/// What an adapter is told of a failure, or how the exchange ends by it.
fn failed(error: EgressError, limits: &ExchangeLimits) -> Result<Input, Stop> {
    let kind = match &error {
        EgressError::Timeout { .. } | EgressError::Deadline { .. } => "timeout",
        EgressError::Resolve { .. } | EgressError::Connect { .. } | EgressError::Tls { .. } => "connect",
        EgressError::Truncated { .. } => "reset",
        EgressError::Request(error) => return Err(unsendable(error).into()),
        EgressError::TooLarge { what, key: "request_headers" | "request_header_bytes" | "request_bytes", limit } => {
            let what = format!("made a request that cannot be sent: the {what} is over {limit}");
            return Err(Breach::violation(what).into());
        }
        EgressError::TooLarge { .. } | EgressError::HeadTooLarge { .. } => "too-large",
        EgressError::Protocol { .. } | EgressError::Encoding { .. } => "failed",
        // The operator's to mend: no adapter could go on from here.
        EgressError::Url(_)
        | EgressError::NotCovered { .. }
        | EgressError::PlainHttp { .. }
        | EgressError::Address { .. }
        | EgressError::Origin { .. }
        | EgressError::Limit { .. }
        | EgressError::Setup { .. } => return Err(Stop::Refused(error)),
    };
    // In the words of `[exchange]`, which is what the operator can set.
    let message = match &error {
        EgressError::Timeout { what, key, ms } => {
            format!("{what} took longer than {ms} ms, the limit 'exchange.{key}'")
        }
        EgressError::TooLarge { key: "wire_bytes" | "body_bytes", .. } => too_large(limits),
        EgressError::TooLarge { what, limit, .. } => format!("the {what} is over {limit}"),
        EgressError::HeadTooLarge { headers, bytes } => {
            format!("the answer's headers are more than {headers}, or over {bytes} bytes")
        }
        error => error.to_string(),
    };
    Ok(Input::TransportFailed { kind, message })
}

/// What is said of an answer that does not end.
pub(super) fn too_large(limits: &ExchangeLimits) -> String {
    format!("the answer is over {} bytes, the limit 'exchange.answer_bytes'", limits.answer_bytes)
}

fn unsendable(error: &RequestError) -> Breach {
    Breach::violation(format!("made a request that cannot be sent: {error}"))
}
