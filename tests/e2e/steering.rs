//! Messages that join the running turn: where they appear, which lines they never overtake, and how they are stored.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use patchbay_core::{DequeueReason, EventKind, MessageKind, Outcome};
use patchbay_sandbox::Limits;
use patchbay_session::{LineInput, NewAttachment, Received, Session, Submitted};
use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, FORMATS, Format, chat_calls},
    play::{Play, with_local_model},
    server::{self, Server},
    session_events::{stored_texts, wait_for_end, wait_for_event},
    terminal::{ALT_ENTER, CTRL_D, Terminal},
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// A server whose responses the test sends, one per request to the model.
struct Gate {
    server: Server,
    answers: Sender<Vec<u8>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    fn new() -> Self {
        let (answers, gate) = channel::<Vec<u8>>();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&asked);
        let server = Server::new(move |request| {
            // Other requests fetch the list of models.
            if !request.starts_with("POST") {
                return server::response("404 Not Found", "text/plain", "");
            }
            keep.lock().unwrap().push(request.to_owned());
            gate.recv().unwrap_or_default()
        });
        Self { server, answers, asked }
    }

    fn answer(&self, answer: Vec<u8>) {
        self.answers.send(answer).unwrap();
    }

    /// Returns the requests to the model, including those still waiting for a response.
    fn requests(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn gated_play() -> (Play, Gate) {
    let gate = Gate::new();
    let play = Play::with(with_local_model(&gate.server, 100_000), Limits::default()).await;
    (play, gate)
}

/// An answer with two calls.
fn calls() -> Vec<u8> {
    let call = json!(["no__tool", {}]);
    chat_calls(&json!([call, call]))
}

fn done(text: &str) -> Vec<u8> {
    CHAT.answer_with(&[text])
}

fn steering(text: &str) -> LineInput {
    LineInput { joins: true, ..LineInput::from(text) }
}

/// Submits a line and waits until it is stored among the waiting lines.
async fn queued(session: &Arc<Session>, line: impl Into<LineInput>) -> Submitted {
    let mut events = session.subscribe(session.last_seq() + 1);
    let submitted = session.submit_input(line.into());
    let id = submitted.id();
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::LineQueued { line, .. } if *line == id)).await;
    submitted
}

async fn code(line: Submitted) -> String {
    wait_for_end(line).await.code.to_string()
}

/// Returns the kinds and contents of the rows of the agent in view, without the contents of results.
async fn rows(play: &Play) -> Vec<String> {
    let row = |kind| match kind {
        EventKind::Message { kind: MessageKind::Tool, .. } => "tool".to_owned(),
        EventKind::Message { kind, content, .. } => format!("{}: {content}", kind.as_str()),
        other => panic!("{other:?}"),
    };
    play.rows(play.session.view()).await.into_iter().map(row).collect()
}

/// Returns the messages of a request of Chat Completions.
fn messages(request: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(server::body(request)).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Waits until the server has this number of requests.
async fn wait_for_requests(play: &Play, gate: &Gate, count: usize) {
    play.wait_until(&format!("{count} requests"), async || gate.requests().len() >= count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_join_the_turn_after_the_results_of_all_calls() {
    let (play, gate) = gated_play().await;
    let mut events = play.session.subscribe(1);
    let running = play.session.submit("zero");
    wait_for_requests(&play, &gate, 1).await;
    let lines = [queued(&play.session, steering("faster")).await, queued(&play.session, steering("shorter")).await];
    assert!(play.session.queue().lines.iter().all(|line| line.joins));
    for answer in [calls(), calls(), done("Done.")] {
        gate.answer(answer);
    }
    for line in [running].into_iter().chain(lines) {
        assert_eq!(wait_for_end(line).await.message, "Done.");
    }
    let expected = [
        "user: zero",
        "assistant: ",
        "tool",
        "tool",
        "user: faster",
        "user: shorter",
        "assistant: ",
        "tool",
        "tool",
        "assistant: Done.",
    ];
    assert_eq!(rows(&play).await, expected);
    assert_eq!(play.host.store().queued_lines(play.session.id()).await.unwrap(), []);
    let (mut turns, mut joined) = (0, 0);
    while let Some(Received::Event(event)) = events.try_next().await.unwrap() {
        turns += usize::from(matches!(event.kind, EventKind::TurnBegan { .. }));
        joined += usize::from(matches!(event.kind, EventKind::LineDequeued { reason: DequeueReason::Joined, .. }));
    }
    assert_eq!((turns, joined), (1, 2));
    // Each request only adds to the previous one.
    let sent: Vec<_> = gate.requests().iter().map(|request| messages(request)).collect();
    let roles: Vec<_> = sent[1][sent[0].len()..].iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "user"]);
    assert_eq!(sent[1].last().unwrap()["content"], "faster\n\nshorter");
    assert!(sent.windows(2).all(|pair| pair[1].starts_with(&pair[0])), "{sent:?}");
    // Both messages are parts of one exchange.
    assert_eq!(play.text("/history").await, "> zero\n> faster\n> shorter\nDone.");
}

/// After the last answer, or after calls that no request followed, the message starts a turn.
#[tokio::test(flavor = "multi_thread")]
async fn message_begins_a_turn_if_no_request_follows() {
    let (play, gate) = gated_play().await;
    let running = play.session.submit("zero");
    wait_for_requests(&play, &gate, 1).await;
    let waiting = queued(&play.session, steering("one")).await;
    gate.answer(done("Zero."));
    assert_eq!(wait_for_end(running).await.message, "Zero.");
    gate.answer(done("One."));
    assert_eq!(wait_for_end(waiting).await.message, "One.");
    assert_eq!(rows(&play).await, ["user: zero", "assistant: Zero.", "user: one", "assistant: One."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_a_command_or_a_line_for_later() {
    let (play, gate) = gated_play().await;
    play.patchbay.skill("guide", "command: guide\nsummary: Shows the way", "The way to $INPUT.");
    play.ok("/reload_skills").await;
    for (number, blocking) in [LineInput::from("/guide the sea"), LineInput::from("later")].into_iter().enumerate() {
        let asked = gate.requests().len();
        let running = play.session.submit("zero");
        wait_for_requests(&play, &gate, asked + 1).await;
        let first = queued(&play.session, steering("first")).await;
        let blocking = queued(&play.session, blocking).await;
        let behind = queued(&play.session, steering("behind")).await;
        let joins: Vec<_> = play.session.queue().lines.iter().map(|line| line.joins).collect();
        assert_eq!(joins, [true, false, false]);
        for answer in [calls(), done("Zero."), done("Blocking."), done("Behind.")] {
            gate.answer(answer);
        }
        let said = |line| async { wait_for_end(line).await.message };
        assert_eq!((said(running).await, said(first).await), ("Zero.".to_owned(), "Zero.".to_owned()));
        assert_eq!((said(blocking).await, said(behind).await), ("Blocking.".to_owned(), "Behind.".to_owned()));
        let rows = rows(&play).await;
        let own =
            rows.iter().filter(|row| !row.starts_with("assistant") && !row.starts_with("command") && *row != "tool");
        let expected =
            ["user: zero", "user: first", ["skill: The way to the sea.", "user: later"][number], "user: behind"];
        assert_eq!(own.skip(4 * number).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn captured_and_held_lines_join_no_turn() {
    let (play, gate) = gated_play().await;
    let running = play.session.submit("zero");
    wait_for_requests(&play, &gate, 1).await;
    let waiting = queued(&play.session, steering("waits")).await;
    assert_eq!(play.code("/capture").await, "capture_started");
    assert_eq!(code(play.session.submit_input(steering("captured"))).await, "captured");
    assert_eq!(play.code("/cancel").await, "capture_cancelled");
    play.session.stop(running.id());
    assert_eq!(code(running).await, "turn_cancelled");
    gate.answer(Vec::new());
    assert!(play.session.queue().held);
    // A script's line runs before held lines, which do not join its turn.
    let script = play.session.submit_input(LineInput { ahead: true, joins: true, ..LineInput::from("script") });
    gate.answer(calls());
    gate.answer(done("Script."));
    assert_eq!(wait_for_end(script).await.message, "Script.");
    assert!(play.session.queue().held);
    gate.answer(done("Waited."));
    assert!(play.session.release_queue());
    assert_eq!(wait_for_end(waiting).await.message, "Waited.");
    assert_eq!(stored_texts(&play.session, MessageKind::User).await, ["zero", "script", "waits"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_a_joined_message_stops_the_turn() {
    let (play, gate) = gated_play().await;
    let running = play.session.submit("zero");
    wait_for_requests(&play, &gate, 1).await;
    let joined = queued(&play.session, steering("joined")).await;
    gate.answer(calls());
    wait_for_requests(&play, &gate, 2).await;
    let waiting = queued(&play.session, steering("waits")).await;
    assert!(play.session.stop(joined.id()));
    for line in [running, joined] {
        let outcome = wait_for_end(line).await;
        assert_eq!(
            (outcome.code.as_str(), &*outcome.message),
            ("turn_cancelled", "Cancelled. The partial answer is kept.")
        );
    }
    gate.answer(Vec::new());
    assert_eq!(play.session.queue().lines.len(), 1);
    // The last message is the one that joined.
    gate.answer(CHAT.refusal(400, "No.", None));
    let failed = play.run("/retry").await;
    assert_eq!((failed.code.as_str(), failed.turn().unwrap().unanswered), ("provider_invalid_request", true));
    assert_eq!(play.text("/drop").await, "Dropped: joined");
    assert_eq!(play.text("/drop").await, "Dropped: zero");
    gate.answer(done("Waited."));
    play.session.release_queue();
    assert_eq!(wait_for_end(waiting).await.message, "Waited.");
    assert_eq!(messages(gate.requests().last().unwrap()).len(), 2, "the system's and the one that waited");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_with_a_message_that_joins() {
    let play = Play::new().await;
    let running = play.session.submit("pause 1000\ncall no__tool {}");
    let file = |name: &str, content: &[u8]| NewAttachment::new(name, content.to_vec()).unwrap();
    let attachments = vec![file("a.png", PNG), file("b.txt", b"Text")];
    let joined = queued(&play.session, LineInput { attachments, ..steering("show context") }).await;
    let shown = wait_for_end(joined).await.message;
    assert_eq!(wait_for_end(running).await.message, shown);
    assert!(shown.contains("no__tool, text(101)), image/png(16, a.png), text(12), text(12)\n"), "{shown}");
}

/// Eight children work concurrently, and each gets a message.
#[tokio::test(flavor = "multi_thread")]
async fn messages_join_the_turns_of_eight_children_at_once() {
    let play = Play::new().await;
    let (mut events, mut joined) = (play.session.subscribe(1), Vec::new());
    for number in 0..8 {
        play.ok("/switch root").await;
        let child = play.fork("\"pause 3000\ncall no__tool {}\nthen say Alone.\"").await;
        joined.push((child, queued(&play.session, steering(&format!("say {number}"))).await));
    }
    for (number, (child, line)) in joined.into_iter().enumerate() {
        assert_eq!(wait_for_end(line).await.message, number.to_string());
        assert_eq!(play.said(child)[1..], [format!("say {number}")]);
        assert_eq!(play.turns(child).len(), 1);
    }
    play.idle().await;
    assert_eq!(play.said(play.ids().await[0]), Vec::<String>::new());
    let mut joins = 0;
    while let Some(received) = events.try_next().await.unwrap() {
        let is_join = |kind: &EventKind| matches!(kind, EventKind::LineDequeued { reason: DequeueReason::Joined, .. });
        joins += usize::from(matches!(received, Received::Event(event) if is_join(&event.kind)));
    }
    assert_eq!(joins, 8);
    play.check();
}

/// What the user does, or how long the user waits, in milliseconds.
#[derive(Clone, Debug)]
enum Step {
    Steer,
    Later,
    /// A message whose turn fails.
    Fail,
    /// A command that starts a turn.
    Guide,
    /// A command that runs during the turn, and one that later lines wait for.
    Calc,
    Model,
    Capture,
    Cancel,
    Stop,
    Release,
    TakeBack,
    Restart,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Steer),
        3 => Just(Step::Later),
        1 => Just(Step::Fail),
        2 => Just(Step::Guide),
        1 => Just(Step::Calc),
        1 => Just(Step::Model),
        1 => Just(Step::Capture),
        1 => Just(Step::Cancel),
        1 => Just(Step::Stop),
        1 => Just(Step::Release),
        1 => Just(Step::TakeBack),
        1 => Just(Step::Restart),
        6 => (0..40_u64).prop_map(Step::Wait),
    ]
}

/// Returns the number of a line from its text or its row.
fn number_in(text: &str) -> usize {
    let (_, number) = text.lines().next().and_then(|line| line.rsplit_once("line ")).unwrap();
    number.parse().unwrap()
}

/// Returns whether a line was kept, according to its outcome.
fn is_kept(outcome: &Outcome) -> bool {
    !outcome.line().contains("othing of this line was kept")
}

/// The numbered lines of one case.
#[derive(Default)]
struct Lines {
    open: Vec<(usize, Submitted)>,
    /// Whether each line that ended, or that waits in a closed session, was kept. Lines that were taken back later are left out.
    kept: Vec<(usize, bool)>,
    count: usize,
}

impl Lines {
    /// Waits for all lines, calling `meanwhile` repeatedly.
    async fn end(&mut self, meanwhile: impl Fn()) {
        for (number, mut line) in std::mem::take(&mut self.open) {
            let outcome = loop {
                tokio::select! {
                    outcome = &mut line => break outcome,
                    () = tokio::time::sleep(Duration::from_millis(20)) => meanwhile(),
                }
            };
            self.kept.push((number, is_kept(&outcome)));
        }
    }
}

async fn act(play: &mut Play, lines: &mut Lines, step: &Step) {
    let number = lines.count;
    let rounds = "call no__tool {}\nthen call no__tool {}";
    let line = match step {
        Step::Steer => steering(&format!("line {number}\n{rounds}")),
        Step::Later => LineInput::from(&*format!("line {number}\n{rounds}")),
        Step::Fail => steering(&format!("line {number}\n{rounds}\nthen fail server never")),
        Step::Guide => LineInput::from(&*format!("/guide line {number}")),
        Step::Wait(ms) => return tokio::time::sleep(Duration::from_millis(*ms)).await,
        Step::Stop => {
            play.session.stop_turn();
            return;
        }
        Step::Release => {
            play.session.release_queue();
            return;
        }
        Step::TakeBack => {
            if let Some(last) = play.session.queue().lines.last()
                && let Some(taken) = play.session.take_back(last.id).await
            {
                // A line that waited in a closed session has no outcome any more.
                lines.kept.retain(|(number, _)| *number != number_in(&taken));
            }
            return;
        }
        Step::Restart => {
            play.session.close().await;
            lines.end(|| {}).await;
            play.session = play.host.resume(play.session.id()).await.unwrap();
            return;
        }
        Step::Calc | Step::Model | Step::Capture | Step::Cancel => {
            let command = match step {
                Step::Calc => "/calc 6*7",
                Step::Model => "/model demo-1",
                Step::Capture => "/capture",
                _ => "/cancel",
            };
            drop(play.session.submit(command));
            return;
        }
    };
    lines.count += 1;
    lines.open.push((number, play.session.submit_input(line)));
}

/// Returns the numbers of the lines in the rows of the agent: lines of messages and skills, and captured lines.
async fn stored(play: &Play) -> [Vec<usize>; 2] {
    let mut numbers = [Vec::new(), Vec::new()];
    for row in play.rows(play.session.view()).await {
        let EventKind::Message { kind, content, .. } = row else { continue };
        let captured = kind == MessageKind::Capture;
        if captured || matches!(kind, MessageKind::User | MessageKind::Skill) {
            numbers[usize::from(captured)].push(number_in(&content));
        }
    }
    numbers
}

async fn keeps_all(play: &mut Play, steps: &[Step]) -> Result<(), TestCaseError> {
    play.session = play.host.new_session(&play.patchbay.workspace()).await.unwrap();
    let mut lines = Lines::default();
    for step in steps {
        act(play, &mut lines, step).await;
    }
    play.run("/cancel").await;
    let session = Arc::clone(&play.session);
    lines.end(|| _ = session.release_queue()).await;
    play.wait_until("nothing waits", async || {
        session.release_queue();
        session.queue().lines.is_empty() && session.is_idle()
    })
    .await;
    prop_assert_eq!(play.host.store().queued_lines(session.id()).await.unwrap(), []);
    let [said, captured] = stored(play).await;
    prop_assert!(said.is_sorted() && captured.is_sorted(), "reordered: {:?} {:?}", said, captured);
    let mut found = [said, captured].concat();
    found.sort_unstable();
    let kept: Vec<usize> = lines.kept.iter().filter(|(_, is_kept)| *is_kept).map(|(number, _)| *number).collect();
    prop_assert_eq!(found, kept, "lost or doubled");
    session.close().await;
    Ok(())
}

/// Whatever and whenever the user types: each line is either stored once, in the order typed, or its outcome says that it was not.
#[test]
fn no_line_is_lost_doubled_or_reordered() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let play = std::cell::RefCell::new(runtime.block_on(Play::new()));
    play.borrow().patchbay.skill("guide", "command: guide\nsummary: Shows the way", "$INPUT\ncall no__tool {}");
    let config =
        ProptestConfig { cases: 32, failure_persistence: None, max_shrink_iters: 60, ..ProptestConfig::default() };
    let steps = proptest::collection::vec(step(), 1..30);
    let tested =
        TestRunner::new(config).run(&steps, |steps| runtime.block_on(keeps_all(&mut play.borrow_mut(), &steps)));
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// The kill can happen at any moment: before the message leaves the queue, while it joins the turn, and afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn killed_agent_loses_no_message() {
    let play = Play::new().await;
    for delay in 0..24 {
        let child = play.fork("").await;
        let running = play.session.submit("call no__tool {}\nthen call no__tool {}\nthen call no__tool {}");
        let line = play.session.submit_input(steering("joins"));
        tokio::time::sleep(Duration::from_millis(delay)).await;
        let (killed, ended) = (play.run("/kill").await, wait_for_end(line).await);
        wait_for_end(running).await;
        let is_message = |row: &EventKind| matches!(row, EventKind::Message { content, .. } if content == "joins");
        let is_stored = play.rows(child).await.iter().any(is_message);
        let is_given_back =
            [&killed, &ended].iter().any(|outcome| outcome.killed_lines().contains(&"joins".to_owned()));
        assert!(is_stored || is_given_back, "{delay}: {} {}", killed.line(), ended.line());
    }
}

/// Returns a home of `format` whose provider is at `server`, with its model as the default.
#[cfg(unix)]
fn home(format: &Format, server: &Server) -> Patchbay {
    let patchbay = format.home(server, "");
    let config = patchbay.home().join("config/config.toml");
    let (model, tables) = (format.model.split('/').next().unwrap(), std::fs::read_to_string(&config).unwrap());
    std::fs::write(config, format!("default_model = \"{model}\"\n{tables}")).unwrap();
    patchbay
}

#[cfg(unix)]
fn wait_for_request(terminal: &Terminal, gate: &Gate, count: usize) {
    terminal.wait_until(&format!("{count} requests"), || gate.requests().len() >= count);
}

/// A message's row is where the message joined, on the screen as well as in the request.
#[cfg(unix)]
#[test]
fn enter_adds_a_message_to_the_turn_and_alt_enter_does_not() {
    for format in FORMATS {
        let gate = Gate::new();
        let patchbay = home(&format, &gate.server);
        let terminal = Terminal::open(&patchbay, &[]);
        terminal.wait_for_prompt();
        terminal.press("How is the weather?\r");
        wait_for_request(&terminal, &gate, 1);
        terminal.press("In Celsius.\r");
        terminal.wait_for_text("queued: In Celsius.");
        terminal.press("And tomorrow?");
        terminal.press(ALT_ENTER);
        terminal.wait_for_text("later: And tomorrow?");
        wait_until_waiting(&terminal, &patchbay, 2);
        gate.answer(format.answer(format.call));
        wait_for_request(&terminal, &gate, 2);
        terminal.wait_for_text("> In Celsius.");
        terminal.wait_for_text("later: And tomorrow?");
        gate.answer(format.answer_with(&["Twelve."]));
        wait_for_request(&terminal, &gate, 3);
        gate.answer(format.answer_with(&["Thirteen."]));
        terminal.wait_for_text("Thirteen.");
        terminal.wait_until_idle();
        let rows = terminal.all_rows();
        let at = |row: &str| {
            rows.iter().position(|shown| shown.starts_with(row)).unwrap_or_else(|| panic!("{row}: {rows:#?}"))
        };
        let order =
            ["> How is the weather?", "✓ 1  weather__now", "> In Celsius.", "Twelve.", "> And tomorrow?", "Thirteen."]
                .map(at);
        assert!(order.is_sorted(), "{rows:#?}");
        let sent = gate.requests();
        let [first, second, third] = &*sent else { panic!("{sent:#?}") };
        assert!(!first.contains("Celsius") && !second.contains("tomorrow") && third.contains("tomorrow"));
        // The text follows the results.
        let result = ["tool_result", "function_call_output", "functionResponse", "\"role\":\"tool\""];
        let result = result.into_iter().filter_map(|word| second.rfind(word)).max().expect("a result");
        assert!(second.find("In Celsius.").is_some_and(|text| text > result), "{second}");
        terminal.press(CTRL_D);
        assert_eq!(terminal.wait_for_exit(), 0);
    }
}

/// Waits until this number of lines is stored among the waiting lines.
#[cfg(unix)]
fn wait_until_waiting(terminal: &Terminal, patchbay: &Patchbay, count: usize) {
    terminal.wait_until(&format!("{count} stored lines"), || stored_lines(patchbay)[0].len() == count);
}

/// Returns the texts of the waiting lines and of the user's rows.
#[cfg(unix)]
fn stored_lines(patchbay: &Patchbay) -> [Vec<String>; 2] {
    let database = patchbay.database("patchbay.db");
    let texts = |sql: &str| {
        let mut query = database.prepare(sql).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().collect::<Result<Vec<String>, _>>().unwrap()
    };
    [
        texts("SELECT content FROM queued_lines ORDER BY position"),
        texts("SELECT content FROM messages WHERE kind = 'user' ORDER BY session, seq"),
    ]
}

/// The process is killed before, while, and after the message joins.
#[cfg(unix)]
#[test]
fn killed_process_neither_loses_nor_doubles_a_message() {
    let mut joined = Vec::new();
    for round in 0..8_u64 {
        let gate = Gate::new();
        let patchbay = home(&CHAT, &gate.server);
        let mut terminal = Terminal::open(&patchbay, &[]);
        terminal.wait_for_prompt();
        terminal.press("zero\r");
        wait_for_request(&terminal, &gate, 1);
        terminal.press("joins\r");
        wait_until_waiting(&terminal, &patchbay, 1);
        match round {
            0 => {}
            7 => {
                gate.answer(CHAT.answer(CHAT.call));
                wait_for_request(&terminal, &gate, 2);
            }
            _ => {
                gate.answer(CHAT.answer(CHAT.call));
                thread::sleep(Duration::from_millis(10 * round));
            }
        }
        terminal.signal("KILL");
        terminal.wait_for_end();
        let [waiting, said] = stored_lines(&patchbay);
        let is_joined = said.len() == 2;
        joined.push(is_joined);
        let (kept, shown): (&[&str], _) = match is_joined {
            true => (&["zero", "joins"], "> zero\n> joins\n(no answer)\n"),
            false => (&["zero"], "> zero\n(no answer)\n"),
        };
        assert_eq!(
            (waiting.len(), &*said),
            (usize::from(!is_joined), &*kept.iter().map(ToString::to_string).collect::<Vec<_>>())
        );
        let session = patchbay.last_session();
        let ran = patchbay.run(&["exec", "--session", &session, "/history"]);
        assert_eq!((ran.code, &*ran.out), (Some(0), shown), "{ran:?}");
        assert_eq!(stored_lines(&patchbay)[0], waiting, "the queue is held");
    }
    assert_eq!((joined[0], joined[7]), (false, true));
}
