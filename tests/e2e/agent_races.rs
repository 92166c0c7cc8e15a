//! Concurrent actions of agents: forks, kills, mail, captures, reloads and model changes in any order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use patchbay_core::{AgentId, EventKind, MessageKind};
use patchbay_sandbox::Limits;
use patchbay_session::{AgentState, Approver, PersonAnswer, Question, SessionLimits, Submitted};
use patchbay_tests::{
    adapter::Adapter,
    binary::Patchbay,
    calls::fetching,
    guest::{ECHO, Guest},
    host::{HostLimits, host},
    play::{AllowsForSession, Play, quick_demo},
    server::{Server, Step},
    session_events::{stored_texts, wait_for_end, wait_for_event},
};

/// More than a second, because the machine may be busy.
const SOON: Duration = Duration::from_secs(20);

/// Limits that let other agents send requests while some agents hang.
fn roomy() -> SessionLimits {
    SessionLimits { concurrent_requests: 64, ..SessionLimits::default() }
}

/// Limits with which a call never times out.
fn endless() -> HostLimits {
    let calls = Limits { fuel: 1_000_000_000_000_000, time_ms: 600_000, ..Limits::default() };
    HostLimits { calls, session: roomy() }
}

async fn codes(lines: Vec<Submitted>) -> Vec<String> {
    let mut codes = Vec::new();
    for line in lines {
        codes.push(wait_for_end(line).await.code.to_string());
    }
    codes
}

fn number(codes: &[String], code: &str) -> usize {
    codes.iter().filter(|found| *found == code).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_while_forking_leaves_no_child() {
    let play = Play::with(quick_demo(), roomy()).await;
    let root = play.session.view();
    for round in 0..12 {
        // Its turn forks children that never end.
        let fork = "call fork {\"prompt\":\"hang\"}";
        let child = play.call_fork(&format!("{fork}\nthen {fork}\nthen {fork}\nthen hang")).await;
        play.switch(child).await;
        let mut lines: Vec<Submitted> = Vec::new();
        for at in 0..6 {
            let kill = format!("/kill {child}");
            lines.push(play.session.submit(if at == round % 6 { &kill } else { "/fork \"hang\"" }));
        }
        let codes = codes(lines).await;
        assert_eq!(number(&codes, "killed"), 1, "{codes:?}");
        // The kill overtakes the lines. Forks that run after it belong to an agent that is still alive.
        let living = play.living().await;
        let lives = |id| living.iter().any(|agent| agent.id == id);
        assert!(living.iter().all(|agent| agent.id != child && agent.parent.is_none_or(lives)), "{living:?}");
        play.switch(root).await;
        for stray in play.children().await {
            play.code(&format!("/kill {stray}")).await;
        }
        // A line of an agent that was killed in the meantime is cancelled.
        assert!(
            codes.iter().all(|code| ["killed", "forked", "agent_dead", "turn_cancelled"].contains(&&**code)),
            "{codes:?}"
        );
        assert_eq!(play.ids().await, [root], "round {round}");
        assert_eq!(play.session.view(), root);
        play.idle().await;
    }
    assert_eq!(play.session.working_agents(), 0);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_to_a_dying_agent_is_stored_or_refused() {
    let play = Play::new().await;
    for round in 0..10 {
        let child = play.fork("\"hang\"").await;
        play.ok("/switch root").await;
        let lines = (0..20).map(|at| match at == 2 * round {
            true => play.session.submit(&format!("/kill {child}")),
            false => play.session.submit(&format!("/mail-send {child} \"mail {at}\"")),
        });
        let codes = codes(lines.collect()).await;
        assert_eq!((number(&codes, "killed"), number(&codes, "mail_sent") + number(&codes, "agent_dead")), (1, 19));
        let mails: i64 = play.patchbay.query_one("SELECT count(*) FROM mail WHERE recipient = ?", [child.to_string()]);
        assert_eq!(usize::try_from(mails), Ok(number(&codes, "mail_sent")), "{codes:?}");
    }
    play.idle().await;
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_at_once_keep_to_the_limit() {
    let play = Play::limited(|limits| limits.agents = 4).await;
    let lines = (0..6).map(|_| play.session.submit("/fork")).collect();
    let codes = codes(lines).await;
    assert_eq!((number(&codes, "forked"), number(&codes, "limit_agents")), (3, 3), "{codes:?}");
    assert_eq!(play.children().await.len(), 3);
    assert!(play.children().await.contains(&play.session.view()), "the view is at one of them");
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_of_a_child_keeps_the_skills_that_it_began_with() {
    let patchbay = Patchbay::new();
    patchbay.add_command("old", &Guest::answering("as before"), "");
    keeper(&patchbay, ECHO);
    let play = Play::at(patchbay, quick_demo(), Limits::default()).await;
    let person = Arc::new(AllowsForSession::default());
    play.session.set_approver(Arc::clone(&person) as Arc<dyn Approver>);
    let child = play.call_fork("call keeper__run {}\nthen call old__run {}").await;
    // The turn waits until its question is answered.
    play.wait_for_state(child, AgentState::Asking).await;
    std::fs::remove_file(play.patchbay.home().join("config/skills/old.wasm")).unwrap();
    play.ok("/reload_skills").await;
    assert_eq!(play.agent(child).await.state, AgentState::Asking);
    person.released.notify_one();
    play.idle().await;
    assert_eq!(play.texts(child, MessageKind::Tool)[1..], ["as before"]);
    play.switch(child).await;
    play.ok("call old__run {}").await;
    let results = play.texts(child, MessageKind::Tool);
    assert!(results.len() == 3 && results[2] != "as before", "{results:?}");
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn last_committed_model_wins() {
    let play = Play::new().await;
    let child = play.fork("").await;
    let mut seen = Vec::new();
    for round in 0..8 {
        play.ok("/switch root").await;
        let call = format!("pause {}\ncall set_agent_model {{\"agentId\":\"{child}\",\"model\":\"big\"}}", round * 3);
        let turn = play.session.submit(&call);
        play.switch(child).await;
        assert_eq!(play.code("/model demo-small").await, "model_set");
        assert!(wait_for_end(turn).await.is_ok());
        let model = play.agent(child).await.model;
        let stored = |what| format!("SELECT {what} FROM agents WHERE uuid = ?");
        let name: String = play.patchbay.query_one(&stored("model"), [child.to_string()]);
        assert_eq!(name, "demo-small");
        let overridden: bool = play.patchbay.query_one(&stored("model_override IS NOT NULL"), [child.to_string()]);
        let expected = if overridden { "demo/demo-big/default" } else { "demo/demo-small/default" };
        assert_eq!(model, expected, "memory and database have the same");
        seen.push(overridden);
    }
    let play = play.restarted().await;
    let expected = if seen.last() == Some(&true) { "demo/demo-big/default" } else { "demo/demo-small/default" };
    assert_eq!(play.agent(child).await.model, expected);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_lines_never_reach_a_model() {
    let play = Play::new().await;
    let root = play.session.view();
    // Submitted together, as by pasting.
    let lines = ["/capture", "secret one", "secret two", "/fork"].map(|line| play.session.submit(line));
    assert_eq!(codes(lines.into()).await, ["capture_started", "captured", "captured", "forked"]);
    let child = play.session.view();
    play.idle().await;
    assert_eq!(play.said(child), ["secret one\nsecret two"]);
    assert_eq!(play.said(root), [""; 0]);
    assert_eq!(play.texts(root, MessageKind::Assistant), [""; 0]);
    // One capture is cancelled and another begun immediately, so only the line between them is a message.
    play.ok("/switch root").await;
    let lines = ["/capture", "secret three", "/cancel", "open", "/capture", "secret four"];
    let codes = codes(lines.map(|line| play.session.submit(line)).into()).await;
    let expected = ["capture_started", "captured", "capture_cancelled", "answered", "capture_started", "captured"];
    assert_eq!(codes, expected);
    assert_eq!(play.said(root), ["open"]);
    let child = play.fork("").await;
    play.idle().await;
    assert_eq!(play.said(child), ["secret four"]);
    assert_eq!(play.said(root), ["open"]);
    assert_eq!(play.texts(root, MessageKind::Assistant), ["You said: open"]);
    assert!(!play.texts(child, MessageKind::Assistant)[0].contains("secret one"));
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_during_a_gathering_wakes_no_agent() {
    let play = Play::new().await;
    let root = play.session.view();
    let forks = "call fork {\"prompt\":\"hang\"}\n".repeat(3);
    play.ok(&format!("{forks}on mail call mail_check {{}}")).await;
    play.wait_until("three children work", async || play.session.working_agents() == 3).await;
    // Stops turns that are just beginning, too.
    play.session.stop_all();
    play.idle().await;
    assert_eq!((play.session.working_agents(), play.agent(root).await.unread), (0, 3));
    assert!(play.living().await.iter().all(|agent| agent.state == AgentState::Held));
    assert_eq!(play.said(root).len(), 1);
    // The reports have arrived, but do not wake the root, even once it may continue.
    play.ok("go on").await;
    play.idle().await;
    assert_eq!(play.said(root).len(), 2);
    assert_eq!(play.agent(root).await.unread, 3);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_a_session_also_stops_children_that_are_being_made() {
    let play = Play::new().await;
    for round in 0..15 {
        let forks = "call fork {\"prompt\":\"hang\"}\n".repeat(3);
        let turn = play.session.submit(&format!("{forks}then {forks}"));
        tokio::time::sleep(Duration::from_millis(2 * round)).await;
        play.session.stop_all();
        // A child that is not stopped would hang forever.
        play.idle().await;
        wait_for_end(turn).await;
        for child in play.children().await {
            play.code(&format!("/kill {child}")).await;
        }
    }
    play.idle().await;
    play.check();
}

/// Installs a skill whose tool stores a value and then runs `after`.
fn keeper(patchbay: &Patchbay, after: &str) {
    let put = "(call $put (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) \
               (i64.const 0) (i32.const 512))";
    let more = "
(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))
(import \"patchbay:host/progress@0.1.0\" \"report\" (func $report (param i32 i32)))
(data (i32.const 310) \"k\")
";
    patchbay.add_command(
        "keeper",
        &Guest::calling(&format!("{put} {after}")).with(more),
        "capabilities: [{name: kv}]\n",
    );
}

/// Never answers, and counts the waiting questions.
#[derive(Default)]
struct SilentPerson(Arc<AtomicUsize>);

struct OpenQuestion(Arc<AtomicUsize>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Approver for SilentPerson {
    fn approve(&self, _: Question) -> BoxFuture<'_, PersonAnswer> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let open = OpenQuestion(Arc::clone(&self.0));
        Box::pin(async move {
            let _open = open;
            std::future::pending().await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_withdraws_the_question_of_a_background_agent() {
    let patchbay = Patchbay::new();
    keeper(&patchbay, ECHO);
    let play = Play::at(patchbay, quick_demo(), Limits::default()).await;
    let person = SilentPerson::default();
    let open = Arc::clone(&person.0);
    play.session.set_approver(Arc::new(person));
    let child = play.call_fork("call keeper__run {}").await;
    play.wait_until("a question", async || open.load(Ordering::SeqCst) == 1).await;
    play.wait_for_state(child, AgentState::Asking).await;
    play.ok(&format!("/kill {child}")).await;
    play.wait_until("the question is withdrawn", async || open.load(Ordering::SeqCst) == 0).await;
    play.idle().await;
    play.check();
}

/// A home with everything that can hang: a tool in an endless loop, a tool that waits for the network, and an adapter in an endless
/// loop.
fn hanging_home(server: &Server) -> Patchbay {
    let patchbay = Patchbay::new();
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let url = format!("http://{}/", server.host());
    let capability = format!("http:{}", server.host());
    patchbay.add_command(
        "fetch",
        &fetching(&url, None, "none"),
        &format!("capabilities: [{{name: '{capability}'}}]\n"),
    );
    patchbay.grant("fetch", &[&capability]);
    let adapter = Adapter { before_begin: "(loop $forever (br $forever))".to_owned(), ..Adapter::default() };
    patchbay.write("home/config/providers/scripted.wasm", adapter.component());
    assert_eq!(patchbay.run(&["provider", "allow", "scripted"]).code, Some(0));
    patchbay
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_hang_anywhere_are_gone_at_once() {
    let server = Server::scripted(|_| vec![Step::Pause(600_000)]);
    let play = Play::at(hanging_home(&server), quick_demo(), endless()).await;
    let root = play.session.view();
    let mut slowest = Duration::ZERO;
    for hangs in ["hang", "call spin__run {\"a\":1}", "call fetch__run {}"] {
        let mut events = play.session.subscribe(play.session.last_seq() + 1);
        let child = play.call_fork(hangs).await;
        match hangs {
            "hang" => tokio::time::sleep(Duration::from_millis(100)).await,
            "call fetch__run {}" => play.wait_until("a request", async || !server.requests().is_empty()).await,
            _ => drop(wait_for_event(&mut events, |kind| matches!(kind, EventKind::Progress { .. })).await),
        }
        // The parent does not wait for it.
        assert_eq!(play.ok("hello").await.message, "You said: hello");
        slowest = slowest.max(killed(&play, child).await);
    }
    let child = play.fork("--model scripted-1 \"hello\"").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(play.session.working_agents(), 1, "the adapter hangs");
    slowest = slowest.max(killed(&play, child).await);
    assert_eq!(play.session.view(), root);
    assert_eq!(play.children().await, []);
    eprintln!("the slowest kill took {slowest:?}");
    play.check();
}

/// Kills an agent and waits until none of its work is running.
async fn killed(play: &Play, agent: AgentId) -> Duration {
    let start = Instant::now();
    play.ok(&format!("/kill {agent}")).await;
    play.wait_until("nothing of it runs", async || play.session.working_agents() == 0).await;
    play.idle().await;
    let took = start.elapsed();
    assert!(took < SOON, "{took:?}");
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_ends_a_hanging_tool_of_a_persons_line() {
    let patchbay = Patchbay::new();
    patchbay.add_command("spin", &Guest::reporting_and_spinning(), "");
    let play = Play::at(patchbay, quick_demo(), endless()).await;
    let root = play.session.view();
    play.fork("").await;
    let mut events = play.session.subscribe(1);
    let hanging = play.session.submit("/spin {\"round\": 1}");
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::Progress { .. })).await;
    let start = Instant::now();
    play.ok("/kill").await;
    let outcome = wait_for_end(hanging).await;
    assert!(!outcome.is_ok() && start.elapsed() < SOON, "{outcome:?}");
    assert_eq!(play.session.view(), root);
    play.idle().await;
    assert_eq!(stored_texts(&play.session, MessageKind::Command).await, ["/fork", "/kill"]);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_line_with_an_effect_has_one_row_and_an_unknown_outcome() {
    let patchbay = Patchbay::new();
    keeper(
        &patchbay,
        "(call $report (local.get $input) (local.get $input_len)) (loop $forever (br $forever)) (unreachable)",
    );
    patchbay.grant("keeper", &["kv"]);
    let play = Play::at(patchbay, quick_demo(), endless()).await;
    play.fork("").await;
    let mut events = play.session.subscribe(1);
    let hanging = play.session.submit("/keeper {\"a\":1}");
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::Progress { .. })).await;
    play.ok("/kill").await;
    assert_eq!(wait_for_end(hanging).await.code.as_str(), "outcome_unknown");
    play.idle().await;
    let commands = stored_texts(&play.session, MessageKind::Command).await;
    assert_eq!(commands, ["/fork", "/keeper {\"a\":1}", "/kill"]);
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn message_right_after_a_stop_ends_it() {
    let play = Play::with(quick_demo(), roomy()).await;
    let child = play.fork("").await;
    for _ in 0..10 {
        let hanging = play.session.submit("hang");
        play.wait_for_state(child, AgentState::Working).await;
        play.session.stop_all();
        // The cancelled turn has not ended yet.
        let message = play.session.submit("hello");
        assert_eq!(wait_for_end(hanging).await.code.as_str(), "turn_cancelled");
        assert!(wait_for_end(message).await.is_ok());
    }
    let hanging = play.session.submit("hang");
    play.wait_for_state(child, AgentState::Working).await;
    play.ok("/switch root").await;
    play.session.stop_all();
    play.ok("hello").await;
    wait_for_end(hanging).await;
    play.ok(&format!("/mail-send {child} \"work\"")).await;
    play.idle().await;
    assert_eq!(play.agent(child).await.state, AgentState::Idle);
    assert!(play.said(child).last().unwrap().starts_with("[Notification: "));
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_of_64_agents_at_once_are_neither_lost_nor_doubled() {
    let play = Play::limited(|limits| limits.wakes = 2).await;
    for _ in 0..63 {
        play.fork("").await;
        play.ok("/switch root").await;
    }
    let living = play.ids().await;
    assert_eq!(living.len(), 64);
    let mut lines = Vec::new();
    for from in &living {
        play.switch(*from).await;
        for to in living.iter().filter(|to| *to != from) {
            lines.push(play.session.submit(&format!("/mail-send {to} \"from {from}\"")));
        }
    }
    assert!(codes(lines).await.iter().all(|code| code == "mail_sent"));
    play.idle().await;
    let database = play.patchbay.database("patchbay.db");
    let mut query = database
        .prepare("SELECT sender, number FROM mail WHERE recipient = ? AND body LIKE 'from %' ORDER BY number")
        .unwrap();
    for to in &living {
        let rows = query.query_map([to.to_string()], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
        let mut senders: Vec<String> = rows.unwrap().map(|row| row.unwrap().0).collect();
        senders.sort();
        let mut expected: Vec<String> = living.iter().filter(|from| *from != to).map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(senders, expected, "the inbox of {to}");
    }
    play.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn session_that_was_taken_over_does_not_try_again_and_again() {
    let play = Play::new().await;
    let child = play.fork("").await;
    play.ok("/switch root").await;
    play.session.stop_all();
    play.ok(&format!("/mail-send {child} \"waits\"")).await;
    // Another process takes over the session.
    let other = host(&play.patchbay, quick_demo());
    other.store().hold(play.session.id()).await.unwrap();
    assert_eq!(play.code("go on").await, "session_fenced");
    // The child has mail, but its notification cannot be stored.
    play.idle().await;
    assert_eq!(play.said(child), [""; 0]);
}
