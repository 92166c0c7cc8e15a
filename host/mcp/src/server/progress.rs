//! Sends the partial output of a tool as progress notifications to clients that requested them.

use std::{sync::Arc, time::Duration};

use patchbay_sandbox::ProgressSink;
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

/// How many pieces of progress can wait to be sent. More are dropped, because a client that reads slowly must not slow down the
/// tool.
const WAITING: usize = 64;
/// How long to wait until the remaining pieces of a finished call are sent.
const LAST_PIECES: Duration = Duration::from_secs(2);

/// Sends the partial output of one call, until this is dropped.
pub(super) struct ProgressNotifications(Option<JoinHandle<()>>);

/// Receives the partial output of a call.
struct PieceSink(Option<mpsc::Sender<String>>);

impl ProgressSink for PieceSink {
    fn report(&self, text: &str) {
        if let Some(pieces) = &self.0 {
            let _ = pieces.try_send(text.to_owned());
        }
    }
}

/// Returns a sink for the partial output of a call, and the task that sends it to `peer`. Without a token, nothing is sent.
pub(super) fn notifications(
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
) -> (Arc<dyn ProgressSink>, ProgressNotifications) {
    let Some(token) = token else { return (Arc::new(PieceSink(None)), ProgressNotifications(None)) };
    let (sender, mut pieces) = mpsc::channel::<String>(WAITING);
    let peer = peer.clone();
    let sending = tokio::spawn(async move {
        let mut sent = 0.0;
        while let Some(piece) = pieces.recv().await {
            sent += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), sent).with_message(piece);
            if peer.notify_progress(progress).await.is_err() {
                return;
            }
        }
    });
    (Arc::new(PieceSink(Some(sender))), ProgressNotifications(Some(sending)))
}

impl ProgressNotifications {
    /// Waits until the remaining pieces are sent, because none may follow the result. The call has ended, and its sink is dropped.
    pub(super) async fn finish(mut self) {
        if let Some(sending) = &mut self.0 {
            let _ = timeout(LAST_PIECES, sending).await;
        }
    }
}

impl Drop for ProgressNotifications {
    fn drop(&mut self) {
        if let Some(sending) = &self.0 {
            sending.abort();
        }
    }
}
