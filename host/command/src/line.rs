//! Parses an input line into a command or conversation text. Called by `Session::submit` for every line.

use patchbay_core::{Code, Outcome};

/// A parsed input line. Parsing does not depend on which commands exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A command: the first character is `/`.
    Command {
        /// The text between the `/` and the first white space; never empty, and not checked against any table.
        name: &'a str,
        /// The rest of the line, trimmed at both ends. Empty if there is none.
        argument: &'a str,
    },
    /// Any other line, unchanged.
    Conversation(&'a str),
}

impl<'a> Line<'a> {
    /// Parses a line, which may contain newlines.
    ///
    /// # Errors
    /// `parse_error` if no name follows the `/`.
    pub fn parse(line: &'a str) -> Result<Self, Outcome> {
        let Some(command) = line.strip_prefix('/') else { return Ok(Self::Conversation(line)) };
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if name.is_empty() {
            return Err(Outcome::error(Code::ParseError, "command name is required after '/'."));
        }
        Ok(Self::Command { name, argument: argument.trim() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn line_is_a_command_only_if_it_begins_with_slash() {
        assert_eq!(Line::parse("/skills"), Ok(Line::Command { name: "skills", argument: "" }));
        assert_eq!(Line::parse("/skill  a\tb  c \n"), Ok(Line::Command { name: "skill", argument: "a\tb  c" }));
        assert_eq!(Line::parse("/x\ny"), Ok(Line::Command { name: "x", argument: "y" }));
        assert_eq!(Line::parse(" /skills"), Ok(Line::Conversation(" /skills")));
        assert_eq!(Line::parse(""), Ok(Line::Conversation("")));
        assert_eq!(Line::parse("//"), Ok(Line::Command { name: "/", argument: "" }));
        for bare in ["/", "/ ", "/ skills"] {
            assert_eq!(Line::parse(bare).unwrap_err().line(), "Error: command name is required after '/'.");
        }
    }

    proptest! {
        #[test]
        fn parsed_command_has_a_name_and_a_trimmed_argument(line in "\\PC*") {
            match Line::parse(&line) {
                Ok(Line::Conversation(text)) => prop_assert!(!line.starts_with('/') && text == line),
                Ok(Line::Command { name, argument }) => {
                    prop_assert!(line.starts_with('/'));
                    prop_assert!(!name.is_empty() && !name.contains(char::is_whitespace));
                    prop_assert_eq!(argument, argument.trim());
                }
                Err(_) => prop_assert!(line == "/" || line[1..].starts_with(char::is_whitespace)),
            }
        }
    }
}
