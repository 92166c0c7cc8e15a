//! Answers that break off, and delays: the real binary with a loopback server that plays scripted responses.

use std::{
    cell::RefCell,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use patchbay_core::{Code, EventKind, MessageKind};
use patchbay_provider::Settings;
use patchbay_tests::{
    binary::{Patchbay, Ran, run_out_of_time},
    format::{ANTHROPIC, CHAT, Format, event_stream},
    host::host,
    server::{Server, Step},
    session_events::{stored_texts, wait_for_end, wait_for_event},
    terminal::Terminal,
};
use serde_json::{Value, json};

use crate::provider_servers::{assistant, body};

/// Starts a server that responds to request `n`, counted from 0, with `answer(n)`.
fn server(answer: impl Fn(usize) -> Vec<Step> + Send + 'static) -> Server {
    let requests = Mutex::new(0);
    Server::scripted(move |_| {
        let mut requests = requests.lock().unwrap();
        *requests += 1;
        answer(*requests - 1)
    })
}

fn whole(format: Format, recording: &str) -> Vec<Step> {
    vec![Step::Bytes(format.answer(recording))]
}

/// Returns a response that ends after the first event that contains `word`, in the middle of a block.
fn cut_behind(format: Format, recording: &str, word: &str) -> Vec<Step> {
    let body = format.body(recording);
    let text = String::from_utf8_lossy(&body).into_owned();
    let at = text.find(word).unwrap_or_else(|| panic!("{recording} has no {word}"));
    let end = at + text[at..].find("\n\n").unwrap() + 2;
    vec![Step::Bytes(event_stream(&text.as_bytes()[..end]))]
}

const AGAIN: &str = "The answer broke off; asking again (attempt 2 of 5).";

/// Returns a string from the expected result of a recording of [`ANTHROPIC`].
fn recorded(recording: &str, key: &str) -> String {
    ANTHROPIC.expected(recording)[key].as_str().unwrap().to_owned()
}

/// The answer breaks off in its thinking, in its text and in a call; the second one is complete. The call runs once, and a pipe
/// gets each text once, even if its block was complete.
#[test]
fn answer_that_breaks_off_is_asked_for_again() {
    thread::scope(|scope| {
        for (recording, word) in
            [("thinking", "thinking_delta"), ("tool_call", "text_delta"), ("tool_call", "input_json_delta")]
        {
            scope.spawn(move || {
                let server = server(move |request| match request {
                    0 => cut_behind(ANTHROPIC, recording, word),
                    1 => whole(ANTHROPIC, recording),
                    _ => whole(ANTHROPIC, "text"),
                });
                let patchbay = ANTHROPIC.home(&server, "");
                let model = format!("/model {}", ANTHROPIC.model);
                let ran = patchbay.run(&["exec", &model, "hello"]);
                let is_call = recording == "tool_call";
                assert_eq!((ran.code, server.requests().len()), (Some(0), if is_call { 3 } else { 2 }), "{ran:?}");
                assert_eq!(ran.errors(), format!("{AGAIN}\n"));
                let answers =
                    ran.out.lines().skip_while(|line| line.starts_with(['✓', ' '])).collect::<Vec<_>>().join("\n");
                let mut expected = recorded(recording, "text");
                if is_call {
                    expected.push_str(&format!("\n{}", ANTHROPIC.recorded_text()));
                }
                assert_eq!(answers, expected);
                // The requests are the same, and the conversation contains nothing of the discarded attempt.
                assert_eq!(body(&server.requests()[0]), body(&server.requests()[1]));
                let store = patchbay.database("patchbay.db");
                let count = |sql: &str| -> i64 { store.query_row(sql, [], |row| row.get(0)).unwrap() };
                let answers = "SELECT count(*) FROM messages WHERE kind = 'assistant'";
                assert_eq!(count(answers), if is_call { 2 } else { 1 });
                assert_eq!(count("SELECT count(*) FROM messages WHERE kind = 'tool'"), i64::from(is_call));
                assert_eq!(count("SELECT count(*) FROM calls"), i64::from(is_call));
                assert_eq!(count("SELECT count(*) FROM partial_pieces"), 0);
            });
        }
    });
}

/// A terminal shows an answer as it arrives, and marks discarded text.
#[test]
fn terminal_shows_what_is_given_up() {
    let server = server(|request| match request {
        0 => cut_behind(ANTHROPIC, "tool_call", "input_json_delta"),
        _ => whole(ANTHROPIC, "text"),
    });
    let patchbay = ANTHROPIC.home(&server, "");
    let mut terminal = Terminal::open(&patchbay, &["exec", &format!("/model {}", ANTHROPIC.model), "hello"]);
    assert_eq!(terminal.wait_for_end(), 0);
    let written = terminal.written();
    let shown = format!("{}\r\n{AGAIN} Ignore the part that was already printed.\r\n", recorded("tool_call", "text"));
    assert!(written.contains(&shown), "{written}");
}

#[test]
fn given_up_answer_is_an_event_and_its_tokens_count() {
    let server = server(|request| match request {
        0 => cut_behind(ANTHROPIC, "text", "text_delta"),
        _ => whole(ANTHROPIC, "text"),
    });
    let patchbay = ANTHROPIC.home(&server, "");
    let answers = patchbay.answers(&[&format!("/model {}", ANTHROPIC.model), "hello", "/usage"]);
    let events = &answers[1].events;
    let given_up: Vec<_> = events.iter().filter(|event| event["event"] == "given_up").collect();
    let [event] = given_up[..] else { panic!("{events:?}") };
    assert_eq!((&event["turn"], &event["answer"]), (&events[0]["seq"], &json!(0)), "{events:?}");
    assert_eq!(event.as_object().unwrap().len(), 5, "{event}");
    // The chunks after the event are the whole answer.
    let at = events.iter().position(|event| event["event"] == "given_up").unwrap();
    let pieces: String = events[at..]
        .iter()
        .filter(|event| event["event"] == "delta")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(pieces, ANTHROPIC.recorded_text());
    let row = &assistant(&answers[1]).unwrap()["data"];
    let input = row["usage"]["input"].as_u64().unwrap();
    assert_eq!(row["failed_attempts"]["given_up"], 1);
    assert_eq!(row["failed_attempts"]["usage"]["input"], input);
    let usage = &answers[2].outcome["data"]["models"][0]["usage"];
    assert_eq!(usage["input"], 2 * input, "{usage}");
    let output = ["usage", "failed_attempts"].map(|key| {
        let usage = if key == "usage" { &row[key] } else { &row[key]["usage"] };
        usage["output"].as_u64().unwrap()
    });
    assert_eq!(answers[2].outcome["data"]["total"], 2 * input + output[0] + output[1]);
    // The adapter's table contains the model's prices.
    assert!(answers[2].message().contains(" USD\nTotal: "), "{}", answers[2].message());
}

/// Esc and Ctrl+C end a delay immediately, whether before the first answer or after one that broke off.
#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_a_wait_at_once() {
    let patchbay = Patchbay::new();
    let session = host(&patchbay, Settings::default()).new_session(&patchbay.workspace()).await.unwrap();
    for line in ["fail rate-limit 60", "say one two\nfail server 60 after 1"] {
        let mut events = session.subscribe(session.last_seq() + 1);
        let running = session.submit(line);
        let is_wait = |kind: &EventKind| match kind {
            EventKind::Retrying(retry) | EventKind::GivenUp { retry, .. } => retry.wait_ms == 60_000,
            _ => false,
        };
        wait_for_event(&mut events, is_wait).await;
        let begin = Instant::now();
        assert!(session.stop_turn());
        assert_eq!(wait_for_end(running).await.code, Code::TurnCancelled);
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(stored_texts(&session, MessageKind::Assistant).await, [] as [&str; 0]);
}

#[test]
fn time_out_ends_a_wait_and_keeps_nothing_that_was_given_up() {
    let model = format!("/model {}", CHAT.model);
    let servers = RefCell::new(Vec::new());
    let home = || {
        let server = server(|request| match request {
            0 => cut_behind(CHAT, "text", "Grüße"),
            _ => vec![Step::Bytes(CHAT.refusal(429, "Slow down", Some(60)))],
        });
        let patchbay = CHAT.home(&server, "");
        // Compiles the components.
        patchbay.line(&model);
        servers.borrow_mut().push(server);
        patchbay
    };
    let waits = |_: &Patchbay, ran: &Ran| ran.err.contains("Retrying in 60 s (attempt 1 of at most 15).");
    let (patchbay, ran, _) = run_out_of_time(home, &[&model, "hello"], waits);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.err.contains(AGAIN), "{ran:?}");
    let store = patchbay.database("patchbay.db");
    let answers: i64 =
        store.query_row("SELECT count(*) FROM messages WHERE kind = 'assistant'", [], |row| row.get(0)).unwrap();
    assert_eq!(answers, 0);
}

/// After a temporary failure, the demo provider gets five attempts, with delays that the demo requests.
#[test]
fn demo_breaks_off_and_says_so() {
    let patchbay = Patchbay::quick();
    let ran = patchbay.run(&["exec", "say one two three\nfail server 0 after 2"]);
    // The partial text of the last attempt is kept.
    assert_eq!((ran.code, &*ran.out), (Some(1), "one two\n"));
    let lines: Vec<_> = (2..=5).map(|n| format!("The answer broke off; asking again (attempt {n} of 5).\n")).collect();
    assert!(ran.errors().starts_with(&lines.concat()), "{}", ran.err);
    assert!(ran.errors().ends_with("Error: demo: demo fails as requested: server. Try again in 1 s\n"), "{}", ran.err);
}

/// A conversation that the server refuses as too long is summarised and sent again. The model's context window is unknown.
#[test]
fn conversation_that_is_too_long_is_summarised() {
    let words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.";
    let server = server(move |request| match request {
        1 | 4.. => vec![Step::Bytes(CHAT.refusal(400, words, None))],
        _ => whole(CHAT, "text"),
    });
    let patchbay = CHAT.home(&server, "");
    let ran = patchbay.run(&["exec", &format!("/model {}", CHAT.model), "one", "two", "three"]);
    // The first message, the refused one, the summary and the second message succeed. The third message is refused, and so is its
    // summary.
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let mut lines = ran.errors().lines();
    let notice = "The conversation is longer than local-1 can read; summarising it.";
    assert_eq!((lines.next(), lines.next()), (Some(notice), Some(notice)));
    let error = lines.next().unwrap();
    assert!(
        error.starts_with("Error: the conversation has become too long for local-1, and could not be summarised: "),
        "{error}"
    );
    assert!(error.contains(words.trim_end_matches('.')), "{error}");
    let body = |index: usize| server.requests()[index].split_once("\r\n\r\n").unwrap().1.to_owned();
    assert!(body(2).contains("Summarise the conversation so far.") && !body(3).contains("\"one\""), "{}", body(3));
    assert!(body(3).contains("Summary of the conversation so far") && body(3).contains("two"));
    let store = patchbay.database("patchbay.db");
    let kinds = "SELECT group_concat(kind) FROM (SELECT kind FROM messages WHERE kind <> 'command' ORDER BY seq)";
    let kinds: String = store.query_row(kinds, [], |row| row.get(0)).unwrap();
    assert_eq!(kinds, "user,assistant,user,compaction,assistant,user,notice");
}

/// A partial summary never replaces the conversation, and the user sees that the host is waiting for an overloaded server.
#[test]
fn summary_that_is_cut_off_changes_nothing() {
    let cut = || {
        let whole = String::from_utf8(CHAT.answer_with(&["I cannot help with tha"])).unwrap();
        vec![Step::Bytes(whole.replace("\"finish_reason\":\"stop\"", "\"finish_reason\":\"length\"").into_bytes())]
    };
    let server = server(move |request| match request {
        1 => vec![Step::Bytes(CHAT.refusal(429, "slow down", Some(0)))],
        2 => cut(),
        _ => whole(CHAT, "text"),
    });
    let patchbay = CHAT.home(&server, "");
    let answers = patchbay.answers(&[&format!("/model {}", CHAT.model), "one", "/compact", "show context"]);
    let compacted = &answers[2];
    assert_eq!(compacted.code(), "compaction_failed");
    let message = "Error: the conversation could not be summarised: the summary was cut off: it reached the model's \
        output limit. It is kept as it was; try /compact again, or choose a model with a larger context window with /model.";
    assert_eq!(compacted.message(), message);
    let waits = "Rate limit exceeded: openai-compatible. Retrying in ";
    let is_wait = |event: &&Value| event["text"].as_str().is_some_and(|text| text.starts_with(waits));
    assert_eq!((compacted.events.iter().filter(is_wait).count(), answers[3].code()), (1, "answered"));
    let body = server.requests()[3].split_once("\r\n\r\n").unwrap().1.to_owned();
    assert!(body.contains("one") && !body.contains("tha\""), "{body}");
}
