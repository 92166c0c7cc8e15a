//! The operator's options for every codec: `extra-body` and `extra-headers`. They give access to service features that
//! this crate does not know.
//!
//! * `extra-body`: a JSON object, merged into the body last, by the rules of JSON Merge Patch (RFC 7396): objects are merged,
//!   other values are replaced, and `null` removes a field.
//! * `extra-headers`: a JSON object of strings. The host refuses headers that only it may set. Headers that carry keys
//!   are refused here, because an option is not kept secret.

use patchbay_provider_sdk::{Failure, HttpRequest, Pair};
use serde_json::{Map, Value};

use crate::body::Json;
use crate::failure::failure;

/// The options of one completion.
#[derive(Debug, Default, Clone)]
pub struct Extra {
    body: Map<String, Value>,
    headers: Vec<(String, String)>,
}

/// Maximum number of headers of `extra-headers`.
const HEADERS: usize = 32;

const OF_KEYS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "x-auth-token",
    "x-amz-security-token",
];

/// Headers that the host refuses in a request (`headers.rs` of `egress`), with an error that would blame the adapter.
const OF_HOST: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers whose values are lists. The operator's value is added to the list.
const LISTS: [&str; 1] = ["anthropic-beta"];

impl Extra {
    /// Parses the operator's options of a provider.
    ///
    /// # Errors
    /// A failure that names the invalid option, for the operator.
    pub fn read(options: &[Pair]) -> Result<Self, Failure> {
        let object = |name: &str| {
            let Some(option) = options.iter().find(|option| option.name == name) else { return Ok(Map::new()) };
            match serde_json::from_str(&option.value) {
                Ok(Value::Object(object)) => Ok(object),
                Ok(_) => Err(refused(name, "must be a JSON object: '{\"NAME\": …}'")),
                // The parser's message contains a position but not the value.
                Err(error) => Err(refused(name, &format!("must be a JSON object, and is not JSON: {error}"))),
            }
        };
        let body = object("extra-body")?;
        let headers = object("extra-headers")?;
        if headers.len() > HEADERS {
            return Err(refused("extra-headers", &format!("has more than {HEADERS} headers")));
        }
        let headers = headers.into_iter().map(|(name, value)| match value {
            Value::String(value) => header(name, value),
            _ => Err(refused("extra-headers", &format!("has a value that is not a string: {}", quoted(&name)))),
        });
        Ok(Self { body, headers: headers.collect::<Result<_, _>>()? })
    }

    /// Merges `extra-body` into a body.
    pub fn merge(&self, body: &mut Json) {
        body.merge(&self.body);
    }

    /// Adds `extra-headers` to a request. A header that the codec set is replaced.
    #[must_use]
    pub fn with_headers(&self, mut request: HttpRequest) -> HttpRequest {
        for (name, value) in &self.headers {
            let there = request.headers.iter_mut().find(|pair| pair.name.eq_ignore_ascii_case(name));
            match there {
                Some(pair) if LISTS.contains(&name.as_str()) => pair.value = format!("{}, {value}", pair.value),
                Some(pair) => pair.value.clone_from(value),
                None => request.headers.push(Pair { name: name.clone(), value: value.clone() }),
            }
        }
        request
    }
}

/// The body fields that set how much a model thinks, in all APIs.
const THINKING: [&str; 5] = ["thinking", "output_config", "reasoning", "reasoning_effort", "generationConfig"];

/// Returns the fields of `extra-body` that may change how much a model thinks, in quotes.
pub(crate) fn thinking_fields(options: &[Pair]) -> Vec<String> {
    let Ok(Extra { body, .. }) = Extra::read(options) else { return Vec::new() };
    // Other settings of Gemini are in the same object.
    let sets = |name: &&str| match *name {
        "generationConfig" => body.get(*name).is_some_and(|config| config.get("thinkingConfig").is_some()),
        name => body.contains_key(name),
    };
    THINKING.into_iter().filter(sets).map(|name| format!("'{name}'")).collect()
}

/// Checks a header. Its name becomes lower case.
fn header(name: String, value: String) -> Result<(String, String), Failure> {
    let name = name.to_ascii_lowercase();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let shown = quoted(&name);
    if !is_name {
        return Err(refused("extra-headers", &format!("has an invalid name: {shown}; use letters, digits and '-'")));
    }
    if OF_KEYS.contains(&name.as_str()) {
        let what = format!("may not set {shown}; set the key with env, key_command or credentials.json");
        return Err(refused("extra-headers", &what));
    }
    if OF_HOST.contains(&name.as_str()) || name.starts_with("proxy-") {
        return Err(refused("extra-headers", &format!("may not set {shown}, because Patchbay sets it")));
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(refused("extra-headers", &format!("has a value that is not printable ASCII: {shown}")));
    }
    Ok((name, value))
}

/// Quotes a name, cut to 40 characters.
fn quoted(name: &str) -> String {
    format!("'{}'", name.chars().take(40).collect::<String>().escape_debug())
}

fn refused(option: &str, what: &str) -> Failure {
    failure("invalid-request", format!("option '{option}' of this provider {what}"))
}

#[cfg(test)]
mod tests {
    use patchbay_provider_sdk::{BodyPiece, Retry};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::object;

    fn read(body: &str, headers: &str) -> Result<Extra, Failure> {
        let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
        let options = [pair("other", "{"), pair("extra-body", body), pair("extra-headers", headers)];
        Extra::read(&options)
    }

    fn request() -> HttpRequest {
        let pair = |name: &str, value: &str| Pair { name: name.to_owned(), value: value.to_owned() };
        HttpRequest {
            method: "POST".to_owned(),
            path_and_query: "/".to_owned(),
            headers: vec![pair("content-type", "application/json"), pair("anthropic-beta", "a-2026")],
            auth: Vec::new(),
            body: Vec::new(),
        }
    }

    fn merged(mut body: Json, extra: &str) -> String {
        read(extra, "{}").expect("valid").merge(&mut body);
        let pieces = body.into_body();
        let [BodyPiece::Bytes(bytes)] = pieces.as_slice() else { panic!("{pieces:?}") };
        String::from_utf8(bytes.clone()).expect("UTF-8")
    }

    #[test]
    fn fields_about_thinking_are_found() {
        let fields = |body: &str| thinking_fields(&[Pair { name: "extra-body".to_owned(), value: body.to_owned() }]);
        assert_eq!(fields(r#"{"reasoning": {"effort": "low"}, "thinking": null}"#), ["'thinking'", "'reasoning'"]);
        assert_eq!(fields(r#"{"generationConfig": {"topK": 3}}"#), [""; 0]);
        assert_eq!(fields(r#"{"generationConfig": {"thinkingConfig": {}}}"#), ["'generationConfig'"]);
        assert_eq!(fields("["), [""; 0]);
        assert_eq!(thinking_fields(&[]), [""; 0]);
    }

    #[test]
    fn body_is_merged_last_and_keeps_its_order() {
        let body = || {
            object! {
                "model": "m",
                "stream_options": object! { "include_usage": true },
                "schema": Json::raw_object(r#"{"z": 1.00}"#),
                "messages": vec![Json::from("a")],
                "value": json!({"deep": {"a": 1}}),
            }
        };
        assert_eq!(merged(body(), "{}"), merged(body(), r#"{"other": null}"#));
        for (extra, expected) in [
            (r#"{"service_tier": "flex"}"#, r#","service_tier":"flex"}"#),
            (r#"{"stream_options": {"b": [1]}}"#, r#""stream_options":{"include_usage":true,"b":[1]},"#),
            (r#"{"stream_options": {"include_usage": null}}"#, r#""stream_options":{},"#),
            (r#"{"model": "n"}"#, r#"{"model":"n","stream"#),
            (r#"{"schema": {"y": {"x": 2}}}"#, r#""schema":{"y":{"x":2},"z":1.0},"#),
            (r#"{"value": {"deep": {"b": 2, "a": null}}}"#, r#""value":{"deep":{"b":2}}}"#),
            (r#"{"messages": {"a": 1, "b": null}}"#, r#""messages":{"a":1},"#),
            (r#"{"provider": {"only": ["x"], "skip": null}}"#, r#","provider":{"only":["x"]}}"#),
        ] {
            let merged = merged(body(), extra);
            assert!(merged.contains(expected), "{extra}: {merged}");
        }
        assert!(!merged(body(), r#"{"stream_options": null}"#).contains("stream_options"));
    }

    /// Strings with the bytes of blobs stay where they are.
    #[test]
    fn blobs_of_the_body_are_kept() {
        let mut body = object! { "image": object! { "data": Json::blob("data:", 7) } };
        read(r#"{"image": {"detail": "low"}}"#, "{}").expect("valid").merge(&mut body);
        assert_eq!(body.into_body().len(), 3);
    }

    #[test]
    fn headers_are_added_or_replaced() {
        let headers = r#"{"HTTP-Referer": "https://a.example", "Content-Type": "x/y", "Anthropic-Beta": "b-2026"}"#;
        let request = read("{}", headers).expect("valid").with_headers(request());
        let headers: Vec<_> = request.headers.iter().map(|pair| format!("{}: {}", pair.name, pair.value)).collect();
        assert_eq!(headers, ["content-type: x/y", "anthropic-beta: a-2026, b-2026", "http-referer: https://a.example"]);
        let request = Extra::read(&[]).expect("valid").with_headers(request);
        assert_eq!(request.headers.len(), 3);
    }

    #[test]
    fn invalid_options_are_failures_that_name_them() {
        let many: Map<String, Value> = (0..33).map(|number| (format!("x-{number}"), json!("a"))).collect();
        let many = Value::from(many).to_string();
        for (body, headers, message) in [
            ("[]", "{}", "option 'extra-body' of this provider must be a JSON object: '{\"NAME\": …}'"),
            ("true", "{}", "option 'extra-body' of this provider must be a JSON object"),
            ("", "{}", "option 'extra-body' of this provider must be a JSON object, and is not JSON: EOF"),
            ("{a: 1}", "{}", "option 'extra-body' of this provider must be a JSON object, and is not JSON: key must"),
            ("{}", "\"a\"", "option 'extra-headers' of this provider must be a JSON object"),
            ("{}", r#"{"x-a": 1}"#, "option 'extra-headers' of this provider has a value that is not a string: 'x-a'"),
            ("{}", r#"{"x a": "1"}"#, "option 'extra-headers' of this provider has an invalid name: 'x a'; use"),
            ("{}", r#"{"": "1"}"#, "option 'extra-headers' of this provider has an invalid name: ''"),
            (
                "{}",
                r#"{"x-a": "1\r\nb: 2"}"#,
                "option 'extra-headers' of this provider has a value that is not printable",
            ),
            (
                "{}",
                r#"{"Authorization": "Bearer a"}"#,
                "option 'extra-headers' of this provider may not set 'authorization'; set the key with",
            ),
            ("{}", r#"{"X-API-Key": "a"}"#, "option 'extra-headers' of this provider may not set 'x-api-key'"),
            ("{}", r#"{"Host": "a"}"#, "option 'extra-headers' of this provider may not set 'host', because"),
            ("{}", &*many, "option 'extra-headers' of this provider has more than 32 headers"),
        ] {
            let failure = read(body, headers).expect_err(body);
            assert!(failure.message.starts_with(message), "{}\n{message}", failure.message);
            assert_eq!((failure.kind.as_str(), failure.retry), ("invalid-request", Retry::Never));
        }
    }

    proptest! {
        /// Merging the same object a second time changes nothing, and the result is JSON.
        #[test]
        fn merging_is_idempotent(text in r#"\{("[a-c]": ?(null|1|"x"|\[\]|\{"[a-c]": ?(null|2)\}),?)*\}"#) {
            let Ok(Value::Object(patch)) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
            let mut body = object! { "a": object! { "b": 1u32 }, "b": json!({"c": {"a": 1}}), "d": Json::raw_object("{}") };
            body.merge(&patch);
            let once = body.clone();
            body.merge(&patch);
            prop_assert_eq!(once.into_body(), body.into_body());
        }
    }
}
