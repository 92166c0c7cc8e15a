//! Session options: requests of the client to set one, and updates when one changed elsewhere.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use patchbay_core::{Code, Outcome};
use patchbay_session::{ClientIdentity, OptionKind};
use serde_json::{Value, json};

use super::{SessionTask, SideTaskEnd};
use patchbay_jsonrpc::{Responder, RpcError};

impl SessionTask {
    /// Sets an option in a side task, because setting one can take seconds and updates must keep flowing. The request
    /// is answered by [`SessionTask::answer_set_option`].
    pub(super) fn set_option(&mut self, responder: Responder, kind: OptionKind, value: String) {
        let needed = |identity: &ClientIdentity| match kind {
            OptionKind::Mode => identity.may.answers,
            OptionKind::Model | OptionKind::Thinking | OptionKind::Persona => identity.may.lines,
        };
        if self.seat.identity().is_some_and(|identity| !needed(identity)) {
            let refused = Outcome::error(Code::Denied, "this client's token lacks the right to set this option.");
            self.options_in_progress += 1;
            // Also as a side task, because this function cannot await.
            self.side_tasks.spawn(async move { SideTaskEnd::OptionSet(responder, Err(refused)) });
            return;
        }
        let session = std::sync::Arc::clone(&self.session);
        self.options_in_progress += 1;
        self.side_tasks.spawn(async move {
            // Even after a panic, the request must be answered.
            let set = AssertUnwindSafe(session.set_option(kind, &value)).catch_unwind().await;
            let panicked = |_| Err(Outcome::error(Code::Internal, "setting the option panicked."));
            SideTaskEnd::OptionSet(responder, set.unwrap_or_else(panicked))
        });
    }

    /// Answers the request to set an option: with all options, or with the error.
    pub(super) async fn answer_set_option(&mut self, responder: Responder, set: Result<(), Outcome>) {
        // The client must see the row about the change before the response.
        self.drain().await;
        self.options_in_progress = self.options_in_progress.saturating_sub(1);
        match set {
            Ok(()) => {
                self.seat.tell_others("changed the session's options");
                let options = self.all_options().await;
                responder.respond(Ok(json!({ "configOptions": options }))).await;
            }
            Err(outcome) => {
                let error = RpcError::of_host(outcome.code, &outcome.message);
                responder.respond(Err(RpcError { code: -32602, ..error })).await;
                self.send_options().await;
            }
        }
    }

    /// Returns all options, for a response, and remembers them as sent.
    pub(super) async fn all_options(&mut self) -> Value {
        self.options.answer(self.session.options().await)
    }

    /// Sends the options if they changed. Does nothing while an option is being set: that response will contain them.
    pub(super) async fn send_options(&mut self) {
        if self.options_in_progress > 0 {
            return;
        }
        if let Some(update) = self.options.update(self.session.options().await) {
            self.send_all(vec![update]).await;
        }
    }
}
