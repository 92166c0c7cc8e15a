//! The commands that are available with a snapshot, for fronts, `/commands` and completion.

use patchbay_command::Aliases as _;
use patchbay_core::Name;
use patchbay_skill::Snapshot;

use crate::{Session, builtin};

/// A command that the user can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// The name of the command, without `/`.
    pub name: String,
    /// Summary in one line; may be empty.
    pub summary: String,
    /// Usage or description of the argument; `None` without an argument.
    pub hint: Option<String>,
}

impl CommandInfo {
    /// Returns the usage, such as `/skill NAME [INPUT]`. A hint in prose, which some skills have, is enclosed in `<…>`.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) if is_prose(hint) => format!("/{} <{hint}>", self.name),
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }
}

impl Session {
    /// Returns the available commands: built-ins first, then aliases.
    pub fn commands(&self) -> Vec<CommandInfo> {
        commands(&self.snapshot())
    }
}

/// Returns the commands of `snapshot`: built-ins first, then the aliases that only one skill claims.
pub(crate) fn commands(snapshot: &Snapshot) -> Vec<CommandInfo> {
    let built_in = builtin::specs().into_iter().map(|spec| CommandInfo {
        name: spec.name.to_owned(),
        summary: spec.summary.to_owned(),
        hint: spec.hint().map(str::to_owned),
    });
    let alias = snapshot.aliases().filter_map(|(alias, skills)| {
        let [skill] = skills else { return None };
        let manifest = &snapshot.skill(skill.as_str())?.manifest;
        // A skill that also has a working alias of its own is listed only under that alias.
        if alias == skill && manifest.command.as_ref().is_some_and(|own| own != alias && works(snapshot, own, skill)) {
            return None;
        }
        Some(CommandInfo {
            name: alias.to_string(),
            summary: manifest.summary.clone(),
            hint: manifest.input_hint.clone(),
        })
    });
    built_in.chain(alias).collect()
}

/// Returns whether `alias` calls `skill`.
fn works(snapshot: &Snapshot, alias: &Name, skill: &Name) -> bool {
    snapshot.claimants(alias.as_str()) == std::slice::from_ref(skill)
}

/// Returns whether a hint is prose and not a usage such as `PATTERN [GLOB]`: several words, none of them in capitals.
fn is_prose(hint: &str) -> bool {
    let in_capitals =
        |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || "_-[]|./\"".contains(c));
    hint.contains(char::is_whitespace) && !hint.starts_with('<') && !hint.split_whitespace().any(in_capitals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_in_prose_are_bracketed() {
        for (hint, expected) in [
            ("PATTERN [GLOB]", "/x PATTERN [GLOB]"),
            ("add TEXT | list | delete NUMBER", "/x add TEXT | list | delete NUMBER"),
            ("[FOCUS]", "/x [FOCUS]"),
            ("[--model MODEL[/THINKING]] [\"PROMPT\"]", "/x [--model MODEL[/THINKING]] [\"PROMPT\"]"),
            ("goal", "/x goal"),
            ("goal to plan for", "/x <goal to plan for>"),
            ("expression, such as 2^100 or 3 GiB", "/x <expression, such as 2^100 or 3 GiB>"),
            ("<goal to plan for>", "/x <goal to plan for>"),
        ] {
            let command = CommandInfo { name: "x".to_owned(), summary: String::new(), hint: Some(hint.to_owned()) };
            assert_eq!(command.usage(), expected);
        }
    }
}
