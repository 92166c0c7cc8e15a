//! Detects a model that repeats the same tool call. `turn` calls it after each call.

use patchbay_core::{Digest, ToolRecord, completion::ToolCall, text};

/// Number of calls in a row with the same input and result after which the user is notified. The turn continues, since polling
/// looks the same.
const MANY: u32 = 5;

/// The last call of a turn and the number of its repetitions.
#[derive(Default)]
pub(crate) struct Repeats {
    /// Digest of name, input and result.
    last: Option<Digest>,
    count: u32,
}

impl Repeats {
    /// Counts a call; returns a notice for the fifth equal call in a row.
    pub(crate) fn notice(&mut self, call: &ToolCall, answer: &ToolRecord) -> Option<String> {
        // This cannot fail, because JSON can represent these values.
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

    /// Returns the indices of the calls (each an input and a result) that cause a notice.
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
    fn fifth_equal_call_is_reported_once() {
        assert_eq!(noticed(&[("1", "1"); 12]), [4]);
        let other =
            [[("1", "1"); 4].as_slice(), &[("2", "1")], &[("1", "1"); 4], &[("1", "2")], &[("1", "1"); 5]].concat();
        assert_eq!(noticed(&other), [14]);
        let twice = [[("1", "1"); 6].as_slice(), &[("2", "2")], &[("1", "1"); 6]].concat();
        assert_eq!(noticed(&twice), [4, 11]);
    }
}
