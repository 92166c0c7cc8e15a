//! The body of a request: JSON into which the host inserts blobs. Used by all codecs.
//!
//! A blob is a node of the tree, not a marker within a string. No string can therefore be mistaken for a blob.

use std::borrow::Cow;

use patchbay_provider_sdk::BodyPiece;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// JSON that may contain blobs. Objects keep the order of insertion, because server caches require the same
/// request to have the same bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// Any JSON that contains no blobs.
    Value(Value),
    /// Unchanged JSON text, created by [`Json::raw`] and [`Json::raw_object`].
    Raw(RawJson),
    /// A string: a prefix, then the bytes of the blob with this id in base64.
    Blob(String, u32),
    /// An array, whose items may contain blobs.
    Array(Vec<Json>),
    /// An object, created by [`object!`](crate::object).
    Object(Vec<(Cow<'static, str>, Json)>),
}

/// Text that was checked to be JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(String);

/// Creates an object: `object! { "role": "user", "content": parts }`. Each value is any `Into<Json>`.
#[macro_export]
macro_rules! object {
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::body::Json::Object(::std::vec![$((::std::borrow::Cow::Borrowed($key), $crate::body::Json::from($value))),*])
    };
}

impl RawJson {
    /// Parses the text; `None` if it is not JSON.
    pub fn read(&self) -> Option<Value> {
        serde_json::from_str(&self.0).ok()
    }
}

impl Json {
    /// Creates a string of `prefix` (such as `data:image/png;base64,`) and the blob's bytes in base64.
    pub fn blob(prefix: impl Into<String>, id: u32) -> Self {
        Self::Blob(prefix.into(), id)
    }

    /// Creates a node from JSON text, which stays unchanged. `None` if it is not JSON.
    pub fn raw(text: &str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(text).is_ok().then(|| Self::Raw(RawJson(text.to_owned())))
    }

    /// Creates a node from the text of an object, such as a tool's schema or a call's input, which stays unchanged.
    /// `{}` if the text is not an object.
    pub fn raw_object(text: &str) -> Self {
        let object = text.trim_start().starts_with('{');
        object.then(|| Self::raw(text)).flatten().unwrap_or(Self::Object(Vec::new()))
    }

    /// Adds `key` to an object. Does nothing for other nodes.
    pub fn put(&mut self, key: &'static str, value: impl Into<Json>) {
        if let Self::Object(entries) = self {
            entries.push((Cow::Borrowed(key), value.into()));
        }
    }

    /// Merges `patch` by the rules of JSON Merge Patch (RFC 7396): objects are merged, other values are replaced, and `null`
    /// removes a field. Fields keep their order; new ones follow.
    pub fn merge(&mut self, patch: &Map<String, Value>) {
        if let Self::Raw(raw) = self
            && let Some(value) = raw.read()
        {
            *self = Self::Value(value);
        }
        match self {
            Self::Object(entries) => {
                for (key, value) in patch {
                    let at = entries.iter().position(|(there, _)| there == key);
                    match (at, value) {
                        (Some(at), Value::Null) => drop(entries.remove(at)),
                        (None, Value::Null) => {}
                        (Some(at), Value::Object(patch)) => entries[at].1.merge(patch),
                        (None, Value::Object(patch)) => {
                            let mut made = Self::Object(Vec::new());
                            made.merge(patch);
                            entries.push((Cow::Owned(key.clone()), made));
                        }
                        (Some(at), value) => entries[at].1 = value.clone().into(),
                        (None, value) => entries.push((Cow::Owned(key.clone()), value.clone().into())),
                    }
                }
            }
            Self::Value(value) => merge(value, patch),
            Self::Raw(_) | Self::Blob(..) | Self::Array(_) => {
                *self = Self::Object(Vec::new());
                self.merge(patch);
            }
        }
    }

    /// Replaces the value of `key`, if this is an object that contains it.
    pub fn replace(&mut self, key: &str, value: impl Into<Json>) {
        if let Self::Object(entries) = self
            && let Some(entry) = entries.iter_mut().find(|entry| entry.0 == key)
        {
            entry.1 = value.into();
        }
    }

    /// Removes `key` from an object.
    pub fn remove(&mut self, key: &str) {
        if let Self::Object(entries) = self {
            entries.retain(|entry| entry.0 != key);
        }
    }

    /// Returns the pieces for [`HttpRequest::body`](patchbay_provider_sdk::HttpRequest).
    pub fn into_body(self) -> Vec<BodyPiece> {
        self.body()
    }

    /// Returns the pieces, and keeps the tree for another request.
    pub fn body(&self) -> Vec<BodyPiece> {
        let mut writer = Writer::default();
        writer.json(self);
        writer.flush();
        writer.pieces
    }
}

/// Merges `patch` into a value; see [`Json::merge`].
fn merge(value: &mut Value, patch: &Map<String, Value>) {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (key, patch) in patch {
        match patch {
            Value::Null => drop(value.as_object_mut().and_then(|value| value.remove(key))),
            Value::Object(patch) => merge(&mut value[key.as_str()], patch),
            patch => value[key.as_str()] = patch.clone(),
        }
    }
}

#[derive(Default)]
struct Writer {
    pieces: Vec<BodyPiece>,
    bytes: Vec<u8>,
}

impl Writer {
    fn json(&mut self, json: &Json) {
        match json {
            Json::Value(Value::String(text)) => self.string(text),
            // Writing a value to memory does not fail.
            Json::Value(value) => drop(serde_json::to_writer(&mut self.bytes, value)),
            Json::Raw(RawJson(text)) => self.push(text),
            Json::Blob(prefix, id) => {
                self.string(prefix);
                // The string continues after its prefix.
                self.bytes.pop();
                self.flush();
                self.pieces.push(BodyPiece::BlobBase64(*id));
                self.push("\"");
            }
            Json::Array(items) => {
                self.push("[");
                for (at, item) in items.iter().enumerate() {
                    self.comma(at);
                    self.json(item);
                }
                self.push("]");
            }
            Json::Object(entries) => {
                self.push("{");
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.comma(at);
                    self.string(key);
                    self.push(":");
                    self.json(value);
                }
                self.push("}");
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes a string as serde_json does, eight bytes at a time: in the sandbox, every iteration of a loop also counts its fuel,
    /// and a conversation is mostly text.
    fn string(&mut self, text: &str) {
        self.bytes.reserve(text.len() + 2);
        self.bytes.push(b'"');
        let mut rest = text.as_bytes();
        while let Some((word, behind)) = rest.split_first_chunk::<8>() {
            let marks = marks_of_escapes(u64::from_le_bytes(*word));
            self.bytes.extend_from_slice(word);
            if marks == 0 {
                rest = behind;
                continue;
            }
            let at = marks.trailing_zeros() as usize / 8;
            self.bytes.truncate(self.bytes.len() - (word.len() - at));
            self.escape(word[at]);
            rest = &rest[at + 1..];
        }
        rest.iter().for_each(|byte| self.escape(*byte));
        self.bytes.push(b'"');
    }

    /// Writes one byte of a string.
    fn escape(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\x08' => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            b'\x0c' => b'f',
            b'\r' => b'r',
            0..0x20 => return self.push(&format!("\\u{byte:04x}")),
            _ => return self.bytes.push(byte),
        };
        self.bytes.extend([b'\\', short]);
    }

    fn comma(&mut self, at: usize) {
        if at > 0 {
            self.push(",");
        }
    }

    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            self.pieces.push(BodyPiece::Bytes(std::mem::take(&mut self.bytes)));
        }
    }
}

/// Sets the highest bit of each byte of `word` that must be escaped in a JSON string. The lowest mark is exact; the marks
/// above it may be wrong, because a subtraction borrows from the next byte.
fn marks_of_escapes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word & (ONES << 7);
    let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    below(word, 0x20) | equal(b'"') | equal(b'\\')
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Self {
        Self::Array(items)
    }
}

macro_rules! from_value {
    ($($type:ty),*) => {
        $(impl From<$type> for Json {
            fn from(value: $type) -> Self {
                Self::Value(value.into())
            }
        })*
    };
}
from_value!(Value, &str, String, bool, u32, u64);

impl From<&String> for Json {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the body as a server receives it, with `<ID>` for each blob.
    fn read(json: Json) -> Value {
        let mut text = Vec::new();
        for piece in json.into_body() {
            match piece {
                BodyPiece::Bytes(bytes) => text.extend(bytes),
                BodyPiece::BlobBase64(id) => text.extend(format!("<{id}>").bytes()),
            }
        }
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn blobs_are_spliced_into_strings() {
        let image = object! { "type": "image", "data": Json::blob("data:image/png;base64,", 7) };
        let body = object! { "n": 1u32, "list": vec![image, Json::blob("", 8), "\"<7>\"".into()], "o": object! {} };
        assert_eq!(body.clone().into_body().len(), 5);
        let expected = json!({"n": 1, "list": [{"type": "image", "data": "data:image/png;base64,<7>"}, "<8>", "\"<7>\""], "o": {}});
        assert_eq!(read(body), expected);
    }

    #[test]
    fn raw_json_is_unchanged_and_invalid_json_refused() {
        let text = r#" {"z": 1.00, "a": 123456789012345678901234567890, "z": "\u0041"}"#;
        let body = object! { "b": Json::raw_object(text), "a": Json::raw("[ ]").expect("JSON") };
        let written = format!(r#"{{"b":{text},"a":[ ]}}"#);
        assert_eq!(body.into_body(), [BodyPiece::Bytes(written.into_bytes())]);
        for bad in ["", "{", "{}, \"admin\": {}", "{} {}", "[1", "nul"] {
            assert_eq!(Json::raw(bad), None, "{bad}");
            assert_eq!(Json::raw_object(bad), object! {}, "{bad}");
        }
        assert_eq!(Json::raw_object("[]"), object! {});
    }

    #[test]
    fn fields_of_objects_change() {
        let mut body = object! { "a": true };
        body.put("b", Vec::new());
        assert_eq!(read(body.clone()), json!({"a": true, "b": []}));
        body.replace("b", 2u32);
        body.replace("c", 3u32);
        body.remove("a");
        body.remove("d");
        assert_eq!(read(body), json!({"b": 2}));
    }

    proptest! {
        #[test]
        fn strings_are_those_of_serde_json(text in "[a-zé世\u{0}-\u{22}\\\\\u{7f}]{0,40}") {
            let mut writer = Writer::default();
            writer.string(&text);
            prop_assert_eq!(String::from_utf8(writer.bytes).expect("UTF-8"), serde_json::to_string(&text).expect("a string"));
        }

        #[test]
        fn texts_are_escaped(text in ".*", prefix in ".*") {
            let body = object! { "a": &text, "b": Json::blob(prefix.as_str(), 3), "c": vec![Json::from(text.as_str())] };
            prop_assert_eq!(read(body), json!({"a": text, "b": format!("{prefix}<3>"), "c": [text]}));
        }
    }
}
