//! Gemini: `POST /v1beta/models/{model}:streamGenerateContent?alt=sse`.
//!
//! * `request` writes a completion as one request: [`request`],
//! * `answer` reads what comes: [`Gemini`],
//! * `error` puts what Google says of errors into the contract's failures.
//!
//! Three things are this API's own. Each event is a whole response, and none says that it is the last: an answer is whole
//! if it gave a reason to finish before its body ended. A signature may stand on any part and must come back on that same
//! part, so that a signed part is a block of its own. And calls may have no ids, so that some are made here.

mod answer;
mod error;
mod request;
#[cfg(test)]
mod tests;

pub use answer::Gemini;
pub use request::{Dialect, Thinking, request};

/// Ids of calls that were made here are this and a number; they are not for the API.
const MADE_ID: &str = "call_";

/// Whether the API knows a call by that id: it was not made here.
fn is_known(id: &str) -> bool {
    let number = id.strip_prefix(MADE_ID);
    !number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}
