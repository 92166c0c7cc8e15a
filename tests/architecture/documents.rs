//! Checks documents that are generated from the source, and references in documents. `make docs` regenerates them, and
//! `docs/config.md`, which the tests of the binary check.

use std::{env, fmt::Write as _, fs};

use patchbay_core::Code;

use crate::repository;

/// Asserts that a document has this text, or writes it if `UPDATE_DOCS` is set.
fn assert_document(path: &str, expected: &str) {
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
    assert_document("docs/codes.md", &text);
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
         skill's `command_tool`: a JSON object is taken as it is, and must satisfy the tool's schema; any other text becomes \
         the one property that the schema requires, if that is a string; no text is `{}`. If there is no text and the tool \
         needs one, the error shows the skill's `input_hint`, such as `Error: /web requires URL.` \
         Skills without a `command_tool` put their instructions into the conversation, `$INPUT` replaced by the text.\n",
    );
    assert_document("docs/commands.md", &text);
}

/// Every path that docs/architecture.md names exists.
#[test]
fn paths_in_the_architecture_document_exist() {
    let text = fs::read_to_string(repository("docs/architecture.md")).unwrap();
    let roots = ["host/", "tests/", "plugins/", "wit/", "docs/"];
    let named = text.split('`').skip(1).step_by(2).filter(|code| roots.iter().any(|root| code.starts_with(root)));
    let paths: Vec<&str> = named.collect();
    assert!(paths.len() > 40, "the paths are not found: {paths:?}");
    for path in paths {
        assert!(repository(path).exists(), "docs/architecture.md names {path}, which is not there");
    }
}

/// The example of tests in docs/skills.md is that of the SDK's module `testing`, which is tested as its documentation.
#[test]
fn example_of_tests_in_the_author_guide_is_tested() {
    let guide = fs::read_to_string(repository("docs/skills.md")).unwrap();
    let module = fs::read_to_string(repository("sdk/rust/src/testing.rs")).unwrap();
    let header: String = module
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(line) + "\n");
    let (_, rest) = header.split_once("\n```\n").unwrap();
    let (example, _) = rest.split_once("\n```\n").unwrap();
    assert!(guide.contains(&format!("```rust\n{example}\n```")), "docs/skills.md must contain:\n{example}");
}

/// Every control in docs/security.md names existing tests.
#[test]
fn tests_named_in_the_security_document_exist() {
    let text = fs::read_to_string(repository("docs/security.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains(" | ")).collect();
    let mut named = 0;
    for row in rows.iter().filter(|row| !row.starts_with("| asset |") && !row.starts_with("| --- |")) {
        let tests: Vec<_> = row.split('`').filter(|code| code.contains(".rs#")).collect();
        assert!(!tests.is_empty(), "docs/security.md names no test for: {row}");
        for (file, function) in tests.iter().filter_map(|test| test.split_once('#')) {
            let source = fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let (before, _) = source
                .split_once(&format!("fn {function}("))
                .unwrap_or_else(|| panic!("docs/security.md names {file}#{function}, which is not there"));
            // The attribute is on one of the lines above; a property test counts.
            let attribute =
                before.lines().rev().take(4).any(|line| line.contains("#[test]") || line.contains("::test"));
            assert!(attribute, "{file}#{function} is no test");
            named += 1;
        }
    }
    assert!(named > 60, "the tables are not found: {named} tests");
}
