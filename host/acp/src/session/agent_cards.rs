//! The turns of agents that are not in view. Their text is not part of the conversation that the client shows, so each turn becomes
//! a card: a tool call that stays in progress until the turn ends. Pure. Called by `transcript`.

use std::collections::BTreeMap;

use patchbay_core::{AgentId, AssistantPart, AssistantRecord, Outcome, TurnState, text};
use patchbay_session::StoredTurn;
use serde_json::{Value, json};

use super::update::{CallStatus, call_status, call_text};

/// Length limit of the text that shows a turn of an agent that is not in view, in characters.
const CHARS: usize = 2000;

/// The running turns, and whether each has a card.
#[derive(Debug, Default)]
pub(super) struct AgentCards {
    running: BTreeMap<AgentId, ShownTurn>,
}

#[derive(Debug)]
struct ShownTurn {
    /// The number of the turn's first row.
    turn: u64,
    has_card: bool,
    /// How a stored turn ended; `None` for a running turn.
    ended: Option<StoredTurn>,
}

impl ShownTurn {
    fn id(&self) -> String {
        format!("turn-{}", self.turn)
    }

    /// Shows the card of a turn of `agent`, if it has none.
    fn show(&mut self, agent: AgentId, out: &mut Vec<Value>) {
        if !std::mem::replace(&mut self.has_card, true) {
            out.push(json!({
                "sessionUpdate": "tool_call", "toolCallId": self.id(), "title": agent.short(), "kind": "other",
                "status": CallStatus::InProgress.as_str(),
            }));
        }
    }
}

impl AgentCards {
    /// Notes that a turn has begun.
    pub(super) fn began(&mut self, agent: AgentId, turn: u64, is_in_view: bool, out: &mut Vec<Value>) {
        let mut running = ShownTurn { turn, has_card: false, ended: None };
        if !is_in_view {
            running.show(agent, out);
        }
        self.running.insert(agent, running);
    }

    /// Shows a stored turn. Its card does not end here, because the rows of its answers follow. It ends with the agent's next
    /// turn or with [`AgentCards::end_all_stored`].
    pub(super) fn stored(&mut self, agent: AgentId, turn: u64, stored: StoredTurn, out: &mut Vec<Value>) {
        self.end_stored(agent, out);
        let is_over = matches!(stored.state, TurnState::Done | TurnState::Interrupted);
        let mut running = ShownTurn { turn, has_card: false, ended: is_over.then_some(stored) };
        running.show(agent, out);
        self.running.insert(agent, running);
    }

    fn end_stored(&mut self, agent: AgentId, out: &mut Vec<Value>) {
        let stored = self.running.get_mut(&agent).and_then(|running| running.ended.take());
        if let Some(StoredTurn { state, outcome }) = stored {
            self.ended(agent, state, &outcome, out);
        }
    }

    /// Ends the cards of all stored turns that are over.
    pub(super) fn end_all_stored(&mut self, out: &mut Vec<Value>) {
        let agents: Vec<AgentId> = self.running.keys().copied().collect();
        agents.into_iter().for_each(|agent| self.end_stored(agent, out));
    }

    /// Shows the turns of all agents but the one that came into view.
    pub(super) fn view_moved(&mut self, view: AgentId, out: &mut Vec<Value>) {
        for (agent, running) in self.running.iter_mut().filter(|(agent, _)| **agent != view) {
            running.show(*agent, out);
        }
    }

    /// Returns the id of the card of an agent's turn.
    pub(super) fn card(&self, agent: AgentId) -> Option<String> {
        self.running.get(&agent).filter(|running| running.has_card).map(ShownTurn::id)
    }

    /// Shows an agent's answer on its card: the text, or the names of the called tools if there is no text.
    pub(super) fn answered(&self, agent: AgentId, content: &str, answer: &AssistantRecord, out: &mut Vec<Value>) {
        let Some(id) = self.card(agent) else { return };
        let mut words = shortened(content);
        if words.is_empty() {
            let tools: Vec<String> =
                answer.parts.iter().filter_map(AssistantPart::tool_call).map(|call| call.name).collect();
            words = shortened(&tools.join(", "));
        }
        if !words.is_empty() {
            out.push(call_status(&id, CallStatus::InProgress, Some(vec![call_text(&words)])));
        }
    }

    pub(super) fn ended(&mut self, agent: AgentId, state: TurnState, outcome: &Outcome, out: &mut Vec<Value>) {
        let Some(running) = self.running.remove(&agent).filter(|running| running.has_card) else { return };
        let is_done = state == TurnState::Done && outcome.is_ok();
        let status = if is_done { CallStatus::Completed } else { CallStatus::Failed };
        let words = shortened(&outcome.line());
        let content = (!words.is_empty()).then(|| vec![call_text(&words)]);
        out.push(call_status(&running.id(), status, content));
    }

    /// Ends the cards that are left when nothing runs any more, because the last events of their turns were lost.
    pub(super) fn idle(&mut self, out: &mut Vec<Value>) {
        for (_, running) in std::mem::take(&mut self.running).into_iter().filter(|(_, running)| running.has_card) {
            out.push(call_status(&running.id(), CallStatus::Completed, None));
        }
    }
}

/// Returns `words` without control characters, truncated to the limit of a card.
pub(super) fn shortened(words: &str) -> String {
    let clean = text::clean(words);
    let clean = clean.trim();
    match clean.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::Code;

    use super::{super::tool_calls::tests::states, *};

    const PARENT: AgentId = AgentId::from_bytes([1; 16]);
    const CHILD: AgentId = AgentId::from_bytes([0xab; 16]);

    #[test]
    fn turn_of_another_agent_is_a_card_while_it_runs() {
        let (mut cards, mut out) = (AgentCards::default(), Vec::new());
        cards.began(PARENT, 1, true, &mut out);
        assert_eq!(out, Vec::<Value>::new());
        cards.began(CHILD, 3, false, &mut out);
        assert_eq!(out[0]["title"], "abababab");
        assert_eq!(states(&mut out), ["turn-3 in_progress"]);
        cards.ended(CHILD, TurnState::Done, &Outcome::ok(Code::Answered, "Two\u{1b}[2J."), &mut out);
        assert_eq!(out[0]["content"][0]["content"]["text"], "Two[2J.");
        assert_eq!(states(&mut out), ["turn-3 completed"]);
        cards.ended(PARENT, TurnState::Done, &Outcome::ok(Code::Answered, "One"), &mut out);
        assert_eq!(out, Vec::<Value>::new());
    }

    #[test]
    fn running_turns_get_cards_when_the_view_moves_away() {
        let (mut cards, mut out) = (AgentCards::default(), Vec::new());
        cards.began(PARENT, 1, true, &mut out);
        cards.view_moved(CHILD, &mut out);
        cards.view_moved(CHILD, &mut out);
        assert_eq!(
            (cards.card(PARENT).as_deref(), states(&mut out)),
            (Some("turn-1"), vec!["turn-1 in_progress".into()])
        );
        cards.ended(PARENT, TurnState::Interrupted, &Outcome::error(Code::AgentDead, "killed"), &mut out);
        assert_eq!(states(&mut out), ["turn-1 failed"]);
        cards.began(PARENT, 5, false, &mut out);
        out.clear();
        cards.idle(&mut out);
        assert_eq!(states(&mut out), ["turn-5 completed"]);
    }

    #[test]
    fn stored_turns_are_cards_that_ended_as_they_did() {
        let (mut cards, mut out) = (AgentCards::default(), Vec::new());
        let done = |outcome| StoredTurn { state: TurnState::Done, outcome };
        cards.stored(CHILD, 3, done(Outcome::ok(Code::Answered, "")), &mut out);
        assert_eq!(states(&mut out), ["turn-3 in_progress"]);
        cards.stored(CHILD, 8, done(Outcome::refused(Code::ProviderServer, "")), &mut out);
        assert_eq!(states(&mut out), ["turn-3 completed", "turn-8 in_progress"]);
        let running = StoredTurn { state: TurnState::Running, outcome: Outcome::ok(Code::Answered, "") };
        cards.stored(PARENT, 9, running, &mut out);
        out.clear();
        cards.end_all_stored(&mut out);
        assert_eq!((states(&mut out), cards.card(PARENT)), (vec!["turn-8 failed".into()], Some("turn-9".into())));
    }
}
