//! Decides how an answer ends its turn: whether the turn is over, the note for the user, and whether the turn
//! has a result. Called by `turn`.

use patchbay_core::{
    completion::{Finish, Stop},
    text,
};

/// Length limit of the stop reason that a provider reports, in characters.
pub(crate) const RAW_CHARS: usize = 80;
/// Length limit of a provider's explanation in a message, in characters.
pub(crate) const WHY_CHARS: usize = 300;

/// After this many answers in a row that are cut off in the middle of a call, the turn ends. Each costs a full answer's
/// tokens, and a model that was cut off three times won't write a shorter call.
const CUT_OFF_ANSWERS: u32 = 3;

/// The end of a complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AnswerEnd {
    pub(crate) stop: Stop,
    /// Number of answers in a row, up to this one, that were cut off in the middle of a call.
    pub(crate) cut_off_answers: u32,
    /// Whether the turn ends with this answer.
    pub(crate) ends_turn: bool,
    /// The message for the user if the turn ends with this answer; `None` for a usual end.
    pub(crate) notice: Option<String>,
    /// Whether a turn that ends with this answer has no result.
    is_failure: bool,
}

impl AnswerEnd {
    /// Returns the meaning of `finish` for an answer with this text. `why` is the provider's explanation,
    /// `cut_off_before` the number of consecutive answers before this one that were cut off while writing their calls.
    pub(crate) fn new(finish: &Finish, why: Option<&str>, text: &str, has_calls: bool, cut_off_before: u32) -> Self {
        let Finish { stop, raw } = finish;
        let stop = *stop;
        let cut_off_answers = if has_calls && is_cut_off(stop) { cut_off_before + 1 } else { 0 };
        let is_refused = matches!(stop, Stop::Refusal | Stop::ContentFilter);
        let is_blank = text.trim().is_empty();
        Self {
            stop,
            cut_off_answers,
            ends_turn: !has_calls || is_refused || cut_off_answers == CUT_OFF_ANSWERS,
            notice: notice(stop, raw, why, is_blank),
            is_failure: is_blank || is_refused || stop == Stop::Other || cut_off_answers > 0,
        }
    }

    /// Returns whether the model was stopped before the end of its answer. The input of a call may then be incomplete.
    pub(crate) fn is_cut_off(&self) -> bool {
        is_cut_off(self.stop)
    }

    /// Returns why a turn that ends with this answer has no result; `None` if it has one.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.notice.as_deref().filter(|_| self.is_failure)
    }
}

fn is_cut_off(stop: Stop) -> bool {
    !matches!(stop, Stop::ToolUse | Stop::EndTurn)
}

fn notice(stop: Stop, raw: &str, why: Option<&str>, is_blank: bool) -> Option<String> {
    let mut text = match stop {
        Stop::MaxTokens => "The answer is cut off: it reached the model's output limit.".to_owned(),
        Stop::ContextWindow => "The answer is cut off: the model's context window is full.".to_owned(),
        Stop::Refusal => "The model refuses to answer this.".to_owned(),
        Stop::ContentFilter => "The provider's filter cut the answer off.".to_owned(),
        Stop::Other => format!("The provider ended the answer for another reason: {}.", text::excerpt(raw, RAW_CHARS)),
        Stop::EndTurn | Stop::ToolUse if is_blank => "The model's answer is empty.".to_owned(),
        Stop::EndTurn | Stop::ToolUse => return None,
    };
    if let Some(why) = why {
        text += &format!(" The provider says: {}", text::excerpt(why, WHY_CHARS));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(stop: Stop, text: &str, has_calls: bool, cut_off_before: u32) -> AnswerEnd {
        AnswerEnd::new(&Finish { stop, raw: "raw".to_owned() }, None, text, has_calls, cut_off_before)
    }

    #[test]
    fn answer_without_a_result_says_why() {
        for (stop, text, failure) in [
            (Stop::EndTurn, "Yes.", None),
            (Stop::EndTurn, " \n", Some("The model's answer is empty.")),
            (Stop::ToolUse, "", Some("The model's answer is empty.")),
            // A partial answer still counts as a result.
            (Stop::MaxTokens, "Half", None),
            (Stop::MaxTokens, "", Some("The answer is cut off: it reached the model's output limit.")),
            (Stop::ContextWindow, "Half", None),
            (Stop::ContextWindow, "", Some("The answer is cut off: the model's context window is full.")),
            (Stop::Refusal, "Sorry.", Some("The model refuses to answer this.")),
            (Stop::ContentFilter, "Half", Some("The provider's filter cut the answer off.")),
            (Stop::Other, "Half", Some("The provider ended the answer for another reason: raw.")),
        ] {
            let end = end(stop, text, false, 0);
            assert_eq!((end.failure(), end.ends_turn), (failure, true), "{stop:?} {text:?}");
            let is_usual = matches!(stop, Stop::EndTurn | Stop::ToolUse) && !text.trim().is_empty();
            assert_eq!(end.notice.is_none(), is_usual, "{stop:?} {text:?}");
        }
        let finish = Finish { stop: Stop::Refusal, raw: String::new() };
        let end = AnswerEnd::new(&finish, Some("It is about weather."), "", false, 0);
        let expected = "The model refuses to answer this. The provider says: It is about weather.";
        assert_eq!((end.failure(), end.notice.as_deref()), (Some(expected), Some(expected)));
    }

    #[test]
    fn third_answer_that_is_cut_off_ends_the_turn() {
        for stop in [Stop::MaxTokens, Stop::ContextWindow, Stop::Other] {
            for (before, after, ends_turn) in [(0, 1, false), (1, 2, false), (2, 3, true)] {
                let end = end(stop, "I write it.", true, before);
                assert_eq!((end.cut_off_answers, end.ends_turn), (after, ends_turn), "{stop:?}");
            }
            assert!(end(stop, "I write it.", true, 2).failure().is_some(), "its calls were not run");
        }
        // Any other answer begins a new count.
        let whole = end(Stop::ToolUse, "", true, 2);
        assert_eq!((whole.cut_off_answers, whole.ends_turn), (0, false));
        let without_calls = end(Stop::MaxTokens, "Half", false, 2);
        assert_eq!((without_calls.cut_off_answers, without_calls.failure()), (0, None));
    }

    #[test]
    fn refusal_ends_the_turn_at_once() {
        for stop in [Stop::Refusal, Stop::ContentFilter] {
            let end = end(stop, "", true, 0);
            assert!(end.ends_turn && end.is_cut_off() && end.failure().is_some(), "{stop:?}");
        }
    }
}
