//! One attempt: starts an instance of the adapter, performs its actions in order, and resumes it with the results until it ends.
//!
//! A step that neither ends the attempt nor leaves anything pending is a violation.

use patchbay_core::completion::{CompletionRequest, FailureKind};
use patchbay_sandbox::adapter::Action;

use super::{
    AttemptStop, Keys, RequestTarget, Violation,
    adapter::{Instance, StartAdapter},
    in_flight::InFlight,
    report::{AttemptFailure, Progress, Reporter},
    stream_check::StreamCheck,
};
use crate::{Completed, Sink};

/// The state of an attempt. Created and run once by [`drive`](super::drive).
pub(super) struct Attempt<'a> {
    target: &'a RequestTarget<'a>,
    sink: &'a mut dyn Sink,
    keys: Keys,
    check: StreamCheck,
    flight: InFlight<'a>,
}

impl<'a> Attempt<'a> {
    /// Returns an attempt that times out `exchange.total_ms` from now.
    pub(super) fn new(target: &'a RequestTarget<'a>, sink: &'a mut dyn Sink, keys: Keys) -> Self {
        Self { target, sink, keys, check: StreamCheck::default(), flight: InFlight::new(target) }
    }

    /// Runs the attempt to its end. `number` counts the attempts from 1.
    pub(super) async fn run(
        mut self,
        adapter: &impl StartAdapter,
        request: CompletionRequest,
        number: u32,
    ) -> Result<Completed, AttemptFailure> {
        let until = self.flight.until();
        let result = match tokio::time::timeout_at(until, self.steps(adapter, request, number)).await {
            Ok(result) => result,
            Err(_) => {
                let ms = self.target.limits.total_ms;
                let message = format!("the answer took longer than {ms} ms, the limit 'exchange.total_ms'");
                Err(self.reporter().failed(FailureKind::Timeout, message).into())
            }
        };
        result.map_err(|stop| {
            self.check.flush(self.sink);
            let progress = Progress { has_begun: self.check.has_begun(), lost: self.flight.lost() };
            let failure = self.reporter().failure(stop, &progress);
            let is_free = self.flight.cost_nothing() && !progress.has_begun;
            AttemptFailure { is_unauthorized: self.flight.is_unauthorized() && !progress.has_begun, is_free, ..failure }
        })
    }

    async fn steps(
        &mut self,
        adapter: &impl StartAdapter,
        request: CompletionRequest,
        number: u32,
    ) -> Result<Completed, AttemptStop> {
        let begun = adapter.begin(request, number).await;
        let (mut instance, mut actions) = begun.map_err(|failure| self.reporter().sandbox_failure(failure))?;
        loop {
            if let Some(completed) = self.act(actions, &instance)? {
                return Ok(completed);
            }
            let input = self.flight.next().await?;
            let resumed = instance.resume(input).await;
            actions = resumed.map_err(|failure| self.reporter().sandbox_failure(failure))?;
        }
    }

    /// Performs the actions of one step in order. Returns the completion if the adapter finished. The sandbox has already limited
    /// their number.
    fn act(&mut self, actions: Vec<Action>, instance: &impl Instance) -> Result<Option<Completed>, AttemptStop> {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            let last = actions.len() == 0;
            match action {
                Action::Send(request) => self.flight.send(request, |id| instance.blob(id), &self.keys)?,
                Action::Wait(time) => self.flight.wait(time),
                Action::Emit(event) => {
                    self.check.forward(event, self.target.limits, &self.keys.scrub, self.sink)?;
                }
                Action::Finish(_) | Action::Fail(_) if !last => {
                    return Err(Violation::of_contract("continued after it had ended").into());
                }
                Action::Finish(mut finish) => {
                    self.check.finish()?;
                    finish.raw = self.keys.scrub.clean(finish.raw);
                    return Ok(Some(Completed { finish, usage: self.check.usage }));
                }
                Action::Fail(failure) => return Err(AttemptStop::Adapter(failure)),
            }
        }
        self.flight.check()?;
        Ok(None)
    }

    fn reporter(&self) -> Reporter<'_> {
        Reporter { target: self.target, scrub: &self.keys.scrub }
    }
}
