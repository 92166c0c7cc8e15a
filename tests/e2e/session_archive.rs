//! `patchbay sessions show`, which prints stored sessions, and `patchbay sessions gc` with an age.

use std::io::{BufRead as _, BufReader};

use patchbay_tests::{answers::json_lines, binary::Patchbay};
use serde_json::json;

/// Returns the UUIDs of the last session's agents in order of creation, the root first.
fn agents(patchbay: &Patchbay) -> Vec<String> {
    let tree = patchbay.run(&["sessions", "show", &patchbay.last_session(), "--tree", "--json"]);
    json_lines(&tree.out).iter().map(|agent| agent["agent"].as_str().unwrap().to_owned()).collect()
}

fn show(patchbay: &Patchbay, arguments: &[&str]) -> String {
    let ran = patchbay.run(&[&["sessions", "show"], arguments].concat());
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{arguments:?}");
    ran.out
}

fn set_age(patchbay: &Patchbay, id: &str, days: i64) {
    let database = patchbay.database("patchbay.db");
    database.execute("UPDATE sessions SET used_at = unixepoch() - 86400 * ? - 5 WHERE id = ?", (days, id)).unwrap();
}

fn sessions(patchbay: &Patchbay) -> Vec<String> {
    let list = json_lines(&patchbay.run(&["sessions", "--all", "--json"]).out);
    list.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn show_prints_the_conversation_of_the_agent_in_view() {
    let patchbay = Patchbay::quick();
    patchbay.run(&["exec", "/quit"]);
    let id = patchbay.last_session();
    assert!(show(&patchbay, &[&id[..8]]).starts_with("> /quit\nThe session is kept."));
    let hidden = "say I look.\u{1b}[31m\ncall calc__eval {\"expression\": \"6 * 7\"}\nthen say It is 42.";
    let ran = patchbay.run(&["exec", "--keep-going", "/calc 1 + 1", hidden, "/nope", "/plan tea", "fail server never"]);
    assert!(ran.out.contains("It is 42."), "{ran:?}");
    let shown = show(&patchbay, &[&patchbay.last_session()]);
    let expected = "> /calc 1 + 1\n2\n\n\
                    > say I look.[31m\n\
                    call calc__eval {\"expression\": \"6 * 7\"}\n\
                    then say It is 42.\n\
                    I look.[31m\n\
                    \u{2192} calc__eval {\"expression\": \"6 * 7\"}\n\
                    \u{2190} 42\n\
                    It is 42.\n\n\
                    > /nope\n\
                    Error: unknown command '/nope'.\n\n\
                    > /skill plan_compiler\n";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("\n\n> fail server never\nError: demo: demo fails as requested: server"), "{shown}");
    // With `--json`, the rows have the same form as in `exec --json`.
    let rows = json_lines(&show(&patchbay, &[&patchbay.last_session(), "--json"]));
    assert_eq!(
        (&rows[0]["event"], &rows[0]["seq"], &rows[0]["kind"]),
        (&json!("message"), &json!(1), &json!("command"))
    );
    assert!(rows.iter().all(|row| row["agent"] == rows[0]["agent"]), "{rows:?}");
}

#[test]
fn show_prints_other_agents_and_the_tree() {
    let patchbay = Patchbay::quick();
    let message = "call fork {\"prompt\":\"say hi\"}\nthen say forked\non mail say gathered";
    patchbay.run(&["exec", "say before", message]);
    let id = patchbay.last_session();
    patchbay.run(&["exec", "--session", &id, "/fork --model demo-big/med \"say two\"", "/kill"]);
    let agents = agents(&patchbay);
    let [root, child, killed] = &agents[..] else { panic!("{agents:?}") };
    let shown = show(&patchbay, &[&id]);
    assert!(shown.starts_with("> say before\nbefore\n\n> call fork"), "{shown}");
    assert!(
        shown.contains("\nforked\n\n[Notification: You have 1 unread message in your inbox]\ngathered\n"),
        "{shown}"
    );
    assert!(!shown.contains("\nhi\n") && !shown.contains("\ntwo\n"), "{shown}");
    let of_child =
        format!("Forked from {} after row 2: it knows the conversation up to that row.\n\n> say hi\nhi\n", &root[..8]);
    assert_eq!(show(&patchbay, &[&id, "--agent", child]), of_child);
    assert_eq!(show(&patchbay, &[&id, "--agent", &child[..13]]), of_child);
    assert!(show(&patchbay, &[&id, "--agent", killed]).contains("\n\n> say two\ntwo\n\n> /kill\n"));
    let inherited = &json_lines(&show(&patchbay, &[&id, "--agent", child, "--json"]))[0];
    assert_eq!(*inherited, json!({"agent": child, "parent": root, "rewound": null, "fork_point": 2}));
    let tree = show(&patchbay, &[&id, "--tree"]);
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].starts_with(&format!("* {} running default model, ", &root[..8])), "{tree}");
    assert!(lines[0].ends_with(" tokens, 3 turns, 1 mail message"), "{tree}");
    assert!(lines[1].starts_with(&format!("    {} running demo/demo-1/default, ", &child[..8])), "{tree}");
    assert!(lines[1].ends_with(" tokens, 1 turn, 0 mail messages"), "{tree}");
    assert!(lines[2].starts_with(&format!("    {} dead demo/demo-big/med, ", &killed[..8])), "{tree}");
    let of_root = &json_lines(&show(&patchbay, &[&id, "--tree", "--json"]))[0];
    for (key, value) in [
        ("parent", json!(null)),
        ("status", json!("running")),
        ("in_view", json!(true)),
        ("model", json!(null)),
        ("turns", json!(3)),
        ("mails", json!(1)),
        ("unread", json!(0)),
    ] {
        assert_eq!(of_root[key], value, "{key}");
    }
    for (agent, words) in [
        (
            "ffff0000",
            "agent 'ffff0000' was not found; 'patchbay sessions show ID --tree' lists them. [agent_not_found]",
        ),
        ("", "--agent requires a UUID or the beginning of one. [invalid_args]"),
    ] {
        let ran = patchbay.run(&["sessions", "show", &id, "--agent", agent]);
        assert_eq!((ran.code, ran.out, ran.err), (Some(1), String::new(), format!("Error: {words}\n")));
    }
    assert_eq!(patchbay.run(&["sessions", "show", "zzz"]).code, Some(1));
}

#[test]
fn show_works_while_another_process_has_the_session() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    live.answer("say hello");
    assert_eq!(show(&patchbay, &[live.session()]), "> say hello\nhello\n");
    live.answer("say more");
    assert_eq!(show(&patchbay, &[live.session()]), "> say hello\nhello\n\n> say more\nmore\n");
    assert_eq!(live.wait_for_exit(), Some(0));
}

#[test]
fn show_ends_when_its_reader_is_gone() {
    let patchbay = Patchbay::quick();
    patchbay.run(&["exec", "repeat 20000 word", "repeat 20000 word", "repeat 20000 word"]);
    let id = patchbay.last_session();
    assert!(show(&patchbay, &[&id]).len() > 250_000);
    let mut child = patchbay.command(&["sessions", "show", &id]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "> repeat 20000 word\n");
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
}

#[test]
fn gc_removes_old_sessions_that_are_not_open() {
    let patchbay = Patchbay::quick();
    let live = patchbay.live(&[]);
    let open = live.session().to_owned();
    patchbay.run(&["exec", "say old"]);
    let old = sessions(&patchbay).into_iter().find(|id| *id != open).unwrap();
    patchbay.run(&["exec", "say new"]);
    let new = sessions(&patchbay).into_iter().find(|id| *id != open && *id != old).unwrap();
    for id in [&open, &old] {
        set_age(&patchbay, id, 30);
    }
    let dry = patchbay.run(&["sessions", "gc", "--older-than", "30d", "--dry-run"]);
    assert_eq!(dry.out, format!("1 session would be removed.\n  {}  4 weeks ago  say old\n", &old[..8]));
    let gc = |age: &str| patchbay.run(&["sessions", "gc", "--older-than", age]).out;
    let stays = " 1 old session kept: open in another process.";
    assert_eq!(gc("31d"), "Removed 0 sessions.\nDeleted 0 snapshots and 0 components (0 bytes).\n");
    assert_eq!(sessions(&patchbay).len(), 3);
    assert_eq!(gc("720h"), format!("Removed 1 session.{stays}\nDeleted 0 snapshots and 0 components (0 bytes).\n"));
    let mut left = sessions(&patchbay);
    left.sort();
    let mut expected = vec![open.clone(), new];
    expected.sort();
    assert_eq!(left, expected);
    let rows: i64 = patchbay
        .database("patchbay.db")
        .query_row("SELECT count(*) FROM messages WHERE session = ?", [&old], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 0);
    assert!(!patchbay.home().join(format!("state/sessions/{old}.lock")).exists());
    assert_eq!(live.wait_for_exit(), Some(0));
    assert!(gc("4w").starts_with("Removed 1 session.\n"));
}

#[test]
fn keep_days_removes_sessions_at_gc_only() {
    let patchbay = Patchbay::quick();
    patchbay.run(&["exec", "say old"]);
    let old = patchbay.last_session();
    set_age(&patchbay, &old, 400);
    let gc = |options: &[&str]| patchbay.run(&[&["sessions", "gc"], options].concat());
    assert_eq!(gc(&[]).out, "Deleted 0 snapshots and 0 components (0 bytes).\n");
    let words =
        "Error: --dry-run requires --older-than, or keep_days in the table [sessions] of config.toml. [invalid_args]\n";
    assert_eq!((gc(&["--dry-run"]).code, &*gc(&["--dry-run"]).err), (Some(1), words));
    patchbay.write("home/config/config.toml", "[sessions]\nkeep_days = 365\n");
    patchbay.run(&["exec", "/calc 1"]);
    assert_eq!(sessions(&patchbay).len(), 2, "a start removes nothing");
    assert!(gc(&["--dry-run"]).out.starts_with("1 session would be removed.\n"));
    assert!(gc(&["--older-than", "500d"]).out.starts_with("Removed 0 sessions.\n"), "the option is stronger");
    assert!(gc(&[]).out.starts_with("Removed 1 session.\n"));
    assert_eq!(sessions(&patchbay).len(), 1);
    patchbay.write("home/config/config.toml", "[sessions]\nkeep_days = 40000\n");
    assert!(gc(&[]).err.contains("sessions.keep_days is 40000; it must be from 0 to 36500"), "{:?}", gc(&[]));
}

#[test]
fn age_of_gc_is_checked() {
    let patchbay = Patchbay::new();
    for age in ["30", "1m"] {
        let ran = patchbay.run(&["sessions", "gc", "--older-than", age]);
        let words = format!("'{age}' is not an age: a number from 1 and h (hours), d (days) or w (weeks), such as 30d");
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains(&words), "{}", ran.err);
    }
}
