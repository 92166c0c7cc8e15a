//! Checks each request to the server on the loopback address, and passes it to the endpoint.

use std::{convert::Infallible, sync::Arc};

use http::{Request, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::{
    endpoint::{HttpReply, McpEndpoint, text},
    gate::{Gate, Refused},
    open_connections::OpenConnection,
};

/// Answers the requests of all connections.
pub(super) struct HttpFront {
    pub(super) gate: Gate,
    pub(super) endpoint: McpEndpoint,
}

impl HttpFront {
    /// Answers a request of `connection`.
    pub(super) async fn answer(&self, request: Request<Incoming>, connection: Arc<OpenConnection>) -> HttpReply {
        let (head, body) = request.into_parts();
        if let Err(refused) = self.gate.check(&head) {
            return refusal(refused);
        }
        let active = connection.begin().await;
        // The closure keeps the request active until the body is dropped.
        self.endpoint.answer(Request::from_parts(head, body)).await.map(|body| {
            let keep_active = move |error: Infallible| {
                let _ = &active;
                error
            };
            body.map_err(keep_active).boxed()
        })
    }
}

fn refusal(refused: Refused) -> HttpReply {
    let mut answer = text(refused.status(), "text/plain; charset=utf-8", refused.text().to_owned());
    answer.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    if refused == Refused::NoToken {
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    answer
}
