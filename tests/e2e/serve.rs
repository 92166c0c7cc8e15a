//! `patchbay serve`: who is answered, and sessions over WebSockets.

use patchbay_tests::{
    binary::Patchbay,
    serve::{Serving, closed},
};
use serde_json::json;
use tungstenite::Message;

#[test]
fn client_with_the_token_has_a_conversation() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    let said = client.say(2, &session, json!([{"type": "text", "text": "say Hello."}]));
    assert_eq!(said.trim(), "Hello.");
}

#[test]
fn request_without_the_token_gets_the_same_bytes_everywhere() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    assert_eq!(status(&serving.raw("GET /healthz HTTP/1.1")), "200");
    assert_eq!(status(&serving.raw("GET /readyz HTTP/1.1")), "200");
    let refused = serving.raw("GET /acp HTTP/1.1");
    assert_eq!(status(&refused), "401");
    let without_date = |answer: &str| {
        let lines = answer.lines().filter(|line| !line.starts_with("date:"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let other = format!("Authorization: Bearer {}x", serving.token);
    for head in
        ["GET / HTTP/1.1", "POST /acp HTTP/1.1", "GET /nowhere HTTP/1.1", &format!("GET /acp HTTP/1.1\r\n{other}")]
    {
        assert_eq!(without_date(&serving.raw(head)), without_date(&refused), "{head}");
    }
    let with_token = format!("GET /acp HTTP/1.1\r\nAuthorization: Bearer {}", serving.token);
    assert_eq!(status(&serving.raw_to(&with_token, "evil.example")), "421");
    assert_eq!(status(&serving.raw(&format!("{with_token}\r\nOrigin: http://evil.example"))), "403");
    // A token in the query is not read.
    assert_eq!(status(&serving.raw(&format!("GET /acp?token={} HTTP/1.1", serving.token))), "401");
    // The token is right, but the request is none for a WebSocket.
    assert_eq!(status(&serving.raw(&with_token)), "400");
}

#[test]
fn binary_frame_closes_the_connection() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut socket = serving.socket();
    socket.send(Message::binary("{}")).unwrap();
    assert_eq!(closed(&mut socket), Some(1003));
}
