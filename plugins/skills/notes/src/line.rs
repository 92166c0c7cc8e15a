//! Parses the line that the user types after `/note`.

use patchbay_sdk::{Failure, Result};

use crate::{
    notes,
    page::{Caller, first_line},
};

const USAGE: &str = "write add TEXT, list, search WORDS or delete NUMBER";

pub(crate) fn run(line: &str) -> Result<String> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match word {
        "" => Err(Failure::invalid(format!("nothing to do; {USAGE}"))),
        "add" => notes::add(rest),
        "list" => match after(rest)? {
            (after, "") => notes::list(after, Caller::Person),
            (_, more) => {
                Err(Failure::invalid(format!("list accepts no '{}'; to find notes: search WORDS", first_line(more))))
            }
        },
        "search" => {
            let (after, words) = after(rest)?;
            notes::search(words, after, Caller::Person)
        }
        "delete" => match rest.parse() {
            Ok(number) => notes::delete(number),
            Err(_) => Err(Failure::invalid(format!(
                "delete takes the number of a note, as in delete 3, not '{}'",
                first_line(rest)
            ))),
        },
        _ => Err(Failure::invalid(format!("unknown command '{}'; {USAGE}", first_line(word)))),
    }
}

/// Parses an optional `>N` at the beginning: only notes after number N. Returns the rest.
fn after(text: &str) -> Result<(Option<u64>, &str)> {
    let Some(number) = text.strip_prefix('>') else { return Ok((None, text)) };
    let (number, rest) = number.split_once(char::is_whitespace).unwrap_or((number, ""));
    match number.parse() {
        Ok(number) => Ok((Some(number), rest.trim())),
        Err(_) => {
            Err(Failure::invalid(format!("'>{}' is not the number of a note; write it as in >50", first_line(number))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::Host;

    #[test]
    fn each_word_selects_its_tool() {
        let host = Host::new();
        for (line, answer) in [
            ("list", "No notes."),
            ("add  buy milk ", "Note 1 added."),
            ("add\ttwo  spaces\nand a line", "Note 2 added."),
            (" list ", "1. buy milk\n2. two  spaces"),
            ("list >1", "2. two  spaces"),
            ("list >2", "No notes after 2."),
            ("search MILK buy", "1. buy milk"),
            ("search spaces", "2. two  spaces\nand a line"),
            ("search >1 milk", "No notes match 'milk'."),
            ("search tea", "No notes match 'tea'."),
            ("delete 1", "Note 1 deleted."),
            ("list", "2. two  spaces"),
        ] {
            assert_eq!(host.run(|| run(line)).as_deref(), Ok(answer), "{line}");
        }
    }

    #[test]
    fn quotations_are_cut() {
        let long = "x".repeat(1_000_000);
        for line in [long.clone(), format!("list {long}"), format!("list >{long}"), format!("delete {long}")] {
            let failure = Host::new().run(|| run(&line)).expect_err("wrong");
            assert!(failure.message().len() < 200, "{failure}");
        }
    }

    #[test]
    fn errors_name_the_problem() {
        let host = Host::new();
        for (line, message) in [
            ("", "nothing to do; write add TEXT, list, search WORDS or delete NUMBER"),
            ("milk", "unknown command 'milk'; write add TEXT, list, search WORDS or delete NUMBER"),
            ("Add milk", "unknown command 'Add'; write add TEXT, list, search WORDS or delete NUMBER"),
            ("add", "a note cannot be empty; say what to keep"),
            ("list all", "list accepts no 'all'; to find notes: search WORDS"),
            ("list >x", "'>x' is not the number of a note; write it as in >50"),
            ("search", "a search needs at least one word; to see all notes, list them"),
            ("delete", "delete takes the number of a note, as in delete 3, not ''"),
            ("delete x", "delete takes the number of a note, as in delete 3, not 'x'"),
            ("delete -1", "delete takes the number of a note, as in delete 3, not '-1'"),
            ("delete 9", "note 9 not found"),
        ] {
            assert_eq!(
                host.run(|| run(line)).map_err(|failure| failure.to_string()),
                Err(message.to_owned()),
                "{line}"
            );
        }
    }
}
