//! Lines that a client sends with a key. Each line runs once, however often it is sent, even if the connection or the process
//! ended before the client received a response. The key is stored with the line's id before the line is submitted, and the line's
//! rows contain both. A line that is not open and has no row has therefore done nothing, and runs when it is sent again.

use std::{sync::Arc, time::Duration};

use patchbay_agent::INTERRUPTED;
use patchbay_core::{
    AssistantRecord, CallId, Code, Digest, LineId, MessageKind, Outcome, PrincipalId, Status, TurnData, TurnState,
};
use patchbay_store::{MessageRow, SentLine, StoreError};
use serde::Deserialize as _;
use tokio::{sync::MutexGuard, time::sleep};

use super::SharedSession;
use crate::{LineClient, LineInput, Submitted};

/// How often to check whether a line that was sent before has ended.
const END_LOOK: Duration = Duration::from_millis(50);
/// Number of rows per read of the store.
const PAGE: u32 = 64;

/// The result of looking up the key of a line.
pub enum SentOnce<'a> {
    /// The line has not run and may be submitted.
    New(OnceLine<'a>),
    /// The line was already submitted, and has this id.
    Repeated(LineId),
    /// The key was already sent with another line.
    Other,
}

/// A line to submit. While this exists, lines with other keys wait.
pub struct OnceLine<'a> {
    shared: &'a SharedSession,
    key: Arc<str>,
    line: LineId,
    _order: MutexGuard<'a, ()>,
}

impl OnceLine<'_> {
    /// Submits the line. Its rows contain the key.
    pub fn submit(self, input: LineInput) -> Submitted {
        let client = input.client.map_or_else(LineClient::default, |client| LineClient::clone(&client));
        let client = Some(Arc::new(LineClient { key: Some(self.key), ..client }));
        self.shared.session.submit_as(self.line, LineInput { client, ..input })
    }
}

impl SharedSession {
    /// Looks up the key of a line from `person`. `request` is the digest of the session and of everything that the line consists
    /// of.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn begin_once(
        &self,
        person: &PrincipalId,
        key: &str,
        request: Digest,
    ) -> Result<SentOnce<'_>, StoreError> {
        let order = self.submitting.lock().await;
        let store = self.session.store();
        let new = store.source().line_id();
        let line = match store.begin_sent_line(person, key, request, new).await? {
            SentLine::New => new,
            SentLine::Other => return Ok(SentOnce::Other),
            SentLine::Sent(line) if self.has_run(line).await? => return Ok(SentOnce::Repeated(line)),
            SentLine::Sent(line) => line,
        };
        Ok(SentOnce::New(OnceLine { shared: self, key: key.into(), line, _order: order }))
    }

    async fn has_run(&self, line: LineId) -> Result<bool, StoreError> {
        if self.session.is_open(line) {
            // The line may have been waiting since an earlier process, or since a turn failed. The client expects it to run now.
            self.session.release_queue();
            return Ok(true);
        }
        let store = self.session.store();
        Ok(!store.rows_of_line(self.session.id(), line).await?.is_empty()
            || store.has_call(CallId::of_line(line)).await?)
    }

    /// Waits for the end of a line that was sent with a key, and returns its outcome according to its rows; `None` if they do not
    /// contain it.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn ended(&self, line: LineId) -> Result<Option<Outcome>, StoreError> {
        while self.session.is_open(line) {
            sleep(END_LOOK).await;
        }
        let (store, session) = (self.session.store(), self.session.id());
        let rows = store.rows_of_line(session, line).await?;
        let command = rows.iter().rfind(|row| row.kind == MessageKind::Command);
        let outcome = command.and_then(|row| Outcome::deserialize(row.data.as_ref()?).ok());
        // The answer to a command is a row of its own.
        let is_whole = |outcome: &Outcome| outcome.code != Code::Answered;
        match (rows.first(), outcome) {
            (_, Some(outcome)) if is_whole(&outcome) => Ok(Some(outcome)),
            (Some(first), outcome) => match self.turn_outcome(first).await? {
                Some(turn) => Ok(Some(match outcome {
                    Some(outcome) => Outcome { message: turn.message, ..outcome },
                    None => turn,
                })),
                None => Ok(outcome),
            },
            (None, _) if store.has_call(CallId::of_line(line)).await? => {
                let message =
                    "the server stopped during this command, after it had begun an effect; look at what it did.";
                Ok(Some(Outcome::error(Code::OutcomeUnknown, message)))
            }
            (None, _) => Ok(None),
        }
    }

    /// Returns the outcome of the turn that `message` began or joined; `None` if the turn is still running, or if there is none.
    async fn turn_outcome(&self, message: &MessageRow) -> Result<Option<Outcome>, StoreError> {
        let (store, session) = (self.session.store(), self.session.id());
        let joined = message.data.as_ref().and_then(|data| data["joined"].as_u64());
        let Some((turn, code)) = store.turn(session, joined.unwrap_or(message.seq)).await? else { return Ok(None) };
        let wanted = match (turn.state, code) {
            (TurnState::Waiting | TurnState::Running, _) => return Ok(None),
            (TurnState::Interrupted, Some(code)) if code == Code::TurnInterrupted => {
                return Ok(Some(Outcome::error(code, INTERRUPTED)));
            }
            (_, None | Some(Code::Answered)) => MessageKind::Assistant,
            (_, Some(_)) => MessageKind::Notice,
        };
        let begins = |row: &MessageRow| {
            let is_message = matches!(row.kind, MessageKind::User | MessageKind::Skill);
            is_message && row.data.as_ref().is_none_or(|data| data["joined"].is_null())
        };
        let (mut last, mut from) = (None, turn.began + 1);
        loop {
            let rows = store.messages_of(session, message.agent, from..=u64::MAX, PAGE).await?;
            let Some(end) = rows.last().map(|row| row.seq) else { break };
            let is_over = rows.iter().any(begins);
            let of_turn = rows.into_iter().take_while(|row| !begins(row));
            last = of_turn.filter(|row| row.kind == wanted).last().or(last);
            if is_over {
                break;
            }
            from = end + 1;
        }
        Ok(match code {
            None | Some(Code::Answered) => last.as_ref().map(answered),
            Some(code) => {
                Some(Outcome::from_line(Status::Error, code, &last.map(|row| row.content).unwrap_or_default()))
            }
        })
    }
}

/// Returns the outcome of a turn that ended with this answer.
fn answered(row: &MessageRow) -> Outcome {
    let outcome = Outcome::ok(Code::Answered, row.content.clone());
    match row.data.as_ref().and_then(|data| AssistantRecord::deserialize(data).ok()) {
        Some(AssistantRecord { model, provider, stop, .. }) => {
            outcome.with_data(TurnData { model: Some(model), provider: Some(provider), stop, ..TurnData::default() })
        }
        None => outcome,
    }
}
