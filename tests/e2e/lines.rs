//! Lines of a session, as fronts submit them: each has an id, runs in the background, and can be stopped.

use std::sync::Arc;

use patchbay_core::{EventKind, LineId, MessageKind};
use patchbay_provider::Settings;
use patchbay_sandbox::Limits;
use patchbay_session::{Approval, Session, Submitted};
use patchbay_tests::{
    binary::Patchbay,
    guest::{ECHO, Guest},
    host::{host, host_with},
    play::{Answering, Play},
    session_events::{stored_texts, wait_for_answer_start, wait_for_end, wait_for_event},
};

/// A message whose answer takes two minutes unless it is stopped.
const LONG: &str = "repeat 6000 word";

async fn session(patchbay: &Patchbay) -> Arc<Session> {
    host(patchbay, Settings::default()).new_session(&patchbay.workspace()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn line_runs_in_background_and_reports_its_end() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let mut events = session.subscribe(1);
    let id = session.submit("hello").id();
    let last = wait_for_event(&mut events, |kind| matches!(kind, EventKind::LineEnded { .. })).await;
    let EventKind::LineEnded { line, outcome } = last else { unreachable!() };
    assert_eq!((line, outcome.code.as_str()), (id, "answered"));
    assert_eq!(stored_texts(&session, MessageKind::Assistant).await, [outcome.message]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_run_in_the_order_of_their_lines() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let texts: Vec<String> = (0..20).map(|number| format!("message {number}")).collect();
    let lines: Vec<Submitted> = texts.iter().map(|text| session.submit(text)).collect();
    let ids: Vec<LineId> = lines.iter().map(Submitted::id).collect();
    for line in lines {
        assert_eq!(wait_for_end(line).await.code.as_str(), "answered");
    }
    assert_eq!(stored_texts(&session, MessageKind::User).await, texts);
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_a_line_by_id_leaves_others_running() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let mut events = session.subscribe(1);
    let (running, waiting, later) = (session.submit(LONG), session.submit("never said"), session.submit("said"));
    wait_for_answer_start(&mut events).await;
    assert!(session.stop(waiting.id()));
    let outcome = wait_for_end(waiting).await;
    assert_eq!(
        (outcome.code.as_str(), &*outcome.line()),
        ("turn_cancelled", "Cancelled. Nothing of this line was kept.")
    );
    let id = running.id();
    assert!(session.stop(id));
    let outcome = wait_for_end(running).await;
    assert_eq!((outcome.code.as_str(), &*outcome.line()), ("turn_cancelled", "Cancelled. The partial answer is kept."));
    assert!(!session.stop(id), "it has ended");
    assert!(session.release_queue(), "a stop holds the waiting lines");
    assert_eq!(wait_for_end(later).await.code.as_str(), "answered");
    assert_eq!(stored_texts(&session, MessageKind::User).await, [LONG, "said"]);
    assert!(stored_texts(&session, MessageKind::Assistant).await[0].starts_with("word"));
}

/// Starts a session with a tool that runs until its line is stopped.
async fn spinning() -> (Patchbay, Arc<Session>, Submitted) {
    let patchbay = Patchbay::new();
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let limits = Limits { fuel: 1_000_000_000_000_000, time_ms: 600_000, ..Limits::default() };
    let host = host_with(&patchbay, Settings::default(), limits);
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    let mut events = session.subscribe(1);
    let line = session.submit("/spin {\"round\": 1}");
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::Progress { .. })).await;
    (patchbay, session, line)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_wait_for_a_tool_that_runs() {
    let (_patchbay, session, spinning) = spinning().await;
    // Commands wait for it, messages do not, and a command that ends a hanging agent overtakes it.
    let [unknown, reloaded] = ["/unknown", "/reload_skills"].map(|line| session.submit(line));
    let root = session.view();
    for (line, code) in [(format!("/switch {root}"), "switched"), ("/kill".to_owned(), "kill_root")] {
        assert_eq!(wait_for_end(session.submit(&line)).await.code.as_str(), code);
    }
    assert_eq!(session.snapshot().version(), 1);
    // Stopping a waiting command does not let another one overtake.
    assert!(session.stop(unknown.id()));
    let stopped = "Cancelled. Nothing of this line was kept.";
    assert_eq!(wait_for_end(unknown).await.line(), stopped);
    assert_eq!(session.snapshot().version(), 1);
    assert!(session.stop(spinning.id()));
    assert!(!wait_for_end(spinning).await.is_ok());
    assert_eq!(wait_for_end(reloaded).await.code.as_str(), "skills_reloaded");
}

/// If the fork is stopped, lines that were meant for the child are not sent to its parent.
#[tokio::test(flavor = "multi_thread")]
async fn lines_behind_a_stopped_fork_are_stopped() {
    let (_patchbay, session, spinning) = spinning().await;
    let [fork, said, moved] = ["/fork", "for the child", "/switch root"].map(|line| session.submit(line));
    assert!(session.stop(fork.id()));
    for line in [fork, said, moved] {
        assert_eq!(wait_for_end(line).await.code.as_str(), "turn_cancelled");
    }
    assert!(session.stop(spinning.id()));
    assert!(!wait_for_end(spinning).await.is_ok());
    assert_eq!(wait_for_end(session.submit("hello")).await.code.as_str(), "answered");
    assert_eq!(stored_texts(&session, MessageKind::User).await, ["hello"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_answered_while_a_tool_runs() {
    let (_patchbay, session, spinning) = spinning().await;
    assert_eq!(wait_for_end(session.submit("hello")).await.code.as_str(), "answered");
    assert!(session.stop(spinning.id()));
    assert!(!wait_for_end(spinning).await.is_ok());
}

/// Each line sees the effects of the line before it, and each result comes before the next line's result.
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_an_agent_run_one_after_another() {
    let patchbay = Patchbay::new();
    // This component is compiled first, while the other lines wait.
    patchbay.add_command("echo", &Guest::default(), "");
    let session = session(&patchbay).await;
    let mut events = session.subscribe(1);
    let send = format!("/mail-send {} \"Z\"", session.view());
    let lines = [
        "/model demo-big",
        "/agents",
        "/echo {\"a\":1}",
        "/unknown",
        "/",
        "/reload_skills",
        "/help added",
        &*send,
        "/mail-check",
    ];
    patchbay.skill("added", "summary: New", "Do it.");
    let submitted: Vec<Submitted> = lines.into_iter().map(|line| session.submit(line)).collect();
    let mut ended = Vec::new();
    while ended.len() < lines.len() {
        let kind = wait_for_event(&mut events, |kind| matches!(kind, EventKind::LineEnded { .. })).await;
        let EventKind::LineEnded { line, outcome } = kind else { unreachable!() };
        ended.push((line, outcome));
    }
    // No line waits for the lines at 1 and 6, which only show the session.
    let order: Vec<LineId> = submitted.iter().map(Submitted::id).collect();
    let is_ordered = |line: &LineId| *line != order[1] && *line != order[6];
    let ends: Vec<LineId> = ended.iter().map(|(line, _)| *line).filter(is_ordered).collect();
    assert_eq!(ends, order.iter().copied().filter(is_ordered).collect::<Vec<_>>());
    ended.sort_by_key(|(line, _)| order.iter().position(|submitted| submitted == line));
    let said: Vec<_> = ended.iter().map(|(_, outcome)| outcome.line()).collect();
    assert!(said[1].contains("demo/demo-big/"), "{said:?}");
    assert_eq!((&*said[2], &*said[3]), ("{\"a\":1}", "Error: unknown command '/unknown'."));
    assert!(said[6].starts_with("# /help added") && said[8].ends_with(": Z"), "{said:?}");
}

/// A line after `/fork` or `/switch` is for the agent that comes into view, even if it was typed before that.
#[tokio::test(flavor = "multi_thread")]
async fn lines_behind_a_move_of_the_view_are_for_the_agent_in_view() {
    let play = Play::new().await;
    let root = play.session.view();
    let lines =
        ["/fork", "say one", "/mail-check", &*format!("/switch {root}"), "say two", "/fork \"say four\"", "say three"];
    let submitted: Vec<Submitted> = lines.iter().map(|line| play.session.submit(line)).collect();
    assert!(submitted[1..].iter().all(|line| line.is_behind_move() && line.waits_for().is_some()));
    // This line was stopped before its agent was known.
    let never = play.session.submit("say never");
    assert!(play.session.stop(never.id()));
    assert_eq!(wait_for_end(never).await.code.as_str(), "turn_cancelled");
    let mut agents = Vec::new();
    for mut line in submitted {
        let outcome = (&mut line).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        agents.push(line.agent());
    }
    let children: Vec<_> = play.ids().await.into_iter().filter(|id| *id != root).collect();
    assert_eq!(agents, [root, children[0], children[0], children[0], root, root, children[1]]);
    assert_eq!(play.said(root), ["say two"]);
    assert_eq!(play.said(children[0]), ["say one"]);
    assert_eq!(play.said(children[1]), ["say four", "say three"]);
    assert_eq!(play.session.view(), children[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_show_the_session_do_not_wait_for_a_tool() {
    let (_patchbay, session, spinning) = spinning().await;
    for line in ["/help spin", "/skills", "/commands", "/usage", "/agents", "/history", "/providers"] {
        assert!(wait_for_end(session.submit(line)).await.is_ok(), "{line}");
    }
    assert!(session.stop(spinning.id()));
    assert!(!wait_for_end(spinning).await.is_ok());
}

/// Commands that are typed together have the same effect as one after another, whatever overtakes.
#[tokio::test(flavor = "multi_thread")]
async fn commands_typed_at_once_leave_what_they_leave_one_after_another() {
    const LINES: [&str; 12] = [
        "/echo {\"a\":#}",
        "/echo #",
        "/model demo-big",
        "/model demo-1",
        "/model nope",
        "/capture",
        "captured #",
        "/cancel",
        "/agents",
        "/mail-check",
        "/skills",
        "/unknown",
    ];
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..6 {
        let mut is_capturing = false;
        let lines: Vec<String> = (0..15)
            .map(|number| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let mut line = LINES[usize::try_from(random % 12).unwrap()];
                // A message begins a turn, and a later command's result depends on it.
                if line == "captured #" && !is_capturing {
                    line = "/capture";
                }
                is_capturing = line == "/capture" || (is_capturing && line != "/cancel");
                line.replace('#', &number.to_string())
            })
            .collect();
        let mut left = Vec::new();
        for at_once in [false, true] {
            let patchbay = Patchbay::new();
            patchbay.add_command("echo", &Guest::default(), "");
            let session = session(&patchbay).await;
            let id = session.view().to_string();
            let mut waiting = Vec::new();
            let mut outcomes = Vec::new();
            for line in &lines {
                let submitted = session.submit(&line.replace("ROOT", &id));
                if at_once {
                    waiting.push(submitted);
                } else {
                    outcomes.push(wait_for_end(submitted).await.line().into_owned());
                    session.wait_idle().await;
                }
            }
            for submitted in waiting {
                outcomes.push(wait_for_end(submitted).await.line().into_owned());
            }
            session.wait_idle().await;
            let masked = |text: String| text.replace(&id, "ROOT").replace(&id[..8], "ROOT");
            let mut rows: Vec<_> = stored_texts(&session, MessageKind::Command).await.into_iter().map(masked).collect();
            // The rows of commands that only show something may come early.
            rows.retain(|text| text != "/agents" && text != "/skills");
            let outcomes: Vec<_> = outcomes.into_iter().map(masked).collect();
            left.push((outcomes, rows, stored_texts(&session, MessageKind::Capture).await));
        }
        assert_eq!(left[0], left[1], "round {round}: {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_says_that_a_turn_runs() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let mut events = session.subscribe(1);
    let running = session.submit(LONG);
    wait_for_answer_start(&mut events).await;
    let shown = wait_for_end(session.submit("/history")).await.message;
    assert_eq!(shown, format!("> {LONG}\n(running)"));
    assert!(session.stop(running.id()));
    wait_for_end(running).await;
    let shown = wait_for_end(session.submit("/history")).await.message;
    assert!(shown.ends_with("\n(interrupted)"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_grants_are_requested_from_the_approver() {
    let patchbay = Patchbay::new();
    let put = "(call $put (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) \
               (i64.const 0) (i32.const 512))";
    // Fails with the kind and message at address 300.
    let denied = "(if (i32.load8_u (i32.const 512)) (then (i32.store8 (i32.const 0) (i32.const 1)) \
                  (i32.store (i32.const 4) (i32.const 300)) (i32.store (i32.const 8) (i32.const 4)) \
                  (i32.store (i32.const 12) (i32.const 300)) (i32.store (i32.const 16) (i32.const 4)) \
                  (return (i32.const 0))))";
    let import = "\n(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))\n";
    let data = "\n(data (i32.const 300) \"done\")\n(data (i32.const 310) \"k\")\n";
    let guest = Guest::calling(&format!("{put} {denied} {ECHO}")).with(import).with(data);
    let skill_md =
        "---\ninvocation_mode: tool_dispatch\ncommand: keep\ncommand_tool: run\ncapabilities: [{name: kv}]\n---\n";
    patchbay.write("home/config/skills/keeper.wasm", guest.packaged(skill_md));
    let session = session(&patchbay).await;
    let (typed, called) = ("/keep {}", "call keeper__run {}");
    for approver in [None, Some(Answering::new(Approval::No))] {
        if let Some(approver) = approver {
            session.set_approver(approver);
        }
        assert_eq!(wait_for_end(session.submit(typed)).await.code.as_str(), "denied");
        assert_eq!(wait_for_end(session.submit(called)).await.code.as_str(), "answered");
        assert!(
            stored_texts(&session, MessageKind::Tool).await.pop().unwrap().contains("kv"),
            "the model reads the denial"
        );
    }
    session.set_approver(Answering::new(Approval::Once));
    assert_eq!(wait_for_end(session.submit(typed)).await.code.as_str(), "tool_result");
    assert_eq!(wait_for_end(session.submit(called)).await.code.as_str(), "answered");
    assert_eq!(stored_texts(&session, MessageKind::Tool).await.pop().unwrap(), "{}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_that_are_sent_at_once_create_a_version_each() {
    let patchbay = Patchbay::new();
    let session = session(&patchbay).await;
    let lines: Vec<Submitted> = (0..4).map(|_| session.submit("/reload_skills")).collect();
    let mut versions = Vec::new();
    for line in lines {
        versions.push(serde_json::to_value(wait_for_end(line).await.data).unwrap()["version"].as_u64().unwrap());
    }
    assert_eq!(versions, [2, 3, 4, 5]);
    assert_eq!(session.snapshot().version(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn close_stops_lines_keeps_partial_answers_and_releases_the_session() {
    let patchbay = Patchbay::new();
    let host = host(&patchbay, Settings::default());
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    assert!(Arc::ptr_eq(&session, &host.resume(session.id()).await.unwrap()), "the live one is found");
    let mut events = session.subscribe(1);
    let (running, waiting) = (session.submit(LONG), session.submit("said later"));
    wait_for_answer_start(&mut events).await;
    let elsewhere = patchbay_tests::host::host(&patchbay, Settings::default());
    assert_eq!(elsewhere.resume(session.id()).await.err().unwrap().code().as_str(), "session_in_use");

    session.close().await;
    assert_eq!(wait_for_end(running).await.code.as_str(), "turn_cancelled");
    assert_eq!(wait_for_end(waiting).await.code.as_str(), "line_waits");
    let refused = wait_for_end(session.submit("hello")).await;
    let words = "Error: this session is closed. Nothing of this line was kept.";
    assert_eq!((refused.code.as_str(), &*refused.line()), ("session_closed", words));
    session.close().await;

    let resumed = elsewhere.resume(session.id()).await.unwrap();
    assert_eq!(stored_texts(&resumed, MessageKind::User).await, [LONG]);
    assert!(stored_texts(&resumed, MessageKind::Assistant).await[0].starts_with("word"));
    assert_eq!(resumed.queue().lines.len(), 1);
    assert_eq!(resumed.take_back(resumed.queue().lines[0].id).await.as_deref(), Some("said later"));
    resumed.close().await;
    let again = host.resume(session.id()).await.unwrap();
    assert!(!Arc::ptr_eq(&session, &again), "a closed session is not given out again");
    assert_eq!(wait_for_end(again.submit("hello")).await.code.as_str(), "answered");
}
