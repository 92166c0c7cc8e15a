//! Prompts of the client: from the blocks to the response.

use std::sync::Arc;

use patchbay_core::{Code, Digest, LineId, Outcome, PrincipalId, SessionId};
use patchbay_session::SentOnce;

use super::{
    super::open_prompts::{AbortOnDrop, OpenPrompt, StopReason},
    SessionTask, SideTaskEnd,
};
use patchbay_jsonrpc::{Responder, RpcError};

use crate::{params::ContentBlock, prompt};

impl SessionTask {
    pub(super) async fn prompt(&mut self, responder: Responder, blocks: Vec<ContentBlock>, key: Option<String>) {
        let request = key.as_ref().map(|_| request_digest(self.session.id(), &blocks));
        let mut input = match prompt::line(&self.session, blocks).await {
            Ok(input) => input,
            Err(outcome) => return self.refuse(responder, &outcome).await,
        };
        let shared = Arc::clone(self.seat.shared());
        let once = match key.as_ref().zip(request) {
            None => None,
            Some((key, request)) => match shared.begin_once(&PrincipalId::LOCAL, key, request).await {
                Ok(SentOnce::New(line)) => Some(line),
                Ok(SentOnce::Repeated(line)) => return self.repeat(responder, line),
                Ok(SentOnce::Other) => {
                    let message = "this key was sent with another prompt; use a new key for each prompt.";
                    return responder.respond(Err(RpcError::of_host(Code::InvalidArgs, message))).await;
                }
                Err(error) => return responder.respond(Err(RpcError::of_host(error.code(), error))).await,
            },
        };
        input.client = self.remote.clone();
        self.transcript.set_skills(self.session.snapshot());
        self.window = self.session.model_in_use().await.map_or(0, |model| model.window);
        if self.prompts.is_empty() {
            let mut updates = Vec::new();
            self.transcript.prompt_began(&mut updates);
            // Lines that an earlier process left are held. The prompt would release them, although the client has never shown
            // them. They are taken back only now, because that deletes them, and a message can now show them. Lines of
            // other clients of this process are not held, and stay.
            if self.remote.is_none() || self.session.queue().held {
                let lines = self.session.take_back_all().await;
                self.transcript.earlier_lines(&lines, &mut updates);
            }
            self.send_all(updates).await;
        }
        let (is_command, typed) = (input.text.starts_with('/'), Some(input.text.clone()));
        let submitted = match once {
            Some(once) => once.submit(input),
            None => self.session.submit_input(input),
        };
        let line = submitted.id();
        let given_up = responder.cancelled().clone();
        let watch = AbortOnDrop(self.side_tasks.spawn(async move {
            given_up.cancelled().await;
            SideTaskEnd::GivenUp(line)
        }));
        self.prompts.push_back(OpenPrompt {
            responder,
            line,
            submitted,
            typed,
            key,
            is_command,
            reason: None,
            has_ended: false,
            child: None,
            has_child_ended: false,
            is_given_up: false,
            _watch: watch,
        });
        self.answer_cancelled().await;
    }

    /// Responds to a prompt that a client sends again after a lost connection, once everything that the first one began has ended.
    fn repeat(&mut self, responder: Responder, line: LineId) {
        let (session, shared) = (Arc::clone(&self.session), Arc::clone(self.seat.shared()));
        self.side_tasks.spawn(async move {
            let given_up = responder.cancelled().clone();
            let ended = async {
                session.wait_idle().await;
                shared.ended(line).await
            };
            let reason = match given_up.run_until_cancelled(ended).await {
                Some(Ok(outcome)) => Ok(outcome.map_or(StopReason::EndTurn, |outcome| StopReason::of(&outcome))),
                Some(Err(error)) => Err(RpcError::of_host(error.code(), error)),
                None => {
                    if session.take_back(line).await.is_none() {
                        session.stop(line);
                    }
                    Err(RpcError::cancelled())
                }
            };
            SideTaskEnd::Repeated(responder, reason)
        });
    }

    /// Stops the work that a prompt began, after the client cancelled the request. If it is the only prompt, and the client is the
    /// editor that started this process, everything is stopped, as after `session/cancel`; otherwise only its own line is.
    pub(super) async fn give_up(&mut self, line: LineId) {
        let Some(at) = self.prompts.iter().position(|prompt| prompt.line == line) else { return };
        self.prompts[at].is_given_up = true;
        if self.prompts.len() == 1 && self.remote.is_none() {
            self.cancel().await;
        } else if self.prompts[at].has_stopped() {
            self.answer_at(at).await;
        } else if let Some(child) = self.prompts[at].child {
            // The response is sent when the child's turn has ended.
            self.session.stop_turn_of(child);
        } else if self.session.take_back(line).await.is_none() {
            self.session.stop(line);
        }
    }

    /// Responds to cancelled prompts whose own turns have stopped, if any other prompt is open: waiting for that one could take a
    /// long time. If all are cancelled, [`SessionTask::idle`] responds.
    pub(super) async fn answer_cancelled(&mut self) {
        let is_over = |prompt: &OpenPrompt| prompt.is_cancelled() || prompt.is_given_up;
        if self.prompts.iter().all(is_over) {
            return;
        }
        while let Some(at) = self.prompts.iter().position(|prompt| is_over(prompt) && prompt.has_stopped()) {
            self.answer_at(at).await;
        }
    }

    async fn answer_at(&mut self, at: usize) {
        if let Some(prompt) = self.prompts.remove(at) {
            let (responder, result) = prompt.into_answer();
            self.respond(responder, result).await;
        }
    }

    /// Responds to a prompt that cannot be submitted, and shows the reason as text.
    async fn refuse(&mut self, responder: Responder, outcome: &Outcome) {
        let mut updates = Vec::new();
        let is_alone = self.prompts.is_empty();
        if is_alone {
            self.transcript.prompt_began(&mut updates);
        }
        self.transcript.outcome(outcome, &mut updates);
        if is_alone {
            self.transcript.prompts_ended();
        }
        self.send_all(updates).await;
        self.respond(responder, Ok(StopReason::EndTurn.result())).await;
    }

    /// Stops everything that runs and takes back waiting lines. Prompts are answered when all agents are idle.
    pub(super) async fn cancel(&mut self) {
        for prompt in &mut self.prompts {
            prompt.reason = Some(StopReason::Cancelled);
        }
        self.session.stop_all();
        let lines: Vec<LineId> = self.prompts.iter().map(|prompt| prompt.line).collect();
        for line in lines {
            if self.session.take_back(line).await.is_none() {
                self.session.stop(line);
            }
        }
    }

    /// Shows the outcome of a prompt's line. If other prompts are open, a command that began no turn is answered now. Otherwise
    /// it is answered when all agents are idle, because it may have given them something to do, such as mail to read.
    pub(super) async fn line_ended(&mut self, line: LineId, outcome: &Outcome) {
        let Some(at) = self.prompts.iter().position(|prompt| prompt.line == line) else { return };
        let mut updates = Vec::new();
        let reason = StopReason::of(outcome);
        if outcome.code != Code::Answered && reason != StopReason::Cancelled {
            self.transcript.outcome(outcome, &mut updates);
        }
        self.transcript.moved_view(self.prompts[at].submitted.agent(), outcome, &mut updates);
        self.transcript.killed_lines(outcome, &mut updates);
        self.send_all(updates).await;
        if let Some(typed) = &self.prompts[at].typed {
            self.seat.tell_ended(typed, outcome);
        }
        self.send_title().await;
        self.send_commands().await;
        let others = self.prompts.len() > 1;
        let others_prompt = self.seat.others_prompt();
        let prompt = &mut self.prompts[at];
        prompt.has_ended = true;
        prompt.child = outcome.child_with_turn();
        if prompt.child.is_none() {
            prompt.reason.get_or_insert(reason);
        }
        if prompt.is_given_up && outcome.code == Code::TurnCancelled {
            // Stopping a turn holds the agent's queue, but the lines in it belong to other prompts.
            self.session.release_queue_of(prompt.submitted.agent());
        }
        if let Some(child) = prompt.child.filter(|_| prompt.is_given_up || prompt.is_cancelled()) {
            // The command still created the child after it was cancelled.
            self.session.stop_turn_of(child);
        }
        let began_nothing = prompt.is_command && prompt.child.is_none() && outcome.code != Code::Answered;
        if others_prompt && prompt.has_stopped()
            || others && (began_nothing || prompt.is_given_up && prompt.has_stopped())
        {
            self.answer_at(at).await;
        }
        self.answer_cancelled().await;
    }

    /// Answers all prompts, because no agent is working.
    pub(super) async fn idle(&mut self) {
        self.drain().await;
        while let Some(end) = self.side_tasks.try_join_next() {
            self.side_task_ended(end).await;
        }
        if !self.session.is_idle() {
            // A line that waited has begun.
            return;
        }
        // The events of lines that have ended may have been lost.
        while let Some(at) = self.prompts.iter().position(|prompt| prompt.reason.is_none() && prompt.child.is_none()) {
            let line = self.prompts[at].line;
            // After a failed turn, lines wait until the user decides. Unfortunately clients cannot show them, and they
            // would be sent after a later prompt.
            if self.session.take_back(line).await.is_some() {
                let mut updates = Vec::new();
                self.transcript.say(
                    "The previous turn failed or was stopped, so this message was not sent. To send it, enter it \
                     again.",
                    &mut updates,
                );
                self.send_all(updates).await;
                self.prompts[at].reason = Some(StopReason::EndTurn);
                continue;
            }
            let outcome = (&mut self.prompts[at].submitted).await;
            self.line_ended(line, &outcome).await;
            if !self.session.is_idle() {
                // The end of a cancelled line has released the lines after it.
                return;
            }
        }
        let mut updates = Vec::new();
        self.transcript.idle(&mut updates);
        self.send_all(updates).await;
        self.answer_all().await;
    }

    pub(super) async fn answer_all(&mut self) {
        self.transcript.prompts_ended();
        while !self.prompts.is_empty() {
            self.answer_at(0).await;
        }
    }
}

/// Returns the digest of everything in a prompt. Linked files only count with their address, because a prompt that is sent again
/// must match even if its agent has changed the files meanwhile.
fn request_digest(session: SessionId, blocks: &[ContentBlock]) -> Digest {
    Digest::of(&serde_json::to_vec(&(session, blocks)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn attachments_make_another_request() {
        let digest = |session: u8, blocks: Value| {
            let blocks: Vec<ContentBlock> = serde_json::from_value(blocks).unwrap();
            request_digest(SessionId::from_bytes([session; 16]), &blocks)
        };
        let text = json!({"type": "text", "text": "look"});
        let image = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
        let resource = |text: &str| json!({"type": "resource", "resource": {"uri": "file:///a", "text": text}});
        let different = [
            digest(1, json!([text])),
            digest(2, json!([text])),
            digest(1, json!([text, image("AAAA")])),
            digest(1, json!([text, image("AAAB")])),
            digest(1, json!([text, resource("a")])),
            digest(1, json!([text, resource("b")])),
        ];
        assert_eq!(BTreeSet::from(different.map(|digest| digest.to_string())).len(), different.len());
        assert_eq!(digest(1, json!([text, image("AAAA")])), different[2]);
    }
}
