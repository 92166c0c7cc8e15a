//! Tracks how much of an agent's answers a front has already shown.
//!
//! Live pieces of an answer can be late, duplicated or lost, an attempt can break off, and the user can switch to
//! another agent. The stored row of an answer always has the whole text. A front passes every event of its subscription
//! to [`AnswerFollower::follow`] and shows the result. No I/O happens here.

use std::collections::HashMap;

use patchbay_core::{AgentId, DeltaKind, DeltaPosition, Event, EventKind, MessageKind, Retrying};

/// Follows the answers of the agent in view. Until the view moves, each byte of an answer's text is returned exactly
/// once and in order. If an attempt breaks off, its text is followed by a [`BrokeOff`]. Rows don't contain thinking, so
/// lost pieces of thinking stay lost.
#[derive(Debug)]
pub struct AnswerFollower {
    view: AgentId,
    /// For each agent, the number of the last processed row of an answer. Pieces with a lower number are late.
    complete: HashMap<AgentId, u64>,
    /// The answer that the agent in view is writing; `None` between answers.
    answer: Option<FollowedAnswer>,
}

/// One attempt at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerAttempt {
    /// The number of the turn's first row, which identifies the turn.
    pub turn: u64,
    /// The answer's index in the turn, from 0.
    pub answer: u32,
    /// Number of attempts at this answer that broke off before this one. An attempt that broke off is never resumed: it
    /// is given up.
    pub given_up: u32,
}

/// How much of an answer a follower has returned. Another follower can resume from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerReceived {
    /// The attempt that was being received.
    pub attempt: AnswerAttempt,
    /// Number of returned bytes of the answer's text.
    pub text: usize,
    /// Index of the last block of thinking, and the number of its bytes that were returned; `None` before the first
    /// block.
    pub thinking: Option<(u32, u64)>,
}

/// What an event adds to the answer of the agent in view.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Followed<'a> {
    /// An earlier attempt broke off. Reported before `piece`.
    pub broke_off: Option<BrokeOff<'a>>,
    /// New text, to be shown after `broke_off` and after all text returned before.
    pub piece: Option<AnswerText<'a>>,
}

/// New text of an answer, for a front to show.
#[derive(Debug, PartialEq, Eq)]
pub struct AnswerText<'a> {
    /// The attempt that the text belongs to; `None` if this is a whole answer of which no piece was received live.
    pub attempt: Option<AnswerAttempt>,
    /// Whether this is text or thinking.
    pub block: DeltaKind,
    /// The text that the front should add.
    pub text: &'a str,
}

/// An attempt that broke off, either because the request failed and is retried, or because the process died. Unless
/// `kept` says otherwise, none of its text is part of the answer.
#[derive(Debug, PartialEq, Eq)]
pub struct BrokeOff<'a> {
    /// Whether text of the attempt was returned before.
    pub was_shown: bool,
    /// The retry of the request; `None` if the process died or the event that announced the retry was lost. In both
    /// cases `was_shown` is true.
    pub retry: Option<&'a Retrying>,
    /// If the process died during the answer, how many bytes of the returned text were stored and remain the answer,
    /// which can be 0. `None` if the attempt was replaced by another one.
    pub kept: Option<usize>,
}

impl BrokeOff<'_> {
    /// Returns the line to print in a front that cannot remove printed text.
    pub fn line(&self) -> String {
        match (self.retry, self.kept) {
            (Some(retry), _) => retry.broke_off(self.was_shown),
            (None, Some(0)) => "The server stopped during this answer; none of it was saved.".to_owned(),
            (None, Some(_)) => "The server stopped during this answer; the end of it was not saved.".to_owned(),
            (None, None) => {
                "The answer broke off and was requested again. Ignore the part that is already printed.".to_owned()
            }
        }
    }
}

/// The received part of an answer.
#[derive(Debug)]
struct FollowedAnswer {
    attempt: AnswerAttempt,
    /// Number of bytes of text that an earlier follower had returned, if this one resumed.
    before: usize,
    /// The text that this follower has returned, from `before` on.
    text: String,
    /// Whether a piece of the text was lost. No more pieces are returned then; the rest is returned with the row.
    has_gap: bool,
    /// Index of the last block of thinking, and the offset of its next byte.
    thinking: Option<(u32, u64)>,
}

impl FollowedAnswer {
    fn new(attempt: AnswerAttempt) -> Self {
        Self { attempt, before: 0, text: String::new(), has_gap: false, thinking: None }
    }

    /// Returns the offset of the next byte of text to return.
    fn end(&self) -> usize {
        self.before.saturating_add(self.text.len())
    }

    fn key(&self) -> (u64, u32) {
        (self.attempt.turn, self.attempt.answer)
    }
}

impl AnswerFollower {
    /// Creates a follower for the agent `view`, of which nothing was shown yet.
    pub fn new(view: AgentId) -> Self {
        Self { view, complete: HashMap::new(), answer: None }
    }

    /// Returns the agent in view.
    pub fn view(&self) -> AgentId {
        self.view
    }

    /// Moves the view to another agent. Returns false if it was there already. If the agent is in the middle of an
    /// answer, that answer is returned as a whole with its row; to show it earlier, use [`AnswerFollower::join`].
    pub fn look_at(&mut self, view: AgentId) -> bool {
        let has_moved = self.view != view;
        if has_moved {
            (self.view, self.answer) = (view, None);
        }
        has_moved
    }

    /// Moves the view to an agent whose rows were shown up to the number `seq`. `answer` is the answer that the agent
    /// is writing, with the part of its text that was shown.
    pub fn join(&mut self, view: AgentId, seq: u64, answer: Option<(AnswerAttempt, &str)>) {
        self.view = view;
        let complete = self.complete.entry(view).or_default();
        *complete = seq.max(*complete);
        self.answer =
            answer.map(|(attempt, text)| FollowedAnswer { text: text.to_owned(), ..FollowedAnswer::new(attempt) });
    }

    /// Resumes the current answer where another follower stopped, from the result of its [`AnswerFollower::received`].
    pub fn resume(&mut self, received: AnswerReceived) {
        let AnswerReceived { attempt, text: before, thinking } = received;
        self.answer = Some(FollowedAnswer { before, thinking, ..FollowedAnswer::new(attempt) });
    }

    /// Returns how much of the current answer was returned; `None` between answers.
    pub fn received(&self) -> Option<AnswerReceived> {
        let answer = self.answer.as_ref()?;
        Some(AnswerReceived { attempt: answer.attempt, text: answer.end(), thinking: answer.thinking })
    }

    /// Processes an event of any agent of the session. For [`EventKind::ViewMoved`], which is ignored here, call
    /// [`AnswerFollower::look_at`] or [`AnswerFollower::join`].
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
            // An answer that still has no row never gets one: its turn failed.
            EventKind::TurnBegan { .. } | EventKind::TurnEnded { .. } => {
                self.answer = None;
                Followed::default()
            }
            _ => Followed::default(),
        }
    }

    /// Ends the current answer, because the agent is not writing. If text was shown and no row followed, the process
    /// died before it stored the answer; returns a [`BrokeOff`] that keeps nothing.
    pub fn idle(&mut self) -> Followed<'static> {
        let lost = self.answer.take().filter(|answer| answer.end() > 0);
        Followed { broke_off: lost.map(|_| BrokeOff { was_shown: true, retry: None, kept: Some(0) }), piece: None }
    }

    /// Processes a piece of an answer of the agent in view. The piece may overlap with text that was returned before.
    pub fn delta<'a>(&mut self, block: DeltaKind, text: &'a str, at: DeltaPosition) -> Followed<'a> {
        let attempt = AnswerAttempt { turn: at.turn, answer: at.answer, given_up: at.given_up };
        let Some((answer, broke_off)) = self.advance_to(attempt) else { return Followed::default() };
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
        // A piece of the new attempt may arrive before the event, and has then already reported the end of the old one.
        let known = self.answer.as_ref().map(|answer| (answer.key(), answer.attempt.given_up));
        if known == Some(((attempt.turn, attempt.answer), attempt.given_up)) {
            return Followed::default();
        }
        let Some((_, was_shown)) = self.advance_to(attempt) else { return Followed::default() };
        Followed { broke_off: Some(BrokeOff { was_shown, retry: Some(retry), kept: None }), piece: None }
    }

    /// Makes `attempt` the current one unless it already is. Returns its state, and whether text of an earlier attempt
    /// at the same answer was shown. Returns `None` if a later attempt or answer has already begun.
    fn advance_to(&mut self, attempt: AnswerAttempt) -> Option<(&mut FollowedAnswer, bool)> {
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

    /// Processes the row of an answer, which ends it. Returns the text that was not returned before. If the shown text
    /// is not the beginning of the row, reports that the attempt broke off and returns the whole row, unless the
    /// process died and stored less than was shown.
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
