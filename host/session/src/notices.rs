//! What a session tells its person beside the conversation: at its beginning, and while it is open.

use std::sync::Arc;

use patchbay_agent::Chosen;
use patchbay_core::{AgentId, EventKind, text};
use patchbay_events::EventLog;
use patchbay_provider::DefaultChoice;
use patchbay_store::StoreError;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use crate::{Session, recap};

impl Session {
    /// What the person is told when the session begins: that a new session's workspace is or holds their home folder;
    /// files of the persona that are not used, and why.
    pub fn notices(&self) -> Vec<String> {
        self.home_notice.iter().chain(&self.state().persona.skipped).cloned().collect()
    }

    /// Which model answers, in one line for the greeting; or why none does.
    pub async fn model_line(&self) -> String {
        let agent = self.agent_in_view();
        let chosen = agent.chosen();
        if chosen == Chosen::default()
            && let Ok(DefaultChoice { choice, configured: false }) = self.host.providers.default_choice().await
        {
            return format!(
                "{} answers: it only echoes. /model chooses a model; default_model in config.toml makes the choice last.",
                choice.model
            );
        }
        match self.model_of(&agent).await {
            Ok(choice) => format!("Model: {}", choice.as_argument()),
            Err(outcome) => {
                let why = outcome.message.lines().next().unwrap_or_default();
                let hint = if why.contains("/model") { "" } else { " /model chooses one." };
                format!("No model answers yet: {}.{hint}", why.trim_end_matches('.'))
            }
        }
    }

    /// That skills were kept out of the snapshot, or limited; `None` if none were.
    pub fn exclusions(&self) -> Option<String> {
        let problems = self.snapshot().diagnostics().len();
        (problems > 0).then(|| format!("{problems} kept out or limited; /skills says why."))
    }

    /// The last message to the agent in view and its answer, in lines for a person who resumes the session; nothing in a new
    /// session.
    ///
    /// # Errors
    /// The database.
    pub async fn last_exchange(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.log().store().last_exchange(self.id(), self.agent_in_view().id()).await?;
        Ok(rows.map(|(said, answer)| recap::lines(&said, answer.as_ref())).unwrap_or_default())
    }

    /// Shows the person one line, in every front of this session.
    pub(crate) fn notify(&self, text: &str) {
        self.log().publish(self.agent_in_view().id(), EventKind::Notice { text: text::clean_line(text) });
    }
}

/// Publishes changes of the providers in the log of a session, as notices of `agent`, until `closed`.
pub(crate) async fn forward(
    mut notices: broadcast::Receiver<String>,
    log: Arc<EventLog>,
    agent: AgentId,
    closed: CancellationToken,
) {
    while let Some(notice) = closed.run_until_cancelled(notices.recv()).await {
        let text = match notice {
            Ok(text) => text,
            Err(RecvError::Lagged(missed)) => format!("{missed} more changes of providers. /providers lists them."),
            Err(RecvError::Closed) => return,
        };
        log.publish(agent, EventKind::Notice { text: text::clean_line(&text) });
    }
}
