//! The description of a built-in command. The file of each command in `session/src/builtin` contains one.

use patchbay_core::{Code, Outcome};

/// Name, argument and summary of a built-in command, for routing, `/commands`, completion and the docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The name without the `/`.
    pub name: &'static str,
    /// Whether the command takes an argument.
    pub argument: Argument,
    /// A one-line description of the command, for `/commands`.
    pub summary: &'static str,
    /// The source of suggestions for the argument.
    pub completion: Completion,
}

/// The argument of a command: the text after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The command takes no argument; any text is an error.
    None,
    /// The argument may be absent; the command itself checks it.
    Optional {
        /// Placeholder in usage texts, such as `[N]`.
        usage: &'static str,
    },
    /// The command requires an argument; an empty text is an error.
    Required {
        /// Placeholder in usage texts, such as `NAME [INPUT]`.
        usage: &'static str,
        /// Noun phrase in the error, such as `a skill name`.
        what: &'static str,
    },
}

/// The source of suggestions for a command's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Nothing is suggested for the argument.
    None,
    /// Names of the snapshot's skills.
    Skills,
    /// The full names of the tools.
    Tools,
    /// The names of the personas.
    Personas,
    /// Models of the allowed providers, even if a key is missing, with and without a thinking level.
    Models,
    /// The agents of the session.
    Agents,
    /// The numbers of the messages to the agent in view.
    Messages,
    /// These words.
    Words(&'static [&'static str]),
}

impl Spec {
    /// Returns the usage, such as `/skill NAME [INPUT]`.
    pub fn usage(&self) -> String {
        match self.hint() {
            Some(usage) => format!("/{} {usage}", self.name),
            None => format!("/{}", self.name),
        }
    }

    /// Returns the placeholder that a front shows for a missing argument; `None` if the command takes none.
    pub fn hint(&self) -> Option<&'static str> {
        match self.argument {
            Argument::None => None,
            Argument::Optional { usage } | Argument::Required { usage, .. } => Some(usage),
        }
    }

    /// Checks that the argument is present or absent, as [`Spec::argument`] requires.
    ///
    /// # Errors
    /// `invalid_args` with the message for the user.
    pub fn check(&self, argument: &str) -> Result<(), Outcome> {
        match (self.argument, argument.is_empty()) {
            (Argument::None, false) => {
                Err(Outcome::error(Code::InvalidArgs, format_args!("/{} does not accept arguments.", self.name)))
            }
            (Argument::Required { what, .. }, true) => {
                Err(Outcome::error(Code::InvalidArgs, format_args!("/{} requires {what}.", self.name)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_superfluous_arguments_are_errors() {
        let mut spec = Spec {
            name: "skill",
            argument: Argument::Required { usage: "NAME [INPUT]", what: "a skill name" },
            summary: "",
            completion: Completion::Skills,
        };
        assert_eq!(spec.usage(), "/skill NAME [INPUT]");
        assert_eq!(spec.check("x"), Ok(()));
        assert_eq!(spec.check("").unwrap_err().line(), "Error: /skill requires a skill name.");
        spec.argument = Argument::None;
        assert_eq!(spec.usage(), "/skill");
        assert_eq!(spec.check(""), Ok(()));
        assert_eq!(spec.check("x").unwrap_err().line(), "Error: /skill does not accept arguments.");
        spec.argument = Argument::Optional { usage: "[N]" };
        assert_eq!((spec.usage(), spec.check(""), spec.check("x")), ("/skill [N]".to_owned(), Ok(()), Ok(())));
    }
}
