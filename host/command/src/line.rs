use patchbay_core::{Code, Outcome};

/// A line, read. Reading needs no knowledge of what commands there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A command: the first character is `/`.
    Command {
        /// From behind the `/` to the first white space.
        name: &'a str,
        /// The rest, trimmed, and kept as typed inside.
        argument: &'a str,
    },
    /// Everything else, as typed.
    Conversation(&'a str),
}

impl<'a> Line<'a> {
    /// Reads a line (which may hold line feeds).
    ///
    /// # Errors
    /// `parse_error` for a `/` without a name.
    pub fn read(line: &'a str) -> Result<Self, Outcome> {
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
    fn only_the_first_character_makes_a_command() {
        assert_eq!(Line::read("/skills"), Ok(Line::Command { name: "skills", argument: "" }));
        assert_eq!(Line::read("/skill  a\tb  c \n"), Ok(Line::Command { name: "skill", argument: "a\tb  c" }));
        assert_eq!(Line::read("/x\ny"), Ok(Line::Command { name: "x", argument: "y" }));
        assert_eq!(Line::read(" /skills"), Ok(Line::Conversation(" /skills")));
        assert_eq!(Line::read(""), Ok(Line::Conversation("")));
        assert_eq!(Line::read("//"), Ok(Line::Command { name: "/", argument: "" }));
        for bare in ["/", "/ ", "/ skills"] {
            assert_eq!(Line::read(bare).unwrap_err().message, "Error: command name is required after '/'.");
        }
    }

    proptest! {
        #[test]
        fn a_line_is_a_command_exactly_when_it_begins_with_a_slash(line in "\\PC*") {
            match Line::read(&line) {
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
