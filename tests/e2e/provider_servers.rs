//! Providers with working, failing, slow and silent servers: the real binary with a loopback server that sends recorded
//! responses.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{
    answers::{Answer, Live},
    binary::Patchbay,
    format::{ANTHROPIC, CHAT, FORMATS, Format, GOOGLE, KEY, OPENAI, event_stream, truncated_event_stream},
    server::{Server, Step},
};
use serde_json::{Value, json};

use crate::hot_add::notices;

/// Parses the body of a request.
pub(crate) fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Starts a server. `answer` receives the word after the last `case:` in the request, and how many earlier requests had the same
/// word.
pub(crate) fn by_case(answer: impl Fn(&str, usize) -> Vec<Step> + Send + 'static) -> Server {
    let seen = Mutex::new(BTreeMap::<String, usize>::new());
    Server::scripted(move |request| {
        let rest = request.rsplit_once("case:").map_or("", |(_, rest)| rest);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(rest[..end].to_owned()).or_default();
        *times += 1;
        answer(&rest[..end], *times - 1)
    })
}

pub(crate) fn whole(bytes: Vec<u8>) -> Vec<Step> {
    vec![Step::Bytes(bytes)]
}

/// Returns the last assistant message of a result.
pub(crate) fn assistant(answer: &Answer) -> Option<&Value> {
    answer.events.iter().rev().find(|event| event["event"] == "message" && event["kind"] == "assistant")
}

/// Asserts that the conversation in a request is valid for its format, even after failures.
fn assert_valid_request(format: &Format, request: &str) {
    let body = body(request);
    let roles = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().filter_map(|message| Some(message["role"].as_str()?.to_owned())).collect()
    };
    let roles = match format.provider {
        "anthropic" => roles(&body["messages"]),
        "google" => roles(&body["contents"]),
        "openai" => roles(&body["input"]),
        _ => roles(&body["messages"]),
    };
    let said: Vec<_> = roles.iter().filter(|role| !["system", "developer", "tool"].contains(&role.as_str())).collect();
    assert_eq!(said.first().map(|role| role.as_str()), Some("user"), "{roles:?}");
    assert!(roles.last().is_none_or(|role| role != "assistant"), "{roles:?}");
    if format.provider != "openai" {
        assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
    }
}

/// A provider caches the beginning of a request: system, tools and conversation. It must be the same in children, and in later
/// sessions with the same skills and persona. Only the `cache_control` markers move.
#[test]
fn children_and_sessions_begin_with_the_same_request() {
    /// Returns the body without anything specific to its session: the agent's UUID and the prompt cache key.
    fn shared(request: &str) -> String {
        let mut body = request.split_once("\r\n\r\n").unwrap().1.to_owned();
        for (before, length) in [("You are the agent ", 36), ("\"prompt_cache_key\":\"", 32)] {
            if let Some(at) = body.find(before) {
                let from = at + before.len();
                body.replace_range(from..from + length, "");
            }
        }
        body
    }
    fn without_marks(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("cache_control");
                object.values_mut().for_each(without_marks);
            }
            Value::Array(list) => list.iter_mut().for_each(without_marks),
            _ => {}
        }
    }
    for format in FORMATS {
        let server = by_case(move |_, _| whole(format.answer("text")));
        let patchbay = format.home(&server, "");
        let model = format!("/model {}", format.model);
        patchbay.answers(&[&model, "case:text", "/fork", "and case:text"]);
        patchbay.answers(&[&model, "case:text"]);
        let requests = server.requests();
        let [one, child, other] = &requests[..] else { panic!("{requests:?}") };
        assert!(one != other && one.contains("You are the agent "), "{one}");
        assert_eq!(shared(one), shared(other), "{}", format.provider);
        let [parent, child] = &mut [body(one), body(child)];
        without_marks(parent);
        without_marks(child);
        let (parent, child) = (&*parent, &*child);
        for key in ["system", "systemInstruction", "instructions", "tools"] {
            assert_eq!(parent[key], child[key], "{} {key}", format.provider);
        }
        let said = ["messages", "contents", "input"].into_iter().find(|key| parent[key].is_array()).unwrap();
        let [parent, child] = [parent, child].map(|body| body[said].as_array().unwrap());
        assert!(child.len() > parent.len() && child.starts_with(parent), "{}: {child:?}", format.provider);
        let texts = serde_json::to_string(child).unwrap();
        assert_eq!(texts.matches("You are the agent ").count(), 2, "{texts}");
    }
}

#[test]
fn usage_shows_the_cost_and_the_counted_tokens() {
    // 25 input tokens that are not read from the cache, and 31 output tokens.
    let recorded = String::from_utf8(ANTHROPIC.body("text")).unwrap();
    let body = recorded.replace(r#""cache_read_input_tokens":0"#, r#""cache_read_input_tokens":1000"#);
    let server = by_case(move |_, _| whole(event_stream(body.as_bytes())));
    let patchbay = ANTHROPIC.home(&server, "[limits]\nsession_tokens = 100\n");
    let answers = patchbay.answers(&[&format!("/model {}", ANTHROPIC.model), "case:1", "case:2", "case:3", "/usage"]);
    let codes: Vec<_> = answers[1..4].iter().map(Answer::code).collect();
    assert_eq!(codes, ["answered", "answered", "limit_tokens"]);
    assert!(answers[3].message().contains("this session has used 112 tokens"), "{}", answers[3].message());
    // A million input tokens cost 3 USD, or 0.30 if they are read from the cache. A million output tokens cost 15.
    let expected = "anthropic/claude-sonnet-4-5: 2,050 in, 62 out, 2,000 read from the cache, 0 written to it, 0.0017 USD\n\
                    Total: 2,112 tokens (112 without those read from the cache), 0.0017 USD\n\
                    This session: 0.00168 USD spent\n  ";
    let (listed, ledger) = answers[4].message().split_at(expected.len());
    assert_eq!(listed, expected);
    let end = ", turn, anthropic/claude-sonnet-4-5: 2 requests, 0.00168 USD spent";
    assert!(ledger.ends_with(end) && !ledger.contains('\n'), "{ledger}");
    let data = &answers[4].outcome["data"];
    let amount: f64 = data["models"][0]["cost"]["amount"].as_str().unwrap().parse().unwrap();
    assert!((amount - 0.00168).abs() < 1e-12, "{amount}");
    assert_eq!((&data["total"], &data["counted"], &data["other"]), (&json!(2_112), &json!(112), &json!(0)));
}

#[test]
fn all_formats_answer_call_tools_and_receive_results() {
    for format in FORMATS {
        let server = by_case(move |_, times| whole(format.answer(if times == 0 { format.call } else { "text" })));
        let patchbay = format.home(&server, "");
        let answers = patchbay.answers(&[&format!("/model {}", format.model), "case:call"]);
        assert_eq!((answers[1].code(), answers[1].message()), ("answered", &*format.recorded_text()), "{format:?}");
        let call = &format.expected(format.call)["tool_calls"][0];
        let rows: Vec<_> = answers[1].events.iter().filter(|event| event["kind"] == "tool").collect();
        let [tool] = rows[..] else { panic!("{rows:?}") };
        let echoed: Value = serde_json::from_str(tool["content"].as_str().unwrap()).unwrap();
        assert_eq!(echoed, call["input"], "{tool}");
        // The second request contains the call and its result.
        let [_, second] = &server.requests()[..] else { panic!("{:?}", server.requests().len()) };
        assert_valid_request(&format, second);
        // The key is in its header and nowhere else.
        for request in server.requests() {
            let head = request.split_once("\r\n\r\n").unwrap().0;
            assert!(head.to_ascii_lowercase().contains(&format!("\r\n{}{}", format.header, KEY).to_ascii_lowercase()));
            assert_eq!(request.matches(KEY).count(), 1, "{request}");
        }
        let row = assistant(&answers[1]).unwrap();
        assert_eq!(row["data"]["usage"]["output"], format.expected("text")["usage"]["output"], "{row}");
        let (body, city) = (body(second).to_string(), call["input"]["city"].as_str().unwrap_or("wetter"));
        assert!(body.matches("weather__now").count() >= 2 && body.matches(city).count() >= 2, "{body}");
        if let Some(id) = call["id"].as_str().filter(|_| format.provider != "google") {
            assert_eq!(body.matches(id).count(), 2, "{body}");
        }
    }
}

#[test]
fn thinking_blocks_are_replayed_unchanged() {
    for (format, keys) in
        [(ANTHROPIC, &["signature"][..]), (OPENAI, &["encrypted_content"]), (GOOGLE, &["thoughtSignature"])]
    {
        let server = by_case(move |_, _| whole(format.answer(format.thinking)));
        let patchbay = format.home(&server, "");
        let model = format!("/model {}", format.model);
        let lines = [&*model, "case:one", "case:two", "case:three", "/model demo-1", "show context"];
        let answers = patchbay.answers(&lines);
        assert!(answers.iter().all(|answer| answer.outcome["status"] == "ok"), "{answers:?}");
        let recorded = String::from_utf8(format.body(format.thinking)).unwrap();
        // The recording reports each key several times, and the last value counts.
        for key in keys {
            let (_, rest) = recorded.rsplit_once(&format!("\"{key}\"")).unwrap();
            let signature = rest.split('"').nth(1).unwrap();
            assert!(signature.len() > 20, "{signature}");
            let requests = server.requests();
            for (request, times) in requests.iter().zip(0..) {
                assert_eq!(body(request).to_string().matches(signature).count(), times, "{format:?}: {request}");
            }
            assert_eq!(requests.len(), 3);
        }
        // Another model receives no thinking.
        assert!(!answers[5].message().contains("thinking"), "{}", answers[5].message());
    }
}

/// Returns a gzip body that expands to about 160 times its size.
fn bomb(megabytes: usize) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let (mut held, mut count) = (0_u32, 0);
    let mut bits = |value: u32, length: u32| {
        held |= value << count;
        count += length;
        while count >= 8 {
            bytes.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    };
    // One block with fixed codes: an `a`, then repeatedly 258 copies of the previous byte. Codes are written from the
    // highest bit.
    bits(0b011, 3);
    bits((0x30 + u32::from(b'a')).reverse_bits() >> 24, 8);
    for _ in 0..megabytes * 1_000_000 / 258 {
        bits(0b1100_0101_u32.reverse_bits() >> 24, 8);
        bits(0, 5);
    }
    bits(0, 7);
    bytes
}

/// A case: its name, the expected code, a part of the message, and whether text is stored.
type Case = (&'static str, &'static str, &'static str, bool);

/// Returns the steps of a server for `case` at request number `times`, from 0. A redirect to `canary` must not be followed.
fn answer_of(format: &Format, canary: &str, case: &str, times: usize) -> Vec<Step> {
    let page = "<html><body><h1>Sign in to the network</h1></body></html>";
    let html = |status: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n{page}").into_bytes()
    };
    let in_events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let head = |more: &str| Step::Bytes(format!("{in_events}{more}").into_bytes());
    let refusal = |status, wait| format.refusal(status, "Because of the weather", wait);
    whole(match case {
        "limited" if times == 0 => refusal(429, Some(1)),
        "late" => refusal(429, Some(3_600)),
        "s500" => refusal(500, Some(0)),
        "s529" => refusal(529, Some(0)),
        "s401" => refusal(401, None),
        "s403" => refusal(403, None),
        "s404" => refusal(404, None),
        "s400" => refusal(400, None),
        "reset" => truncated_event_stream(&format.body("cut")),
        "cut" => format.answer("cut"),
        "error" => format.answer(format.error),
        "html" => html("200 OK"),
        "gateway" => html("403 Forbidden"),
        "utf8" => {
            let body = format.body("text");
            let at = body.iter().rposition(|byte| *byte >= 0x80).unwrap();
            event_stream(&[&body[..at], &[0xff, 0xfe], &body[at + 1..]].concat())
        }
        "redirect" => format!(
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://{canary}/v1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
        .into_bytes(),
        "bomb" => return vec![head("content-encoding: gzip\r\n\r\n"), Step::Bytes(bomb(20))],
        "line" => return vec![head("\r\ndata: "), Step::Endless(vec![b'x'; 65_536], 0)],
        "headers" => {
            let first = Step::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec());
            return vec![first, Step::Endless(format!("x-more: {}\r\n", "y".repeat(4_000)).into_bytes(), 0)];
        }
        // Slow responses.
        "drip" => return vec![Step::Bytes(format.answer("cut")), Step::Endless(b"x".to_vec(), 300)],
        "silent" => return vec![Step::Bytes(format.answer("cut")), Step::Pause(60_000)],
        "hang" if times == 0 => {
            let first = Step::Bytes(b"HTTP/1.1 200 OK\r\nx-slow: ".to_vec());
            return vec![first, Step::Endless(b"y".to_vec(), 300)];
        }
        _ => format.answer("text"),
    })
}

const QUICK: [Case; 12] = [
    ("late", "provider_rate_limit", "Because of the weather. Try again in 60 min", false),
    ("s529", "provider_server", "Because of the weather", false),
    ("s401", "provider_authentication", "Because of the weather. Check ", false),
    ("s403", "provider_authentication", "Because of the weather. Check ", false),
    ("s404", "provider_not_found", "Because of the weather. Check the model's name", false),
    ("s400", "provider_invalid_request", "Because of the weather", false),
    ("gateway", "provider_authentication", "403", false),
    ("redirect", "provider_unknown", "status 307", false),
    ("html", "provider_unknown", "'text/html' instead of events; check the provider's origin in config.toml", false),
    ("bomb", "provider_network", "the response is over 400000 bytes, the limit 'exchange.answer_bytes'", false),
    ("line", "provider_network", "the response is over 400000 bytes, the limit 'exchange.answer_bytes'", false),
    ("headers", "provider_network", "the response head exceeds the limit of", false),
];

/// Cases that take long, because the host repeats their requests, usually after delays of 1, 2, 4 and 8 seconds.
const REPEATED: [Case; 6] = [
    ("s500", "provider_server", "Because of the weather", false),
    ("reset", "provider_network", "was cut short", true),
    ("cut", "provider_network", "the response ended before it was complete", true),
    ("error", "(as recorded)", "", true),
    ("utf8", "provider_server", "an event of the response is not UTF-8", true),
    ("limited", "answered", "", true),
];

/// In these cases the server exceeds a limit of [`TIMES`].
const SLOW: [Case; 3] = [
    ("hang", "answered", "", true),
    ("drip", "provider_timeout", "the answer took longer than 15000 ms, the limit 'exchange.total_ms'", true),
    ("silent", "provider_timeout", "took longer than 2500 ms, the limit 'exchange.idle_ms'", true),
];
const TIMES: &str = "[exchange]\nfirst_byte_ms = 10000\nidle_ms = 2500\ntotal_ms = 15000\n";

/// The cases whose answers break off each time.
const BROKEN: [&str; 5] = ["reset", "cut", "error", "utf8", "silent"];

/// Asserts that `answer` is the expected result of the case and that the session continued with `next`.
fn assert_case(format: &Format, case: Case, answer: &Answer, next: &[Answer]) {
    let (name, code, words, kept) = case;
    let (provider, message) = (format.provider, answer.message());
    let code = match name {
        "error" => format.error_code,
        // The other providers have announced the retirement of these models.
        "s404" if provider != CHAT.provider => "model_retired",
        _ => code,
    };
    assert_eq!(answer.code(), code, "{provider}, {name}: {message}");
    assert!(
        message.contains(words) && !message.contains("<html>") && message.len() < 400,
        "{provider}, {name}: {message}"
    );
    assert!(code == "answered" || message.contains(&format!("Error: {provider}: ")), "{provider}, {name}: {message}");
    let row = assistant(answer);
    assert_eq!(row.is_some_and(|row| row["content"] != ""), kept, "{provider}, {name}: {row:?}");
    let interrupted = row.is_some_and(|row| row["data"]["interrupted"] == true);
    assert_eq!(interrupted, kept && code != "answered", "{provider}, {name}: {row:?}");
    assert_eq!(
        (next[0].message(), next[1].code()),
        ("1", "answered"),
        "{provider}, after {name}: {}",
        next[1].message()
    );
    assert_eq!(next[1].message(), format.recorded_text(), "{provider}, after {name}");

    let told: Vec<_> = notices(answer).collect();
    let retried = |what: &str, wait: &str, times: u32, of: u32| -> Vec<String> {
        let line = |n| format!("{what}: {provider}. Retrying in {wait} s (attempt {n} of at most {of}).");
        (1..=times).map(line).collect()
    };
    let given_up = answer.events.iter().filter(|event| event["event"] == "given_up").count();
    assert_eq!(given_up, if BROKEN.contains(&name) { 4 } else { 0 }, "{provider}, {name}");
    let rows = answer.rows().iter().filter(|(kind, _)| *kind == "assistant").count();
    assert!(rows == 1 || !kept && rows == 0, "{provider}, {name}: {rows}");
    match name {
        // The server requests a delay of 1 ms, which the notice shows as 1 s.
        "s500" | "s529" => {
            // Google's errors have a `status`, which means overload here.
            let times = if name == "s529" || provider == "google" { 15 } else { 4 };
            assert_eq!(told, retried("Server error", "1", times, times), "{provider}");
        }
        "limited" => assert_eq!(told, retried("Rate limit exceeded", "1", 1, 15), "{provider}"),
        "hang" => assert!(told.len() == 1 && told[0].starts_with(&format!("Timed out: {provider}. ")), "{told:?}"),
        _ => assert!(told.is_empty(), "{provider}, {name}: {told:?}"),
    }
}

/// Returns the lines of a case: the case itself, and lines that show that the session continues.
fn lines(case: &str) -> [String; 3] {
    [format!("case:{case}"), "/calc 1".to_owned(), "case:text".to_owned()]
}

#[test]
fn server_failures_are_errors_and_session_continues() {
    thread::scope(|scope| {
        for format in &FORMATS {
            scope.spawn(move || {
                let canary = Server::echo();
                let host = canary.host();
                let server = by_case(move |case, times| answer_of(format, &host, case, times));
                let patchbay = format.home(&server, "[exchange]\nanswer_bytes = 400000\n");
                let all = QUICK.iter().flat_map(|(case, ..)| lines(case));
                let all: Vec<_> = [format!("/model {}", format.model)].into_iter().chain(all).collect();
                let answers = patchbay.answers(&all.iter().map(String::as_str).collect::<Vec<_>>());
                assert_eq!(answers[0].code(), "model_set");
                for (case, answers) in QUICK.into_iter().zip(answers[1..].chunks(3)) {
                    assert_case(format, case, &answers[0], &answers[1..]);
                }
                assert_eq!(canary.requests(), [] as [String; 0], "a redirect was followed");
                for request in server.requests() {
                    assert_valid_request(format, &request);
                }
            });
        }
    });
}

#[test]
fn slow_server_is_awaited_up_to_the_configured_time() {
    thread::scope(|scope| {
        for format in &FORMATS {
            scope.spawn(move || assert_slow_server_is_awaited(format));
        }
    });
}

/// Runs the cases in several concurrent processes. Nearly all of their time is spent waiting.
fn assert_slow_server_is_awaited(format: &'static Format) {
    let server = by_case(move |case, times| answer_of(format, "", case, times));
    let patchbay = format.home(&server, TIMES);
    // Compiles the components for all cases that follow.
    assert!(patchbay.line(&format!("/model {}", format.model)).starts_with('✓'));
    let (hang_and_drip, silent) = SLOW.split_at(2);
    let limited = [hang_and_drip, silent].map(|cases| (cases, start(format, &patchbay)));
    // A process keeps the limits that it started with. On a busy machine, the other cases could exceed these limits as well.
    patchbay.write("home/config/config.toml", format.table(&server));
    let (quick, slow): (Vec<Case>, Vec<Case>) = REPEATED.into_iter().partition(|case| !BROKEN.contains(&case.0));
    thread::scope(|scope| {
        for (cases, live) in limited {
            scope.spawn(move || assert_cases(format, live, cases));
        }
        let patchbay = &patchbay;
        for cases in slow.chunks(1).chain([&*quick]) {
            scope.spawn(move || assert_cases(format, start(format, patchbay), cases));
        }
    });
}

/// Starts a process with the model of the format.
fn start(format: &Format, patchbay: &Patchbay) -> Live {
    let mut live = patchbay.live(&[]);
    assert_eq!(live.answer(&format!("/model {}", format.model)).code(), "model_set");
    live
}

/// Runs cases in a process, one after the other.
fn assert_cases(format: &Format, mut live: Live, cases: &[Case]) {
    for case in cases {
        let [answer, next @ ..] = lines(case.0).map(|line| live.answer(&line));
        assert_case(format, *case, &answer, &next);
    }
}

/// Returns the stored answers of an interrupted session: the text, and whether it is complete.
fn stored_messages(patchbay: &Patchbay) -> Vec<(String, bool)> {
    let store = patchbay.database("patchbay.db");
    let mut rows = store.prepare("SELECT content, data FROM messages WHERE kind = 'assistant' ORDER BY seq").unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let data: Value = serde_json::from_str(&row.get::<_, String>(1)?).unwrap();
        Ok((row.get(0)?, data["interrupted"] != true))
    };
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// The received part of an answer is stored while it streams, and the session continues from it.
#[test]
fn partial_answer_survives_kill_9() {
    let patchbay = Patchbay::new();
    let mut child = patchbay.command(&["exec", "--json", "repeat 5000 word"]).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    // A word every 20 ms; the received part is stored every 250 ms.
    let deltas = output.by_ref().filter(|line| line.as_ref().unwrap().contains(r#""event":"delta""#));
    assert_eq!(deltas.take(40).count(), 40, "the answer streams");
    // On a busy machine it may be stored later.
    let (store, start) = (patchbay.database("patchbay.db"), Instant::now());
    let pieces = || store.query_row("SELECT count(*) FROM partial_pieces", [], |row| row.get::<_, i64>(0)).unwrap();
    while pieces() < 4 {
        assert!(start.elapsed() < Duration::from_secs(60), "the received part is stored");
        thread::sleep(Duration::from_millis(50));
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    let session = patchbay.last_session();
    let answers = patchbay.answers_in(&["--session", &session], &["say More.", "show context"]);
    assert_eq!((answers[0].code(), answers[0].message()), ("answered", "More."));
    assert_eq!(answers[1].code(), "answered");
    let kept = stored_messages(&patchbay);
    assert!(kept[0].0.starts_with("word word word") && !kept[0].1, "{kept:?}");
    assert_eq!(kept[1], ("More.".to_owned(), true));
    // The received part belongs to the conversation.
    assert!(answers[1].message().contains("assistant"), "{}", answers[1].message());
}

/// An adapter can report numbers of tokens whose sum overflows the counters of the session and of the database.
#[test]
fn excessive_usage_of_an_answer_does_not_end_the_session() {
    for tokens in [u64::MAX, i64::MAX.unsigned_abs()] {
        let usage =
            format!(r#"{{"choices": [], "usage": {{"prompt_tokens": {tokens}, "completion_tokens": {tokens}}}}}"#);
        let server = Server::new(move |_| {
            let answer = String::from_utf8(CHAT.answer_with(&["Hi."])).unwrap();
            answer.replace("data: [DONE]", &format!("data: {usage}\n\ndata: [DONE]")).into_bytes()
        });
        let patchbay = CHAT.home(&server, "");
        let answers = patchbay.answers(&[&format!("/model {}", CHAT.model), "one", "two"]);
        let database = patchbay.database("patchbay.db");
        let session: String = database.query_row("SELECT id FROM sessions", [], |row| row.get(0)).unwrap();
        let resumed = patchbay.answers_in(&["--session", &session], &["three"]);
        for answer in answers[1..].iter().chain(&resumed) {
            assert_eq!((answer.code(), answer.message()), ("answered", "Hi."));
        }
        let stored = patchbay.stored_messages(&session);
        assert_eq!(stored.iter().filter(|(_, kind, text)| kind == "assistant" && text == "Hi.").count(), 3);
        let used: i64 = database.query_row("SELECT tokens FROM sessions", [], |row| row.get(0)).unwrap();
        assert!(used > 0 && used % 2_000_000_000 == 0, "{used}");
        let warning = format!("the adapter reported {tokens} tokens for one answer; 1000000000 are counted");
        assert!(patchbay.log().contains(&warning));
    }
}
