//! Tests of the stream with a test codec, in which the name of an event is a command.

use super::*;

struct Words {
    /// Index of the block for words.
    block: u32,
}

impl Codec for Words {
    fn event(&mut self, event: &str, data: &str, out: &mut Out) {
        match event {
            "start" => self.block = out.start(BlockKind::Text),
            "word" => out.delta(self.block, data),
            "end" => out.end(self.block, None),
            "finish" => out.finish("end-turn", data),
            "fail" => out.fail(failure("server", data)),
            "again" => out.send(request("/again")),
            "wait" => out.wait(5),
            _ => out.extra(event, data),
        }
    }

    fn timer(&mut self, out: &mut Out) {
        out.extra("timer", "");
    }

    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure {
        let message = format!("{} headers, {} bytes", headers.len(), body.len());
        Failure { http_status: Some(status), ..failure("unknown", message) }
    }
}

fn request(path: &str) -> HttpRequest {
    let headers = vec![Pair { name: "accept".to_owned(), value: "text/event-stream".to_owned() }];
    HttpRequest {
        method: "POST".to_owned(),
        path_and_query: path.to_owned(),
        headers,
        auth: Vec::new(),
        body: Vec::new(),
    }
}

fn head(status: u16, content_type: &str) -> Input {
    let headers = vec![Pair { name: "Content-Type".to_owned(), value: content_type.to_owned() }];
    Input::ResponseHead(ResponseHead { status, headers })
}

fn chunk(text: &str) -> Input {
    Input::BodyChunk(text.as_bytes().to_vec())
}

fn failed(kind: &str) -> Input {
    Input::TransportFailed(TransportFailure { kind: kind.to_owned(), message: "it broke".to_owned() })
}

/// Returns a short description of the actions for inputs after a successful head.
fn run(inputs: impl IntoIterator<Item = Input>) -> Vec<String> {
    run_all([head(200, "text/event-stream; charset=utf-8")].into_iter().chain(inputs))
}

fn run_all(inputs: impl IntoIterator<Item = Input>) -> Vec<String> {
    let (mut stream, first) = Stream::begin(Words { block: u32::MAX }, request("/first"));
    assert_eq!(first, [Action::Send(request("/first"))]);
    inputs.into_iter().flat_map(|input| stream.resume(input)).map(|action| short(&action)).collect()
}

fn short(action: &Action) -> String {
    match action {
        Action::Send(request) => format!("send {}", request.path_and_query),
        Action::WaitMs(ms) => format!("wait {ms}"),
        Action::Emit(Event::BlockStart(start)) => format!("start {}", start.index),
        Action::Emit(Event::BlockDelta(delta)) => format!("{} {}", delta.index, delta.text),
        Action::Emit(Event::BlockEnd(end)) => format!("end {}", end.index),
        Action::Emit(Event::Extra(pair)) => format!("extra {} {}", pair.name, pair.value),
        Action::Emit(event) => format!("{event:?}"),
        Action::Finish(finish) => format!("finish {} {}", finish.stop, finish.raw),
        Action::Fail(failure) => format!("fail {} {:?} {}", failure.kind, failure.retry, failure.message),
    }
}

const CUT: &str = "fail network Retry::Backoff the response ended before it was complete";

#[test]
fn blocks_are_numbered_and_ended_before_finish() {
    let body = "event: start\ndata\n\nevent: word\ndata: a\n\nevent: word\ndata: b\n\nevent: word\ndata:\n\n\
        event: start\ndata\n\nevent: word\ndata: c\n\nevent: finish\ndata: stop\n\nevent: word\ndata: late\n\n";
    assert_eq!(
        run([chunk(body), Input::BodyEnd, chunk(body)]),
        ["start 0", "0 ab", "start 1", "1 c", "end 0", "end 1", "finish end-turn stop"]
    );
}

#[test]
fn failure_leaves_blocks_open() {
    let body = "event: start\ndata\n\nevent: word\ndata: a\n\nevent: fail\ndata: oh\n\nevent: finish\ndata\n\n";
    assert_eq!(run([chunk(body), Input::BodyEnd]), ["start 0", "0 a", "fail server Retry::Backoff oh"]);
}

#[test]
fn actions_for_blocks_that_are_not_open_are_ignored() {
    let body = "event: word\ndata: a\n\nevent: end\ndata\n\nevent: start\ndata\n\nevent: end\ndata\n\n\
        event: end\ndata\n\nevent: word\ndata: b\n\nevent: finish\ndata: x\n\n";
    assert_eq!(run([chunk(body)]), ["start 0", "end 0", "finish end-turn x"]);
}

#[test]
fn body_that_ends_early_is_a_failure() {
    assert_eq!(run([chunk("event: start\ndata\n\n"), Input::BodyEnd]), ["start 0", CUT]);
    assert_eq!(run([Input::BodyEnd]), [CUT]);
    assert_eq!(run_all([Input::BodyEnd]), [CUT]);
    // The last event may have no blank line.
    assert_eq!(run([chunk("event: finish\ndata: x\n"), Input::BodyEnd]), ["finish end-turn x"]);
    assert_eq!(run([chunk("event: finish\ndata: x"), Input::BodyEnd]), [CUT]);
}

#[test]
fn lost_connection_is_reported_with_its_reason() {
    let start = "event: start\ndata\n\n";
    assert_eq!(run([chunk(start), failed("reset")]), ["start 0", "fail network Retry::Backoff it broke"]);
    assert_eq!(run_all([failed("timeout")]), ["fail timeout Retry::Backoff it broke"]);
}

#[test]
fn refusal_is_read_up_to_the_limit() {
    let refused = |inputs: Vec<Input>| run_all(inputs);
    let html = || head(401, "text/html");
    assert_eq!(
        refused(vec![html(), chunk("abc"), chunk("de"), Input::BodyEnd]),
        ["fail unknown Retry::Never 1 headers, 5 bytes"]
    );
    assert_eq!(refused(vec![html(), chunk("abc"), failed("reset")]), ["fail unknown Retry::Never 1 headers, 3 bytes"]);
    let big = "x".repeat(MAX_REFUSAL);
    assert_eq!(
        refused(vec![html(), chunk("abc"), chunk(&big), chunk("more")]),
        ["fail unknown Retry::Never 1 headers, 65536 bytes"]
    );
    // JSON instead of events is the body of an error. If the body is lost, its message is lost, too.
    let json = || head(200, "application/problem+json; x=y");
    assert_eq!(refused(vec![json(), chunk("{}"), Input::BodyEnd]), ["fail unknown Retry::Never 1 headers, 2 bytes"]);
    assert_eq!(refused(vec![json(), chunk("{}"), failed("reset")]), ["fail network Retry::Backoff it broke"]);
}

#[test]
fn html_instead_of_events_is_not_retried() {
    assert_eq!(
        run_all([head(200, "text/html; charset=utf-8"), chunk("<html>")]),
        [
            "fail unknown Retry::Never the server responded with 'text/html; charset=utf-8' instead of events; check the \
          provider's origin in config.toml"
        ]
    );
    let finish = chunk("event: finish\ndata: x\n\n");
    let silent = Input::ResponseHead(ResponseHead { status: 200, headers: Vec::new() });
    assert_eq!(run_all([silent, finish]), ["finish end-turn x"]);
}

#[test]
fn malformed_event_streams_are_server_failures() {
    assert_eq!(
        run([chunk("event: start\ndata\n\n"), Input::BodyChunk(b"data: \xff\n\n".to_vec())]),
        ["start 0", "fail server Retry::Backoff an event of the response is not UTF-8"]
    );
    let line = Input::BodyChunk(vec![b'x'; crate::sse::MAX_EVENT + 1]);
    assert_eq!(run([line]), ["fail server Retry::Backoff an event of the response is longer than 16 MiB"]);
}

#[test]
fn new_request_drops_the_previous_body() {
    let first = "event: start\ndata\n\nevent: again\ndata\n\nevent: word\ndata: lost\n\nevent: fi";
    let second = "event: word\ndata: a\n\nevent: finish\ndata: x\n\n";
    assert_eq!(
        run([chunk(first), head(200, "text/event-stream"), chunk(second)]),
        ["start 0", "send /again", "0 a", "end 0", "finish end-turn x"]
    );
    // The request is also sent if the last event causes it, or if the rest of the body is malformed.
    assert_eq!(run([chunk("event: again\ndata\n"), Input::BodyEnd]), ["send /again"]);
    assert_eq!(run([Input::BodyChunk(b"event: again\ndata\n\n\xff\n".to_vec()), Input::BodyEnd]), ["send /again", CUT]);
}

#[test]
fn codec_may_only_wait_with_a_timer() {
    let wait = chunk("event: wait\ndata\n\n");
    assert_eq!(
        run([wait, Input::Timer, chunk("event: finish\ndata: x\n\n")]),
        ["wait 5", "extra timer ", "finish end-turn x"]
    );
    assert_eq!(run([chunk("event: wait\ndata\n"), Input::BodyEnd, Input::Timer]), ["wait 5", "extra timer ", CUT]);
}
