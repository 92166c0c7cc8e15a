//! Resolves the name of a command: built-ins first, then aliases of skills. `Session::submit` and `policy explain` use it.

use patchbay_core::{Code, Name, Outcome, text};

use crate::Spec;

/// Source of aliases. `patchbay_skill::Snapshot` implements it.
pub trait Aliases {
    /// Returns the skills that claim `alias`, sorted by name. More than one makes the alias ambiguous.
    fn claimants(&self, alias: &str) -> &[Name];
}

/// An entry in a table of built-in commands.
pub trait HasSpec {
    /// Returns the description of the command.
    fn spec(&self) -> &Spec;
}

impl HasSpec for Spec {
    fn spec(&self) -> &Spec {
        self
    }
}

/// The target of a command name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved<'a, 'b, C: ?Sized> {
    /// A built-in of the table that was passed to [`resolve`].
    BuiltIn(&'a C),
    /// An alias of the skill with this name.
    Alias(&'b Name),
}

/// Resolves `name` to a built-in of `table`, otherwise to an alias. Names are case-sensitive and must match exactly;
/// similar names are not suggested.
///
/// # Errors
/// `unknown_command`, or `alias_ambiguous` if several skills claim the alias.
pub fn resolve<'a, 'b, C: HasSpec + ?Sized>(
    name: &str,
    table: &[&'a C],
    aliases: &'b dyn Aliases,
) -> Result<Resolved<'a, 'b, C>, Outcome> {
    if let Some(command) = table.iter().find(|command| command.spec().name == name) {
        return Ok(Resolved::BuiltIn(command));
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
    fn built_ins_resolve_before_aliases_and_similar_names_do_not() {
        let one = Fixed(vec!["a".parse().unwrap()]);
        assert_eq!(resolve("skills", TABLE, &one), Ok(Resolved::BuiltIn(TABLE[0])));
        assert_eq!(resolve("go", TABLE, &one), Ok(Resolved::Alias(&one.0[0])));
        for near in ["Skills", "skill", "skillss", "GO", "status"] {
            let error = resolve(near, TABLE, &one).unwrap_err();
            assert_eq!(error.line(), format!("Error: unknown command '/{near}'."));
        }
        let two = Fixed(vec!["a".parse().unwrap(), "b".parse().unwrap()]);
        let error = resolve("go", TABLE, &two).unwrap_err();
        assert_eq!(error.line(), "Error: command alias '/go' is ambiguous in snapshot: a, b.");
    }
}
