//! Any text as a line: parses it and resolves its command.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patchbay_command::{Aliases, Argument, Completion, Line, Resolved, Spec, resolve};
use patchbay_core::{Code, Name, Outcome, Status};

const fn spec(name: &'static str, argument: Argument) -> Spec {
    Spec { name, argument, summary: "", completion: Completion::None }
}

const TABLE: &[&Spec] = &[
    &spec("skills", Argument::None),
    &spec("skill", Argument::Required { usage: "NAME [INPUT]", what: "a skill name" }),
    &spec("x", Argument::None),
];

/// A snapshot in which every name is an alias of one or two skills, unless it ends in `z`.
struct EveryName;

static CLAIMANTS: LazyLock<Vec<Name>> =
    LazyLock::new(|| ["first", "second"].iter().filter_map(|name| name.parse().ok()).collect());

impl Aliases for EveryName {
    fn claimants(&self, alias: &str) -> &[Name] {
        let count = match alias.parse::<Name>() {
            Err(_) => 0,
            Ok(_) if alias.ends_with('z') => 0,
            Ok(_) => 1 + alias.len() % 2,
        };
        &CLAIMANTS[..count]
    }
}

fuzz_target!(|line: &str| {
    let read = Line::parse(line);
    assert_eq!(read, Line::parse(&line.to_owned()), "a line is read the same each time");
    match read {
        Ok(Line::Conversation(text)) => {
            assert!(!line.starts_with('/'));
            assert_eq!(text, line, "conversation stays whole");
        }
        Ok(Line::Command { name, argument }) => command(line, name, argument),
        Err(error) => {
            // A slash without a name.
            assert!(line.strip_prefix('/').is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace)));
            shown(&error, Code::ParseError);
        }
    }
});

fn command(line: &str, name: &str, argument: &str) {
    assert!(!name.is_empty() && !name.contains(char::is_whitespace));
    assert_eq!(argument, argument.trim());
    let rest =
        line.strip_prefix('/').and_then(|rest| rest.strip_prefix(name)).expect("the name stands behind the slash");
    assert!(rest.chars().next().is_none_or(char::is_whitespace), "the name ends where white space begins");
    assert_eq!(rest.trim(), argument, "the argument is the rest as typed");
    let again = format!("/{name} {argument}");
    assert_eq!(Line::parse(&again), Ok(Line::Command { name, argument }), "written out, it reads the same");

    let built_in = TABLE.iter().position(|spec| spec.name == name);
    let claimants = EveryName.claimants(name);
    match resolve(name, TABLE, &EveryName) {
        Ok(Resolved::BuiltIn(spec)) => {
            assert_eq!(Some(spec), built_in.map(|place| TABLE[place]), "only a built-in's exact name is one");
            accepts(spec, argument);
        }
        Ok(Resolved::Alias(skill)) => {
            assert_eq!(built_in, None, "a built-in wins over an alias");
            assert_eq!(claimants, std::slice::from_ref(skill));
        }
        Err(error) => {
            assert!(built_in.is_none() && claimants.len() != 1);
            shown(&error, if claimants.is_empty() { Code::UnknownCommand } else { Code::AliasAmbiguous });
        }
    }
}

fn accepts(spec: &Spec, argument: &str) {
    let wanted = match spec.argument {
        Argument::None => argument.is_empty(),
        Argument::Optional { .. } => true,
        Argument::Required { .. } => !argument.is_empty(),
    };
    match spec.check(argument) {
        Ok(()) => assert!(wanted),
        Err(error) => {
            assert!(!wanted);
            shown(&error, Code::InvalidArgs);
        }
    }
}

/// Checks a message for the user: one short line without deceptive characters of the input.
fn shown(error: &Outcome, code: Code) {
    assert_eq!((error.status, error.code), (Status::Error, code));
    assert!(error.line().starts_with("Error: "));
    assert!(!error.line().contains(char::is_control), "{:?}", error.message);
    assert!(error.line().chars().count() < 250, "{:?}", error.message);
}
