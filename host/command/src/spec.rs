use patchbay_core::{Code, Outcome};

/// What a built-in command is called, takes, and says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name, without the `/`.
    pub name: &'static str,
    /// What it takes.
    pub argument: Argument,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What completes its argument.
    pub completion: Completion,
}

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing; anything given is an error.
    None,
    /// Something, without which it is an error.
    Required {
        /// How usage shows it, such as `NAME [INPUT]`.
        usage: &'static str,
        /// How the error names it, such as `a skill name`.
        what: &'static str,
    },
}

/// What completes a command's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Nothing.
    None,
    /// Names of skills of the snapshot.
    Skills,
    /// Names of personas.
    Personas,
    /// Models, with and without a thinking level.
    Models,
}

impl Spec {
    /// The whole usage, such as `/skill NAME [INPUT]`.
    pub fn usage(&self) -> String {
        match self.hint() {
            Some(usage) => format!("/{} {usage}", self.name),
            None => format!("/{}", self.name),
        }
    }

    /// What a front shows where the argument is to come.
    pub fn hint(&self) -> Option<&'static str> {
        match self.argument {
            Argument::None => None,
            Argument::Required { usage, .. } => Some(usage),
        }
    }

    /// Checks that an argument is there, or not, as the command takes it.
    ///
    /// # Errors
    /// `invalid_args`.
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
    fn arguments_are_checked_in_the_words_of_the_contract() {
        let mut spec = Spec {
            name: "skill",
            argument: Argument::Required { usage: "NAME [INPUT]", what: "a skill name" },
            summary: "",
            completion: Completion::Skills,
        };
        assert_eq!(spec.usage(), "/skill NAME [INPUT]");
        assert_eq!(spec.check("x"), Ok(()));
        assert_eq!(spec.check("").unwrap_err().message, "Error: /skill requires a skill name.");
        spec.argument = Argument::None;
        assert_eq!(spec.usage(), "/skill");
        assert_eq!(spec.check(""), Ok(()));
        assert_eq!(spec.check("x").unwrap_err().message, "Error: /skill does not accept arguments.");
    }
}
