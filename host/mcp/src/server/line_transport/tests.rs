//! Tests of the transport over lines, with pipes in memory.

use std::time::Duration;

use rmcp::model::{CallToolResult, ClientRequest, ContentBlock, ServerResult};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines, duplex},
    time::timeout,
};

use super::*;

type Under = LineTransport<DuplexStream, DuplexStream>;

struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
}

fn connected(output_bytes: usize) -> (Client, Under) {
    piped(64 << 10, output_bytes)
}

fn piped(input_bytes: usize, output_bytes: usize) -> (Client, Under) {
    let (input, server_input) = duplex(input_bytes);
    let (output, server_output) = duplex(output_bytes);
    (Client { input, output: BufReader::new(output).lines() }, LineTransport::new(server_input, server_output))
}

impl Client {
    async fn send(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.output.next_line().await.unwrap().unwrap()).unwrap()
    }
}

fn call(id: usize) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}}).to_string()
}

fn answer(id: usize, text: &str) -> ServerJsonRpcMessage {
    let result = CallToolResult::success(vec![ContentBlock::text(text)]);
    ServerJsonRpcMessage::response(
        ServerResult::from(rmcp::model::CallToolResponse::from(result)),
        RequestId::Number(id as i64),
    )
}

/// Sends `line`, and returns the error that answers it. The transport must still receive the next request.
async fn refused(line: &str) -> Value {
    let (mut client, mut transport) = piped(1 << 20, 1 << 20);
    client.send(line).await;
    client.send(&call(900)).await;
    let message = transport.receive().await.unwrap();
    assert!(matches!(message, JsonRpcMessage::Request(_)), "{message:?}");
    let error = client.read().await;
    assert_eq!(error["jsonrpc"], "2.0");
    json!([error.get("id").unwrap_or(&Value::Null), error["error"]["code"], error["error"]["message"]])
}

#[tokio::test]
async fn lines_that_are_no_message_are_answered() {
    assert_eq!(refused("{nonsense").await, json!([null, -32700, "the line is not valid JSON"]));
    assert_eq!(refused("\"half").await, json!([null, -32700, "the line is not valid JSON"]));
    assert_eq!(refused("\u{7f}").await, json!([null, -32700, "the line is not valid JSON"]));
    for line in ["{}", "[]", "3", r#"{"id": {}, "method": "ping"}"#] {
        assert_eq!(refused(line).await, json!([null, -32600, NO_MESSAGE]), "{line}");
    }
    assert_eq!(refused(r#"{"id": 5, "method": "ping"}"#).await, json!([5, -32600, NO_MESSAGE]));
    let many = format!("[{}0]", "0,".repeat(200_000));
    assert_eq!(refused(&many).await, json!([null, -32600, "the message has too many values"]));
    let deep =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{}1{}}}", "[".repeat(500), "]".repeat(500));
    assert_eq!(refused(&deep).await, json!([1, -32600, NO_MESSAGE]));
}

#[tokio::test]
async fn long_line_is_answered_and_the_next_one_read() {
    let (mut client, mut transport) = connected(1 << 20);
    let writing = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            client.input.write_all(&piece).await.unwrap();
        }
        client.send("").await;
        client.send(&call(1)).await;
        client
    });
    assert!(transport.receive().await.is_some());
    let error = writing.await.unwrap().read().await;
    assert_eq!(error["error"]["message"], "the message is longer than 4 MiB");
}

#[tokio::test]
async fn blank_lines_and_unknown_notifications_are_ignored() {
    let (mut client, mut transport) = connected(1 << 20);
    for line in ["", "  \r", r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}"#] {
        client.send(line).await;
    }
    client.send(&call(1)).await;
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Request(_))));
}

#[tokio::test]
async fn unknown_method_reaches_the_handler() {
    let (mut client, mut transport) = connected(1 << 20);
    client.send(r#"{"jsonrpc":"2.0","id":"a","method":"no/such","params":{}}"#).await;
    let Some(JsonRpcMessage::Request(request)) = transport.receive().await else { panic!("no request") };
    assert!(matches!(request.request, ClientRequest::CustomRequest(_)), "{:?}", request.request);
}

#[tokio::test]
async fn id_of_an_open_request_is_refused_until_it_is_answered() {
    let (mut client, mut transport) = connected(1 << 20);
    for _ in 0..2 {
        client.send(&call(7)).await;
    }
    assert!(transport.receive().await.is_some());
    assert!(timeout(Duration::from_millis(50), transport.receive()).await.is_err());
    let error = client.read().await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32600)));
    transport.send(answer(7, "done")).await.unwrap();
    assert_eq!(client.read().await["id"], 7);
    client.send(&call(7)).await;
    assert!(transport.receive().await.is_some());
    client
        .send(&json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}).to_string())
        .await;
    assert!(matches!(transport.receive().await, Some(JsonRpcMessage::Notification(_))));
    client.send(&call(7)).await;
    assert!(transport.receive().await.is_some());
}

#[tokio::test]
async fn requests_over_the_limit_are_refused() {
    let (mut client, mut transport) = connected(1 << 20);
    for id in 0..=REQUESTS_AT_ONCE {
        client.send(&call(id)).await;
    }
    for _ in 0..REQUESTS_AT_ONCE {
        assert!(transport.receive().await.is_some());
    }
    assert!(timeout(Duration::from_millis(50), transport.receive()).await.is_err());
    let error = client.read().await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(REQUESTS_AT_ONCE), &json!(-32000)));
    transport.send(answer(3, "done")).await.unwrap();
    client.send(&call(REQUESTS_AT_ONCE)).await;
    assert!(transport.receive().await.is_some());
}

/// A client that sends a flood of messages without reading is no longer read from. Its errors use no memory.
#[tokio::test]
async fn client_that_does_not_read_is_not_read_from() {
    let (client, mut transport) = connected(1 << 10);
    let Client { mut input, output } = client;
    let flood = tokio::spawn(async move {
        let mut sent = 0;
        while timeout(Duration::from_millis(300), input.write_all(b"{nonsense\n")).await.is_ok_and(|sent| sent.is_ok())
        {
            sent += 10;
        }
        sent
    });
    assert!(timeout(Duration::from_secs(2), transport.receive()).await.is_err());
    let sent = flood.await.unwrap();
    assert!(sent < 256 << 10, "{sent} bytes were taken");
    drop(output);
}

#[tokio::test]
async fn client_that_went_away_ends_the_connection() {
    let (mut client, mut transport) = connected(1 << 10);
    client.send(&call(1)).await;
    assert!(transport.receive().await.is_some());
    let Client { input: _input, output } = client;
    drop(output);
    assert!(transport.send(answer(1, &"x".repeat(1 << 20))).await.is_err());
    assert!(timeout(Duration::from_secs(60), transport.receive()).await.unwrap().is_none());
}

#[tokio::test]
async fn half_a_line_before_the_end_is_dropped() {
    let (mut client, mut transport) = connected(1 << 10);
    client.input.write_all(&call(1).as_bytes()[..20]).await.unwrap();
    drop(client);
    assert!(transport.receive().await.is_none());
}
