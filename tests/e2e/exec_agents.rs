//! `patchbay exec` with several agents: whose text is printed where, when a line is done, and when `exec` ends.

use std::{
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran, run_out_of_time},
    calls::fetching,
    server::{Server, page},
};
use rusqlite::Connection;
use serde_json::{Value, json};

/// A message that makes the model fork a child with `prompt`.
fn forking(prompt: &str) -> String {
    format!("call fork {}", json!({ "prompt": prompt }))
}

/// Returns the UUIDs of the last session's agents in order of creation, the root first.
fn agents(patchbay: &Patchbay) -> Vec<String> {
    let database = patchbay.database("patchbay.db");
    let mut query = database.prepare("SELECT uuid FROM agents ORDER BY created_at, ordinal").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Returns the first characters of the UUID of agent `number`.
fn short(patchbay: &Patchbay, number: usize) -> String {
    agents(patchbay)[number][..8].to_owned()
}

fn assert_ran(ran: &Ran, code: i32, out: &str, err: &str) {
    assert_eq!((ran.code, &*ran.out, ran.errors()), (Some(code), out, err));
}

/// Adds the command `/wait`, which prints `waited` as soon as the query `count` returns more than 0.
fn add_wait(patchbay: &Patchbay, count: &'static str) {
    let config = "[limits]\ntime_ms = 60000\n[providers.demo]\noptions = { delay-ms = \"0\" }\n";
    patchbay.write("home/config/config.toml", config);
    let file = patchbay.home().join("data/patchbay.db");
    let server = Server::new(move |_| {
        let database = Connection::open(&file).unwrap();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while database.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap() == 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        page("waited")
    });
    let capability = format!("http:{}", server.host());
    let guest = fetching(&format!("http://{}/", server.host()), None, "");
    patchbay.add_command("wait", &guest, &format!("capabilities: [{{name: '{capability}'}}]\n"));
    patchbay.grant("wait", &[&capability]);
}

#[test]
fn text_of_other_agents_is_one_line_on_standard_error() {
    let run = |pause: u32| {
        let patchbay = Patchbay::quick();
        let child = forking(&format!("pause {pause}\nsay hi from\nsay the child"));
        let message = format!("{child}\nthen say forked\non mail say gathered");
        let ran = patchbay.run(&["exec", &message, "/mail-check"]);
        (patchbay, ran)
    };
    // On a busy machine the child must pause longer, or it reports before the next line.
    let mut runs = [500, 5_000, 50_000].into_iter().map(run);
    let (patchbay, ran) = runs.find(|(_, ran)| ran.out.contains("No messages.")).expect("a line before the report");
    // The next line does not wait for the child, but the end does: its mail wakes the root.
    let err = format!("{}: done: hi from the child\n", short(&patchbay, 1));
    assert_ran(&ran, 0, "forked\nNo messages.\ngathered\n", &err);
}

#[test]
fn fork_is_done_with_the_first_turn_of_its_child() {
    let patchbay = Patchbay::new();
    let ran = patchbay.run(&["exec", "/fork \"say one two three\"", "say four"]);
    let child = &agents(&patchbay)[1];
    let out = format!("Forked child {child} (demo/demo-1/default)\none two three\nfour\n");
    assert_ran(&ran, 0, &out, "");
    // Without a prompt the fork is done immediately. Captured text is a prompt.
    let ran = patchbay.run(&["exec", "/fork", "/capture", "say captured", "/fork", "/switch parent", "/calc 1"]);
    let out: Vec<&str> = ran.out.lines().collect();
    assert_eq!((ran.code, out.len(), out[4], out[6]), (Some(0), 7, "captured", "1"), "{ran:?}");
}

#[test]
fn failed_first_turn_of_a_child_fails_its_line() {
    let patchbay = Patchbay::quick();
    for (options, later) in [(&["exec"][..], ""), (&["exec", "--keep-going"], "later\n")] {
        let ran = patchbay.run(&[options, &["/fork \"fail server never\"", "say later"]].concat());
        let (forked, rest) = ran.out.split_once('\n').unwrap();
        assert!(forked.starts_with("Forked child "), "{ran:?}");
        assert_eq!((ran.code, rest), (Some(1), later), "{ran:?}");
        assert!(ran.err.starts_with("Error: demo: demo fails as requested: server"), "{ran:?}");
    }
}

#[test]
fn failed_last_turn_of_the_agent_in_view_is_exit_code_1() {
    let patchbay = Patchbay::quick();
    let failing = format!("{}\nthen say forked\non mail fail server never", forking("say hi"));
    let ran = patchbay.run(&["exec", &failing]);
    assert_eq!((ran.code, &*ran.out), (Some(1), "forked\n"), "{ran:?}");
    assert!(ran.err.contains("\nError: demo: demo fails as requested: server"), "{ran:?}");
    // The failure of another agent does not change the exit code.
    let ran =
        patchbay.run(&["exec", &format!("{}\nthen say forked\non mail say so what", forking("fail server never"))]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "forked\nso what\n"), "{ran:?}");
    assert!(ran.err.contains(": failed: demo: demo fails as requested: server"), "{ran:?}");
}

#[test]
fn timeout_stops_all_agents_and_keeps_what_came() {
    let message = format!("{}\nthen say forked", forking("say half\nhang"));
    let reached = |_: &Patchbay, ran: &Ran| ran.out == "forked\n1\n" && ran.err.contains(": stopped\n");
    let (patchbay, ran, seconds) = run_out_of_time(Patchbay::quick, &[&*message, "/calc 1"], reached);
    let err = format!("{}: stopped\nError: timed out after {seconds} s (--timeout). [timeout]\n", short(&patchbay, 1));
    assert_ran(&ran, 3, "forked\n1\n", &err);
    let session = patchbay.last_session();
    let tree = patchbay.run(&["exec", "--session", &session, "/agents", "/switch root", "say on"]);
    assert_eq!((tree.code, tree.out.matches(" held \"").count()), (Some(0), 2), "{tree:?}");
    assert!(tree.out.contains("\non\n"), "{tree:?}");
}

#[test]
fn json_names_the_agent_of_each_event_and_ends_with_idle() {
    let patchbay = Patchbay::quick();
    let message = format!("{}\nthen say forked\non mail say gathered", forking("say hi"));
    let ran = patchbay.run(&["exec", "--json", &message, "/fork \"say three\""]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let objects = json_lines(&ran.out);
    let [root, child, grandchild] = &agents(&patchbay)[..] else { panic!("{:?}", agents(&patchbay)) };
    assert_eq!(objects[0], json!({"session": patchbay.last_session()}));
    assert_eq!(objects.last(), Some(&json!({"event": "idle"})));
    for event in &objects[1..objects.len() - 1] {
        assert!(event["agent"].is_string() || event["line"].is_string(), "{event}");
    }
    let turns: Vec<&Value> = objects.iter().filter(|object| object["event"] == "turn").collect();
    let turn = |agent: &str, cause: &str| {
        let found = turns.iter().filter(|turn| turn["agent"] == agent && turn["cause"] == cause);
        found.map(|turn| (*turn).clone()).collect::<Vec<_>>()
    };
    let first = json!({
        "event": "turn", "agent": root, "turn": 1, "cause": "person", "state": "done", "code": "answered",
    });
    assert_eq!(turn(root, "person"), [first]);
    assert_eq!((turn(root, "mail").len(), turn(child, "fork").len(), turn(grandchild, "person").len()), (1, 1, 1));
    assert_eq!(turns.len(), 4);
    // The outcome of `/fork` comes before the first turn of its child.
    let at = |wanted: &dyn Fn(&Value) -> bool| objects.iter().position(wanted).unwrap();
    let outcome = at(&|object| object["code"] == "forked" && object.get("line").is_some());
    assert_eq!(objects[outcome]["data"]["child_uuid"], json!(grandchild));
    let answer = at(&|object| object["event"] == "delta" && object["agent"] == json!(grandchild));
    let made = at(&|object| object["event"] == "agent_forked" && object["agent"] == json!(grandchild));
    assert!(made < outcome && outcome < answer, "{made} {outcome} {answer}");
}

#[test]
fn quit_stops_working_agents() {
    let patchbay = Patchbay::quick();
    // Waits until the child answers.
    add_wait(&patchbay, "SELECT count(*) FROM partial_pieces");
    let message = format!("{}\nthen say forked", forking("say half\nhang"));
    let ran = patchbay.run(&["exec", &message, "/wait {}", "/quit", "/calc 2"]);
    let session = patchbay.last_session();
    let words = format!("forked\nwaited\nThe session is kept. To continue: patchbay --session {}\n", &session[..8]);
    assert_ran(&ran, 0, &words, &format!("Stopped 1 agent.\n{}: stopped\n", short(&patchbay, 1)));
}

#[test]
fn line_during_a_turn_that_mail_began_runs_after_it() {
    let patchbay = Patchbay::quick();
    // Waits until the mail has arrived.
    add_wait(&patchbay, "SELECT count(*) FROM turns WHERE cause = 'mail' AND state = 'running'");
    let failing = format!("{}\nthen say forked\non mail pause 3000\non mail fail server never", forking("say hi"));
    patchbay.run(&["exec", "/agents"]);
    let resumed = patchbay.last_session();
    // The turn that the mail starts fails, which holds the queue. In a resumed session it is held from the beginning.
    for options in [&["exec"][..], &["exec", "--session", &resumed]] {
        let lines = [failing.as_str(), "/wait {}", "say second"];
        let ran = patchbay.run(&[options, &lines].concat());
        // If the mail were last, its failure would be the exit code.
        assert_eq!((ran.code, ran.out.lines().last()), (Some(0), Some("second")), "{ran:?}");
        assert!(ran.err.contains("Error: demo: demo fails as requested: server"), "{ran:?}");
    }
}

#[test]
fn lines_of_killed_agents_are_named() {
    let patchbay = Patchbay::quick();
    patchbay.run(&["exec", "/fork"]);
    let (session, child) = (patchbay.last_session(), &agents(&patchbay)[1]);
    let database = patchbay.database("patchbay.db");
    let queue = "INSERT INTO queued_lines (session, position, agent, line, content) VALUES (?, 0, ?, ?, 'say never')";
    database.execute(queue, [&*session, child, "0192f7a1-0000-7000-8000-000000000001"]).unwrap();
    let ran = patchbay.run(&["exec", "--session", &session, "/kill"]);
    let err = "Not run because its agent was killed: say never\n";
    assert_ran(&ran, 0, &format!("Killed 1 agent: {child}\n"), err);
}
