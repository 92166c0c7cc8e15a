//! Notices a model that calls the same tool again and again.

use patchbay_core::{Digest, ToolRecord, completion::ToolCall, text};

/// Calls in a row with the same input and result after which the person is told. Nothing is stopped: polling looks the same.
const MANY: u32 = 5;

/// The last call of a turn, and how often it was made in a row.
#[derive(Default)]
pub(crate) struct Repeats {
    /// The digest of name, input and result.
    last: Option<Digest>,
    count: u32,
}

impl Repeats {
    /// Counts a call; returns what the person is told where this is the fifth of its kind in a row.
    pub(crate) fn notice(&mut self, call: &ToolCall, answer: &ToolRecord) -> Option<String> {
        // Texts and lists of texts: there is nothing that JSON could not hold.
        let made = serde_json::to_vec(&(&call.name, &call.input, answer.error, &answer.content)).unwrap_or_default();
        let made = Some(Digest::of(&made));
        self.count = if self.last == made { self.count.saturating_add(1) } else { 1 };
        self.last = made;
        (self.count == MANY).then(|| {
            format!("{} was called {MANY} times with the same input and result.", text::excerpt(&call.name, 80))
        })
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::ToolRecordPart;

    use super::*;

    /// Which of these calls, each an input and a result, are noticed.
    fn noticed(calls: &[(&str, &str)]) -> Vec<usize> {
        let mut repeats = Repeats::default();
        let mut noticed = Vec::new();
        for (index, (input, result)) in calls.iter().enumerate() {
            let id = format!("call_{index}");
            let call = ToolCall { id: id.clone(), name: "calc__eval".to_owned(), input: (*input).to_owned() };
            let content = vec![ToolRecordPart::Text { text: (*result).to_owned() }];
            let answer = ToolRecord { call_id: id, name: call.name.clone(), error: None, content };
            if let Some(notice) = repeats.notice(&call, &answer) {
                assert_eq!(notice, "calc__eval was called 5 times with the same input and result.");
                noticed.push(index);
            }
        }
        noticed
    }

    #[test]
    fn the_fifth_equal_call_in_a_row_is_noticed_once() {
        assert_eq!(noticed(&[("1", "1"); 12]), [4]);
        let other =
            [[("1", "1"); 4].as_slice(), &[("2", "1")], &[("1", "1"); 4], &[("1", "2")], &[("1", "1"); 5]].concat();
        assert_eq!(noticed(&other), [14]);
        let twice = [[("1", "1"); 6].as_slice(), &[("2", "2")], &[("1", "1"); 6]].concat();
        assert_eq!(noticed(&twice), [4, 11]);
    }
}
