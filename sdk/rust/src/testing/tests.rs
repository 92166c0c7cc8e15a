//! Tests of the simulated host.

use super::*;
use crate::{
    call, http,
    kv::{self, Scope},
    log, progress, skill_files, workspace,
    workspace_search::{self, NameQuery, Position, TextQuery},
};

#[test]
fn walk_lists_matching_entries_in_pages() {
    let host = Host::new().with_file("b/c.rs", "12").with_file("a.rs", "").with_file("b/d/e.txt", "").with_folder("b");
    let walk = |glob, after, limit| {
        let entries = host.run(|| workspace::walk(glob, after, limit)).unwrap();
        entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
    };
    assert_eq!(walk("**/*", None, 9), ["a.rs", "b", "b/c.rs", "b/d/e.txt"]);
    assert_eq!(walk("**/*", Some("a.rs"), 2), ["b", "b/c.rs"]);
    assert_eq!(walk("**/*.rs", None, 9), ["a.rs", "b/c.rs"]);
    assert_eq!(walk("b/**/*", None, 9), ["b/c.rs", "b/d/e.txt"]);
    assert_eq!(walk("b/?.rs", None, 9), ["b/c.rs"]);
    let folder = host.run(|| workspace::walk("b", None, 9)).unwrap();
    assert!(folder[0].is_directory && folder.len() == 1);
}

fn text_query(pattern: &str) -> TextQuery {
    TextQuery {
        pattern: pattern.to_owned(),
        fixed: false,
        ignore_case: false,
        globs: Vec::new(),
        after: None,
        context: 0,
        max_lines: 100,
        max_line_bytes: 100,
        time_ms: None,
        extra: Vec::new(),
    }
}

#[test]
fn searches_return_lines_in_parts() {
    let host = Host::new().with_file("a.rs", "fox\n-\nFox\n").with_file("b/c.md", "a fox").with_file("d", "fox\0");
    let search = |query: TextQuery| {
        let results = host.run(|| workspace_search::search(&query)).unwrap();
        let lines = results.files.iter().flat_map(|file| file.lines.iter().map(move |line| (&file.path, line)));
        let lines: Vec<_> = lines.map(|(path, line)| format!("{path}:{}:{}", line.number, line.text)).collect();
        (lines, results.next.map(|next| (next.path, next.line)), results.skipped.len())
    };
    let all = TextQuery { ignore_case: true, ..text_query("fo+x") };
    assert_eq!(search(all.clone()), (vec!["a.rs:1:fox".into(), "a.rs:3:Fox".into(), "b/c.md:1:a fox".into()], None, 1));
    let (lines, next, _) = search(TextQuery { max_lines: 1, context: 1, ..all.clone() });
    assert_eq!((lines, next), (vec!["a.rs:1:fox".into(), "a.rs:2:-".into()], Some(("a.rs".into(), Some(2)))));
    let after = Some(Position { path: "a.rs".into(), line: Some(2) });
    assert_eq!(search(TextQuery { after, ..all.clone() }).0, ["a.rs:3:Fox", "b/c.md:1:a fox"]);
    let globs = vec!["**/*".into(), "!*.rs".into()];
    assert_eq!(search(TextQuery { globs, fixed: true, ..text_query("a f") }).0, ["b/c.md:1:a fox"]);
    assert_eq!(host.run(|| workspace_search::search(&text_query("("))).unwrap_err().kind, "invalid");
}

#[test]
fn names_are_found_in_all_folders() {
    let host = Host::new().with_file("README", "").with_file("a/readme.md", "12").with_folder("a/readme");
    let find = |directories, max_entries| {
        let globs = vec!["**/readme*".to_owned()];
        let query =
            NameQuery { globs, ignore_case: true, directories, after: None, max_entries, time_ms: None, extra: vec![] };
        let results = host.run(|| workspace_search::find(&query)).unwrap();
        (results.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), results.next)
    };
    assert_eq!(find(false, 9), (vec!["README".to_owned(), "a/readme.md".to_owned()], None));
    assert_eq!(find(true, 9).0.len(), 3);
    assert_eq!(find(false, 1), (vec!["README".to_owned()], Some("README".to_owned())));
}

#[test]
fn reads_are_ranges_and_writes_replace() {
    let host = Host::new().with_file("f", "abcdef").with_max_read(2);
    host.run(|| {
        assert_eq!(workspace::read("f", 1, 9).unwrap(), b"bc");
        assert_eq!(workspace::read("f", 9, 9).unwrap(), b"");
        workspace::write("f", b"x").unwrap();
        workspace::delete("g").unwrap_err();
    });
    assert_eq!(host.file("f").as_deref(), Some(&b"x"[..]));
}

#[test]
fn files_of_the_skill_are_its_own() {
    let host = Host::new().with_skill_file("assets/a.txt", "abc").with_skill_file("b.md", "").with_file("w", "x");
    host.run(|| {
        assert_eq!(skill_files::read("assets/a.txt", 1, 9).unwrap(), b"bc");
        assert_eq!((call::info().unwrap().attempt, call::remaining("time-ms").unwrap()), (1, u64::MAX));
        assert_eq!(skill_files::read("w", 0, 9).unwrap_err().kind, "not-found");
        let paths = |prefix, after| {
            let entries = skill_files::entries(prefix, after, 9).unwrap();
            entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>()
        };
        assert_eq!(paths("", None), ["assets/a.txt", "b.md"]);
        assert_eq!(
            (paths("assets/", None), paths("", Some("assets/a.txt"))),
            (vec!["assets/a.txt".to_owned()], vec!["b.md".to_owned()])
        );
    });
}

#[test]
fn scopes_are_separate_and_versions_are_checked() {
    let host = Host::new();
    let put = |host: &Host, scope, expect| host.run(|| kv::put(scope, "k", b"v", expect).map_err(|error| error.kind));
    assert_eq!(put(&host, Scope::Workspace, Some(0)), Ok(1));
    assert_eq!(put(&host, Scope::Workspace, Some(0)), Err("conflict".to_owned()));
    assert_eq!(put(&host, Scope::Workspace, Some(1)), Ok(2));
    assert_eq!(put(&host, Scope::Session, None), Ok(3));
    let other = host.other_session();
    assert_eq!(other.entries(Scope::Workspace), [("k".to_owned(), b"v".to_vec())]);
    assert_eq!(other.entries(Scope::Session), []);
    assert!(other.run(|| kv::delete(Scope::Workspace, "k")).unwrap());
    assert_eq!(host.run(|| kv::keys(Scope::Workspace, "", None, 9)).unwrap(), [""; 0]);
}

#[test]
fn calls_can_fail_before_or_after_their_effect() {
    let host = Host::new();
    let failing = host.on_call(|call| match call.target.as_str() {
        "before" => Reaction::Fail("denied"),
        "after" => Reaction::FailAfter("timeout"),
        _ => Reaction::Proceed,
    });
    let write = |path| failing.run(|| workspace::write(path, b"x").map_err(|error| error.kind));
    assert_eq!(write("before"), Err("denied".to_owned()));
    assert_eq!(write("after"), Err("timeout".to_owned()));
    assert_eq!(write("other"), Ok(()));
    assert_eq!((host.file("before"), host.file("after").is_some()), (None, true));
    let last = Call { index: 2, function: "workspace.write", target: "other".to_owned() };
    assert_eq!((failing.calls().last(), host.calls().len()), (Some(&last), 0));
}

#[test]
fn log_and_progress_are_recorded() {
    let host = Host::new();
    let work = || {
        log::write(log::Level::Warn, "slow");
        progress::report("half");
    };
    // A helper that logs can be tested without a host, too.
    work();
    host.run(work);
    let logged = host.logged();
    assert!(matches!(&logged[..], [(log::Level::Warn, message)] if message == "slow"), "{logged:?}");
    assert_eq!((host.progress(), host.calls().len()), (vec!["half".to_owned()], 0));
}

#[test]
fn request_without_a_response_fails() {
    let host = Host::new().with_response("https://a.example/", response(200, &[("a", "b")], "c"));
    let request = |url: &str| http::Request {
        method: "GET".into(),
        url: url.into(),
        headers: Vec::new(),
        auth: Vec::new(),
        body: None,
        timeout_ms: None,
    };
    assert_eq!(host.run(|| http::send(&request("https://a.example/"))).unwrap().body, b"c");
    assert_eq!(host.run(|| http::send(&request("https://b.example/"))).unwrap_err().kind, "unavailable");
    assert_eq!(host.requests().len(), 2);
}
