//! Turns that mail begins, and other turns without a line. An idle agent that has unread mail is notified by a message, which
//! begins a turn.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Weak},
};

use futures_util::FutureExt as _;
use patchbay_agent::{Agent, TurnEnding};
use patchbay_core::{AgentId, EventKind, MessageKind, TurnCause, TurnState};
use patchbay_store::{NewMessage, NewTurn, SessionChange, StoreError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Session,
    line::queue::{IdleAgents, MailTurn, StopScope},
    notification::{MAILS, Notification, notification},
    turns::{BackgroundTurn, RunningTurn},
};

/// Looks for mail whenever an agent has become idle, until `closed` is cancelled.
pub(crate) async fn wake_idle_agents(session: Weak<Session>, mut idle: IdleAgents, closed: CancellationToken) {
    while let Some(Some(idle)) = closed.run_until_cancelled(idle.recv()).await {
        let Some(session) = session.upgrade() else { return };
        let wake = Arc::clone(&session);
        session.lines.spawn(async move {
            if let Err(error) = wake.wake(idle.agent).await {
                tracing::error!("cannot look for the mail of an agent: {error}");
            }
            drop(idle.busy);
        });
    }
}

impl Session {
    /// Notes that mail is committed, and wakes the recipient if it is idle.
    pub(crate) fn mail_came(&self, to: AgentId, from: AgentId) {
        self.log().publish(to, EventKind::MailArrived { from });
        self.queue.report_idle(to);
    }

    /// Returns the agent if mail may wake it: it is alive and has unread mail that no notification has counted.
    async fn with_new_mail(&self, id: AgentId) -> Result<Option<Arc<Agent>>, StoreError> {
        let Some(agent) = self.agent(id).filter(|agent| !agent.is_dead() && !self.is_closing()) else {
            return Ok(None);
        };
        let has_mail = self.log().store().mail_counts(id).await?.uncounted > 0;
        Ok(if has_mail && agent.can_spend().await { Some(agent) } else { None })
    }

    /// Begins a turn of an idle agent with unread mail that no notification has counted. If children of the agent are still
    /// running, waits a moment for their reports first.
    async fn wake(self: &Arc<Self>, id: AgentId) -> Result<(), StoreError> {
        // A busy agent looks for mail again after its turn, and a stopped one after the next message.
        if self.queue.is_active(id) || self.queue.is_stopped(id) || self.with_new_mail(id).await?.is_none() {
            return Ok(());
        }
        let gathered = self.lines.closing().run_until_cancelled(self.gathering.gathered(id)).await;
        let Some(agent) = self.with_new_mail(id).await?.filter(|_| gathered.is_some()) else { return Ok(()) };
        let limit = self.host.agent_settings.limits.wakes;
        let right = match self.queue.begin_by_mail(&agent, limit) {
            MailTurn::Begins(right) => right,
            MailTurn::Later => return Ok(()),
            MailTurn::TooOften => {
                self.note_too_many_wakes(&agent, limit);
                return Ok(());
            }
        };
        match self.commit_notification(&agent).await {
            Ok(Some(began)) => {
                let ending = TurnEnding { agent: id, began, report_to: agent.reports_to() };
                let missing = agent.reports_to().map(|parent| self.gathering.begin(id, parent));
                let cause = TurnCause::Mail;
                self.start_background(BackgroundTurn { agent, right, after: None, cause, ending, missing });
                Ok(())
            }
            Ok(None) => {
                self.queue.uncount_wake(id);
                right.unused();
                Ok(())
            }
            // The agent was killed meanwhile.
            Err(StoreError::AgentDead(_)) => {
                right.unused();
                Ok(())
            }
            Err(error) => {
                self.queue.uncount_wake(id);
                // An immediate second attempt would fail, too, for example in a session that was taken over.
                self.queue.stop(id, StopScope::Session);
                right.unused();
                Err(error)
            }
        }
    }

    /// Commits the notification, which counts all mail so far, and marks the messages that it contains in full as read. Returns
    /// the number of its row; `None` if no mail is new.
    async fn commit_notification(self: &Arc<Self>, agent: &Agent) -> Result<Option<u64>, StoreError> {
        let (session, id) = (Arc::clone(self), agent.id());
        let prepare = async move {
            let store = session.log().store();
            let counts = store.mail_counts(id).await?;
            let mut change = SessionChange { requires_alive: vec![id], ..SessionChange::default() };
            if counts.uncounted > 0 {
                let mails = store.uncounted_mail(id, MAILS).await?;
                let Notification { content, whole } = notification(counts.unread, &mails);
                let data = Some(json!({"notification": true, "unread": counts.unread}));
                change.messages.push(NewMessage { agent: id, kind: MessageKind::User, content, data });
                change.reads_mail = whole.into_iter().map(|number| (id, number)).collect();
                change.counts_mail = Some(id);
                change.begins_turns.push(NewTurn {
                    agent: id,
                    cause: TurnCause::Mail,
                    state: TurnState::Running,
                    began: None,
                });
            }
            Ok((change, ()))
        };
        self.log().commit_prepared(prepare, |rows, ()| rows.first().map(|row| row.seq)).await
    }

    fn note_too_many_wakes(&self, agent: &Agent, limit: u32) {
        if self.queue.note_limit(agent.id()) {
            let text = format!(
                "Agent {} was woken by mail {limit} times since your last message; its mail is waiting. Send any message to continue.",
                agent.id().short()
            );
            self.log().publish(agent.id(), EventKind::Notice { text });
        }
    }

    /// Runs a turn without a line in a task of its own.
    pub(crate) fn start_background(self: &Arc<Self>, turn: BackgroundTurn) {
        let session = Arc::clone(self);
        self.lines.spawn(async move {
            let stop = session.lines.closing().child_token();
            if AssertUnwindSafe(session.run_background(turn, stop)).catch_unwind().await.is_err() {
                tracing::error!("a turn panicked");
            }
        });
    }

    async fn run_background(self: &Arc<Self>, turn: BackgroundTurn, stop: CancellationToken) {
        let BackgroundTurn { agent, mut right, after, cause, ending, missing } = turn;
        if let Some(after) = after {
            after.cancelled().await;
        }
        right.ready().await;
        let change = SessionChange {
            requires_alive: vec![agent.id()],
            begins_turns: vec![NewTurn {
                agent: agent.id(),
                cause,
                state: TurnState::Running,
                began: Some(ending.began),
            }],
            ..SessionChange::default()
        };
        let client = self.front();
        if cause == TurnCause::Mail || self.began(&agent, change).await {
            self.run_turn(RunningTurn { agent, right, stop, cause, ending, answers: 0, missing, client }).await;
        }
    }

    /// Stores that the turn of a new agent is running. Returns false if the agent was killed meanwhile.
    async fn began(&self, agent: &Agent, change: SessionChange) -> bool {
        match self.log().commit(change, || {}).await {
            Ok(_) => true,
            Err(error) => {
                if !agent.is_dead() {
                    tracing::error!("cannot store the beginning of a turn: {error}");
                }
                false
            }
        }
    }
}
