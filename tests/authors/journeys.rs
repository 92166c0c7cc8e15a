//! From nothing to a skill that answers, in each language.

use std::{fs, time::Instant};

use serde_json::Value;

use crate::author::Author;

/// Creates a skill, builds it, calls it without installing it, adds it and uses it in a session. `broken` is an edit of its source that
/// makes the tool trap, with words of the place that must be shown.
fn journey(language: &str, broken: Option<(&str, &str, &str, &str)>) {
    let author = Author::of(language);
    let name = format!("first-{language}");
    let start = Instant::now();
    let created = author.succeed("", &["plugin", "new", &name, "--lang", language]);
    assert!(created.starts_with(&format!("Created {name}/, a skill in ")), "{created}");
    author.succeed(&name, &["plugin", "build"]);
    assert_eq!(author.succeed(&name, &["plugin", "call", ".", "hello", r#"{"name":"Ada"}"#]), "Hello, Ada!\n");
    println!("{language}: {:.1} s from nothing to the first answer", start.elapsed().as_secs_f32());

    // The case beside it says the same.
    let fixture = fs::read(author.work().join(&name).join("fixtures/hello.json")).unwrap();
    let fixture: Value = serde_json::from_slice(&fixture).unwrap();
    assert_eq!(fixture["result"][0]["text"], "Hello, Ada!");
    assert_eq!(author.succeed("", &["plugin", "test", &name]).lines().next(), Some("passed  fixtures/hello.json"));

    // An expected failure, and an input that the schema refuses.
    let blank = author.run(&["plugin", "call", &name, "hello", r#"{"name":" "}"#]);
    assert_eq!(
        (blank.code, blank.err.contains("Error: the name is empty [tool_failed]")),
        (Some(1), true),
        "{}",
        blank.err
    );
    let refused = author.run(&["plugin", "call", &name, "hello", r#"{"name":3}"#]);
    assert!(refused.err.contains("at /name: 3 is not of type \"string\""), "{}", refused.err);

    author.succeed("", &["plugin", "add", &name]);
    assert_eq!(author.succeed("", &["exec", &format!("/{name} Ada")]), "Hello, Ada!\n");

    if let Some((file, from, to, place)) = broken {
        author.edit(&format!("{name}/{file}"), from, to);
        author.succeed(&name, &["plugin", "build"]);
        let trapped = author.run(&["plugin", "call", &name, "hello", r#"{"name":"Ada"}"#]);
        assert_eq!(trapped.code, Some(1), "{}", trapped.err);
        assert!(trapped.err.contains(place), "{}", trapped.err);
        let failed = author.run(&["plugin", "test", &name]);
        assert_eq!(failed.code, Some(1), "{}", failed.out);
    }
}

#[test]
fn rust() {
    let panic = "Ok(format!(\"Hello, {}!\", input.name.as_bytes()[90]))";
    journey("rust", Some(("src/lib.rs", "Ok(format!(\"Hello, {}!\", input.name))", panic, "at src/lib.rs:20")));
}

#[test]
fn javascript() {
    journey("js", Some(("skill.js", "return `Hello, ${name}!`;", "return name.missing.length;", "skill.js:15")));
}

#[test]
fn typescript() {
    journey("ts", None);
}

#[test]
fn python() {
    journey("python", None);
}

#[test]
fn c() {
    let trap = "__builtin_trap(); return patchbay_textf";
    journey("c", Some(("skill.c", "return patchbay_textf", trap, "at skill.c:11")));
}
