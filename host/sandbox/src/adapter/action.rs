//! The actions that an adapter returns, and the inputs with which the caller resumes it.

use std::time::Duration;

use patchbay_core::completion::{FailureKind, Finish, StreamEvent};

use crate::Auth;

/// An action that an adapter requests during a completion, or during a listing if the type parameters are set. Texts are cleaned
/// and sizes limited; nothing else is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<E = StreamEvent, F = Finish> {
    /// Send a request; the response of an earlier one is dropped.
    Send(AdapterRequest),
    /// Wait, then resume with [`Input::Timer`].
    Wait(Duration),
    /// Forward an event to the caller.
    Emit(E),
    /// The completion or listing is done.
    Finish(F),
    /// The adapter reports that it has failed.
    Fail(AdapterFailure),
}

/// A request that an adapter asks the host to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterRequest {
    /// The HTTP method, such as `GET`.
    pub method: String,
    /// Path and query, joined to the operator's base URL.
    pub path_and_query: String,
    /// Pairs of header names and values.
    pub headers: Vec<(String, String)>,
    /// The credentials and their placement; [`Auth::credential`] is an id from the adapter's manifest.
    pub auth: Vec<Auth>,
    /// The pieces of the body, in order.
    pub body: Vec<BodyPiece>,
}

/// A piece of a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Bytes that are sent unchanged.
    Bytes(Vec<u8>),
    /// The bytes of the [`Running::blob`](super::Running::blob) with this id, in base64.
    BlobBase64(u32),
}

/// The result of an action, with which the adapter is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The status and headers of a response.
    Head {
        /// The status code of the response.
        status: u16,
        /// Names, in lower case, and values.
        headers: Vec<(String, String)>,
    },
    /// The next chunk of the body.
    Chunk(Vec<u8>),
    /// The body of the response has ended.
    End,
    /// The request or its response failed.
    TransportFailed {
        /// The kind of failure of the connection.
        kind: TransportKind,
        /// A message for the user, without secrets.
        message: String,
    },
    /// The requested wait is over.
    Timer,
}

/// How a connection failed. [`TransportKind::as_str`] returns its name in the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// The connection could not be opened.
    Connect,
    /// A time limit was exceeded.
    Timeout,
    /// The connection ended before the response was complete.
    Reset,
    /// The response exceeds a size limit.
    TooLarge,
    /// The response cannot be read.
    Failed,
}

impl TransportKind {
    /// Returns the name that the adapter contract uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::TooLarge => "too-large",
            Self::Failed => "failed",
        }
    }
}

/// A failure as reported by the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFailure {
    /// The kind that the adapter reports.
    pub kind: FailureKind,
    /// The provider's message, cleaned.
    pub message: String,
    /// The HTTP status, if there was a response.
    pub http_status: Option<u16>,
    /// The provider's own error code, if it sent one.
    pub code: Option<String>,
    /// Whether and when a retry may help.
    pub retry: RetryHint,
}

/// Whether to retry a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryHint {
    /// The same request would fail again.
    Never,
    /// After a delay chosen by the host.
    Backoff,
    /// After the delay that the provider requests.
    After(Duration),
}
