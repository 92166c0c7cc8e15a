//! Which text of the answers of one agent a front has shown. Pieces of an answer may be late, come twice or be lost, an attempt may
//! break off, and the user may look at another agent; the row of an answer always has the whole text. Pure: a front passes
//! every event of its subscription, and shows what [`AnswerFollower::follow`] returns.

use std::collections::HashMap;

use patchbay_core::{AgentId, DeltaKind, DeltaPosition, Event, EventKind, MessageKind, Retrying};

/// Follows the answers of the agent in view. Between two moves of the view, each byte of an answer's text is returned
/// exactly once, in order; text of an attempt that broke off is followed by a [`BrokeOff`]. Thinking is not part of a
/// row: pieces of it that are lost stay lost.
#[derive(Debug)]
pub struct AnswerFollower {
    view: AgentId,
    /// For each agent, the number of the row up to which its answers are complete. Pieces with a lower number are late.
    complete: HashMap<AgentId, u64>,
    /// The answer of the agent in view that is being received.
    answer: Option<FollowedAnswer>,
}

/// One attempt at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerAttempt {
    /// The turn: the number of its first row.
    pub turn: u64,
    /// The answer's index in the turn, from 0.
    pub answer: u32,
    /// Number of attempts that were given up before this one.
    pub given_up: u32,
}

/// How much of an answer was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerReceived {
    /// The attempt that it belongs to.
    pub attempt: AnswerAttempt,
    /// Bytes of its text.
    pub text: usize,
    /// The block of thinking that came last, and how many of its bytes; `None` before the first.
    pub thinking: Option<(u32, u64)>,
}

/// The additions of an event to the answer of the agent in view.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Followed<'a> {
    /// An earlier attempt broke off. Reported before `piece`.
    pub broke_off: Option<BrokeOff<'a>>,
    /// New text of the same attempt, after the text returned before.
    pub piece: Option<AnswerText<'a>>,
}

/// New text of an answer, for a front to show.
#[derive(Debug, PartialEq, Eq)]
pub struct AnswerText<'a> {
    /// The attempt it belongs to, or `None` if this is the whole answer and no piece of it was received before.
    pub attempt: Option<AnswerAttempt>,
    /// Whether this is text or thinking.
    pub block: DeltaKind,
    /// The text that the front should add.
    pub text: &'a str,
}

/// An attempt that broke off. Its text, if any was returned, is not part of the answer.
#[derive(Debug, PartialEq, Eq)]
pub struct BrokeOff<'a> {
    /// Whether text of it was returned.
    pub was_shown: bool,
    /// The request that follows; `None` if the event of the failure was lost. Then `was_shown` is true.
    pub retry: Option<&'a Retrying>,
    /// The bytes of the returned text that are the answer, if the process ended before it had stored the rest; `None` if none of
    /// it is.
    pub kept: Option<usize>,
}

impl BrokeOff<'_> {
    /// Returns the line for a user whose front cannot take back text that it has printed.
    pub fn line(&self) -> String {
        match (self.retry, self.kept) {
            (Some(retry), _) => retry.broke_off(self.was_shown),
            (None, Some(0)) => "The server stopped during this answer, and nothing of it was stored.".to_owned(),
            (None, Some(_)) => "The server stopped during this answer, and its last words were not stored.".to_owned(),
            (None, None) => {
                "The answer broke off and was asked for again. What was printed of it is given up.".to_owned()
            }
        }
    }
}

/// The received part of an answer.
#[derive(Debug)]
struct FollowedAnswer {
    attempt: AnswerAttempt,
    /// Bytes of text that another follower had returned.
    before: usize,
    /// The text that was returned after them.
    text: String,
    /// Whether a piece of the text is missing. Then the rest comes with the row.
    has_gap: bool,
    /// The block of thinking of the last piece, and the byte at which it goes on.
    thinking: Option<(u32, u64)>,
}

impl FollowedAnswer {
    fn new(attempt: AnswerAttempt) -> Self {
        Self { attempt, before: 0, text: String::new(), has_gap: false, thinking: None }
    }

    /// Returns the number of bytes of text that were returned.
    fn end(&self) -> usize {
        self.before.saturating_add(self.text.len())
    }

    fn key(&self) -> (u64, u32) {
        (self.attempt.turn, self.attempt.answer)
    }
}

impl AnswerFollower {
    /// Begins with `view` in view, before anything of it was shown.
    pub fn new(view: AgentId) -> Self {
        Self { view, complete: HashMap::new(), answer: None }
    }

    /// Returns the agent in view.
    pub fn view(&self) -> AgentId {
        self.view
    }

    /// Moves the view, and returns whether it was elsewhere. An answer that has already begun is returned with its row.
    pub fn look_at(&mut self, view: AgentId) -> bool {
        let has_moved = self.view != view;
        if has_moved {
            (self.view, self.answer) = (view, None);
        }
        has_moved
    }

    /// Moves the view to an agent whose rows up to number `seq` were shown, with the text received so far of
    /// the answer that it is writing.
    pub fn join(&mut self, view: AgentId, seq: u64, answer: Option<(AnswerAttempt, &str)>) {
        self.view = view;
        let complete = self.complete.entry(view).or_default();
        *complete = seq.max(*complete);
        self.answer =
            answer.map(|(attempt, text)| FollowedAnswer { text: text.to_owned(), ..FollowedAnswer::new(attempt) });
    }

    /// Continues the answer of the agent in view where another follower stopped.
    pub fn resume(&mut self, received: AnswerReceived) {
        let AnswerReceived { attempt, text: before, thinking } = received;
        self.answer = Some(FollowedAnswer { before, thinking, ..FollowedAnswer::new(attempt) });
    }

    /// Returns how much of the answer was returned that the agent in view is writing.
    pub fn received(&self) -> Option<AnswerReceived> {
        let answer = self.answer.as_ref()?;
        Some(AnswerReceived { attempt: answer.attempt, text: answer.end(), thinking: answer.thinking })
    }

    /// Processes an event of the session, of any agent. The caller handles [`EventKind::ViewMoved`].
    pub fn follow<'a>(&mut self, event: &'a Event) -> Followed<'a> {
        let Event { agent, seq, kind, .. } = event;
        match kind {
            EventKind::Message { kind: MessageKind::Assistant, content, .. } => self.row(*agent, *seq, content, kind),
            _ if *agent != self.view || *seq < self.complete.get(agent).copied().unwrap_or_default() => {
                Followed::default()
            }
            EventKind::Delta { block, text, at } => self.delta(*block, text, *at),
            EventKind::GivenUp { turn, answer, given_up, retry } => {
                self.given_up(AnswerAttempt { turn: *turn, answer: *answer, given_up: *given_up }, retry)
            }
            EventKind::Message { kind: MessageKind::User | MessageKind::Skill, .. } => self.idle(),
            // An answer without a row failed with its turn.
            EventKind::TurnBegan { .. } | EventKind::TurnEnded { .. } => {
                self.answer = None;
                Followed::default()
            }
            _ => Followed::default(),
        }
    }

    /// Notes that no answer is being written. One without a row is lost.
    pub fn idle(&mut self) -> Followed<'static> {
        let lost = self.answer.take().filter(|answer| answer.end() > 0);
        Followed { broke_off: lost.map(|_| BrokeOff { was_shown: true, retry: None, kept: Some(0) }), piece: None }
    }

    /// Processes a piece of an answer of the agent in view. It may overlap with text that was returned.
    pub fn delta<'a>(&mut self, block: DeltaKind, text: &'a str, at: DeltaPosition) -> Followed<'a> {
        let attempt = AnswerAttempt { turn: at.turn, answer: at.answer, given_up: at.given_up };
        let Some((answer, broke_off)) = self.reach(attempt) else { return Followed::default() };
        let new = match block {
            DeltaKind::Text => {
                let (offset, end) = (usize::try_from(at.offset).unwrap_or(usize::MAX), answer.end());
                answer.has_gap |= offset > end;
                let new = text.get(end.saturating_sub(offset)..).filter(|new| !answer.has_gap && !new.is_empty());
                answer.text.push_str(new.unwrap_or_default());
                new
            }
            DeltaKind::Thinking => {
                let end = at.offset.saturating_add(text.len() as u64);
                let seen = match answer.thinking {
                    Some((index, seen)) if index == at.index && (at.offset..end).contains(&seen) => seen - at.offset,
                    Some((index, _)) if index >= at.index => end,
                    _ => 0,
                };
                let new = usize::try_from(seen).ok().and_then(|seen| text.get(seen..)).filter(|new| !new.is_empty());
                answer.thinking = if new.is_some() { Some((at.index, end)) } else { answer.thinking };
                new
            }
        };
        let broke_off = broke_off.then_some(BrokeOff { was_shown: true, retry: None, kept: None });
        let piece = new.map(|text| AnswerText { attempt: Some(attempt), block, text });
        Followed { broke_off, piece }
    }

    fn given_up<'a>(&mut self, attempt: AnswerAttempt, retry: &'a Retrying) -> Followed<'a> {
        let known = self.answer.as_ref().map(|answer| (answer.key(), answer.attempt.given_up));
        if known == Some(((attempt.turn, attempt.answer), attempt.given_up)) {
            return Followed::default();
        }
        let Some((_, was_shown)) = self.reach(attempt) else { return Followed::default() };
        Followed { broke_off: Some(BrokeOff { was_shown, retry: Some(retry), kept: None }), piece: None }
    }

    /// Returns the state of `attempt`, and whether text of an earlier attempt at the same answer was shown; `None` if a later
    /// attempt or answer has already begun.
    fn reach(&mut self, attempt: AnswerAttempt) -> Option<(&mut FollowedAnswer, bool)> {
        let known = self.answer.take();
        let new = || FollowedAnswer::new(attempt);
        let (answer, broke_off, is_late) = match known {
            None => (new(), false, false),
            Some(known) => match known.key().cmp(&(attempt.turn, attempt.answer)) {
                std::cmp::Ordering::Less => (new(), false, false),
                std::cmp::Ordering::Greater => (known, false, true),
                std::cmp::Ordering::Equal if known.attempt.given_up < attempt.given_up => {
                    (new(), known.end() > 0, false)
                }
                std::cmp::Ordering::Equal => {
                    let is_late = known.attempt.given_up > attempt.given_up;
                    (known, false, is_late)
                }
            },
        };
        let answer = self.answer.insert(answer);
        (!is_late).then_some((answer, broke_off))
    }

    fn row<'a>(&mut self, agent: AgentId, seq: u64, content: &'a str, kind: &EventKind) -> Followed<'a> {
        let complete = self.complete.entry(agent).or_default();
        if seq <= *complete {
            return Followed::default();
        }
        *complete = seq;
        if agent != self.view {
            return Followed::default();
        }
        let (mut attempt, mut broke_off, mut rest) = (None, None, content);
        if let Some(known) = self.answer.take() {
            let record = kind.answer();
            let given_up = record.as_ref().map_or(0, |record| record.failed_attempts.given_up);
            attempt = Some(AnswerAttempt { given_up: given_up.max(known.attempt.given_up), ..known.attempt });
            let is_same = given_up <= known.attempt.given_up;
            let unseen = content.get(known.before..).and_then(|rest| rest.strip_prefix(&*known.text));
            let is_interrupted = record.is_some_and(|record| record.interrupted);
            match unseen.filter(|_| is_same) {
                Some(unseen) => rest = unseen,
                None if known.end() == 0 => {}
                None if is_same && is_interrupted && content.len() < known.end() => {
                    rest = "";
                    broke_off = Some(BrokeOff { was_shown: true, retry: None, kept: Some(content.len()) });
                }
                None => broke_off = Some(BrokeOff { was_shown: true, retry: None, kept: None }),
            }
        }
        let piece = (!rest.is_empty()).then_some(AnswerText { attempt, block: DeltaKind::Text, text: rest });
        Followed { broke_off, piece }
    }
}

#[cfg(test)]
mod tests;
