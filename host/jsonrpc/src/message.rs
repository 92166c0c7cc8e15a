//! One message of JSON-RPC 2.0. Only the envelope is parsed here, without building values for its contents. `params_of`
//! and `result_of` then read the fields that a method uses. A hostile line therefore costs no more memory than its own
//! length.

use std::{borrow::Cow, fmt};

use patchbay_core::{Code, text};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny, Visitor},
};
use serde_json::{Value, json};

/// Length limit in bytes of a method name, and of an id that is a string. Both are kept, and ids are sent back.
const WORD_BYTES: usize = 256;
/// Length limit of the message of a peer's error, in characters.
const ERROR_CHARS: usize = 500;

/// The id of a request, which its response repeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// An id that is a whole number.
    Number(i64),
    /// A string of at most 256 bytes.
    Text(String),
    /// The id in the error response to a message whose own id could not be read.
    Null,
}

/// Reads an id. If something else is in its place, this fails without building a value of it.
impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Id;
        impl Visitor<'_> for Id {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, a string or null")
            }

            fn visit_i64<E>(self, id: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(id))
            }

            fn visit_u64<E: serde::de::Error>(self, id: u64) -> Result<RequestId, E> {
                i64::try_from(id).map(RequestId::Number).map_err(E::custom)
            }

            fn visit_str<E>(self, id: &str) -> Result<RequestId, E> {
                Ok(RequestId::Text(id.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<RequestId, E> {
                Ok(RequestId::Null)
            }
        }
        deserializer.deserialize_any(Id)
    }
}

/// A message that the peer has sent.
#[derive(Debug)]
pub enum Incoming {
    /// A request, which needs a response.
    Request {
        /// The id, which the response repeats.
        id: RequestId,
        /// The name of the method to call.
        method: String,
    },
    /// A message that needs no response.
    Notification {
        /// The name of the notification's method.
        method: String,
    },
    /// A response to a request that the host sent.
    Response {
        /// The id of the request that it responds to.
        id: RequestId,
    },
    /// A line that cannot be understood, with the error to return.
    Invalid {
        /// The id to respond to; [`RequestId::Null`] if the message has no usable id.
        id: RequestId,
        /// The error to respond with.
        error: RpcError,
    },
}

/// The error object of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    /// An error code of JSON-RPC, of the protocol on top of it, or of the application.
    pub code: i32,
    /// The problem, and how to fix it.
    pub message: String,
    /// Further data about the error, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl RpcError {
    /// Creates an error with this code.
    pub fn new(code: i32, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), data: None }
    }

    /// The response to a line that is not JSON.
    pub fn parse_error(message: impl fmt::Display) -> Self {
        Self::new(-32700, message)
    }

    /// The response to JSON that is not a message, or to an unexpected message.
    pub fn invalid_request(message: impl fmt::Display) -> Self {
        Self::new(-32600, message)
    }

    /// The response to a request for an unknown method.
    pub fn unknown_method(method: &str) -> Self {
        Self::new(-32601, format_args!("unknown method '{}'.", text::excerpt(method, 80)))
    }

    /// The error for parameters or a result of the wrong form.
    pub fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(-32602, message)
    }

    /// An error of the host, with its stable code in `data.code`.
    pub fn of_host(code: Code, message: impl fmt::Display) -> Self {
        Self { data: Some(json!({ "code": code })), ..Self::new(-32603, message) }
    }

    /// The error of a request when the peer disconnected before it responded.
    pub(crate) fn peer_left() -> Self {
        Self { data: Some(json!({ "code": Code::ClientGone })), ..Self::new(-32600, "the client has disconnected.") }
    }

    /// Returns whether the peer disconnected before it responded. A peer cannot forge this error, because `data` of
    /// received errors is dropped.
    pub fn is_peer_left(&self) -> bool {
        *self == Self::peer_left()
    }

    /// The response to a request that was cancelled.
    pub fn cancelled() -> Self {
        Self::new(-32800, "the request was cancelled.")
    }
}

/// The members that distinguish kinds of messages. All other members are skipped.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    /// The id to answer, or `None` for a message without one.
    #[serde(default, deserialize_with = "some_id")]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "is_there")]
    result: bool,
    #[serde(default, deserialize_with = "is_there")]
    error: bool,
}

fn some_id<'de, D: Deserializer<'de>>(id: D) -> Result<Option<RequestId>, D::Error> {
    RequestId::deserialize(id).map(Some)
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|IgnoredAny| true)
}

impl Incoming {
    /// Reads the envelope of a line.
    pub fn parse(line: &[u8]) -> Self {
        let nameless = |error| Self::Invalid { id: RequestId::Null, error };
        if serde_json::from_slice::<IgnoredAny>(line).is_err() {
            return nameless(RpcError::parse_error("this line is not valid JSON."));
        }
        let Ok(Envelope { jsonrpc, id, method, result, error }) = serde_json::from_slice(line) else {
            return nameless(RpcError::invalid_request(
                "this is not a request, notification or response of JSON-RPC 2.0.",
            ));
        };
        let is_long = |word: &str| word.len() > WORD_BYTES;
        if matches!(&id, Some(RequestId::Text(id)) if is_long(id)) || method.as_deref().is_some_and(is_long) {
            return nameless(RpcError::invalid_request(format_args!("an id or a method is over {WORD_BYTES} bytes.")));
        }
        let is_two = jsonrpc.as_deref() == Some("2.0");
        match (id, method) {
            (Some(id), Some(method)) if is_two => Self::Request { id, method: method.into_owned() },
            (None, Some(method)) if is_two => Self::Notification { method: method.into_owned() },
            (Some(id), None) if is_two && result != error => Self::Response { id },
            (id, method) => {
                // Without a method, this may be a broken response. Responding to its id could start an endless exchange
                // of errors.
                let id = id.filter(|_| method.is_some()).unwrap_or(RequestId::Null);
                Self::Invalid { id, error: RpcError::invalid_request("the line is not a JSON-RPC 2.0 message.") }
            }
        }
    }
}

/// Reads the parameters of a request. Absent parameters are read as an empty object.
///
/// # Errors
/// [`RpcError`] -32602 with the position and the kind of the problem.
pub fn params_of<T: DeserializeOwned>(line: &[u8]) -> Result<T, RpcError> {
    #[derive(Deserialize)]
    struct Params<T> {
        params: Option<T>,
    }
    let read = |line: &[u8]| serde_json::from_slice::<Params<T>>(line).map(|Params { params }| params);
    let wrong =
        |error: &serde_json::Error| RpcError::invalid_params(format_args!("invalid params: {}.", reason(error)));
    match read(line).map_err(|error| wrong(&error))? {
        Some(params) => Ok(params),
        None => serde_json::from_str("{}").map_err(|error| wrong(&error)),
    }
}

/// Reads the result of a response.
///
/// # Errors
/// The client's error, or the problem with the result.
pub fn result_of<T: DeserializeOwned>(line: &[u8]) -> Result<T, RpcError> {
    #[derive(Deserialize)]
    struct Response<T> {
        result: Option<T>,
        error: Option<ErrorJson>,
    }
    #[derive(Deserialize)]
    struct ErrorJson {
        code: i32,
        #[serde(default)]
        message: String,
    }
    match serde_json::from_slice::<Response<T>>(line) {
        Ok(Response { error: Some(error), .. }) => {
            Err(RpcError::new(error.code, text::excerpt(&error.message, ERROR_CHARS)))
        }
        Ok(Response { result: Some(result), error: None }) => Ok(result),
        Ok(Response { result: None, error: None }) => {
            serde_json::from_str("null").map_err(|error| RpcError::invalid_params(reason(&error)))
        }
        Err(error) => Err(RpcError::invalid_params(format_args!("invalid result: {}.", reason(&error)))),
    }
}

/// Describes a JSON error. The description is truncated, because messages of serde can quote the input.
fn reason(error: &serde_json::Error) -> String {
    text::excerpt(&error.to_string(), 160)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> (RequestId, i32) {
        match Incoming::parse(line.as_bytes()) {
            Incoming::Invalid { id, error } => (id, error.code),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn kinds_of_messages_are_distinguished() {
        let parse = |line: &str| format!("{:?}", Incoming::parse(line.as_bytes()));
        let expected = "Request { id: Number(1), method: \"initialize\" }";
        assert_eq!(parse(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":[1]}}"#), expected);
        let expected = "Request { id: Text(\"a\"), method: \"x\" }";
        assert_eq!(parse(r#"{"id":"a","method":"x","jsonrpc":"2.0","other":true}"#), expected);
        assert_eq!(parse(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#), "Request { id: Null, method: \"x\" }");
        assert_eq!(parse(r#"{"jsonrpc":"2.0","method":"x"}"#), "Notification { method: \"x\" }");
        for response in [r#""result":null"#, r#""result":{}"#, r#""error":{"code":1,"message":"m"}"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,{response}}}"#);
            assert_eq!(parse(&line), "Response { id: Number(7) }");
        }
    }

    #[test]
    fn broken_messages_have_the_codes_of_json_rpc() {
        for line in ["", "{", "no", "{\"jsonrpc\":\"2.0\"", "\u{feff}{}"] {
            assert_eq!(error(line), (RequestId::Null, -32700), "{line}");
        }
        for line in [
            "[]",
            "17",
            "{}",
            r#"[{"jsonrpc":"2.0","id":1,"method":"x"}]"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"1.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"x"}"#,
        ] {
            assert_eq!(error(line), (RequestId::Null, -32600), "{line}");
        }
        assert_eq!(error(r#"{"id":3,"method":"x"}"#), (RequestId::Number(3), -32600));
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "i".repeat(300));
        assert_eq!(error(&long), (RequestId::Null, -32600));
        assert_eq!(error(&"[".repeat(1 << 20)), (RequestId::Null, -32700));
    }

    #[test]
    fn params_are_read_without_the_rest_of_the_line() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Path {
            path: String,
        }
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"path":"/a","more":[[],{}]}}"#;
        assert_eq!(params_of::<Path>(line), Ok(Path { path: "/a".to_owned() }));
        let wrong = params_of::<Path>(br#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#).unwrap_err();
        assert_eq!(wrong.code, -32602);
        assert!(wrong.message.starts_with("invalid params: missing field `path`"), "{wrong}");
        assert_eq!(params_of::<Path>(br#"{"jsonrpc":"2.0","id":1,"method":"x"}"#).unwrap_err().code, -32602);
        #[derive(Debug, PartialEq, Deserialize)]
        struct Nothing {}
        assert_eq!(params_of::<Nothing>(br#"{"jsonrpc":"2.0","id":1,"method":"x"}"#), Ok(Nothing {}));
    }

    #[test]
    fn results_are_read_or_the_error_of_the_client() {
        assert_eq!(result_of::<u8>(br#"{"jsonrpc":"2.0","id":1,"result":7}"#), Ok(7));
        assert_eq!(result_of::<Option<u8>>(br#"{"jsonrpc":"2.0","id":1,"result":null}"#), Ok(None));
        let refused = result_of::<u8>(br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no\u001b[2J"}}"#);
        assert_eq!(refused.unwrap_err().to_string(), "no[2J (-32601)");
        assert_eq!(result_of::<u8>(br#"{"jsonrpc":"2.0","id":1,"result":"x"}"#).unwrap_err().code, -32602);
    }
}
