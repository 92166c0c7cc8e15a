//! Requests that the host sends to the client, such as for a permission.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{Outbox, RequestId, RpcError, message::result_of};

/// A handle for sending requests to the client.
#[derive(Clone)]
pub struct Client {
    outbox: Outbox,
    open: Arc<OpenAnswers>,
}

/// The requests that have no response yet. A response is passed on as the line that was received.
#[derive(Default)]
struct OpenAnswers {
    last: AtomicI64,
    waiting: Mutex<HashMap<i64, oneshot::Sender<Vec<u8>>>>,
}

/// A request that was sent. Dropping it before the response arrives cancels the request.
struct SentRequest<'a> {
    client: &'a Client,
    id: i64,
}

impl Client {
    /// Returns a handle for the client that reads `outbox`.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox, open: Arc::default() }
    }

    /// Sends a request and waits for its result. If the future is dropped, the request is withdrawn (`$/cancel_request`).
    ///
    /// # Errors
    /// The client's error, an invalid result, or a client that has disconnected.
    pub async fn request<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, RpcError> {
        let id = self.open.last.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.open.waiting.lock().insert(id, sender);
        let _sent = SentRequest { client: self, id };
        self.outbox.request(id, method, params).await.map_err(|_| RpcError::peer_left())?;
        let line = tokio::select! {
            line = answer => line.map_err(|_| RpcError::peer_left())?,
            () = self.outbox.closed() => return Err(RpcError::peer_left()),
        };
        result_of(&line)
    }

    /// Delivers a response from the client. Ignores responses to requests that were withdrawn or are already answered.
    pub fn answered(&self, id: &RequestId, line: Vec<u8>) {
        let RequestId::Number(id) = id else { return };
        match self.open.waiting.lock().remove(id) {
            // An error means that the request has just been withdrawn.
            Some(waiting) => drop(waiting.send(line)),
            None => tracing::debug!("ignoring a response to an unknown request"),
        }
    }

    /// Fails all open requests, because the client has disconnected.
    pub fn end(&self) {
        self.open.waiting.lock().clear();
    }
}

impl Drop for SentRequest<'_> {
    fn drop(&mut self) {
        if self.client.open.waiting.lock().remove(&self.id).is_none() {
            return;
        }
        let (id, outbox) = (self.id, self.client.outbox.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { outbox.notify("$/cancel_request", &json!({ "requestId": id })).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use super::*;

    #[tokio::test]
    async fn request_gets_its_answer_and_no_other() {
        let (read, written) = tokio::io::duplex(1 << 16);
        let (outbox, writing) = Outbox::new(written);
        tokio::spawn(writing);
        let client = Client::new(outbox);
        let mut lines = BufReader::new(read).lines();
        let params = json!({"a": 1});
        let (first, second) = (client.request::<u8>("x", &params), client.request::<u8>("x", &params));
        let answers = async {
            for _ in 0..2 {
                lines.next_line().await.unwrap();
            }
            client.answered(&RequestId::Number(7), br#"{"result":9}"#.to_vec());
            client.answered(&RequestId::Number(1), br#"{"result":2}"#.to_vec());
            client.answered(&RequestId::Number(0), br#"{"error":{"code":-1,"message":"no"}}"#.to_vec());
            client.answered(&RequestId::Number(1), br#"{"result":3}"#.to_vec());
        };
        let (first, second, ()) = tokio::join!(first, second, answers);
        assert_eq!((first.unwrap_err().code, second), (-1, Ok(2)));
        // A request that is dropped is withdrawn.
        let dropped = tokio::time::timeout(Duration::from_millis(50), client.request::<u8>("y", &params)).await;
        assert!(dropped.is_err());
        assert_eq!(
            lines.next_line().await.unwrap().unwrap(),
            r#"{"id":2,"jsonrpc":"2.0","method":"y","params":{"a":1}}"#
        );
        let expected = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#;
        assert_eq!(lines.next_line().await.unwrap().unwrap(), expected);
        assert!(client.open.waiting.lock().is_empty());
    }
}
