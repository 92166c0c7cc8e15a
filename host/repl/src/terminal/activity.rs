//! Running and waiting work: the lines of this front, the queue of the agent in view, and lines that are not shown yet.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::{future::BoxFuture, stream::FuturesUnordered};
use patchbay_core::{AgentId, DequeueReason, LineId, Outcome};
use patchbay_session::{QueueView, Session, Submitted};
use tokio::sync::watch;

use super::busy::Busy;

/// The commands that move the view. Their outcome is printed before the messages of the
/// agent that they bring into view.
const MOVES_VIEW: [&str; 4] = ["/fork", "/kill", "/rewind", "/switch"];

/// Whether a line is a command that may move the view.
fn moves_view(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|name| MOVES_VIEW.contains(&name))
}

/// A line of this front whose outcome was not handled yet.
pub(super) struct SubmittedLine {
    pub(super) agent: AgentId,
    /// Whether it is `/help` without an argument, whose error gets a hint.
    pub(super) is_bare_help: bool,
    moves_view: bool,
    /// Whether it is a message that has joined a turn. The end of the turn then reports the outcome.
    pub(super) has_joined: bool,
    /// How long it ran; `None` until it has ended, or if it only waited.
    pub(super) took: Option<Duration>,
}

/// A line that waits until a command has ended. It is shown only then, which keeps each result below its own line.
struct UnshownLine {
    line: LineId,
    /// The command that it waits for.
    after: LineId,
    /// Whether that command moves the view.
    is_behind_move: bool,
    text: String,
}

pub(super) struct FrontActivity {
    pub(super) busy: Busy,
    /// The progress of compilation.
    pub(super) compiling: watch::Receiver<Option<String>>,
    /// The lines of this front that have not ended.
    pub(super) running: FuturesUnordered<BoxFuture<'static, (LineId, Outcome)>>,
    pub(super) submitted: BTreeMap<LineId, SubmittedLine>,
    /// The lines that wait for their turn, as the session keeps them.
    pub(super) queue: QueueView,
    /// The texts of waiting lines, which are printed when their turns begin.
    pub(super) texts: BTreeMap<LineId, String>,
    /// Lines that wait for a command, in the order in which they were entered.
    unshown: Vec<UnshownLine>,
    /// Whether the waiting lines are sent as soon as the running work has stopped.
    pub(super) sends_after_stop: bool,
}

impl FrontActivity {
    /// Returns the state in which nothing runs for `view`, and the lines of `queue` wait.
    pub(super) fn new(view: AgentId, queue: QueueView, compiling: watch::Receiver<Option<String>>) -> Self {
        Self {
            busy: Busy::new(view),
            compiling,
            running: FuturesUnordered::new(),
            submitted: BTreeMap::new(),
            texts: queue.lines.iter().map(|line| (line.id, line.text.clone())).collect(),
            queue,
            unshown: Vec::new(),
            sends_after_stop: false,
        }
    }

    /// Whether neither a line nor a turn of the agent in view runs.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_idle()
    }

    /// Whether a line waits in the queue of the agent in view.
    fn is_queued(&self, id: LineId) -> bool {
        self.queue.lines.iter().any(|waiting| waiting.id == id)
    }

    /// Whether a command that may move the view has not ended yet.
    pub(super) fn is_view_moving(&self) -> bool {
        self.submitted.values().any(|line| line.moves_view)
    }

    /// Reads the waiting lines of the agent in view.
    pub(super) fn take_queue(&mut self, session: &Session) {
        self.queue = session.queue();
        for line in &self.queue.lines {
            self.texts.entry(line.id).or_insert_with(|| line.text.clone());
        }
    }

    /// Adds a line that was submitted. Returns whether it is shown now, because it waits neither in the queue nor for a command.
    pub(super) fn add(&mut self, line: &str, submitted: Submitted, session: &Session) -> bool {
        let (id, agent) = (submitted.id(), submitted.agent());
        let is_bare_help = line.trim() == "/help";
        let moves_view = moves_view(line);
        self.submitted.insert(id, SubmittedLine { agent, is_bare_help, moves_view, has_joined: false, took: None });
        self.queue = session.queue();
        let mut is_shown = false;
        if !self.is_queued(id) {
            let is_behind_move = submitted.is_behind_move();
            match submitted.waits_for() {
                Some(after) => {
                    self.unshown.push(UnshownLine { line: id, after, is_behind_move, text: line.to_owned() });
                }
                None => is_shown = true,
            }
            if !is_behind_move {
                self.busy.begin(id, agent, line, Instant::now());
            }
        }
        self.running.push(Box::pin(async move { (id, submitted.await) }));
        is_shown
    }

    /// Notes that a line has left the queue. Returns its text if it runs now or has joined a turn.
    pub(super) fn left_queue(&mut self, line: LineId, reason: DequeueReason) -> Option<String> {
        if let Some(submitted) = self.submitted.get_mut(&line) {
            submitted.has_joined = reason == DequeueReason::Joined;
        }
        self.texts.remove(&line).filter(|_| reason != DequeueReason::TakenBack)
    }

    /// Removes a line that ended before it was shown, and returns its text.
    pub(super) fn take_unshown(&mut self, id: LineId) -> Option<String> {
        let at = self.unshown.iter().position(|unshown| unshown.line == id)?;
        Some(self.unshown.remove(at).text)
    }

    /// Begins the lines that wait for `ended`, and returns their texts, to be shown above their results. Lines typed
    /// after a command that moves the view belong to `view`, the agent now in view, and may wait in its queue.
    pub(super) fn begin_lines_behind(&mut self, ended: LineId, view: AgentId) -> Vec<String> {
        let (next, waiting): (Vec<_>, _) =
            std::mem::take(&mut self.unshown).into_iter().partition(|line| line.after == ended);
        self.unshown = waiting;
        let mut shown = Vec::new();
        for UnshownLine { line, is_behind_move, text, .. } in next {
            if is_behind_move {
                self.submitted.entry(line).and_modify(|submitted| submitted.agent = view);
                if self.is_queued(line) {
                    self.texts.insert(line, text);
                    continue;
                }
                self.busy.begin(line, view, &text, Instant::now());
            }
            shown.push(text);
        }
        shown
    }

    /// Sends the waiting lines if the user wanted them to be sent after a stop.
    pub(super) fn send_what_is_held(&self, session: &Session) {
        if self.sends_after_stop && self.queue.held {
            session.release_queue();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_move_the_view_are_known_by_their_names() {
        let lines = ["/switch root", "/kill", "/fork \"x\"", "/forks", "/agents", "hello /kill"];
        assert_eq!(lines.map(moves_view), [true, true, true, false, false, false]);
    }
}
