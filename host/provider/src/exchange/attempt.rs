//! One attempt: starts an instance of the adapter, does its actions in order, and resumes it with the results until it ends.
//!
//! At most one request and one timer are pending. A new request replaces the previous request, a new timer the previous timer.
//! If both are pending, the instance is resumed with whichever is ready first; a timer that is due comes before data of an
//! answer, which may never pause. A step that ends nothing and leaves nothing pending is a violation.

use std::time::Duration;

use patchbay_core::completion::{CompletionRequest, FailureKind};
use patchbay_sandbox::adapter::{Action, AdapterRequest, Input, TransportKind};
use tokio::time::Instant;

use super::{
    AttemptStop, Keys, RequestTarget, Violation,
    adapter::{Instance, StartAdapter},
    pending_request::{self, PendingRequest},
    report::{AttemptFailure, LostConnection, Progress, Reporter},
    request,
    stream_check::StreamCheck,
};
use crate::{Completed, Sink};

/// The longest timer that the clock supports. Every exchange ends long before.
const LONGEST_TIMER: Duration = Duration::from_secs(u32::MAX as u64);

/// The state of an attempt. Made and run once by [`drive`](super::drive).
pub(super) struct Attempt<'a> {
    target: &'a RequestTarget<'a>,
    sink: &'a mut dyn Sink,
    keys: Keys,
    /// When the attempt times out.
    until: Instant,
    check: StreamCheck,
    pending: Option<PendingRequest>,
    timer: Option<Instant>,
    /// Number of requests sent.
    requests: u32,
    /// Bytes of answers received.
    received: u64,
    /// The connection that failed last, unless another request followed.
    lost: Option<LostConnection>,
}

impl<'a> Attempt<'a> {
    /// Returns an attempt that times out `exchange.total_ms` from now.
    pub(super) fn new(target: &'a RequestTarget<'a>, sink: &'a mut dyn Sink, keys: Keys) -> Self {
        let until = Instant::now() + target.limits.total();
        Self {
            target,
            sink,
            keys,
            until,
            check: StreamCheck::default(),
            pending: None,
            timer: None,
            requests: 0,
            received: 0,
            lost: None,
        }
    }

    /// Runs the attempt to its end.
    pub(super) async fn run(
        mut self,
        adapter: &impl StartAdapter,
        request: CompletionRequest,
    ) -> Result<Completed, AttemptFailure> {
        let until = self.until;
        let result = match tokio::time::timeout_at(until, self.steps(adapter, request)).await {
            Ok(result) => result,
            Err(_) => {
                let ms = self.target.limits.total_ms;
                let message = format!("the answer took longer than {ms} ms, the limit 'exchange.total_ms'");
                Err(self.reporter().failed(FailureKind::Timeout, message).into())
            }
        };
        result.map_err(|stop| {
            self.check.flush(self.sink);
            let progress =
                Progress { received: self.received, has_begun: self.check.has_begun(), lost: self.lost.as_ref() };
            self.reporter().failure(stop, &progress)
        })
    }

    async fn steps(
        &mut self,
        adapter: &impl StartAdapter,
        request: CompletionRequest,
    ) -> Result<Completed, AttemptStop> {
        let begun = adapter.begin(request).await;
        let (mut instance, mut actions) = begun.map_err(|failure| self.reporter().sandbox_failure(failure))?;
        loop {
            if let Some(completed) = self.act(actions, &instance)? {
                return Ok(completed);
            }
            let input = self.next().await?;
            let resumed = instance.resume(input).await;
            actions = resumed.map_err(|failure| self.reporter().sandbox_failure(failure))?;
        }
    }

    /// Does the actions of one step in order. Returns the completion if the adapter finished. The sandbox counts the actions.
    fn act(&mut self, actions: Vec<Action>, instance: &impl Instance) -> Result<Option<Completed>, AttemptStop> {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            let last = actions.len() == 0;
            match action {
                Action::Send(request) => self.send(request, instance)?,
                Action::Wait(time) => self.timer = Some(Instant::now() + time.min(LONGEST_TIMER)),
                Action::Emit(event) => {
                    self.check.forward(event, self.target.limits.answer_bytes, &self.keys.scrub, self.sink)?;
                }
                Action::Finish(_) | Action::Fail(_) if !last => {
                    return Err(Violation::of_contract("wanted more after it had ended").into());
                }
                Action::Finish(mut finish) => {
                    self.check.finish()?;
                    finish.raw = self.keys.scrub.clean(finish.raw);
                    return Ok(Some(Completed { finish, usage: self.check.usage }));
                }
                Action::Fail(failure) => return Err(AttemptStop::Adapter(failure)),
            }
        }
        match (&self.pending, self.timer) {
            (None, None) => {
                let what = "stopped half-way: it neither sent a request, nor waited, nor ended, with nothing in flight";
                Err(Violation::of_contract(what).into())
            }
            // Nothing else can arrive, and the timer ends after the attempt does.
            (None, Some(timer)) if timer > self.until => {
                let ms = self.target.limits.total_ms;
                let what = format!("waits for longer than the {ms} ms of 'exchange.total_ms' allow");
                Err(Violation::of_limit(what).into())
            }
            _ => Ok(None),
        }
    }

    fn send(&mut self, request: AdapterRequest, instance: &impl Instance) -> Result<(), AttemptStop> {
        self.requests += 1;
        let most = self.target.limits.requests;
        if self.requests > most {
            let what = format!("made more than {most} requests, the limit 'exchange.requests'");
            return Err(Violation::of_limit(what).into());
        }
        // Drop the previous response first, so that only one body is in memory.
        self.pending = None;
        self.lost = None;
        let request = request::build(self.target, request, instance, &self.keys)?;
        self.pending = Some(PendingRequest::new(self.target.egress, request, self.target.limits));
        Ok(())
    }

    /// Waits for the timer or for the next input from the pending request.
    async fn next(&mut self) -> Result<Input, AttemptStop> {
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
        if let Input::TransportFailed { kind, message } = &input {
            self.lost = Some(LostConnection { kind: *kind, message: message.clone() });
        }
        if matches!(input, Input::End | Input::TransportFailed { .. }) {
            self.pending = None;
        }
        Ok(input)
    }

    fn reporter(&self) -> Reporter<'_> {
        Reporter { target: self.target, scrub: &self.keys.scrub }
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
