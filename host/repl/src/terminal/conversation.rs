//! The agent in view: its transcript, its questions, and its part of the status row.

use std::{collections::BTreeMap, time::Instant};

use patchbay_core::{AgentId, Code, Outcome};
use patchbay_session::{AgentInView, ModelInUse, PersonAnswer};

use super::{questions::Questions, transcript::Transcript};

pub(super) struct FrontConversation {
    /// The agent in view, according to the events: the session may have moved the view already.
    pub(super) view: AgentInView,
    /// Whether the view has moved, but the agent's conversation is not printed yet.
    pub(super) is_joining: bool,
    pub(super) transcript: Transcript,
    pub(super) questions: Questions,
    /// The model that answers, for the status row.
    pub(super) model: Option<ModelInUse>,
    /// How the last turn of each agent ended, if that was printed.
    told: BTreeMap<AgentId, (Code, String)>,
    /// Whether the model, the unread mail or the tasks of the agent in view may have changed.
    pub(super) is_outdated: bool,
    /// Whether events were lost.
    pub(super) has_lagged: bool,
}

impl FrontConversation {
    pub(super) fn new(view: AgentInView, transcript: Transcript, model: Option<ModelInUse>) -> Self {
        Self {
            questions: Questions::new(view.id, Instant::now()),
            view,
            is_joining: false,
            transcript,
            model,
            told: BTreeMap::new(),
            is_outdated: false,
            has_lagged: false,
        }
    }

    /// Notes that the outcome of a turn of `agent` is printed.
    pub(super) fn tell(&mut self, agent: AgentId, outcome: &Outcome) {
        // The text of an answer is printed from its row.
        let message = if outcome.is_ok() { String::new() } else { outcome.message.clone() };
        self.told.insert(agent, (outcome.code, message));
    }

    /// Whether the outcome of a line of `agent` was printed when its turn ended.
    pub(super) fn was_told(&self, agent: AgentId, outcome: &Outcome) -> bool {
        let told = self.told.get(&agent);
        told.is_some_and(|(code, message)| *code == outcome.code && (outcome.is_ok() || *message == outcome.message))
    }

    pub(super) fn take_told(&mut self, agent: AgentId, outcome: &Outcome) -> bool {
        self.was_told(agent, outcome) && self.told.remove(&agent).is_some()
    }

    /// Tells the transcript whether the agent in view waits for the user to answer a question.
    pub(super) fn note_question(&mut self, now: Instant) {
        self.transcript.set_question(self.questions.agent() == Some(self.view.id), now);
    }

    /// Denies the request of the open question. The model reads `why`.
    pub(super) fn deny(&mut self, why: &str) {
        let denied = self.questions.answer(PersonAnswer::no(why));
        denied.iter().for_each(|line| self.transcript.notice(line));
    }
}
