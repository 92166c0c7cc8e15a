use std::time::Duration;

use patchbay_core::completion::{FailureKind, Finish, StreamEvent};

use crate::Auth;

/// What an adapter wants done. Texts are cleaned, sizes bounded; nothing else is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request; the answer of an earlier one is dropped.
    Send(AdapterRequest),
    /// Wait, then go on with [`Input::Timer`].
    Wait(Duration),
    /// Tell whoever asked.
    Emit(StreamEvent),
    /// The completion is done.
    Finish(Finish),
    /// The completion has failed.
    Fail(AdapterFailure),
}

/// A request that an adapter wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterRequest {
    /// The method.
    pub method: String,
    /// To be joined to the operator's base URL.
    pub path_and_query: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Which credential goes where; [`Auth::credential`] is the id of the adapter's manifest.
    pub auth: Vec<Auth>,
    /// The body, in order.
    pub body: Vec<BodyPiece>,
}

/// A piece of a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// The bytes of [`Running::blob`](super::Running::blob) of this id, in base64.
    BlobBase64(u32),
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The head of an answer.
    Head {
        /// The status.
        status: u16,
        /// Names, in lower case, and values.
        headers: Vec<(String, String)>,
    },
    /// More of its body.
    Chunk(Vec<u8>),
    /// Its body is whole.
    End,
    /// There is no answer, or no more of it.
    TransportFailed {
        /// How it failed.
        kind: TransportKind,
        /// For a person, without a secret.
        message: String,
    },
    /// The wait is over.
    Timer,
}

/// How a connection failed. [`TransportKind::as_str`] is the word of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// There was no connection.
    Connect,
    /// A limit of time ran out.
    Timeout,
    /// The connection ended before the answer was complete.
    Reset,
    /// The answer is over a limit of size.
    TooLarge,
    /// The answer cannot be read.
    Failed,
}

impl TransportKind {
    /// Returns the word that the contract of adapters has for it.
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

/// How an adapter sees a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFailure {
    /// What kind it is.
    pub kind: FailureKind,
    /// What the provider said, cleaned.
    pub message: String,
    /// The status, where there was an answer.
    pub http_status: Option<u16>,
    /// The provider's own code.
    pub code: Option<String>,
    /// Whether to try again.
    pub retry: RetryHint,
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryHint {
    /// It would fail again.
    Never,
    /// After a while.
    Backoff,
    /// After as long as the provider says.
    After(Duration),
}
