//! Tool results and the last thinking. They are kept in memory because `/show` prints them in full.

use std::collections::VecDeque;

use patchbay_core::text;
use serde_json::Value;

/// Number of results that are kept.
const KEPT: usize = 200;
/// Size limit of all kept results, in bytes.
const KEPT_BYTES: usize = 8 << 20;

/// A result, and the input of its call.
#[derive(Debug)]
struct KeptResult {
    text: String,
    input: String,
}

impl KeptResult {
    fn bytes(&self) -> usize {
        self.text.len() + self.input.len()
    }
}

/// The kept results, numbered from 1 in the order in which they were shown.
#[derive(Debug, Default)]
pub(crate) struct Results {
    kept: VecDeque<KeptResult>,
    bytes: usize,
    /// The number of the newest result.
    last: usize,
    thinking: Option<String>,
}

impl Results {
    /// Keeps a result and returns its number. Discards the oldest results if the limits are exceeded.
    pub(crate) fn add(&mut self, text: String, input: String) -> usize {
        let result = KeptResult { text, input: readable(&input) };
        self.bytes += result.bytes();
        self.kept.push_back(result);
        self.last += 1;
        while self.kept.len() > KEPT || (self.bytes > KEPT_BYTES && self.kept.len() > 1) {
            if let Some(oldest) = self.kept.pop_front() {
                self.bytes -= oldest.bytes();
            }
        }
        self.last
    }

    /// Keeps the thinking before the last answer.
    pub(crate) fn set_thinking(&mut self, text: String) {
        self.thinking = Some(text);
    }

    /// Returns the output of `/show ARGUMENT`, or an error for the user.
    pub(crate) fn show(&self, argument: &str) -> Result<&str, String> {
        let argument = argument.trim();
        if argument == "thinking" {
            return self.thinking.as_deref().ok_or_else(|| "Error: no thinking was shown yet.".to_owned());
        }
        let usage = "Error: the number of a result or 'thinking' is required.";
        let (argument, is_input) = match argument.strip_suffix("in").map(str::trim_end) {
            Some(number) => (number, true),
            None => (argument, false),
        };
        let number = match argument {
            "" => self.last,
            argument => argument.parse::<usize>().map_err(|_| usage.to_owned())?,
        };
        if self.last == 0 {
            return Err("Error: no result of a tool was shown yet.".to_owned());
        }
        let first = self.last - self.kept.len() + 1;
        number
            .checked_sub(first)
            .and_then(|index| self.kept.get(index))
            .map(|result| if is_input { &*result.input } else { &*result.text })
            .ok_or_else(|| format!("Error: result {number} not found; results {first} to {} are kept.", self.last))
    }
}

/// Formats an input for the user, cleaned: a program as its lines, any other input as JSON with one member per line.
fn readable(input: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(input) else { return text::clean(input) };
    let program = value.get("code").and_then(Value::as_str);
    let json = || serde_json::to_string_pretty(&value).unwrap_or_default();
    text::clean(&program.map_or_else(json, str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_by_number() {
        let mut results = Results::default();
        assert_eq!(results.show(""), Err("Error: no result of a tool was shown yet.".to_owned()));
        assert_eq!(
            (
                results.add("one".to_owned(), r#"{"code":"a\nb"}"#.to_owned()),
                results.add("two".to_owned(), r#"{"a":1}"#.to_owned())
            ),
            (1, 2)
        );
        assert_eq!((results.show("1"), results.show("")), (Ok("one"), Ok("two")));
        assert_eq!((results.show("1 in"), results.show("in")), (Ok("a\nb"), Ok("{\n  \"a\": 1\n}")));
        let missing = results.show("3").unwrap_err();
        assert_eq!(missing, "Error: result 3 not found; results 1 to 2 are kept.");
        assert_eq!(results.show("x").unwrap_err(), "Error: the number of a result or 'thinking' is required.");
    }

    #[test]
    fn oldest_results_are_given_up() {
        let mut results = Results::default();
        for _ in 0..KEPT + 5 {
            results.add("x".repeat(10), String::new());
        }
        assert!(results.show("5").is_err() && results.show("6").is_ok());
        results.add("y".repeat(KEPT_BYTES), String::new());
        assert_eq!(results.kept.len(), 1);
    }
}
