//! The events that an attempt or a listing waits for: the pending request and the timer of its instance,
//! within the limits of the exchange.
//!
//! At most one request and one timer are pending. A new request replaces the previous request, a new timer the previous timer. If
//! both are pending, the instance is resumed with whichever is ready first. A timer that is due comes before response data, because
//! a response may never pause.

use std::time::Duration;

use patchbay_core::completion::Blob;
use patchbay_sandbox::adapter::{AdapterRequest, Input, TransportKind};
use tokio::time::Instant;

use super::{
    AttemptStop, Keys, RequestTarget, Violation,
    pending_request::{self, PendingRequest},
    report::LostConnection,
    request,
};

/// The longest timer that the clock supports. Every exchange ends long before.
const LONGEST_TIMER: Duration = Duration::from_secs(u32::MAX as u64);

/// The pending request and timer of one instance.
pub(super) struct InFlight<'a> {
    target: &'a RequestTarget<'a>,
    /// When the exchange times out.
    until: Instant,
    pending: Option<PendingRequest>,
    timer: Option<Instant>,
    /// Number of requests that the adapter has made so far.
    requests: u32,
    /// Bytes of response bodies received so far.
    received: u64,
    /// The connection that failed last, unless another request followed.
    lost: Option<LostConnection>,
    /// The status of the last response.
    status: Option<u16>,
}

impl<'a> InFlight<'a> {
    /// Returns the state with nothing pending, which times out `exchange.total_ms` from now.
    pub(super) fn new(target: &'a RequestTarget<'a>) -> Self {
        let until = Instant::now() + target.limits.total();
        Self { target, until, pending: None, timer: None, requests: 0, received: 0, lost: None, status: None }
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// Returns the connection that failed last, unless another request followed.
    pub(super) fn lost(&self) -> Option<&LostConnection> {
        self.lost.as_ref()
    }

    /// Whether the last response had the status 401.
    pub(super) fn is_unauthorized(&self) -> bool {
        self.status == Some(401)
    }

    /// Whether the provider cannot have charged for a request: none was sent, the connection failed, or the response
    /// was an error.
    pub(super) fn cost_nothing(&self) -> bool {
        let is_unreached = self.lost.as_ref().is_some_and(|lost| lost.kind == TransportKind::Connect);
        let is_error = self.status.is_some_and(|status| status >= 400);
        self.requests == 0 || (self.requests == 1 && (is_unreached || is_error))
    }

    /// Sends a request. `blob` returns the blobs that its body may contain.
    pub(super) fn send<'b>(
        &mut self,
        request: AdapterRequest,
        blob: impl Fn(u32) -> Option<&'b Blob>,
        keys: &Keys,
    ) -> Result<(), AttemptStop> {
        self.requests += 1;
        let most = self.target.limits.requests;
        if self.requests > most {
            let what = format!("made more than {most} requests, the limit 'exchange.requests'");
            return Err(Violation::of_limit(what).into());
        }
        // Drop the previous response first: only one body may be in memory.
        self.pending = None;
        self.lost = None;
        let request = request::build(self.target, request, blob, keys)?;
        self.pending = Some(PendingRequest::new(self.target.egress, request, self.target.limits));
        Ok(())
    }

    /// Sets the timer, which replaces an earlier one.
    pub(super) fn wait(&mut self, time: Duration) {
        self.timer = Some(Instant::now() + time.min(LONGEST_TIMER));
    }

    /// Checks after a step that the instance can be resumed.
    ///
    /// # Errors
    /// A [`Violation`], if nothing is pending or would be ready in time.
    pub(super) fn check(&self) -> Result<(), Violation> {
        match (&self.pending, self.timer) {
            (None, None) => {
                let what = "stopped halfway: it neither sent a request, nor waited, nor ended, with nothing in flight";
                Err(Violation::of_contract(what))
            }
            // Nothing else can arrive, and the timer ends after the attempt does.
            (None, Some(timer)) if timer > self.until => {
                let ms = self.target.limits.total_ms;
                Err(Violation::of_limit(format!("waits for longer than {ms} ms, the limit 'exchange.total_ms'")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the timer or for the next input from the pending request.
    pub(super) async fn next(&mut self) -> Result<Input, AttemptStop> {
        let (pending, timer) = (&mut self.pending, self.timer);
        let input = tokio::select! {
            biased;
            () = sleep_until(timer) => {
                self.timer = None;
                return Ok(Input::Timer);
            }
            input = receive(pending) => input?,
        };
        let input = match input {
            Input::Chunk(chunk) => {
                self.received = self.received.saturating_add(chunk.len() as u64);
                if self.received > self.target.limits.answer_bytes {
                    let message = pending_request::too_large(self.target.limits);
                    Input::TransportFailed { kind: TransportKind::TooLarge, message }
                } else {
                    Input::Chunk(chunk)
                }
            }
            input => input,
        };
        if let Input::Head { status, .. } = &input {
            self.status = Some(*status);
        }
        if let Input::TransportFailed { kind, message } = &input {
            self.lost = Some(LostConnection { kind: *kind, message: message.clone() });
        }
        if matches!(input, Input::End | Input::TransportFailed { .. }) {
            self.pending = None;
        }
        Ok(input)
    }
}

/// Sleeps until `timer`; forever without one.
async fn sleep_until(timer: Option<Instant>) {
    match timer {
        Some(timer) => tokio::time::sleep_until(timer).await,
        None => std::future::pending().await,
    }
}

/// Returns the next input from `pending`; waits forever without one.
async fn receive(pending: &mut Option<PendingRequest>) -> Result<Input, AttemptStop> {
    match pending {
        Some(pending) => pending.next().await,
        None => std::future::pending().await,
    }
}
