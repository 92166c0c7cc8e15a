//! The open request of an attempt: its head, its body in chunks of bounded size, and its deadlines. Driven by `in_flight`.

use std::{pin::Pin, time::SystemTime};

use bytes::BytesMut;
use patchbay_egress::{Answer, Egress, EgressError, LimitKey, Request};
use patchbay_sandbox::adapter::{Input, TransportKind};
use tokio::time::{Instant, timeout_at};

use super::{AttemptStop, Violation, retry_after};
use crate::ExchangeLimits;

/// Maximum size of one chunk for an adapter, in bytes: room for many events, and a bound for the work of one step.
const CHUNK_BYTES: usize = 16 << 10;

/// A request and its response. Dropping it closes the connection, unless the response is complete.
pub(super) struct PendingRequest {
    state: State,
    /// When the wait for the next data times out; `None` while the adapter runs and nothing waits.
    until: Option<Instant>,
    /// Whether data of the body has arrived.
    begun: bool,
    /// Data that has arrived but was not returned yet.
    buffer: BytesMut,
    /// How the body ended, which may be known before `buffer` is empty.
    end: Option<Result<(), EgressError>>,
    limits: ExchangeLimits,
}

enum State {
    /// The head of the response has not arrived.
    Opening(Pin<Box<dyn Future<Output = Result<Answer, EgressError>> + Send>>),
    Body(Box<Answer>),
}

/// Why the rest of a response does not arrive.
enum Loss {
    /// The first byte of the body did not arrive within `exchange.first_byte_ms`.
    FirstByte,
    /// No further data arrived within `exchange.idle_ms`.
    Idle,
    Egress(EgressError),
}

impl From<EgressError> for Loss {
    fn from(error: EgressError) -> Self {
        Self::Egress(error)
    }
}

impl PendingRequest {
    /// Returns a request that is sent on the first call of [`PendingRequest::next`]. Its first deadline runs from now.
    pub(super) fn new(egress: &Egress, request: Request, limits: &ExchangeLimits) -> Self {
        let egress = egress.clone();
        Self {
            state: State::Opening(Box::pin(async move { egress.open(request).await })),
            until: Some(Instant::now() + limits.first_byte()),
            begun: false,
            buffer: BytesMut::new(),
            end: None,
            limits: limits.clone(),
        }
    }

    /// Returns the next input for the adapter. Must not be called again after [`Input::End`], [`Input::TransportFailed`] or an
    /// error. Dropping the future loses no data.
    pub(super) async fn next(&mut self) -> Result<Input, AttemptStop> {
        match self.receive().await {
            Ok(input) => Ok(input),
            Err(loss) => transport_failed(loss, &self.limits),
        }
    }

    async fn receive(&mut self) -> Result<Input, Loss> {
        let limits = &self.limits;
        let until = *self.until.get_or_insert_with(|| Instant::now() + limits.idle());
        let silent = |begun: bool| if begun { Loss::Idle } else { Loss::FirstByte };
        let answer = match &mut self.state {
            State::Opening(opening) => {
                let mut answer = timeout_at(until, opening).await.map_err(|_| silent(self.begun))??;
                let (status, mut headers) = (answer.status, std::mem::take(&mut answer.headers));
                retry_after::date_to_seconds(&mut headers, SystemTime::now());
                self.state = State::Body(Box::new(answer));
                return Ok(Input::Head { status, headers });
            }
            State::Body(answer) => answer,
        };
        let mut until = until;
        while self.buffer.is_empty() && self.end.is_none() {
            match timeout_at(until, answer.chunk()).await.map_err(|_| silent(self.begun))? {
                Ok(Some(piece)) => self.buffer.extend_from_slice(&piece),
                Ok(None) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
            self.begun = true;
            // A withheld piece counts as data: restart the idle timer.
            until = Instant::now() + limits.idle();
            self.until = Some(until);
        }
        // A server may send small pieces faster than an adapter can process them, so all pieces that have arrived are
        // joined into one chunk.
        while self.buffer.len() < CHUNK_BYTES && self.end.is_none() {
            // The connection runs in its own task, which delivers its next piece once this one is taken.
            tokio::task::yield_now().await;
            match answer.chunk_ready() {
                Some(Ok(Some(piece))) => self.buffer.extend_from_slice(&piece),
                Some(Ok(None)) => self.end = Some(Ok(())),
                Some(Err(error)) => self.end = Some(Err(error)),
                None => break,
            }
        }
        // The time that the adapter takes does not count as silence of the server.
        self.until = None;
        if !self.buffer.is_empty() {
            let length = self.buffer.len().min(CHUNK_BYTES);
            return Ok(Input::Chunk(self.buffer.split_to(length).to_vec()));
        }
        match self.end.clone() {
            None | Some(Ok(())) => Ok(Input::End),
            Some(Err(error)) => Err(error.into()),
        }
    }
}

/// Returns the input that reports `loss` to the adapter.
///
/// # Errors
/// An [`AttemptStop`] if the adapter could not continue, because the request itself is invalid, or because the operator's base URL
/// may not be requested.
fn transport_failed(loss: Loss, limits: &ExchangeLimits) -> Result<Input, AttemptStop> {
    let failed = |kind, message| Ok(Input::TransportFailed { kind, message });
    let error = match loss {
        Loss::FirstByte => {
            let ms = limits.first_byte_ms;
            let message =
                format!("the first byte of the response took longer than {ms} ms, the limit 'exchange.first_byte_ms'");
            return failed(TransportKind::Timeout, message);
        }
        Loss::Idle => {
            let ms = limits.idle_ms;
            let message =
                format!("the next part of the response took longer than {ms} ms, the limit 'exchange.idle_ms'");
            return failed(TransportKind::Timeout, message);
        }
        Loss::Egress(error) => error,
    };
    // Messages name keys of `[exchange]`, but not of `[egress]`, which does not apply to providers.
    match &error {
        EgressError::Timeout { what, key, ms } => {
            // `connect_ms` has the same name in both tables; the other egress times are longer than the exchange's.
            let message = format!("{what} took longer than {ms} ms, the limit 'exchange.{key}'");
            failed(TransportKind::Timeout, message)
        }
        EgressError::Deadline { .. } => failed(TransportKind::Timeout, error.to_string()),
        EgressError::Resolve { .. } | EgressError::Connect { .. } | EgressError::Tls { .. } => {
            failed(TransportKind::Connect, error.to_string())
        }
        EgressError::Truncated { .. } => failed(TransportKind::Reset, error.to_string()),
        EgressError::Protocol { .. } | EgressError::Encoding { .. } => failed(TransportKind::Failed, error.to_string()),
        EgressError::HeadTooLarge { headers, bytes } => {
            let message = format!("the response head exceeds the limit of {headers} headers or {bytes} bytes");
            failed(TransportKind::TooLarge, message)
        }
        EgressError::TooLarge { what, key, limit } => match key {
            LimitKey::RequestHeaders | LimitKey::RequestHeaderBytes | LimitKey::RequestBytes => {
                Err(unsendable(format_args!("the {what} is over {limit}")).into())
            }
            LimitKey::WireBytes | LimitKey::BodyBytes => failed(TransportKind::TooLarge, too_large(limits)),
            _ => failed(TransportKind::TooLarge, format!("the {what} is over {limit}")),
        },
        EgressError::Request(error) => Err(unsendable(error).into()),
        // Only the operator can change these.
        EgressError::Url(_)
        | EgressError::NotCovered { .. }
        | EgressError::PlainHttp { .. }
        | EgressError::Address { .. }
        | EgressError::Origin { .. }
        | EgressError::Setup { .. } => Err(AttemptStop::Refused(error)),
    }
}

/// Returns the message for a response over the limit.
pub(super) fn too_large(limits: &ExchangeLimits) -> String {
    format!("the response is over {} bytes, the limit 'exchange.answer_bytes'", limits.answer_bytes)
}

fn unsendable(why: impl std::fmt::Display) -> Violation {
    Violation::of_contract(format!("made a request that cannot be sent: {why}"))
}
