//! Waits for events and outcomes of a session in the test's own process, and reads the session's rows.

use patchbay_core::{EventKind, MessageKind, Outcome};
use patchbay_session::{Received, Session, Submitted, Subscription};
use tokio::time::timeout;

use crate::PATIENCE;

/// Waits for the outcome of a line.
pub async fn wait_for_end(line: Submitted) -> Outcome {
    timeout(PATIENCE, line).await.expect("the line ends")
}

/// Waits for the next event that `wanted` accepts.
pub async fn wait_for_event(events: &mut Subscription, wanted: impl Fn(&EventKind) -> bool) -> EventKind {
    let waiting = async {
        loop {
            match events.next().await.expect("the store can be read") {
                Some(Received::Event(event)) if wanted(&event.kind) => return event.kind,
                Some(_) => {}
                None => panic!("the session ended first"),
            }
        }
    };
    timeout(PATIENCE, waiting).await.expect("the event comes")
}

/// Waits for the first chunk of an answer.
pub async fn wait_for_answer_start(events: &mut Subscription) {
    wait_for_event(events, |kind| matches!(kind, EventKind::Delta { .. })).await;
}

/// Returns the texts of all stored messages of `kind`.
pub async fn stored_texts(session: &Session, kind: MessageKind) -> Vec<String> {
    let mut events = session.subscribe(1);
    let mut rows = Vec::new();
    while let Some(received) = events.try_next().await.expect("the store can be read") {
        if let Received::Event(event) = received
            && let EventKind::Message { kind: of, content, .. } = event.kind
            && of == kind
        {
            rows.push(content);
        }
    }
    rows
}
