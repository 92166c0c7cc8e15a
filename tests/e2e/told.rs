//! What agents are told about the start of their session: date, system, workspace, repository, and the instructions in folders
//! above the workspace.

use std::{fs, path::Path};

use patchbay_tests::{binary::Patchbay, format::ANTHROPIC, server::Server};
use serde_json::Value;

use crate::provider_servers::{body, by_case, whole};

const ONE: &str = "1111111111111111111111111111111111111111";

/// A repository in the test's folder, whose workspace is `workspace/a/b`.
struct Repository {
    patchbay: Patchbay,
    server: Server,
}

impl Repository {
    fn new() -> Self {
        let server = by_case(|_, _| whole(ANTHROPIC.answer("text")));
        let patchbay = ANTHROPIC.home(&server, "");
        patchbay.write("workspace/.git/HEAD", "ref: refs/heads/main\n");
        patchbay.write("workspace/.git/refs/heads/main", ONE);
        patchbay.write("workspace/AGENTS.md", "Outer\u{202e} rules.\n");
        patchbay.write("workspace/CLAUDE.md", "Not read.");
        patchbay.write("workspace/a/CLAUDE.md", "Inner rules.");
        patchbay.write("workspace/a/b/AGENTS.md", "Own rules.");
        patchbay.write("AGENTS.md", "Above the repository.");
        Self { patchbay, server }
    }

    fn top(&self) -> String {
        self.patchbay.workspace().canonicalize().unwrap().display().to_string()
    }

    /// Runs lines in `workspace/a/b` and returns standard error.
    fn exec(&self, options: &[&str], lines: &[&str]) -> String {
        let model = format!("/model {}", ANTHROPIC.model);
        let arguments = [&["exec"], options, &[&*model], lines].concat();
        let place = self.patchbay.workspace().join("a/b");
        let ran = self.patchbay.command(&arguments).current_dir(place).output().unwrap();
        let errors = String::from_utf8(ran.stderr).unwrap();
        assert!(ran.status.success(), "{errors}");
        errors
    }

    /// Returns the texts of the first message in each request, without the agent's introduction, and the system context.
    fn told(&self) -> Vec<(Vec<String>, Value)> {
        let told = |request: &String| {
            let body = body(request);
            let parts = body["messages"][0]["content"].as_array().unwrap().clone();
            let mut texts = parts.iter().map(|part| part["text"].as_str().unwrap().to_owned());
            assert!(texts.next().unwrap().starts_with("You are the agent "), "{body}");
            (texts.collect(), body["system"].clone())
        };
        self.server.requests().iter().map(told).collect()
    }

    /// Returns the texts of a new session's first message, and standard error.
    fn told_now(&self) -> (Vec<String>, String) {
        let errors = self.exec(&[], &["case:now"]);
        (self.told().pop().unwrap().0, errors)
    }
}

#[test]
fn first_message_has_the_surroundings_and_never_changes() {
    let at = Repository::new();
    at.exec(&[], &["case:one", "case:two", "/agent default", "case:three", "/fork \"case:four\""]);
    // The repository changes, and another process resumes the session.
    at.patchbay.write("workspace/.git/HEAD", "ref: refs/heads/other\n");
    at.patchbay.write("workspace/AGENTS.md", "Other rules.");
    fs::remove_file(at.patchbay.workspace().join("a/CLAUDE.md")).unwrap();
    at.exec(&["--session", &at.patchbay.last_session()], &["case:five"]);
    let told = at.told();
    assert_eq!(told.len(), 5);
    let (first, system) = &told[0];
    let [facts, outer, inner, said] = &first[..] else { panic!("{first:?}") };
    let top = at.top();
    let lines: Vec<&str> = facts.lines().collect();
    assert_eq!(lines[0], "At the start of this session:");
    let date = lines[1].strip_prefix("date: ").and_then(|date| date.strip_suffix(" (UTC)")).unwrap();
    assert!(date.len() == 10 && date.starts_with("20"), "{facts}");
    assert_eq!(lines[2], format!("system: {} {}", std::env::consts::OS, std::env::consts::ARCH));
    assert_eq!(lines[3], format!("workspace: {top}/a/b"));
    let git = [format!("git repository: {top}"), "git branch: main".to_owned(), format!("git commit: {ONE}")];
    assert_eq!(lines[4..], git);
    assert!(
        outer.starts_with(&format!(
            "Instructions for agents in {top}, above the workspace (AGENTS.md). The user has not "
        ))
    );
    assert!(inner.starts_with(&format!(
        "Instructions for agents in {top}/a, above the workspace (CLAUDE.md). The user has not "
    )));
    assert!(outer.ends_with(".\n\nOuter rules.") && inner.ends_with(".\n\nInner rules."), "{first:?}");
    assert_eq!(said, "case:one");
    for (texts, again) in &told {
        assert_eq!(texts[..4], first[..]);
        assert_eq!(again, system);
    }
    let system = system.to_string();
    assert!(system.contains("Own rules.") && !system.contains(date) && !system.contains("Outer"), "{system}");
    assert!(!told[0].0.concat().contains("Above the repository"), "{told:?}");
}

#[test]
fn trusted_folders_are_not_marked_and_long_instructions_left_out() {
    let at = Repository::new();
    let top = at.top();
    assert_eq!(at.patchbay.run(&["trust", "add", &top]).code, Some(0));
    let (texts, _) = at.told_now();
    assert_eq!(texts[1], format!("Instructions for agents in {top}, above the workspace (AGENTS.md).\n\nOuter rules."));
    assert!(texts[2].contains("has not trusted"), "{texts:?}");
    // The nearest instructions are kept.
    at.patchbay.write("workspace/AGENTS.md", "o".repeat(40 << 10));
    at.patchbay.write("workspace/a/CLAUDE.md", "i".repeat(40 << 10));
    let (texts, errors) = at.told_now();
    assert!(texts.len() == 3 && texts[1].ends_with('i'), "{}", texts.len());
    let note = "Note: AGENTS.md of TOP is not used: the instructions above the workspace would exceed 64 KiB\n";
    assert!(errors.starts_with(&note.replace("TOP", &top)), "{errors}");
    at.patchbay.write("workspace/a/CLAUDE.md", "i".repeat((64 << 10) + 1));
    let (texts, errors) = at.told_now();
    assert!(texts.len() == 3 && texts[1].ends_with('o'), "{}", texts.len());
    assert!(errors.starts_with(&format!("Note: CLAUDE.md of {top}/a is not used: over 65536 bytes\n")), "{errors}");
}

#[test]
fn nothing_is_read_above_the_home_folder_or_outside_of_a_repository() {
    let mut at = Repository::new();
    let home = at.patchbay.workspace();
    at.patchbay.set("HOME", home.to_str().unwrap());
    let (texts, _) = at.told_now();
    assert!(texts.len() == 2 && texts[0].ends_with("/a/b"), "{texts:?}");
    at.patchbay.set("HOME", at.patchbay.home().to_str().unwrap());
    assert_eq!(at.told_now().0.len(), 4);
    fs::remove_dir_all(home.join(".git")).unwrap();
    let (texts, _) = at.told_now();
    assert!(texts.len() == 2 && !texts[0].contains("git"), "{texts:?}");
}

#[test]
fn hostile_repository_stops_no_session() {
    let at = Repository::new();
    let git = at.patchbay.workspace().join(".git");
    at.patchbay.write("secret", "a secret");
    let secret = at.patchbay.folder().join("secret");
    let relink = |path: &Path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink(&secret, path).unwrap();
    };
    relink(&git.join("HEAD"));
    relink(&at.patchbay.workspace().join("AGENTS.md"));
    let (texts, errors) = at.told_now();
    assert!(texts[0].ends_with(&format!("git repository: {}", at.top())), "{texts:?}");
    assert!(texts.len() == 3 && !texts.concat().contains("a secret"), "{texts:?}");
    assert!(errors.contains("Note: AGENTS.md of ") && !errors.contains("a secret"), "{errors}");
    fs::remove_dir_all(&git).unwrap();
    fs::write(&git, [0xff; 9_000]).unwrap();
    assert_eq!(at.told_now().0.len(), 3);
}
