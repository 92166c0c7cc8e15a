//! Stored sessions: list, resume, remove, garbage collection, locks, and damaged data.

use std::fs;

use patchbay_tests::{answers::json_lines, binary::Patchbay, guest::Guest};

/// Creates a session with one stored message and returns its id.
fn session(patchbay: &Patchbay) -> String {
    let mut live = patchbay.live(&[]);
    live.message("/calc 1");
    live.session().to_owned()
}

/// Asserts exit code 1, an empty standard output, and this error.
fn assert_refused(patchbay: &Patchbay, arguments: &[&str], words: &str) {
    let ran = patchbay.run(arguments);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(1), "", &*format!("Error: {words}\n")), "{arguments:?}");
}

#[test]
fn sessions_are_listed_by_last_use() {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.run(&["sessions", "list"]).out, "No sessions.\n");
    assert_eq!(patchbay.run(&["sessions", "list", "--json"]).out, "");
    let (one, two) = (session(&patchbay), session(&patchbay));
    patchbay.database("patchbay.db").execute("UPDATE sessions SET used_at = 1795291440 WHERE id = ?", [&two]).unwrap();
    patchbay.database("patchbay.db").execute("UPDATE sessions SET used_at = 60 WHERE id = ?", [&one]).unwrap();
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    assert_eq!(
        patchbay.run(&["sessions", "list"]).out,
        format!("{two}  2026-11-21 20:04      1 rows  {workspace}\n{one}  1970-01-01 00:01      1 rows  {workspace}\n")
    );
    let listed = json_lines(&patchbay.run(&["sessions", "list", "--json"]).out);
    assert_eq!(
        listed[0],
        serde_json::json!({"id": two, "used_at": "2026-11-21 20:04", "messages": 1, "workspace": workspace})
    );
    assert_eq!(listed[1]["id"], one);
}

#[test]
fn session_is_resumed_and_removed_by_unique_id_prefix() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    let resumed = patchbay.run(&["exec", "--session", &id[..13], "/calc 2"]);
    assert_eq!((resumed.code, &*resumed.out), (Some(0), "2\n"));
    let removed = patchbay.run(&["sessions", "rm", &id[..13]]);
    assert_eq!((removed.code, removed.out), (Some(0), format!("Removed session {id}.\n")));
    assert_eq!(patchbay.run(&["sessions", "list"]).out, "No sessions.\n");
    let left: i64 =
        patchbay.database("patchbay.db").query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn unknown_and_ambiguous_id_prefixes_are_rejected() {
    let patchbay = Patchbay::new();
    let words = "no session 'zzz'; 'patchbay sessions list' shows what there is. [session_not_found]";
    for arguments in [&["sessions", "rm", "zzz"][..], &["exec", "--session", "zzz", "/skills"], &["--session", "zzz"]] {
        assert_refused(&patchbay, arguments, words);
    }
    let mut ids = [session(&patchbay), session(&patchbay)];
    let alike = format!("{}{}", &ids[0][..8], &ids[1][8..]);
    let database = patchbay.database("patchbay.db");
    database.execute_batch("PRAGMA foreign_keys = off").unwrap();
    for (table, column) in [("sessions", "id"), ("agents", "session"), ("messages", "session")] {
        database.execute(&format!("UPDATE {table} SET {column} = ? WHERE {column} = ?"), [&alike, &ids[1]]).unwrap();
    }
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
        "session {id} is in use by process {}. End that one, or start a new session. [session_in_use]",
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
    assert!(ran.err.ends_with(&format!("; 'patchbay sessions rm {id}' removes it [store_failed]\n")), "{}", ran.err);
    assert_eq!(patchbay.run(&["sessions", "rm", &id]).code, Some(0));
}

#[test]
fn damaged_or_missing_component_is_repaired_by_reload_skills() {
    let patchbay = Patchbay::new();
    let id = session(&patchbay);
    let help = &patchbay.answers_in(&["--session", &id], &["/help calc"])[0];
    let digest = help.data()["component"].as_str().unwrap().to_owned();
    let file = patchbay.home().join(format!("data/components/{}.wasm", digest.strip_prefix("sha256:").unwrap()));
    for (spoil, what) in [(true, "is damaged in the store"), (false, "is not in the store any more")] {
        if spoil {
            fs::write(&file, "spoilt").unwrap()
        } else {
            fs::remove_file(&file).unwrap()
        }
        let answers = patchbay.answers_in(&["--session", &id], &["/calc 1", "/reload_skills", "/calc 1"]);
        assert_eq!(answers[0].code(), "component_missing");
        assert_eq!(
            answers[0].message(),
            format!("Error: component {digest} {what}; /reload_skills makes a new snapshot.")
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
    let words = "the database holds a persona that cannot be read. [store_failed]";
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
            "Error: {} was written by a newer Patchbay (schema 9999, this one knows ",
            path.display()
        )),
        "{}",
        ran.err
    );
}

#[test]
fn file_that_is_not_a_database_is_named() {
    let patchbay = Patchbay::new();
    patchbay.write("home/data/patchbay.db", "this is no database, and long enough to be looked at");
    let ran = patchbay.run(&["exec", "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("not a database") && ran.err.ends_with(" [store_failed]\n"), "{}", ran.err);
    assert!(ran.err.contains("patchbay.db"), "which file is it? {}", ran.err);
}
