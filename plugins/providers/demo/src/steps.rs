//! Splits an answer into actions: word by word, with delays between.

use std::collections::VecDeque;

use patchbay_provider_sdk::{Action, BlockDelta, BlockEnd, BlockKind, BlockStart, Event, Failure, ToolHead};

use crate::answer::{Answer, Call, End};

/// Maximum number of words that one call of [`Steps::next`] returns.
const WORDS_A_STEP: usize = 1_000;
/// Maximum number of pieces into which a call's input is split.
const PIECES: usize = 3;
/// The length of each wait of an answer that never ends. The host rejects a wait that exceeds the remaining time of the
/// exchange, so a longer wait would end the answer earlier.
pub(crate) const HANG_MS: u32 = 1_000;

pub(crate) struct Steps {
    left: VecDeque<Step>,
    delay_ms: u32,
}

enum Step {
    Do(Action),
    Pause {
        ms: u32,
    },
    Hang,
    /// The words of a text from a byte offset.
    Words {
        index: u32,
        text: String,
        from: usize,
    },
}

impl Steps {
    /// Creates the steps of `answer`, with a delay of `delay_ms` after each word.
    pub(crate) fn new(model: &str, answer: Answer, delay_ms: u32) -> Self {
        let mut steps = Self { left: VecDeque::new(), delay_ms };
        let usage = Event::Usage(answer.usage);
        if answer.pause_ms > 0 {
            steps.left.push_back(Step::Pause { ms: answer.pause_ms });
        }
        let end = match answer.end {
            End::Refuse(failure) => {
                steps.left.push_back(Step::Do(Action::Fail(failure)));
                return steps;
            }
            End::Break(failure) => Step::Do(Action::Fail(failure)),
            End::Finish(finish) => Step::Do(Action::Finish(finish)),
            End::Hang => Step::Hang,
        };
        let breaks = matches!(end, Step::Do(Action::Fail(_)));
        let is_open = !matches!(end, Step::Do(Action::Finish(_)));
        steps.emit(Event::Started(model.to_owned()));
        let mut index = 0;
        if let Some((thought, signature)) = answer.thought {
            steps.start(index, BlockKind::Thinking);
            steps.left.push_back(Step::Words { index, text: thought, from: 0 });
            steps.end(index, Some(signature));
            index += 1;
        }
        if breaks || !answer.text.is_empty() {
            steps.start(index, BlockKind::Text);
            steps.left.push_back(Step::Words { index, text: answer.text, from: 0 });
            // If the answer breaks off or hangs, its text block is never ended.
            if !is_open {
                steps.end(index, None);
            }
            index += 1;
        }
        for (index, call) in (index..).zip(answer.calls) {
            steps.call(index, call);
        }
        steps.emit(usage);
        steps.left.push_back(end);
        steps
    }

    /// Creates steps that only fail.
    pub(crate) fn failing(failure: Failure) -> Self {
        Self { left: [Step::Do(Action::Fail(failure))].into(), delay_ms: 0 }
    }

    /// Returns the next actions, up to a delay or the end.
    pub(crate) fn next(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut words = 0;
        while let Some(step) = self.left.pop_front() {
            let (index, text, from) = match step {
                Step::Do(action) => {
                    actions.push(action);
                    continue;
                }
                Step::Pause { ms } => {
                    actions.push(Action::WaitMs(ms));
                    break;
                }
                Step::Hang => {
                    self.left.push_front(Step::Hang);
                    actions.push(Action::WaitMs(HANG_MS));
                    break;
                }
                Step::Words { index, text, from } => (index, text, from),
            };
            let to = end_of_word(&text, from);
            if from == to {
                continue;
            }
            actions.push(delta(index, &text[from..to]));
            words += 1;
            if to < text.len() {
                self.left.push_front(Step::Words { index, text, from: to });
            }
            if self.delay_ms > 0 || words == WORDS_A_STEP {
                actions.push(Action::WaitMs(self.delay_ms));
                break;
            }
        }
        actions
    }

    fn call(&mut self, index: u32, call: Call) {
        self.start(index, BlockKind::ToolCall(ToolHead { id: call.id, name: call.name }));
        let mut rest = call.input.as_str();
        for left in (1..=PIECES).rev() {
            let at = rest.ceil_char_boundary(rest.len().div_ceil(left));
            if at > 0 {
                self.left.push_back(Step::Do(delta(index, &rest[..at])));
            }
            rest = &rest[at..];
        }
        self.end(index, None);
    }

    fn start(&mut self, index: u32, kind: BlockKind) {
        self.emit(Event::BlockStart(BlockStart { index, kind }));
    }

    fn end(&mut self, index: u32, opaque: Option<String>) {
        self.emit(Event::BlockEnd(BlockEnd { index, opaque }));
    }

    fn emit(&mut self, event: Event) {
        self.left.push_back(Step::Do(Action::Emit(event)));
    }
}

fn delta(index: u32, text: &str) -> Action {
    Action::Emit(Event::BlockDelta(BlockDelta { index, text: text.to_owned() }))
}

/// Returns where the next word after `from` ends. White space before the word belongs to it, and white space at the end
/// of the text belongs to the last word.
fn end_of_word(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let start = rest.len() - rest.trim_start().len();
    let Some(length) = rest[start..].find(char::is_whitespace) else { return text.len() };
    let end = start + length;
    if rest[end..].trim_start().is_empty() { text.len() } else { from + end }
}
