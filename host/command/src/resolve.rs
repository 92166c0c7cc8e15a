use patchbay_core::{Code, Name, Outcome, text};

use crate::Spec;

/// The aliases of a snapshot.
pub trait Aliases {
    /// The skills that claim `alias`, in the order of their names.
    fn claimants(&self, alias: &str) -> &[Name];
}

/// What a command name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved<'a> {
    /// The built-in at this place in the table.
    BuiltIn(usize),
    /// The alias of this skill.
    Alias(&'a Name),
}

/// Finds what `name` stands for: a built-in of `table`, else an alias. Names match exactly, case and all.
///
/// # Errors
/// `unknown_command`, `alias_ambiguous`. Nothing is suggested.
pub fn resolve<'a>(name: &str, table: &[&Spec], aliases: &'a dyn Aliases) -> Result<Resolved<'a>, Outcome> {
    if let Some(place) = table.iter().position(|spec| spec.name == name) {
        return Ok(Resolved::BuiltIn(place));
    }
    match aliases.claimants(name) {
        [skill] => Ok(Resolved::Alias(skill)),
        [] => {
            Err(Outcome::error(Code::UnknownCommand, format_args!("unknown command '/{}'.", text::excerpt(name, 80))))
        }
        several => {
            let names: Vec<_> = several.iter().map(Name::as_str).collect();
            Err(Outcome::error(
                Code::AliasAmbiguous,
                format_args!("command alias '/{name}' is ambiguous in snapshot: {}.", names.join(", ")),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Argument, Completion};

    const TABLE: &[&Spec] =
        &[&Spec { name: "skills", argument: Argument::None, summary: "", completion: Completion::None }];

    struct Fixed(Vec<Name>);

    impl Aliases for Fixed {
        fn claimants(&self, alias: &str) -> &[Name] {
            if alias == "skills" || alias == "go" { &self.0 } else { &[] }
        }
    }

    #[test]
    fn built_ins_win_then_aliases_and_nothing_is_guessed() {
        let one = Fixed(vec!["a".parse().unwrap()]);
        assert_eq!(resolve("skills", TABLE, &one), Ok(Resolved::BuiltIn(0)));
        assert_eq!(resolve("go", TABLE, &one), Ok(Resolved::Alias(&one.0[0])));
        for near in ["Skills", "skill", "skillss", "GO", "status"] {
            let error = resolve(near, TABLE, &one).unwrap_err();
            assert_eq!(error.message, format!("Error: unknown command '/{near}'."));
        }
        let two = Fixed(vec!["a".parse().unwrap(), "b".parse().unwrap()]);
        let error = resolve("go", TABLE, &two).unwrap_err();
        assert_eq!(error.message, "Error: command alias '/go' is ambiguous in snapshot: a, b.");
    }
}
