//! The complete skills on the pages for authors, built and used exactly as written.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use patchbay_tests::{
    documents::{block, blocks},
    server::{self, Server},
};

use crate::author::{Author, runs_in_all};

/// Builds and uses the skill `weather` of a page. `block_language` is the language of the block with the source.
fn complete_skill(language: &str, page: &str, block_language: &str, beginning: &str, file: &str) {
    let is_down = Arc::new(AtomicBool::new(false));
    let server = Server::new({
        let is_down = is_down.clone();
        move |_| match is_down.load(Ordering::Relaxed) {
            true => server::response("503 Service Unavailable", "text/plain", ""),
            false => server::page(r#"{"sky": "clear", "celsius": 21.5}"#),
        }
    });
    let host = server.host();
    let author = Author::of(language);
    author.succeed("", &["plugin", "new", "weather", "--lang", language]);
    let folder = author.work().join("weather");
    for (of, beginning, file) in [("markdown", "---\nname: weather", "SKILL.md"), (block_language, beginning, file)] {
        fs::write(folder.join(file), block(page, of, beginning).replace("localhost:8080", &host)).unwrap();
    }
    fs::remove_file(folder.join("fixtures/hello.json")).unwrap();
    author.succeed("weather", &["plugin", "build"]);

    let http = format!("http:{host}");
    let call = ["plugin", "call", ".", "now", r#"{"city": "rome"}"#, "--grant", &http, "--grant", "kv"];
    assert_eq!(author.succeed("weather", &call), "rome: clear, 21.5 °C\n");
    author.succeed("weather", &["plugin", "add", ".", "--yes"]);
    author.succeed("", &["grant", "add", "--package", "weather", "weather", &http, "kv"]);
    assert_eq!(author.succeed("", &["exec", "/weather rome"]), "rome: clear, 21.5 °C\n");
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(author.succeed("", &["exec", "/weather rome"]), "rome, last known: clear, 21.5 °C\n");
}

#[test]
fn complete_skill_in_javascript() {
    complete_skill("js", "docs/skills-javascript.md", "js", "import { defineSkill", "skill.js");
}

#[test]
fn complete_skill_in_typescript() {
    if runs_in_all("ts") {
        complete_skill("ts", "docs/skills-javascript.md", "ts", "import { defineSkill", "skill.ts");
    }
}

#[test]
fn complete_skill_in_python() {
    complete_skill("python", "docs/skills-python.md", "python", "import json", "skill.py");
}

#[test]
fn complete_skill_in_c() {
    complete_skill("c", "docs/skills-c.md", "c", "// The current weather", "skill.c");
}

/// The page about tests, line by line: each `sh` block is run, and its output contains the `text` block after it.
#[test]
fn testing_page() {
    let author = Author::of("js");
    let blocks = blocks("docs/testing.md");
    let (mut folder, mut compared) = (String::new(), 0);
    for (at, (language, script)) in blocks.iter().enumerate().filter(|(_, (language, _))| language == "sh") {
        let ran = author.shell(&folder, &format!("{script}\ncode=$?; pwd >\"$PATCHBAY_HOME/folder\"; exit $code"));
        let expected = blocks.get(at + 1).filter(|(of, _)| of == "text").map_or("", |(_, text)| text);
        assert!(ran.out.contains(expected), "{language} {script}\n{}{}", ran.out, ran.err);
        assert_eq!(ran.code == Some(0), !expected.contains("FAILED"), "{script}\n{}{}", ran.out, ran.err);
        let now = fs::read_to_string(author.home().join("folder")).unwrap();
        let work = author.work().canonicalize().unwrap();
        let now = std::path::Path::new(now.trim()).canonicalize().unwrap();
        folder = now.strip_prefix(work).unwrap().to_str().unwrap().to_owned();
        compared += usize::from(!expected.is_empty());
    }
    assert!(compared >= 8, "only {compared} outputs were compared");
}
