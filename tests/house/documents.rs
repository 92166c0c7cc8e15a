//! Documents that come from tables in the source. `make docs` writes them anew.

use std::{env, fmt::Write as _, fs};

use patchbay_core::Code;
use patchbay_sandbox::Limits;

use crate::repository;

/// Compares a document with what it should be, or writes it.
fn check(path: &str, expected: &str) {
    let file = repository(path);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is not what the source says; run: make docs");
}

#[test]
fn codes() {
    let mut text = String::from(
        "# Codes\n\nEvery outcome has a `status`, a stable `code`, a `message` and sometimes `data`. The codes, from the one \
         table in the source:\n",
    );
    let mut section = "";
    for (of, code, meaning) in Code::TABLE {
        if *of != section {
            section = of;
            write!(text, "\n## {section}\n\n| code | meaning |\n| --- | --- |\n").unwrap();
        }
        writeln!(text, "| `{code}` | {meaning} |").unwrap();
    }
    check("docs/codes.md", &text);
}

#[test]
fn commands() {
    let mut text = String::from(
        "# Commands\n\nA line is a command when its first character is `/`; a space before it makes it conversation. Names \
         match exactly. Built-ins win over the aliases that skills bring; nothing is guessed, and no command ever reaches a \
         model.\n\n| command | what it does |\n| --- | --- |\n",
    );
    for spec in patchbay_session::specs() {
        writeln!(text, "| `{}` | {} |", spec.usage(), spec.summary).unwrap();
    }
    text.push_str(
        "\nAn alias such as `/calc` is `/skill NAME` of the skill that declares it. What follows it becomes the input of the \
         skill's `command_tool`: a JSON object that satisfies the tool's schema is taken as it is; else, where the schema \
         requires exactly one property and that is a string, the text is that property; no text is `{}` where that will do. \
         Skills without a `command_tool` put their instructions into the conversation, `$INPUT` replaced by the text.\n",
    );
    check("docs/commands.md", &text);
}

#[test]
fn every_limit_is_documented_with_its_default() {
    let text = fs::read_to_string(repository("docs/config.md")).unwrap();
    let defaults = serde_json::to_value(Limits::default()).unwrap();
    for (key, value) in defaults.as_object().unwrap() {
        let row = format!("| `{key}` | {value} |");
        assert!(text.contains(&row), "docs/config.md lacks the row that begins: {row}");
    }
    let documented = text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(documented, defaults.as_object().unwrap().len(), "docs/config.md has rows of no key");
}
