//! Splits a typed line into an expression and a document.
//!
//! Both parts may contain white space. The line is split at the first white space that has a valid expression before it
//! and one complete JSON value after it.

use patchbay_sdk::{Failure, Result};
use serde::de::IgnoredAny;

use crate::{
    document::Document,
    expression::{self, Expression},
    fault::clip,
};

/// The example in every error; the tests run it.
pub(crate) const EXAMPLE: &str = r#"people[0].name {"people": [{"name": "Ada"}]}"#;

/// White space of both JSON and JMESPath.
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// The most splits to try. Typed expressions have fewer spaces.
const MAX_SPLITS: usize = 256;
/// The most bytes to parse only for a better error message.
const MAX_GUESSED: usize = 4 << 20;

pub(crate) fn split(line: &str) -> Result<(Expression<'_>, Document)> {
    let line = line.trim_matches(SPACE);
    let mut bad_document = None;
    for (head, rest) in splits(line).filter(|(_, rest)| may_be_json(rest)).take(MAX_SPLITS) {
        // The expression is checked first because it is short and its limits are strict.
        let Ok(expression) = Expression::compile(head) else { continue };
        match Document::parse(rest) {
            Ok(document) => return Ok((expression, document)),
            // Valid JSON over a limit: later splits cannot succeed either.
            Err(error) if error.is_data() => return Err(document_is_wrong(rest, &error)),
            Err(error) => bad_document = Some((rest, error)),
        }
    }
    // Report the error of the last split with a valid expression: its document is the shortest.
    Err(match bad_document {
        Some((rest, error)) => document_is_wrong(rest, &error),
        None => guess(line),
    })
}

fn may_be_json(rest: &str) -> bool {
    rest.starts_with(['{', '[', '"', '-'])
        || rest.starts_with(|first: char| first.is_ascii_digit())
        || ["true", "false", "null"].iter().any(|word| rest.starts_with(word))
}

/// Returns the positions where a line may be split, in order.
fn splits(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices(SPACE)
        .map(|(space, _)| (&line[..space], &line[space + 1..]))
        .take_while(|(head, _)| head.len() <= expression::MAX_BYTES)
        // Of several spaces in a row, the line is only split at the first.
        .filter(|(head, _)| !head.ends_with(SPACE))
        .map(|(head, rest)| (head, rest.trim_start_matches(SPACE)))
}

fn document_is_wrong(rest: &str, error: &serde_json::Error) -> Failure {
    refused(&format!("the document '{}' is not valid: {error}", clip(rest, 60)))
}

/// Creates the error for a line without a valid expression before something that could be JSON.
fn guess(line: &str) -> Failure {
    if line.len() <= MAX_GUESSED && is_json(line) {
        return refused("the expression is missing");
    }
    let mut guessed = line.len();
    let document = splits(line)
        .filter(|(_, rest)| may_be_json(rest))
        .take(MAX_SPLITS)
        .take_while(|(_, rest)| {
            guessed += rest.len();
            guessed <= MAX_GUESSED
        })
        .find(|(_, rest)| is_json(rest));
    if let Some((head, _)) = document {
        return expression_is_wrong(head);
    }
    let expression = splits(line).take(MAX_SPLITS).filter(|(head, _)| Expression::compile(head).is_ok()).last();
    match (expression, splits(line).next()) {
        (Some((_, rest)), _) => match Document::parse(rest) {
            Err(error) => document_is_wrong(rest, &error),
            Ok(_) => expression_is_wrong(line),
        },
        (None, Some((head, _))) => expression_is_wrong(head),
        (None, None) if line.is_empty() => refused("an expression and a document are missing"),
        // A single word, or a word longer than an expression may be.
        (None, None) => match Expression::compile(line.split(SPACE).next().unwrap_or(line)) {
            Err(failure) => refused(failure.message()),
            Ok(_) => refused("the document is missing"),
        },
    }
}

fn expression_is_wrong(head: &str) -> Failure {
    match Expression::compile(head) {
        Err(failure) => refused(failure.message()),
        Ok(_) => refused(&format!("it is not clear where the expression '{}' ends", clip(head, 60))),
    }
}

/// Checks JSON without using memory, and without recursion.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn refused(what: &str) -> Failure {
    Failure::invalid(format!("{what}. Write an expression, a space and a JSON document, as in: {EXAMPLE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::typed as run_line;

    fn answer(line: &str) -> String {
        run_line(line).expect("an answer")
    }

    fn refusal(line: &str) -> String {
        let refusal = run_line(line).expect_err("a refusal");
        assert!(refusal.ends_with(EXAMPLE), "{refusal}");
        refusal
    }

    #[test]
    fn example_works() {
        assert_eq!(answer(EXAMPLE), r#""Ada""#);
    }

    #[test]
    fn both_parts_may_contain_white_space() {
        assert_eq!(answer("[?age > `20`] | [0].name  [{\"age\": 36,\n \"name\": \"Ada L\"}] "), r#""Ada L""#);
        assert_eq!(answer("a == 'b {} c' {\"a\": \"b {} c\"}"), "true");
        assert_eq!(answer("length(@)\t\"a b c\""), "5");
        assert_eq!(answer("@ 5"), "5");
    }

    #[test]
    fn first_valid_split_is_used() {
        assert_eq!(answer("a [0]"), "null");
        assert_eq!(answer("a [0] {\"a\": [7]}"), "7");
    }

    #[test]
    fn wrong_document_and_wrong_expression_have_their_errors() {
        let document = refusal(r#"people[0].name {"people": ["#);
        assert!(document.starts_with(r#"the document '{"people": [' is not valid: EOF while parsing"#), "{document}");
        assert!(refusal("a b c").starts_with("the document 'b c' is not valid: expected value"));
        let expression = refusal(r#"people[0.name {"people": []}"#);
        assert!(expression.starts_with("the expression 'people[0.name' does not parse at column 9"), "{expression}");
        assert!(refusal("a ~ b {}").starts_with("the expression 'a ~ b' does not parse at column 3"));
        assert!(refusal("nope(@) {}").starts_with("unknown function 'nope'"));
    }

    #[test]
    fn missing_part_is_named() {
        assert!(refusal("  ").starts_with("an expression and a document are missing."));
        assert!(refusal("people").starts_with("the document is missing."));
        assert!(refusal("{\"a\": 1}").starts_with("the expression is missing."));
    }

    #[test]
    fn limits_of_both_parts_apply() {
        let deep = format!("@ {}", "[".repeat(100_000));
        assert!(refusal(&deep).contains("the document is nested deeper than 100 levels"));
        let long = format!("'{}' 1", "x".repeat(5_000));
        assert!(refusal(&long).starts_with("an expression of 5002 bytes is over the limit of 4096"));
        assert!(refusal(&format!("{}a 1", "!".repeat(2_000))).contains("2000 levels deep"));
    }

    #[test]
    fn line_of_many_spaces_is_refused_quickly() {
        for part in ["a ", "a b[0] ", "[ ", "{ ", "\" ", "[0] ", "a | ", "1, ", "é\u{a0} "] {
            _ = refusal(&part.repeat(4_000));
            _ = refusal(&format!("a {}[{}", " ".repeat(100_000), "0, ".repeat(100_000)));
        }
    }
}
