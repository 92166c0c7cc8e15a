//! Connects an editor that starts programs to sessions on another machine. Both sides speak the Agent Client Protocol: the editor
//! over standard input and output, the server over a WebSocket. `patchbay acp --connect` calls [`run`].
//!
//! - `paths`: translates paths between the editor's folder and the server's.
//! - `link`: state that outlives a connection, and the translation of each message; `open`: open sessions and unanswered
//!   requests.
//! - `server`: one connection.

mod link;
mod open;
mod paths;
mod server;

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _, stream::SplitSink};
use patchbay_jsonrpc::{BoundedLines, Outbox, ReadLine};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{Instant, interval_at, sleep, sleep_until},
};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

pub use server::RemoteServer;

use link::{Link, Passed};
use server::{MESSAGE_BYTES, NoConnection, Socket};

/// How long the bridge tries to reconnect.
const RECONNECTING: Duration = Duration::from_secs(5 * 60);
/// The pauses between attempts to reconnect: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];
/// The interval between two pings to the server, which answers them even if its own `ping_seconds` is long.
const PINGS: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 30_000 });
/// How long the server may send nothing, not even a pong, before the connection counts as lost.
const SILENT: Duration = Duration::from_secs(90);
/// How long an editor that has closed its end may take to read the remaining responses.
const FLUSHING: Duration = Duration::from_secs(2);
/// Maximum number of messages that wait to be sent to the server.
const REPLIES: usize = 64;

/// Why the bridge ended.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The URL cannot be used.
    #[error("cannot connect to '{url}': {why}.")]
    Url {
        /// The URL, shortened.
        url: String,
        /// The problem with it.
        why: &'static str,
    },
    /// The token contains characters that a header cannot contain.
    #[error(
        "the token contains a newline or other invalid characters. To create a token, on the server: patchbay token \
         add NAME"
    )]
    TokenForm,
    /// The server does not know the token, or it has expired.
    #[error(
        "the server refuses the token: it is unknown, was removed, or has expired. On the server: patchbay token add NAME"
    )]
    TokenRefused,
    /// The server refuses the connection for another reason.
    #[error(
        "the server refuses the connection (HTTP status {0}); check the URL, and 'hosts' in [serve] of the server's config.toml."
    )]
    Refused(u16),
    /// The server's certificate is not trusted, or this machine has no root certificates to check it with.
    #[error("cannot establish a secure connection: {0}.")]
    Tls(String),
    /// The server cannot be reached.
    #[error("cannot reach {url}: {why}.")]
    Unreachable {
        /// The URL of the server.
        url: String,
        /// The last error.
        why: String,
    },
    /// The server has no workspace of this name.
    #[error("the server has no workspace '{name}' (it has {known}). Use one of them, or a path below one.")]
    Workspace {
        /// The name that was given.
        name: String,
        /// The names of the server's workspaces.
        known: String,
    },
    /// The server sent something that is not a message.
    #[error("the server does not speak the Agent Client Protocol.")]
    Protocol,
    /// The editor's messages cannot be read.
    #[error("cannot read standard input: {0}.")]
    Input(#[from] std::io::Error),
}

/// Why a connection ended.
enum LinkEnd {
    /// The editor has closed its end.
    Editor,
    /// The connection was lost, or the server is restarting.
    Lost(String),
    Failed(BridgeError),
}

/// Connects an editor to a server's workspace until the editor closes its end or `stopped` is cancelled. `workspace` is a path on
/// the server, or the name of a workspace. `own_folder` is the editor's folder until a request names one.
///
/// # Errors
/// The server refuses the connection, or cannot be reached. The first attempt must succeed; a lost connection is retried for five
/// minutes.
pub async fn run<R, W>(
    server: RemoteServer,
    workspace: String,
    own_folder: String,
    (input, output): (R, W),
    stopped: CancellationToken,
) -> Result<(), BridgeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (editor, writing) = Outbox::new(output);
    let writing = tokio::spawn(writing);
    let mut link = Link::new(editor.clone(), workspace, own_folder);
    let mut lines = BoundedLines::new(input, MESSAGE_BYTES);
    let ended = tokio::select! {
        biased;
        () = stopped.cancelled() => Ok(()),
        () = editor.closed() => Ok(()),
        ended = serve(&server, &mut link, &mut lines) => ended,
    };
    if let Err(error) = &ended {
        link.give_up(&error.to_string()).await;
    }
    drop((link, editor));
    let _ = tokio::time::timeout(FLUSHING, writing).await;
    ended
}

async fn serve<R: AsyncRead + Unpin>(
    server: &RemoteServer,
    link: &mut Link,
    lines: &mut BoundedLines<R>,
) -> Result<(), BridgeError> {
    let mut socket = match server.connect().await {
        Ok(socket) => socket,
        Err(NoConnection::Never(error)) => return Err(error),
        Err(NoConnection::Later(why)) => return Err(BridgeError::Unreachable { url: server.url().to_owned(), why }),
    };
    loop {
        match exchange(socket, link, lines).await {
            LinkEnd::Editor => return Ok(()),
            LinkEnd::Failed(error) => return Err(error),
            LinkEnd::Lost(why) => tracing::warn!("the connection to {} was lost: {why}", server.url()),
        }
        link.disconnected().await;
        match reconnect(server, link, lines).await? {
            Some(again) => socket = again,
            None => return Ok(()),
        }
    }
}

/// Passes messages both ways until the connection ends.
async fn exchange<R: AsyncRead + Unpin>(socket: Socket, link: &mut Link, lines: &mut BoundedLines<R>) -> LinkEnd {
    let (sink, mut stream) = socket.split();
    // Sending is a separate future, so neither direction waits for the other when both peers send a lot.
    let (to_server, outgoing) = mpsc::channel::<String>(REPLIES);
    let sending = send(sink, outgoing);
    let passing = async {
        if !queue(&to_server, link.reconnected()).await {
            return LinkEnd::Lost("sending failed".to_owned());
        }
        let mut silent = Instant::now() + SILENT;
        // Space is reserved before a line is read: the editor waits if the server has stopped reading.
        let mut next_line = async || {
            let room = to_server.reserve().await;
            (room, lines.next().await)
        };
        loop {
            tokio::select! {
                biased;
                message = stream.next() => {
                    silent = Instant::now() + SILENT;
                    let line = match message {
                        Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
                        Some(Ok(Message::Close(_))) | None => return LinkEnd::Lost("the server closed it".to_owned()),
                        Some(Ok(_)) => continue,
                        Some(Err(error)) => return LinkEnd::Lost(error.to_string()),
                    };
                    match link.receive_from_server(line).await {
                        Passed::Done => {}
                        Passed::Reply(reply) => {
                            // Do not wait for a server that sends requests but reads no responses.
                            if to_server.try_send(reply).is_err() {
                                return LinkEnd::Lost("the server stopped reading".to_owned());
                            }
                        }
                        Passed::Reopened(lines) => {
                            if !queue(&to_server, lines).await {
                                return LinkEnd::Lost("sending failed".to_owned());
                            }
                        }
                        Passed::End(error) => return LinkEnd::Failed(error),
                    }
                }
                () = sleep_until(silent) => return LinkEnd::Lost(format!("nothing was received for {} s", SILENT.as_secs())),
                // Checked before the editor's next line is read, because that line would be lost.
                () = to_server.closed() => return LinkEnd::Lost("sending failed".to_owned()),
                (room, line) = next_line() => {
                    let Ok(room) = room else { return LinkEnd::Lost("sending failed".to_owned()) };
                    match line {
                        Ok(ReadLine::Line(line)) => {
                            if let Some(line) = link.receive_from_editor(line).await {
                                room.send(line);
                            }
                        }
                        Ok(ReadLine::TooLong) => link.refuse_long().await,
                        Ok(ReadLine::End) => return LinkEnd::Editor,
                        Err(error) => return LinkEnd::Failed(error.into()),
                    }
                }
            }
        }
    };
    let (mut passing, mut sending) = (std::pin::pin!(passing), std::pin::pin!(sending));
    tokio::select! {
        ended = &mut passing => ended,
        lost = &mut sending => {
            // The channel has closed, which ends `passing`, too. It finishes its message first, because that message's position
            // is already noted.
            passing.await;
            lost
        }
    }
}

/// Sends the queued messages, and pings, until the queue is closed or sending fails.
async fn send(mut sink: SplitSink<Socket, Message>, mut outgoing: mpsc::Receiver<String>) -> LinkEnd {
    let mut pings = interval_at(Instant::now() + PINGS, PINGS);
    loop {
        let message = tokio::select! {
            line = outgoing.recv() => match line {
                Some(line) => Message::Text(line.into()),
                None => return LinkEnd::Editor,
            },
            _ = pings.tick() => Message::Ping(Default::default()),
        };
        if let Err(error) = sink.send(message).await {
            return LinkEnd::Lost(error.to_string());
        }
    }
}

/// Queues lines for the server. Returns false if sending has ended.
async fn queue(to_server: &mpsc::Sender<String>, lines: Vec<String>) -> bool {
    for line in lines {
        if to_server.send(line).await.is_err() {
            return false;
        }
    }
    true
}

/// Tries to reconnect. Meanwhile the editor's messages wait. Returns `None` if the editor has closed its end.
async fn reconnect<R: AsyncRead + Unpin>(
    server: &RemoteServer,
    link: &mut Link,
    lines: &mut BoundedLines<R>,
) -> Result<Option<Socket>, BridgeError> {
    let until = Instant::now() + RECONNECTING;
    let connecting = async {
        let [mut pause, longest] = PAUSES;
        loop {
            sleep(pause).await;
            pause = longest.min(pause * 2);
            match server.connect().await {
                Ok(socket) => return Ok(Some(socket)),
                Err(NoConnection::Never(error)) => return Err(error),
                Err(NoConnection::Later(why)) if Instant::now() >= until => {
                    let why = format!("{why}, for {} minutes", RECONNECTING.as_secs() / 60);
                    return Err(BridgeError::Unreachable { url: server.url().to_owned(), why });
                }
                Err(NoConnection::Later(why)) => tracing::debug!("no connection to {}: {why}", server.url()),
            }
        }
    };
    let mut connecting = std::pin::pin!(connecting);
    loop {
        tokio::select! {
            biased;
            connected = &mut connecting => return connected,
            line = lines.next() => match line? {
                // Without a connection, `link` keeps the line.
                ReadLine::Line(line) => drop(link.receive_from_editor(line).await),
                ReadLine::TooLong => link.refuse_long().await,
                ReadLine::End => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
