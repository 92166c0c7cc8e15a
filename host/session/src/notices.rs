//! Messages from a session to its user besides the conversation, at its start and while it is open. Fronts show them.

use std::{collections::BTreeSet, sync::Weak};

use patchbay_agent::Chosen;
use patchbay_core::{EventKind, text};
use patchbay_provider::{DefaultChoice, ModelOffer};
use patchbay_store::StoreError;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use crate::{LastExchange, Session, recap};

/// The model that answers an agent, for a front's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInUse {
    /// The model and its level, as `/model` accepts them.
    pub name: String,
    /// Number of tokens that the model can read; the default of `[compaction]` if it is unknown.
    pub window: u64,
}

impl Session {
    /// Returns the messages for the start of the session: about a default model that now belongs to another provider, a workspace
    /// that contains the home folder, and unused files of the persona.
    pub fn notices(&self) -> Vec<String> {
        self.start_notices.iter().chain(&self.state().persona.skipped).cloned().collect()
    }

    /// Returns the greeting's lines about the model that answers, or about the reason why none does. If only the echo model
    /// answers, the lines offer models whose key was found.
    pub async fn model_lines(&self) -> Vec<String> {
        let agent = self.agent_in_view();
        let chosen = agent.chosen();
        if chosen == Chosen::default()
            && let Ok(DefaultChoice { choice, configured: false }) = self.host.providers.default_choice().await
        {
            let mut lines = vec![format!(
                "Using {}, which only echoes. Pick a model with /model; set default_model in config.toml to make it permanent.",
                choice.model
            )];
            let offers = self.host.providers.offers().await;
            lines.extend(offers.into_iter().map(|ModelOffer { provider, model }| {
                format!("Your key for {provider} was found. To use it: /model {model}")
            }));
            return lines;
        }
        vec![match self.model_of(&agent).await {
            Ok(choice) => format!("Model: {}", choice.as_argument()),
            Err(outcome) => {
                let why = outcome.message.lines().next().unwrap_or_default();
                let hint = if why.contains("/model") { "" } else { " /model chooses one." };
                format!("No model answers yet: {}.{hint}", why.trim_end_matches('.'))
            }
        }]
    }

    /// Returns the model that answers the agent in view; `None` if none answers.
    pub async fn model_in_use(&self) -> Option<ModelInUse> {
        let choice = self.model_of(&self.agent_in_view()).await.ok()?;
        let known = self.host.providers.model(&choice.provider, &choice.model).await;
        let window =
            known.and_then(|model| model.context_window).unwrap_or(self.host.agent_settings.compaction.context_window);
        Some(ModelInUse { name: choice.as_argument(), window })
    }

    /// Returns a message if skills were kept out of the snapshot or limited, otherwise `None`. For a resumed session, which has
    /// already reported the same snapshot, the result is always `None`.
    pub fn exclusions(&self) -> Option<String> {
        if self.is_resumed {
            return None;
        }
        let snapshot = self.snapshot();
        let names: BTreeSet<&str> = snapshot.diagnostics().iter().map(|found| found.name.as_str()).collect();
        match names.len() {
            0 => None,
            1 => Some("1 skill is left out or limited. To see why: /skills".to_owned()),
            several => Some(format!("{several} skills are left out or limited. To see why: /skills")),
        }
    }

    /// Returns the last message to the agent in view and its answer, for a user who resumes the
    /// session. A new session has none.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn last_exchange(&self) -> Result<Option<LastExchange>, StoreError> {
        let (store, agent) = (self.log().store(), self.agent_in_view().id());
        let Some((said, answer)) = store.exchange_before(self.id(), agent, u64::MAX).await? else { return Ok(None) };
        let earlier = store.messages_before(self.id(), agent, said.seq).await?;
        Ok(Some(recap::last_exchange(earlier, &said, answer)))
    }

    /// Publishes a notice to all fronts of this session.
    pub fn notify(&self, text: &str) {
        self.log().publish(self.agent_in_view().id(), EventKind::Notice { text: text::clean_line(text) });
    }

    /// Withdraws the trust in the workspace, and publishes `why`.
    pub async fn withdraw_trust(&self, why: &str) {
        match self.host.store().set_trust(self.workspace().to_owned(), false).await {
            Ok(true) => self.notify(&format!("{why} The workspace is no longer trusted.")),
            Ok(false) => self.notify(why),
            Err(error) => self.notify(&format!("{why} The workspace is still trusted: {error}.")),
        }
    }
}

/// Publishes changes of providers as notices of the session until `closed` is cancelled.
pub(crate) async fn forward(
    mut notices: broadcast::Receiver<String>,
    session: Weak<Session>,
    closed: CancellationToken,
) {
    while let Some(notice) = closed.run_until_cancelled(notices.recv()).await {
        let text = match notice {
            Ok(text) => text,
            Err(RecvError::Lagged(missed)) => format!("{missed} more provider changes. To list them: /providers"),
            Err(RecvError::Closed) => return,
        };
        let Some(session) = session.upgrade() else { return };
        session.notify(&text);
    }
}
