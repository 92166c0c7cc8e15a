//! Parses the JSON of untrusted packages strictly: an object that repeats a key is refused, because parsers disagree about its
//! meaning.

use std::{collections::BTreeMap, fmt, io};

use patchbay_core::text;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// Size limit of `plugin.json`, and also of `mcp.json`, in bytes.
pub const MANIFEST_BYTES: u64 = 256 << 10;

/// Parses a JSON object. The error is a phrase for a message.
pub(super) fn object(bytes: &[u8]) -> Result<Fields, String> {
    match serde_json::from_slice::<Unique>(bytes) {
        Ok(Unique(Value::Object(fields))) => Ok(Fields(fields)),
        Ok(Unique(value)) => Err(format!("expected an object, found {}", kind(&value))),
        Err(error) => Err(text::excerpt(&error.to_string(), 200)),
    }
}

/// The fields of an object, which are removed as they are read. Errors are phrases that name the field.
#[derive(Debug, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            value => Err(format!("expected an object, found {}", kind(&value))),
        }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    pub(super) fn string(&mut self, key: &str) -> Result<Option<String>, String> {
        self.take(key).map(|value| string(&format!("'{key}'"), value)).transpose()
    }

    pub(super) fn required(&mut self, key: &str) -> Result<String, String> {
        self.string(key)?.ok_or_else(|| format!("'{key}' is missing"))
    }

    pub(super) fn strings(&mut self, key: &str) -> Result<Vec<String>, String> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => {
                let item = |(at, value): (usize, Value)| string(&format!("'{key}[{at}]'"), value);
                values.into_iter().enumerate().map(item).collect()
            }
            Some(value) => Err(format!("'{key}' must be an array of strings, not {}", kind(&value))),
        }
    }

    pub(super) fn string_map(&mut self, key: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(value) = self.take(key) else { return Ok(BTreeMap::new()) };
        let Self(fields) = Self::of(value).map_err(|error| format!("'{key}': {error}"))?;
        let text = |(name, value): (String, Value)| {
            let value = string(&format!("'{key}.{}'", text::excerpt(&name, 80)), value)?;
            Ok((name, value))
        };
        fields.into_iter().map(text).collect()
    }

    /// Returns the names of the fields that are left, sorted and cleaned for display.
    pub(super) fn left(&self) -> Vec<String> {
        let mut names: Vec<_> = self.0.keys().map(|name| text::excerpt(name, 80)).collect();
        names.sort();
        names
    }

    /// Returns an error if unread fields are left.
    pub(super) fn closed(self) -> Result<(), String> {
        match self.left().first() {
            None => Ok(()),
            Some(name) => Err(format!("unknown field '{name}'")),
        }
    }

    /// Returns the fields sorted by name.
    pub(super) fn sorted(self) -> BTreeMap<String, Value> {
        self.0.into_iter().collect()
    }
}

/// Returns the message of our own errors, but only the kind of a system error, because its message may contain a path.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => error.to_string(),
        kind => kind.to_string(),
    }
}

fn string(place: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        value => Err(format!("{place} must be a string, not {}", kind(&value))),
    }
}

/// Returns the type of a value with its article.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A value in which no object repeats a key. The parser limits the depth.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Unique(value) = entries.next_value()?;
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("duplicate key '{}'", text::excerpt(&key, 80))));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_usual() {
        let source = br#"{"a": [1, -2, 2.5, true, null, "x"], "b": {"c": {}}, "d": 18446744073709551615}"#;
        let Fields(fields) = object(source).unwrap();
        assert_eq!(Value::Object(fields), serde_json::from_slice::<Value>(source).unwrap());
    }

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        let error = |source: &str| object(source.as_bytes()).unwrap_err();
        assert_eq!(error(r#"{"a": 1, "a": 1}"#), "duplicate key 'a' at line 1 column 16");
        assert!(error(r#"{"a": [{"b": {"c": 1, "\u0063": 2}}]}"#).starts_with("duplicate key 'c'"));
        assert_eq!(error("[1]"), "expected an object, found an array");
        assert!(error(&"[".repeat(1_000)).starts_with("recursion limit exceeded"));
        assert!(error("\u{feff}{}").starts_with("expected value"));
        assert!(error("{} {}").starts_with("trailing characters"));
    }
}
