//! Parses a JSON document into the values of the JMESPath library, within limits.
//!
//! Parsing and checking are one step, which refuses a document that is too large before it fills the memory.

use std::{cell::Cell, collections::BTreeMap, fmt};

use jmespath::{Rcvar, Variable};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

/// Maximum number of values in a document or a result: each scalar, list and object is one. A value takes up to 200
/// bytes of the 64 MiB of a call.
pub(crate) const MAX_VALUES: usize = 200_000;
/// Maximum number of bytes of all strings and names in a document or a result: more than any model reads.
pub(crate) const MAX_TEXT: usize = 1 << 20;
/// The deepest nesting of lists and objects. JSON parsers commonly stop at 128, and a result is often wrapped again.
pub(crate) const MAX_DEPTH: usize = 100;

/// A JSON document within the limits.
#[derive(Debug)]
pub struct Document(Rcvar);

impl Document {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn value(&self) -> &Rcvar {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Left { values: Cell::new(MAX_VALUES), text: Cell::new(MAX_TEXT) };
        Read { left: &left, depth: 0 }.deserialize(deserializer).map(Self)
    }
}

/// The limits that the rest of the document may still use.
struct Left {
    values: Cell<usize>,
    text: Cell<usize>,
}

impl Left {
    fn value<E: Error>(&self) -> Result<(), E> {
        let left = self.values.get().checked_sub(1);
        self.values.set(left.ok_or_else(|| E::custom(format_args!("the document has more than {MAX_VALUES} values")))?);
        Ok(())
    }

    fn text<E: Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.text.get().checked_sub(bytes);
        self.text.set(left.ok_or_else(|| {
            E::custom(format_args!("the document has more than {MAX_TEXT} bytes in its strings and names"))
        })?);
        Ok(())
    }
}

/// Parses one value at a depth.
#[derive(Clone, Copy)]
struct Read<'a> {
    left: &'a Left,
    depth: usize,
}

impl Read<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format_args!("the document is nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn scalar<E: Error>(self, value: Variable) -> Result<Rcvar, E> {
        self.left.value()?;
        Ok(Rcvar::new(value))
    }
}

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = Rcvar;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rcvar, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = Rcvar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Rcvar, E> {
        self.scalar(Variable::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Rcvar, E> {
        self.scalar(Variable::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Rcvar, E> {
        self.scalar(Variable::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Rcvar, E> {
        self.scalar(Variable::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Rcvar, E> {
        let number = serde_json::Number::from_f64(value).ok_or_else(|| E::custom("a number is not finite"))?;
        self.scalar(Variable::Number(number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Rcvar, E> {
        self.left.text(value.len())?;
        self.scalar(Variable::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Rcvar, A::Error> {
        self.left.value()?;
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Rcvar::new(Variable::Array(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Rcvar, A::Error> {
        self.left.value()?;
        let inner = self.deeper()?;
        let mut members = BTreeMap::new();
        while let Some(name) = object.next_key::<String>()? {
            self.left.text(name.len())?;
            members.insert(name, object.next_value_seed(inner)?);
        }
        Ok(Rcvar::new(Variable::Object(members)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        Document::parse(text).map(|document| document.value().to_string()).map_err(|error| error.to_string())
    }

    fn refusal(text: &str) -> String {
        read(text).expect_err("a refusal")
    }

    #[test]
    fn all_values_are_parsed_and_names_are_sorted() {
        let text = r#" {"b": [null, true, -1, 2.5, "é\n"], "a": {}} "#;
        assert_eq!(read(text).as_deref(), Ok(r#"{"a":{},"b":[null,true,-1,2.5,"é\n"]}"#));
    }

    #[test]
    fn last_of_two_equal_names_is_used() {
        assert_eq!(read(r#"{"a":1,"a":2}"#).as_deref(), Ok(r#"{"a":2}"#));
    }

    #[test]
    fn integers_of_64_bits_are_exact_and_longer_ones_become_floats() {
        for exact in ["9007199254740993", "18446744073709551615", "-9223372036854775808"] {
            assert_eq!(read(exact).as_deref(), Ok(exact));
        }
        assert_eq!(read("18446744073709551616").as_deref(), Ok("1.8446744073709552e+19"));
        assert_eq!(read("0.1234567890123456789").as_deref(), Ok("0.12345678901234568"));
        assert!(refusal("1e999").contains("number out of range"));
    }

    #[test]
    fn depth_is_limited() {
        let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        for levels in [MAX_DEPTH + 1, 127, 128, 1_000_000] {
            assert!(refusal(&nested(levels)).starts_with("the document is nested deeper than 100 levels"));
        }
        assert!(refusal(&"{\"a\":".repeat(500)).starts_with("the document is nested deeper than 100 levels"));
    }

    #[test]
    fn number_of_values_is_limited() {
        let list = |items| format!("[0{}]", ",0".repeat(items - 1));
        assert!(read(&list(MAX_VALUES - 1)).is_ok());
        assert!(refusal(&list(MAX_VALUES)).starts_with("the document has more than 200000 values"));
    }

    #[test]
    fn text_including_names_is_limited() {
        let string = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
        assert!(read(&string(MAX_TEXT)).is_ok());
        assert!(refusal(&string(MAX_TEXT + 1)).starts_with("the document has more than 1048576 bytes"));
        let half = string(MAX_TEXT / 2 + 1);
        assert!(refusal(&format!("{{{half}: {half}}}")).starts_with("the document has more than 1048576 bytes"));
    }
}
