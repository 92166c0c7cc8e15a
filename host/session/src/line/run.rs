//! Runs a line that was accepted: waits for earlier lines, then sends the message or runs the command. A command is
//! computed against a fixed state, then committed with its own row, and only then shown.

use patchbay_core::{Code, EventKind, MessageKind, Outcome};

use super::{
    accept::Accepted,
    context::{LineContext, LineEntry, not_kept, stopped},
    settle::Outdated,
    turn::TurnStart,
    typed::{CommandTarget, TypedCommand},
};
use crate::{builtin::Effect, invoke, recovery, tree::lookup::dead};

/// Later lines must not wait for this one, even after a panic.
impl Drop for LineContext {
    fn drop(&mut self) {
        self.end_capture_ticket();
    }
}

impl LineContext {
    pub(super) async fn run(mut self, accepted: Accepted, entry: LineEntry) -> Outcome {
        let outcome = self.run_in_turn(accepted, entry).await.unwrap_or_else(|early| early);
        // If the line failed before its first commit, this ends its turn.
        self.turn = None;
        self.end_waiting(outcome).await
    }

    /// # Errors
    /// The outcome of a line that ended before it began.
    async fn run_in_turn(&mut self, accepted: Accepted, entry: LineEntry) -> Result<Outcome, Outcome> {
        if self.is_closing() {
            return Err(Outcome::error(Code::SessionClosed, "this session is closed. Nothing of this line was kept."));
        }
        let mut accepted = self.wait_for_captures(accepted).await;
        match &accepted {
            Accepted::Refused(outcome) => return Err(outcome.clone()),
            Accepted::Captured => {
                if let LineEntry::Turn(turn) = entry {
                    turn.unused();
                }
                if !self.new_attachments.is_empty() {
                    return Err(Outcome::error(Code::AttachmentsCaptured, "attachments cannot be captured."));
                }
                return Ok(self.capture().await);
            }
            Accepted::Message | Accepted::Command(_) => {}
        }
        let has_waited = self.enter(entry).await? | self.wait_for_commands().await?;
        if has_waited {
            self.state = self.session.state();
        }
        if let (true, Accepted::Command(command)) = (has_waited, &mut accepted) {
            command.resolve(&self.state.snapshot);
        }
        if let Some(notice) = self.unused_files.take() {
            self.session.log().publish(self.agent.id(), EventKind::Notice { text: notice });
        }
        // Checked before anything runs: tools of a session that was taken over must have no effects.
        let log = self.session.log();
        log.store().check_hold(log.hold()).await.map_err(not_kept)?;
        match accepted {
            Accepted::Command(command) => Ok(self.command(command).await),
            // The agent was killed while the line waited.
            _ if self.agent.is_dead() => Err(dead(self.agent.id())),
            _ => {
                if let Some(joining) = self.joining.take() {
                    return self.join(joining).await;
                }
                let message = self.message(MessageKind::User, &self.text, None);
                self.converse(TurnStart::Rows(vec![message])).await
            }
        }
    }

    /// Waits for earlier lines that begin or end capturing. A message may then have to be captured.
    async fn wait_for_captures(&mut self, accepted: Accepted) -> Accepted {
        let Some(ticket) = &mut self.capture else { return accepted };
        ticket.wait().await;
        match accepted {
            Accepted::Message if self.session.is_capturing_agent(self.agent.id()) => Accepted::Captured,
            Accepted::Message => {
                self.end_capture_ticket();
                Accepted::Message
            }
            accepted => accepted,
        }
    }

    /// Lets the lines that wait for this line's ticket run.
    fn end_capture_ticket(&mut self) {
        if let Some(ticket) = &mut self.capture {
            self.session.captures.ended(self.agent.id(), ticket);
        }
    }

    /// Waits until the earlier commands of the agent have ended. Returns whether there were any.
    ///
    /// # Errors
    /// The outcome of a line that was stopped meanwhile.
    async fn wait_for_commands(&mut self) -> Result<bool, Outcome> {
        let Some(place) = self.place.take() else { return Ok(false) };
        tokio::select! {
            biased;
            waited = place.reached() => Ok(waited),
            () = self.stop.cancelled() => Err(stopped()),
        }
    }

    /// Runs a command, and runs it again if another command replaced the snapshot in the meantime.
    async fn command(&mut self, mut command: TypedCommand) -> Outcome {
        loop {
            let ends_itself = matches!(command.target(), Ok(CommandTarget::BuiltIn(built_in)) if built_in.ends_itself);
            let effect = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !ends_itself => return self.stopped_command().await,
                effect = self.effect(&command) => effect,
            };
            let (outcome, change) = match effect {
                Effect::Show(outcome) => (outcome, None),
                Effect::Change(outcome, change) => (outcome, Some(change)),
                Effect::Turn { messages, data } => return self.command_turn(TurnStart::Rows(messages), data).await,
                Effect::Retry(message) => {
                    return self.command_turn(TurnStart::Again(message), serde_json::Map::new()).await;
                }
                Effect::Prepare(prepare) => match self.commit_prepared(prepare).await {
                    Ok(outcome) => {
                        if let Some(turn) = self.turn.take() {
                            turn.unused();
                        }
                        return outcome;
                    }
                    Err(Outdated) => continue,
                },
            };
            match self.settle(outcome, change).await {
                Ok(outcome) => {
                    if let Some(turn) = self.turn.take() {
                        turn.unused();
                    }
                    return outcome;
                }
                Err(Outdated) => {
                    self.state = self.session.state();
                    command.resolve(&self.state.snapshot);
                }
            }
        }
    }

    async fn effect(&self, command: &TypedCommand) -> Effect {
        match command.target() {
            Err(outcome) => outcome.into(),
            Ok(CommandTarget::BuiltIn(built_in)) if built_in.needs_living_agent && self.agent.is_dead() => {
                dead(self.agent.id()).into()
            }
            Ok(CommandTarget::Skill(_)) if self.agent.is_dead() => dead(self.agent.id()).into(),
            Ok(CommandTarget::BuiltIn(built_in)) => match built_in.spec.check(&command.argument) {
                Err(outcome) => outcome.into(),
                Ok(()) => (built_in.run)(self, &command.argument).await,
            },
            Ok(CommandTarget::Skill(skill)) => {
                invoke::skill(self, skill.as_str(), &command.argument, &command.typed_name()).await
            }
        }
    }

    /// Returns the outcome of a stopped command. If its tool had begun an effect, the command's row
    /// says that the outcome is unknown.
    async fn stopped_command(&self) -> Outcome {
        if !self.effect.is_set() {
            return stopped();
        }
        match recovery::unknown_outcome(self.session.log().hold(), &self.session.host.store, self.line).await {
            // The commit of the kill has added the command's row.
            Ok(outcome) if self.agent.is_dead() => outcome,
            // Only a change of the snapshot can be outdated.
            Ok(outcome) => self.settle(outcome, None).await.unwrap_or_else(|Outdated| stopped()),
            Err(error) => not_kept(error),
        }
    }
}
