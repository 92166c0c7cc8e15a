//! A WebSocket as a connection of the Agent Client Protocol: each text frame is a message, which is a line for `acp`.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use futures_util::{SinkExt as _, Stream, StreamExt as _, stream::SplitSink};
use parking_lot::Mutex;
use patchbay_acp::{AcpOptions, RemoteClient};
use patchbay_jsonrpc::{BoundedLines, ReadLine};
use patchbay_session::ClientIdentity;
use patchbay_store::ClientToken;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{receiving::ReceivingBytes, state::ServeState};

/// Length limit of a message, in bytes, and of a frame, because clients send a message as one frame.
const MESSAGE_BYTES: usize = 64 << 20;
/// Bytes of a client's ping or pong before its content: two bytes and the mask.
const CONTROL_HEAD: usize = 6;
/// How long a disconnected client may take to read the reason.
const CLOSING: Duration = Duration::from_secs(2);
/// Bytes that are read or written at once.
const BUFFER_BYTES: usize = 16 << 10;

/// Why a connection ends. RFC 6455, section 7.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketEnd {
    /// The client has left, or has sent nothing for too long.
    Left,
    /// The client sent a binary frame.
    Binary,
    /// The client sent a message over the limit.
    TooLong,
    /// The client does not speak the protocol.
    Broken,
    /// The token was removed, or has expired.
    Token,
    /// The server is shutting down; the client can connect again.
    Restart,
    /// The waiting bytes of all clients exceed the limit. Among the connections of the token with the most bytes, this one has
    /// the most.
    Unread,
}

impl SocketEnd {
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Left => (1000, ""),
            Self::Broken => (1002, "invalid WebSocket frames"),
            Self::Binary => (1003, "send messages as text frames"),
            Self::Token => (1008, "the token was removed or has expired"),
            Self::TooLong => (1009, "a message is over 64 MiB"),
            Self::Restart => (1012, "the server restarts; connect again"),
            Self::Unread => (1013, "the server's buffers are full, mostly with data of this connection; connect again"),
        };
        CloseFrame { code, reason: reason.into() }
    }
}

/// Sets the limits of a WebSocket.
pub(crate) fn configured(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(MESSAGE_BYTES)
        .max_frame_size(MESSAGE_BYTES)
}

/// Serves one client until it leaves or the server ends.
pub(crate) async fn serve(socket: WebSocket, state: &ServeState, token: &ClientToken, receiving: &ReceivingBytes) {
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let (sent, mut received) = tokio::io::split(near);
    let (input, output) = tokio::io::split(far);
    let (mut sink, stream) = socket.split();
    let bytes = state.unread.connect(token.digest);
    receiving.begin(Arc::clone(&bytes));
    let (over, ended) = (CancellationToken::new(), Mutex::new(SocketEnd::Restart));
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let (ping, gone) = (seconds(state.settings.ping_seconds), seconds(state.settings.gone_seconds));
    let removed = state.tokens.watch(token.digest);
    let identity = ClientIdentity { name: token.name.as_str().into(), may: token.may };
    let (sessions, workspaces) = (Arc::clone(&state.sessions), Arc::clone(&state.workspaces));
    let (draining, counted) = (state.draining.clone(), Arc::clone(&bytes));
    let remote = Some(RemoteClient { sessions, identity, workspaces, draining, bytes: counted });
    let stopped = state.stopped.child_token();
    let options = AcpOptions { version: &state.version, stopped: stopped.clone(), remote };
    let host = Arc::clone(state.sessions.host());
    tracing::debug!(token = token.name.as_str(), "a client has connected");
    let serving = async {
        if let Err(error) = patchbay_acp::serve(host, input, output, options).await {
            tracing::debug!("cannot read a client's messages: {error}");
        }
        over.cancel();
    };
    let reading = async {
        if let Some(why) = over.run_until_cancelled(receive(stream, gone, receiving, &mut received)).await {
            *ended.lock() = why;
        }
        // An error means that `acp` has ended.
        let _ = received.shutdown().await;
    };
    let sending = async {
        let has_too_many = tokio::select! {
            biased;
            () = bytes.ended().cancelled() => true,
            // An error means that the client has left.
            _ = send(&mut sink, ping, sent, &ended) => false,
        };
        if has_too_many {
            tracing::warn!(
                token = token.name.as_str(),
                "disconnecting a client: the server's buffers are full, mostly with its data"
            );
            let close = Message::Close(Some(SocketEnd::Unread.frame()));
            let _ = timeout(CLOSING, sink.send(close)).await;
            stopped.cancel();
        }
        over.cancel();
    };
    let removing = async {
        let _ = over.run_until_cancelled(removed.cancelled()).await;
        if removed.is_cancelled() {
            *ended.lock() = SocketEnd::Token;
            stopped.cancel();
        }
    };
    tokio::join!(serving, reading, sending, removing);
}

/// Passes the messages of the client on, until it leaves.
async fn receive(
    mut stream: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
    gone: Duration,
    receiving: &ReceivingBytes,
    lines: &mut (impl AsyncWrite + Unpin),
) -> SocketEnd {
    loop {
        let message = timeout(gone, stream.next()).await;
        let text = match message {
            Ok(Some(Ok(Message::Text(text)))) => text,
            Ok(Some(Ok(Message::Ping(content) | Message::Pong(content)))) => {
                // A ping or pong can come between two fragments of a message, whose bytes still count.
                receiving.forget(CONTROL_HEAD + content.len());
                continue;
            }
            Ok(Some(Ok(Message::Binary(_)))) => return SocketEnd::Binary,
            Ok(Some(Ok(Message::Close(_))) | None) | Err(_) => return SocketEnd::Left,
            Ok(Some(Err(error))) => return why(error),
        };
        // The bytes count here until the message is a line of `acp`, which then counts them itself.
        let _handled = receiving.take();
        // In JSON, line breaks can only be between tokens.
        let line = text.as_str().replace(['\n', '\r'], " ") + "\n";
        drop(text);
        if lines.write_all(line.as_bytes()).await.is_err() {
            return SocketEnd::Left;
        }
    }
}

fn why(error: axum::Error) -> SocketEnd {
    match error.into_inner().downcast_ref() {
        Some(tungstenite::Error::Capacity(_)) => SocketEnd::TooLong,
        Some(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_)) => SocketEnd::Broken,
        _ => SocketEnd::Left,
    }
}

/// Sends the lines of `acp` and pings, and finally the reason why the connection ends.
async fn send(
    sink: &mut SplitSink<WebSocket, Message>,
    ping: Duration,
    lines: impl AsyncRead + Unpin,
    ended: &Mutex<SocketEnd>,
) -> Result<(), axum::Error> {
    let mut lines = BoundedLines::new(lines, MESSAGE_BYTES);
    let mut pings = interval_at(Instant::now() + ping, ping);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = pings.tick() => {
                sink.send(Message::Ping(Default::default())).await?;
                continue;
            }
        };
        match line {
            Ok(ReadLine::Line(line)) => {
                // `acp` writes JSON, which is UTF-8.
                let Ok(text) = String::from_utf8(line) else { continue };
                sink.send(Message::Text(text.into())).await?;
            }
            Ok(ReadLine::TooLong) => tracing::error!("a message over {MESSAGE_BYTES} bytes was not sent"),
            Ok(ReadLine::End) | Err(_) => break,
        }
    }
    let frame = ended.lock().frame();
    sink.send(Message::Close(Some(frame))).await
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use patchbay_core::Digest;
    use patchbay_jsonrpc::TotalBytes;

    use super::*;

    /// A ping between two fragments does not reset the count of their message.
    #[tokio::test]
    async fn half_message_counts_until_it_is_whole() {
        let all = TotalBytes::new(100);
        let connection = all.connect(Digest::of(b"token"));
        let receiving = ReceivingBytes::default();
        receiving.begin(Arc::clone(&connection));
        let pass = async |message: Message| {
            let mut lines = Vec::new();
            let messages = stream::iter([Ok(message)]);
            assert_eq!(receive(messages, Duration::MAX, &receiving, &mut lines).await, SocketEnd::Left);
            lines
        };
        for _ in 0..3 {
            receiving.add(30 + CONTROL_HEAD + 2);
            assert!(pass(Message::Ping("hi".into())).await.is_empty());
        }
        assert!(!connection.ended().is_cancelled(), "only the fragments count");
        assert_eq!(pass(Message::Text("whole".into())).await, b"whole\n");
        receiving.add(100);
        assert!(!connection.ended().is_cancelled(), "a whole message counts no more");
        pass(Message::Pong(Default::default())).await;
        receiving.add(CONTROL_HEAD + 1);
        assert!(connection.ended().is_cancelled());
    }
}
