//! Conversations in which the last message, together with its answers and results, is already too long for the model or too large
//! for the server, even without the rest of the conversation.

use patchbay_tests::{
    answers::Answer,
    binary::Patchbay,
    format::{CHAT, chat_calls},
    server::Server,
};
use serde_json::{Value, json};

/// The instruction in a request for a summary.
const INSTRUCTION: &str = "Summarise the conversation so far.";
/// The text that precedes a summary.
const SUMMARY: &str = "Summary of the conversation so far";

/// Starts a server that refuses requests of more than `limit` bytes as too long. It answers requests for a summary with
/// "In short.", requests that contain a summary with "Done.", and all others with `first`.
fn server(limit: usize, first: Vec<u8>) -> Server {
    let words = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.";
    Server::new(move |request| match body(request) {
        body if body.len() > limit => CHAT.refusal(400, words, None),
        body if body.contains(INSTRUCTION) => CHAT.answer_with(&["In short."]),
        body if body.contains(SUMMARY) => CHAT.answer_with(&["Done."]),
        _ => first.clone(),
    })
}

fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// Creates a home with a model at `server` whose context window is configured as `window` tokens.
fn home(server: &Server, window: u32) -> Patchbay {
    CHAT.home(server, &format!("models = [{{ id = \"local-1\", context_window = {window} }}]\n"))
}

fn answers(patchbay: &Patchbay, lines: &[&str]) -> Vec<Answer> {
    let model = format!("/model {}", CHAT.model);
    patchbay.answers(&[&[model.as_str()], lines].concat()).split_off(1)
}

/// The results of 20 calls in one answer are longer than the server accepts; the configured window is much larger.
#[test]
fn results_that_are_too_long_are_shortened_for_the_summary() {
    let limit = 200_000;
    let calls: Vec<Value> = (0..20).map(|n| json!(["files__read", {"path": format!("{n}.txt")}])).collect();
    let server = server(limit, chat_calls(&Value::from(calls)));
    let patchbay = home(&server, 1_000_000);
    for n in 0..20 {
        patchbay.write(&format!("workspace/{n}.txt"), "Forty characters of text are in a line.\n".repeat(1_000));
    }
    let answers = answers(&patchbay, &["Read all.", "And now?"]);
    let messages: Vec<_> = answers.iter().map(Answer::message).collect();
    assert_eq!(messages, ["Done.", "Done."]);
    let results = answers[0].rows().iter().filter(|(kind, text)| *kind == "tool" && text.len() > 30_000).count();
    assert_eq!(results, 20);
    let requests = server.requests();
    let sizes: Vec<usize> = requests.iter().map(|request| body(request).len()).collect();
    let summaries: Vec<_> =
        requests.iter().map(|request| body(request)).filter(|body| body.contains(INSTRUCTION)).collect();
    // Two requests for answers come before the summary, and two after it.
    assert!(summaries.len() <= 6 && requests.len() == summaries.len() + 4, "{sizes:?}");
    assert!(summaries.windows(2).all(|pair| pair[1].len() < pair[0].len()), "{sizes:?}");
    let last = summaries.last().unwrap();
    assert!(last.len() <= limit && last.matches(" bytes were left out]").count() == 20, "{sizes:?}");
    assert!(sizes[requests.len() - 2..].iter().all(|size| *size < 100_000), "{sizes:?}");
}

#[test]
fn endless_answer_is_stopped_and_the_next_message_answered() {
    let piece = "word ".repeat(4_000);
    let server = server(600_000, CHAT.answer_with(&[&*piece; 300]));
    let patchbay = home(&server, 128_000);
    let answers = answers(&patchbay, &["Write.", "Go on."]);
    let words = "its adapter emitted more than 4194304 bytes of text, the limit 'exchange.text_bytes'";
    assert_eq!(answers[0].code(), "limit_exchange");
    assert!(answers[0].message().contains(words), "{}", answers[0].message());
    let rows = answers[0].rows();
    let kept = rows.iter().find(|(kind, _)| *kind == "assistant").unwrap().1.len();
    assert!(((4 << 20) - 100_000..=4 << 20).contains(&kept), "{kept}");
    assert_eq!((answers[1].code(), answers[1].message()), ("answered", "Done."));
    let requests = server.requests();
    let sizes: Vec<usize> = requests.iter().map(|request| body(request).len()).collect();
    assert!(sizes.len() == 3 && sizes[1] < 500_000 && sizes[2] < 100_000, "{sizes:?}");
    assert!(body(&requests[1]).contains(INSTRUCTION) && body(&requests[2]).contains("Go on."));
}

/// Images from tools must not leave a session in which every later request fails.
#[test]
fn request_that_is_too_large_is_summarised_without_its_images() {
    let calls: Vec<Value> =
        (0..6).map(|n| json!(["skill_file", {"skill": "pics", "path": format!("{n}.png")}])).collect();
    let first = chat_calls(&Value::from(calls));
    let server = Server::new(move |request| match body(request) {
        body if body.len() > 300_000 => CHAT.refusal(413, "Request exceeds the maximum size", None),
        body if body.contains(INSTRUCTION) => CHAT.answer_with(&["In short."]),
        body if body.contains(SUMMARY) => CHAT.answer_with(&["Done."]),
        _ => first.clone(),
    });
    let model = "models = [{ id = \"local-1\", input_media = [\"image/png\"], context_window = 1_000_000 }]\n";
    let patchbay = CHAT.home(&server, model);
    patchbay.skill("pics", "summary: Pictures", "Look at 0.png to 5.png.");
    for n in 0..6 {
        let picture = [&b"\x89PNG\r\n\x1a\n"[..], &[n; 60_000]].concat();
        patchbay.write(&format!("home/config/skills/pics/{n}.png"), picture);
    }
    let answers = answers(&patchbay, &["Look at all.", "And now?", "/compact", "And now?"]);
    let codes: Vec<_> = answers.iter().map(|answer| (answer.code(), answer.message())).collect();
    assert_eq!([codes[0], codes[1], codes[3]], [("answered", "Done."); 3]);
    assert_eq!(codes[2].0, "compacted", "{codes:?}");
    let requests = server.requests();
    let images: Vec<_> = requests.iter().map(|request| body(request).matches("data:image/png").count()).collect();
    assert_eq!(images, [0, 6, 0, 0, 0, 0, 0]);
    assert_eq!(body(&requests[2]).matches("[image left out]").count(), 6);
}
