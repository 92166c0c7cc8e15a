//! From an empty folder to a skill that works, in each language.

use std::{fs, time::Instant};

use serde_json::Value;

use crate::author::{Author, runs_in_all};

/// Creates a skill, builds it, calls it without installing it, tests it, adds it, and uses it in a session. `broken` is an edit of
/// its file `source` that makes the tool trap, with a part of the location that must be shown.
fn journey(language: &str, source: &str, broken: Option<(&str, &str, &str)>) {
    let author = Author::of(language);
    let name = format!("first-{language}");
    let start = Instant::now();
    let created = author.succeed("", &["plugin", "new", &name, "--lang", language]);
    assert!(created.starts_with(&format!("Created {name}/, a skill in ")), "{created}");
    author.succeed(&name, &["plugin", "build"]);
    assert_eq!(author.succeed(&name, &["plugin", "call", ".", "hello", r#"{"name":"Ada"}"#]), "Hello, Ada!\n");
    println!("{language}: {:.1} s from nothing to the first answer", start.elapsed().as_secs_f32());

    // The generated fixture expects the same result.
    let fixture = fs::read(author.work().join(&name).join("fixtures/hello.json")).unwrap();
    let fixture: Value = serde_json::from_slice(&fixture).unwrap();
    assert_eq!(fixture["result"][0]["text"], "Hello, Ada!");
    assert_eq!(author.succeed("", &["plugin", "test", &name]).lines().next(), Some("passed  fixtures/hello.json"));

    // After one word of the source changes, the test fails with a difference that names the case. `make test` builds first.
    assert!(author.make(&name, "test").out.contains("passed  fixtures/hello.json\n1 passed, 0 failed; 6 rules hold\n"));
    author.edit(&format!("{name}/{source}"), "Hello", "Goodbye");
    let red = author.make(&name, "test");
    let difference = "FAILED  fixtures/hello.json\n  result:\n    - text: Hello, Ada!\n    + text: Goodbye, Ada!\n";
    assert!(red.code == Some(2) && red.out.contains(difference), "{}{}", red.out, red.err);
    author.edit(&format!("{name}/{source}"), "Goodbye", "Hello");
    author.succeed(&name, &["plugin", "build"]);

    // A failure that the tool reports, and an input that the schema refuses.
    let blank = author.run(&["plugin", "call", &name, "hello", r#"{"name":" "}"#]);
    assert_eq!(
        (blank.code, blank.err.contains("Error: the name is empty [tool_failed]")),
        (Some(1), true),
        "{}",
        blank.err
    );
    let refused = author.run(&["plugin", "call", &name, "hello", r#"{"name":3}"#]);
    assert!(refused.err.contains("at /name: 3 is not of type \"string\""), "{}", refused.err);

    author.succeed("", &["plugin", "add", &name, "--yes"]);
    assert_eq!(author.succeed("", &["exec", &format!("/{name} Ada")]), "Hello, Ada!\n");
    author.succeed("", &["plugin", "remove", &name]);
    author.succeed("", &["plugin", "add", "--link", &name]);
    assert_eq!(author.succeed("", &["exec", &format!("/{name} Ada")]), "Hello, Ada!\n");

    if let Some((from, to, place)) = broken {
        author.edit(&format!("{name}/{source}"), from, to);
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
    journey("rust", "src/lib.rs", Some(("Ok(format!(\"Hello, {}!\", input.name))", panic, "at src/lib.rs:20")));
}

#[test]
fn javascript() {
    journey("js", "skill.js", Some(("return `Hello, ${name}!`;", "return name.missing.length;", "skill.js:15")));
}

#[test]
fn typescript() {
    if runs_in_all("ts") {
        journey("ts", "skill.ts", None);
    }
}

#[test]
fn python() {
    journey("python", "skill.py", None);
}

#[test]
fn c() {
    let trap = "__builtin_trap(); return patchbay_textf";
    journey("c", "skill.c", Some(("return patchbay_textf", trap, "at skill.c:11")));
}

/// The adapters that `plugin new` writes are tested in the same way as skills.
fn provider_journey(language: &str, source: &str, from: &str, to: &str, difference: &str) {
    let author = Author::of(language);
    let name = format!("acme-{language}");
    author.succeed("", &["plugin", "new", &name, "--lang", language, "--kind", "provider"]);
    let green = author.make(&name, "test");
    assert!(
        green.out.contains("passed  fixtures/hello.json\n1 passed, 0 failed; 3 rules hold\n"),
        "{}{}",
        green.out,
        green.err
    );
    author.edit(&format!("{name}/{source}"), from, to);
    let red = author.make(&name, "test");
    assert!(red.code == Some(2) && red.out.contains("FAILED  fixtures/hello.json\n"), "{}{}", red.out, red.err);
    assert!(red.out.contains(difference), "{}", red.out);
}

#[test]
fn rust_provider() {
    if !runs_in_all("provider-rust") {
        return;
    }
    let difference = "  exchange 1, path:\n    - /say?model=acme-rust-1\n    + /tell?model=acme-rust-1\n";
    provider_journey("rust", "src/lib.rs", "/say?", "/tell?", difference);
}

#[test]
fn javascript_provider() {
    if !runs_in_all("provider-js") {
        return;
    }
    let difference = "    -   stop: end-turn\n    +   stop: max-tokens\n";
    provider_journey("js", "provider.js", "stop === \"length\"", "stop !== \"length\"", difference);
}
