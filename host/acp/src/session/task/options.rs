//! Options that the client sets, and those that changed elsewhere.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use patchbay_core::{Code, Outcome};
use patchbay_session::{ClientIdentity, OptionKind};
use serde_json::{Value, json};

use super::{SessionTask, SideTaskEnd};
use patchbay_jsonrpc::{Responder, RpcError};

impl SessionTask {
    /// Sets an option on a separate task. Updates go on meanwhile.
    pub(super) fn set_option(&mut self, responder: Responder, kind: OptionKind, value: String) {
        let needed = |identity: &ClientIdentity| match kind {
            OptionKind::Mode => identity.may.answers,
            OptionKind::Model | OptionKind::Thinking | OptionKind::Persona => identity.may.lines,
        };
        if self.seat.identity().is_some_and(|identity| !needed(identity)) {
            let refused = Outcome::error(Code::Denied, "the token of this client lacks the right to set this option.");
            self.setting += 1;
            self.side_tasks.spawn(async move { SideTaskEnd::OptionSet(responder, Err(refused)) });
            return;
        }
        let session = std::sync::Arc::clone(&self.session);
        self.setting += 1;
        self.side_tasks.spawn(async move {
            // A panic is an answer as well.
            let set = AssertUnwindSafe(session.set_option(kind, &value)).catch_unwind().await;
            let panicked = |_| Err(Outcome::error(Code::Internal, "the option was not set: setting it panicked."));
            SideTaskEnd::OptionSet(responder, set.unwrap_or_else(panicked))
        });
    }

    /// Answers with all options, or with the error.
    pub(super) async fn option_set(&mut self, responder: Responder, set: Result<(), Outcome>) {
        // The option's row comes before its answer.
        self.drain().await;
        self.setting = self.setting.saturating_sub(1);
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

    /// Returns all options for an answer.
    pub(super) async fn all_options(&mut self) -> Value {
        self.options.answer(self.session.options().await)
    }

    /// Sends the options if they changed. The answer to an option that is being set has them.
    pub(super) async fn send_options(&mut self) {
        if self.setting > 0 {
            return;
        }
        if let Some(update) = self.options.update(self.session.options().await) {
            self.send_all(vec![update]).await;
        }
    }
}
