//! Fan-out and gathering from a provider's point of view: how many requests arrive at the same time, how many in total, and that
//! each request continues the one before it.

use patchbay_sandbox::Limits;
use patchbay_tests::{
    format::{CHAT, chat_calls},
    play::{Play, with_local_model},
    server::{Server, body},
};
use serde_json::{Value, json};

/// Returns whether a child sent this request. Only the introduction of a child names a parent.
fn is_of_child(request: &str) -> bool {
    request.contains("Your parent is ")
}

/// Returns the requests to a model in order of arrival.
fn sent(server: &Server) -> Vec<String> {
    let mut requests = server.requests();
    requests.retain(|request| request.starts_with("POST "));
    requests
}

/// Returns the last message of a request.
fn last_message(request: &str) -> Value {
    let mut request: Value = serde_json::from_str(body(request)).expect("JSON");
    request["messages"].as_array_mut().and_then(Vec::pop).expect("a message")
}

/// Returns the root model's answer, which forks `children` children if the message requests it, with or without `wait`.
fn answer_of_root(request: &str, children: usize, wait: bool) -> Vec<u8> {
    let last = last_message(request);
    if last["role"] == "tool" {
        return CHAT.answer_with(&["The children work."]);
    }
    let said = last.to_string();
    if said.contains("[Notification: You have ") {
        CHAT.answer_with(&["All is gathered."])
    } else if said.contains("Fan out") {
        let fork = |number: usize| json!(["fork", {"prompt": format!("Do part {number}."), "wait": wait}]);
        chat_calls(&json!((1..=children).map(fork).collect::<Vec<_>>()))
    } else {
        CHAT.answer_with(&["Nothing to do."])
    }
}

/// Has the root fork eight children, answers none of them before all their requests have arrived, and
/// returns the total number of requests.
async fn gathering_of_eight(wait: bool, answers: &[&str]) -> usize {
    let server = Server::holding(8, is_of_child, move |request| match is_of_child(request) {
        true => CHAT.answer_with(&["My part is done."]),
        false => answer_of_root(request, 8, wait),
    });
    let play = Play::with(with_local_model(&server, 1_000_000), Limits::default()).await;
    let root = play.session.view();
    play.finish("Fan out").await;
    assert_eq!(play.children().await.len(), 8);
    assert_eq!(play.notifications(root), ["[Notification: You have 8 unread messages in your inbox]"]);
    let report = r#"{"status":"idle","success":true,"summary":"My part is done."}"#;
    let shown: Vec<_> = play.notified(root).iter().map(|mail| mail["message"].clone()).collect();
    assert_eq!(shown, [report; 8]);
    assert_eq!(play.agent(root).await.unread, 0);
    assert_eq!(play.answers(root), answers);
    let causes: Vec<_> = play.turns(root).into_iter().map(|(cause, state, code)| [cause, state, code]).collect();
    assert_eq!(causes, [["person", "done", "answered"], ["mail", "done", "answered"]]);
    play.check();
    let requests = sent(&server);
    assert_eq!(requests.iter().filter(|request| is_of_child(request)).count(), 8);
    requests.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_children_are_one_wave_and_one_gathering() {
    // The root forks, ends its turn, and gathers the results.
    assert_eq!(gathering_of_eight(false, &["The children work.", "All is gathered."]).await, 8 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_that_end_the_turn_save_a_request() {
    assert_eq!(gathering_of_eight(true, &["All is gathered."]).await, 8 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_goes_on_after_a_fork_that_failed() {
    let play = Play::limited(|limits| limits.agents = 2).await;
    let root = play.session.view();
    let fork = "call fork {\"prompt\": \"say Done.\", \"wait\": true}";
    let outcome = play.finish(&format!("{fork}\n{fork}\nthen say One failed.\non mail say Gathered.")).await;
    assert_eq!(outcome.message, "One failed.");
    assert_eq!(play.answers(root), ["One failed.", "Gathered."]);
    assert_eq!(play.results(root).await[1]["error_code"], "limit_agents");
    play.check();
}

/// Splits the body of a request after its last message. The rest begins with the closing bracket of the messages.
fn split_after_messages(request: &str) -> (&str, &str) {
    let body = body(request);
    let begin = body.find("\"messages\":[").expect("messages") + "\"messages\":[".len();
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in body.bytes().enumerate().skip(begin) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => depth += 1,
            b']' if depth == 0 => return body.split_at(at),
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    panic!("the messages do not end: {body}")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_begins_with_the_bytes_of_the_one_before() {
    let server = Server::new(|request| match is_of_child(request) {
        true => CHAT.answer_with(&["My part is done."]),
        // In every other fan-out, the forks end the root's turn.
        false => answer_of_root(request, 2, request.matches("Fan out").count().is_multiple_of(2)),
    });
    let play = Play::with(with_local_model(&server, 1_000_000), Limits::default()).await;
    let root = play.session.view();
    for turn in 1..=30 {
        let line = if turn % 3 == 0 { format!("Fan out {turn}") } else { format!("Turn {turn}") };
        assert_eq!(play.finish(&line).await.code.as_str(), "answered");
    }
    assert_eq!(play.children().await.len(), 20);
    assert!(play.notifications(root).len() >= 10);
    let requests = sent(&server);
    let of_root: Vec<_> =
        requests.iter().filter(|request| !is_of_child(request)).map(|request| split_after_messages(request)).collect();
    assert!(of_root.len() >= 30 + 10 + 5, "{}", of_root.len());
    for pair in of_root.windows(2) {
        let [(before, rest_before), (after, rest_after)] = pair else { panic!("two requests") };
        assert!(after.len() > before.len() && after.starts_with(*before), "{before}\n\n{after}");
        // The tools and the options after the messages are unchanged as well.
        assert_eq!(rest_before, rest_after);
    }
    play.check();
}
