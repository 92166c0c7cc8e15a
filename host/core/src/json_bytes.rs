//! The size of JSON, for limits and estimates.

use serde_json::Value;

/// Returns the size of a value as compact JSON, in bytes. Unlike serializing the value, this does not allocate its text.
pub fn json_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len() as u64,
        Value::String(text) => string_bytes(text),
        Value::Array(items) => list_bytes(items.len(), items.iter().map(json_bytes).sum()),
        Value::Object(fields) => list_bytes(
            fields.len(),
            fields.iter().map(|(name, value)| string_bytes(name) + 1 + json_bytes(value)).sum(),
        ),
    }
}

/// Returns the size of a JSON array or object with `count` items, which take `items` bytes without their commas.
fn list_bytes(count: usize, items: u64) -> u64 {
    2 + items + count.saturating_sub(1) as u64
}

/// Returns the size of a JSON string in bytes, with its quotes and escapes.
fn string_bytes(text: &str) -> u64 {
    let escape = |byte: u8| match byte {
        b'"' | b'\\' | b'\x08' | b'\t' | b'\n' | b'\x0c' | b'\r' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() as u64 + text.bytes().map(escape).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn bytes_of_json_are_counted(texts in prop::collection::vec(".{0,20}", 0..4), number in any::<f64>(), flag in any::<bool>()) {
            let number = if number.is_finite() { number } else { 0.5 };
            let value = json!({"texts": texts, "number": number, "no": -7, "flag": flag, "nothing": null, "\u{1}\n\"": {}, "list": []});
            prop_assert_eq!(json_bytes(&value), value.to_string().len() as u64);
        }
    }
}
