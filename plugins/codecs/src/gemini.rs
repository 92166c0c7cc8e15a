//! The codec of Gemini, `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`.
//!
//! * `request` converts a completion into a request: [`request`],
//! * `answer` converts the events of the response: [`Gemini`],
//! * `error` converts Google's errors to failures of the contract.
//!
//! Three properties of this API:
//!
//! * Each event is a whole response, and none is marked as the last. An answer is complete if it had a finish reason
//!   before its body ended.
//! * Any part may have a signature, which must be sent back with the same part. So a signed part is a block of its own.
//! * Calls may have no id; then this codec creates one.

mod answer;
mod error;
mod request;
#[cfg(test)]
mod tests;

pub use answer::Gemini;
pub use error::refused;
pub use request::{Dialect, Thinking, request};

/// Prefix of the ids that this codec creates. They are not sent to the API.
const MADE_ID: &str = "call_";

/// Returns true if the id came from the API, not from this codec.
fn is_known(id: &str) -> bool {
    let number = id.strip_prefix(MADE_ID);
    !number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
