//! Sends lines, only once for each key, and stops them.

use std::{sync::Arc, time::Duration};

use axum::http::StatusCode;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures_util::future::BoxFuture;
use patchbay_core::{Code, Digest, LineId, Outcome};
use patchbay_session::{LineClient, LineInput, NewAttachment, Seat, SentOnce};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    call::{ApiCall, ApiError, Reply, accepts_work},
    sessions::open,
};
use crate::state::ServeState;

const KEY: &str = "idempotency-key";
const KEY_BYTES: usize = 128;
/// Limit of the parameter `wait`, in seconds.
const WAIT: u64 = 600;

/// A line to send.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLine {
    /// A message, or a command that begins with '/'.
    text: String,
    /// Files to attach to the message or command.
    #[serde(default)]
    attachments: Vec<AttachedFile>,
}

/// A file that is sent with a line.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AttachedFile {
    /// The name of the file, such as `report.pdf`.
    name: String,
    /// The content of the file, in base64.
    data: String,
}

/// A line that was accepted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AcceptedLine {
    /// The line's id, as in the events named `line`.
    line: String,
    /// Number of the last row before the line, for `?after=` of the events; null for a repeated line.
    after: Option<u64>,
    /// Whether an earlier request with the same key already sent the line.
    is_repeated: bool,
    /// How the line ended; null if it did not end within `wait`.
    #[schemars(with = "Option<Value>")]
    outcome: Option<Outcome>,
}

/// What to stop: one line, or the turns of all agents.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopRequest {
    /// The id of the line to stop; without it, the turns of all agents are stopped.
    line: Option<String>,
}

/// The result of a request to stop.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    /// How many turns or lines were stopped.
    stopped: usize,
}

pub(super) async fn send(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let NewLine { text, attachments } = call.json()?;
    let wait = call.query::<u64>("wait")?.unwrap_or_default().min(WAIT);
    accepts_work(&state)?;
    let seat = open(&state, &call).await?;
    let attachments = attachments.into_iter().map(attachment).collect::<Result<_, _>>()?;
    // The client offers neither an editor nor a terminal.
    let client = LineClient { identity: Some(call.identity()), ..LineClient::default() };
    let input = LineInput { text, attachments, client: Some(Arc::new(client)), ..LineInput::default() };
    let key = key(&call)?;
    // A separate task finishes this even if the client disconnects. Otherwise, a key could remain without its line.
    let accepting = tokio::spawn(accept(call, seat, input, key)).await;
    let (mut accepted, ended) = accepting.map_err(|error| ApiError {
        message: error.to_string(),
        ..ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal)
    })??;
    // A repeated line may have ended already. Then its outcome is returned even without `wait`.
    if wait > 0 || accepted.is_repeated {
        accepted.outcome = tokio::time::timeout(Duration::from_secs(wait), ended).await.ok().flatten();
    }
    Reply::with(StatusCode::ACCEPTED, &accepted)
}

/// Submits a line, unless an earlier request with the same key did. Returns the outcome as a future.
async fn accept(
    call: ApiCall,
    seat: Seat,
    input: LineInput,
    key: Option<String>,
) -> Result<(AcceptedLine, BoxFuture<'static, Option<Outcome>>), ApiError> {
    let shared = Arc::clone(seat.shared());
    let session = shared.session();
    let (after, typed) = (session.last_seq(), input.text.clone());
    let submitted = match key {
        None => session.submit_input(input),
        Some(key) => {
            let request = Digest::of(&[&session.id().as_bytes()[..], &*call.body].concat());
            match shared.begin_once(&call.token.person, &key, request).await? {
                SentOnce::New(line) => line.submit(input),
                SentOnce::Repeated(line) => {
                    let repeated =
                        AcceptedLine { line: line.to_string(), after: None, is_repeated: true, outcome: None };
                    // The seat keeps the session open.
                    let ended = async move { seat.shared().ended(line).await.ok().flatten() };
                    return Ok((repeated, Box::pin(ended)));
                }
                SentOnce::Other => {
                    let message = "this Idempotency-Key was sent with another line; use a new key for each line.";
                    return Err(ApiError::conflict(Code::InvalidArgs, message));
                }
            }
        }
    };
    let line = submitted.id();
    // Only a command keeps its seat. A message may wait for hours, and a seat would keep its session open.
    let seat = typed.starts_with('/').then_some(seat);
    let ended = tokio::spawn(async move {
        let outcome = submitted.await;
        if let Some(seat) = seat {
            seat.tell_ended(&typed, &outcome);
        }
        outcome
    });
    let accepted = AcceptedLine { line: line.to_string(), after: Some(after), is_repeated: false, outcome: None };
    Ok((accepted, Box::pin(async move { ended.await.ok() })))
}

pub(super) async fn stop(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let StopRequest { line } = call.json()?;
    let seat = open(&state, &call).await?;
    let session = seat.shared().session();
    let stopped = match line {
        None => session.stop_all(),
        Some(line) => {
            let line: LineId = line.parse().map_err(|_| ApiError::NOT_FOUND)?;
            usize::from(session.stop(line))
        }
    };
    Reply::ok(&Stopped { stopped })
}

fn attachment(file: AttachedFile) -> Result<NewAttachment, ApiError> {
    let content = BASE64_STANDARD.decode(file.data).map_err(|_| {
        let name = patchbay_core::text::excerpt(&file.name, 80);
        ApiError::invalid(format!("the data of attachment '{name}' is not base64."))
    })?;
    Ok(NewAttachment::new(&file.name, content)?)
}

fn key(call: &ApiCall) -> Result<Option<String>, ApiError> {
    let Some(value) = call.headers.get(KEY) else { return Ok(None) };
    let is_visible =
        |value: &&str| (1..=KEY_BYTES).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic());
    let key = value.to_str().ok().filter(is_visible);
    let key = key.ok_or_else(|| ApiError::invalid("Idempotency-Key needs 1 to 128 visible ASCII characters."))?;
    Ok(Some(key.to_owned()))
}
