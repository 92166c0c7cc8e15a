//! Results of tools and the last thinking, kept in memory so that `/show` can print them in full.

use std::collections::VecDeque;

/// Results that are kept.
const KEPT: usize = 200;
/// Bytes of all kept results.
const KEPT_BYTES: usize = 8 << 20;

/// The kept results, numbered from 1 in the order in which they were shown.
#[derive(Debug, Default)]
pub(crate) struct Results {
    kept: VecDeque<String>,
    bytes: usize,
    /// The number of the newest result.
    last: usize,
    thinking: Option<String>,
}

impl Results {
    /// Keeps a result and returns its number. The oldest ones are given up beyond the limits.
    pub(crate) fn add(&mut self, text: String) -> usize {
        self.bytes += text.len();
        self.kept.push_back(text);
        self.last += 1;
        while self.kept.len() > KEPT || (self.bytes > KEPT_BYTES && self.kept.len() > 1) {
            if let Some(oldest) = self.kept.pop_front() {
                self.bytes -= oldest.len();
            }
        }
        self.last
    }

    /// Keeps the thinking before the last answer.
    pub(crate) fn set_thinking(&mut self, text: String) {
        self.thinking = Some(text);
    }

    /// Returns what `/show ARGUMENT` prints, or an error for the user.
    pub(crate) fn show(&self, argument: &str) -> Result<&str, String> {
        let argument = argument.trim();
        if argument == "thinking" {
            return self.thinking.as_deref().ok_or_else(|| "Error: no thinking was shown yet.".to_owned());
        }
        let usage = "Error: the number of a result or 'thinking' is required.";
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
            .map(String::as_str)
            .ok_or_else(|| format!("Error: there is no result {number}; results {first} to {} are kept.", self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_shown_by_number() {
        let mut results = Results::default();
        assert_eq!(results.show(""), Err("Error: no result of a tool was shown yet.".to_owned()));
        assert_eq!((results.add("one".to_owned()), results.add("two".to_owned())), (1, 2));
        assert_eq!((results.show("1"), results.show("")), (Ok("one"), Ok("two")));
        let missing = results.show("3").unwrap_err();
        assert_eq!(missing, "Error: there is no result 3; results 1 to 2 are kept.");
        assert_eq!(results.show("x").unwrap_err(), "Error: the number of a result or 'thinking' is required.");
    }

    #[test]
    fn oldest_results_are_given_up() {
        let mut results = Results::default();
        for _ in 0..KEPT + 5 {
            results.add("x".repeat(10));
        }
        assert!(results.show("5").is_err() && results.show("6").is_ok());
        results.add("y".repeat(KEPT_BYTES));
        assert_eq!(results.kept.len(), 1);
    }
}
