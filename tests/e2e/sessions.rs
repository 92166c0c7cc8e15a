//! Stored sessions: list, continue, resume, remove, garbage collection, locks, and damaged data.

use std::fs;

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, ran},
    guest::Guest,
};
use serde_json::json;

/// Creates a session with one stored message and returns its id.
fn session(patchbay: &Patchbay) -> String {
    let mut live = patchbay.live(&[]);
    live.message("/calc 1");
    live.session().to_owned()
}

/// Asserts exit code 1, an empty standard output, and this error text.
fn assert_refused(patchbay: &Patchbay, arguments: &[&str], words: &str) {
    let ran = patchbay.run(arguments);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", &*format!("Error: {words}\n")), "{arguments:?}");
}

/// Sets the time of a session's last use, in seconds before now.
fn set_age(patchbay: &Patchbay, id: &str, seconds: i64) {
    let database = patchbay.database("patchbay.db");
    database.execute("UPDATE sessions SET used_at = unixepoch() - ? WHERE id = ?", (seconds, id)).unwrap();
}

/// Runs a line in a new session of another workspace, and returns the session's id and its workspace.
fn session_elsewhere(patchbay: &Patchbay, line: &str) -> (String, String) {
    let folder = patchbay.folder().join("elsewhere");
    fs::create_dir_all(&folder).unwrap();
    let ran = patchbay.run(&["exec", "--json", "--workspace", "../elsewhere", line]);
    let id = json_lines(&ran.out)[0]["session"].as_str().unwrap().to_owned();
    (id, folder.canonicalize().unwrap().display().to_string())
}

#[test]
fn sessions_of_the_workspace_are_listed_by_last_use() {
    let patchbay = Patchbay::quick();
    for arguments in [&["sessions"][..], &["sessions", "list"], &["sessions", "--all"]] {
        assert_eq!(patchbay.run(arguments).out, "No sessions.\n");
    }
    assert_eq!(patchbay.run(&["sessions", "--json"]).out, "");
    let (other, elsewhere) = session_elsewhere(&patchbay, "/calc 3");
    set_age(&patchbay, &other, 40 * 86_400 + 5);
    let none = patchbay.run(&["sessions"]);
    assert_eq!(none.out, "No sessions of this workspace.\n");
    assert_eq!(none.err, "Note: 1 session of other workspaces is not listed; to list all: patchbay sessions --all\n");
    patchbay.exec(&["/calc 1", "Good\u{1b}[31m  day", "/quit"]);
    let one = patchbay.last_session();
    set_age(&patchbay, &one, 3 * 3600 + 5);
    let two = session(&patchbay);
    set_age(&patchbay, &two, 65);
    let live = patchbay.live(&[]);
    let three = live.session().to_owned();
    let short = |id: &str| id[..8].to_owned();
    let table = |indent: &str| {
        format!(
            "{indent}{}  just now      (no messages) (open in process {})\n\
             {indent}{}  1 minute ago  /calc 1\n\
             {indent}{}  3 hours ago   Good[31m day\n",
            short(&three),
            live.pid(),
            short(&two),
            short(&one)
        )
    };
    for arguments in [&["sessions"][..], &["sessions", "list"]] {
        assert_eq!(patchbay.run(arguments).out, table(""));
    }
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    let all = patchbay.run(&["sessions", "--all"]);
    let others = format!("{elsewhere}\n  {}  5 weeks ago  /calc 3\n", short(&other));
    assert_eq!((all.out, &*all.err), (format!("{workspace} (this workspace)\n{}{others}", table("  ")), ""));
    let pid = live.pid().to_string();
    assert_eq!(live.wait_for_exit(), Some(0));
    assert!(!patchbay.run(&["sessions"]).out.contains(&pid));
}

#[test]
fn sessions_are_listed_as_json() {
    let patchbay = Patchbay::quick();
    let (other, elsewhere) = session_elsewhere(&patchbay, "/calc 3");
    set_age(&patchbay, &other, 60);
    let one = session(&patchbay);
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    let listed = json_lines(&patchbay.run(&["sessions", "--json"]).out);
    let database = patchbay.database("patchbay.db");
    database.execute("UPDATE sessions SET used_at = 1795291440 + 60 * (id = ?)", [&other]).unwrap();
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &json!(one)));
    let listed = json_lines(&patchbay.run(&["sessions", "list", "--all", "--json"]).out);
    let expected = |id: &str, used_at: &str, workspace: &str, words: &str| {
        json!({
            "id": id, "short_id": id[..8], "used_at": used_at, "messages": 1, "workspace": workspace,
            "first_words": words, "open_in": null, "recorded_calls": 0,
        })
    };
    // Newest first, whatever the workspace.
    let other = expected(&other, "2026-11-21 20:05", &elsewhere, "/calc 3");
    assert_eq!(listed, [other, expected(&one, "2026-11-21 20:04", &workspace, "/calc 1")]);
}

#[test]
fn continue_resumes_the_newest_session_of_the_workspace() {
    let patchbay = Patchbay::quick();
    let none = patchbay.run(&["-c"]);
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    let words = format!(
        "Error: no session of {workspace} to continue. To list sessions of all workspaces: patchbay sessions --all \
         [session_not_found]\n"
    );
    assert_eq!((none.code, &*none.out, &*none.err), (Some(1), "", &*words));
    let (one, two) = (session(&patchbay), session(&patchbay));
    set_age(&patchbay, &one, 120);
    set_age(&patchbay, &two, 60);
    let (other, _) = session_elsewhere(&patchbay, "/calc 3");
    // The only line of this session is `/quit`, so there is nothing to continue.
    patchbay.exec(&["/quit"]);
    let continued = |arguments: &[&str]| {
        let ran = patchbay.run(&[&["exec", "--json"], arguments, &["/calc 1"]].concat());
        json_lines(&ran.out)[0]["session"].as_str().unwrap_or_else(|| panic!("{ran:?}")).to_owned()
    };
    assert_eq!(continued(&["-c"]), two);
    assert_eq!(continued(&["--continue", "--workspace", "../elsewhere"]), other);
    set_age(&patchbay, &two, 600);
    assert_eq!(continued(&["-c"]), one);
    let mut command = patchbay.command(&["-c"]);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"/quit\n").unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.out, format!("The session is kept. To continue: patchbay --session {}\n", &one[..8]));
}

#[test]
fn short_id_of_similar_sessions_is_longer() {
    let patchbay = Patchbay::new();
    let (one, two) = (session(&patchbay), session(&patchbay));
    let alike = rename_alike(&patchbay, &one, &two);
    let answers = patchbay.answers_in(&["--session", &alike], &["/quit"]);
    let message = answers[0].message();
    let (_, short) = message.rsplit_once(' ').unwrap();
    assert!(short.len() > 8 && alike.starts_with(short) && !one.starts_with(short), "{message}");
    assert_eq!(patchbay.run(&["exec", "--session", short, "/calc 2"]).out, "2\n");
}

/// Changes the id `other` to one that shares its first 8 characters with `id`, and returns it.
fn rename_alike(patchbay: &Patchbay, id: &str, other: &str) -> String {
    let alike = format!("{}{}", &id[..8], &other[8..]);
    let database = patchbay.database("patchbay.db");
    database.execute_batch("PRAGMA foreign_keys = off").unwrap();
    for (table, column) in [("sessions", "id"), ("agents", "session"), ("messages", "session")] {
        database.execute(&format!("UPDATE {table} SET {column} = ? WHERE {column} = ?"), [&*alike, other]).unwrap();
    }
    alike
}

#[test]
fn session_is_resumed_and_removed_by_unique_id_prefix() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    let resumed = patchbay.run(&["exec", "--session", &id[..13], "/calc 2"]);
    assert_eq!((resumed.code, &*resumed.out), (Some(0), "2\n"));
    let removed = patchbay.run(&["sessions", "rm", &id[..13]]);
    assert_eq!((removed.code, removed.out), (Some(0), format!("Removed session {id}.\n")));
    assert_eq!(patchbay.run(&["sessions"]).out, "No sessions.\n");
    let left: i64 =
        patchbay.database("patchbay.db").query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn unknown_and_ambiguous_id_prefixes_are_rejected() {
    let patchbay = Patchbay::new();
    let words = "session 'zzz' not found. To list sessions: patchbay sessions --all [session_not_found]";
    for arguments in [&["sessions", "rm", "zzz"][..], &["exec", "--session", "zzz", "/skills"], &["--session", "zzz"]] {
        assert_refused(&patchbay, arguments, words);
    }
    let mut ids = [session(&patchbay), session(&patchbay)];
    let alike = rename_alike(&patchbay, &ids[0], &ids[1]);
    ids[1] = alike;
    ids.sort();
    let beginning = &ids[0][..8];
    let ran = patchbay.run(&["sessions", "rm", beginning]);
    assert_eq!(ran.code, Some(1));
    let words = |a: &str, b: &str| format!("Error: '{beginning}' matches several sessions: {a}, {b}. [invalid_args]\n");
    assert!(ran.err == words(&ids[0], &ids[1]) || ran.err == words(&ids[1], &ids[0]), "{}", ran.err);
}

#[test]
fn second_process_is_told_which_process_uses_the_session() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&[]);
    let id = live.session().to_owned();
    let words = format!(
        "session {id} is in use by process {}. End that process, or start a new session. [session_in_use]",
        live.pid()
    );
    assert_refused(&patchbay, &["exec", "--session", &id, "/skills"], &words);
    assert_refused(&patchbay, &["sessions", "rm", &id], &words);
    assert_eq!(live.message("/calc 1"), "1");
    assert_eq!(live.wait_for_exit(), Some(0));
    assert_eq!(patchbay.run(&["exec", "--session", &id, "/calc 2"]).out, "2\n");
}

#[test]
fn gc_deletes_only_unreferenced_data() {
    let patchbay = Patchbay::new();
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand: echo\ncommand_tool: run\n---\n";
    let component = Guest::default().packaged(skill_md);
    patchbay.write("home/config/skills/echo.wasm", &component);
    let with_echo = session(&patchbay);
    fs::remove_file(patchbay.home().join("config/skills/echo.wasm")).unwrap();
    let without = session(&patchbay);
    let gc = || patchbay.run(&["sessions", "gc"]).out;
    assert_eq!(gc(), "Deleted 0 snapshots and 0 components (0 bytes).\n");
    assert_eq!(patchbay.run(&["exec", "--session", &with_echo, "/echo {}"]).out, "{}\n");
    patchbay.run(&["sessions", "rm", &with_echo]);
    assert_eq!(gc(), format!("Deleted 1 snapshot and 1 component ({} bytes).\n", component.len()));
    assert_eq!(gc(), "Deleted 0 snapshots and 0 components (0 bytes).\n");
    assert_eq!(patchbay.run(&["exec", "--session", &without, "/calc 2"]).out, "2\n");
}

#[test]
fn damaged_snapshot_is_reported_and_session_can_be_removed() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    patchbay
        .database("patchbay.db")
        .execute("UPDATE snapshots SET body = replace(body, 'Exact', 'Fake!')", [])
        .unwrap();
    let ran = patchbay.run(&["exec", "--session", &id, "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(
        ran.err.starts_with(&format!("Error: session {id}: the stored snapshot is damaged: its digest is sha256:")),
        "{}",
        ran.err
    );
    assert!(ran.err.ends_with(&format!(". To remove it: patchbay sessions rm {id} [store_failed]\n")), "{}", ran.err);
    assert_eq!(patchbay.run(&["sessions", "rm", &id]).code, Some(0));
}

#[test]
fn damaged_or_missing_component_is_repaired_by_reload_skills() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    let help = &patchbay.answers_in(&["--session", &id], &["/help calc"])[0];
    let digest = help.data()["component"].as_str().unwrap().to_owned();
    let file = patchbay.home().join(format!("data/components/{}.wasm", digest.strip_prefix("sha256:").unwrap()));
    for (spoil, what) in [(true, "is damaged in the store"), (false, "is no longer in the store")] {
        if spoil {
            fs::write(&file, "spoilt").unwrap()
        } else {
            fs::remove_file(&file).unwrap()
        }
        let answers = patchbay.answers_in(&["--session", &id], &["/calc 1", "/reload_skills", "/calc 1"]);
        assert_eq!(answers[0].code(), "component_missing");
        assert_eq!(
            answers[0].message(),
            format!("Error: component {digest} {what}; to make a new snapshot: /reload_skills.")
        );
        assert_eq!(answers[1].code(), "skills_reloaded");
        assert_eq!(answers[2].message(), "1");
    }
}

#[test]
fn unreadable_session_row_is_reported() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    patchbay.database("patchbay.db").execute("UPDATE sessions SET persona = 'torn'", []).unwrap();
    let words = "the database contains an unreadable persona. [store_failed]";
    assert_refused(&patchbay, &["exec", "--session", &id, "/skills"], words);
}

#[test]
fn database_of_a_newer_version_is_not_modified() {
    let patchbay = Patchbay::new();
    session(&patchbay);
    patchbay.database("patchbay.db").execute_batch("PRAGMA user_version = 9999").unwrap();
    let path = patchbay.home().join("data/patchbay.db");
    let ran = patchbay.run(&["exec", "/skills"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.err.starts_with(&format!(
            "Error: {} was written by a newer Patchbay (schema 9999; this one reads up to ",
            path.display()
        )),
        "{}",
        ran.err
    );
}

#[test]
fn file_that_is_not_a_database_is_named() {
    let patchbay = Patchbay::blank();
    patchbay.write("home/data/patchbay.db", "this is no database, and long enough to be looked at");
    let ran = patchbay.run(&["exec", "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("not a database") && ran.err.ends_with(" [store_failed]\n"), "{}", ran.err);
    assert!(ran.err.contains("patchbay.db"), "which file is it? {}", ran.err);
}
