//! Equality, hashes and excerpts of JSON values. Comparing and hashing use up steps of the check.

use std::{
    cmp::Ordering,
    hash::{BuildHasher as _, Hash as _, Hasher, RandomState},
    io,
};

use patchbay_core::text;
use serde_json::Value;

use crate::{number, validate::Steps};

/// The deepest nesting of compared values. The JSON parser allows only 128 levels.
const DEPTH: u32 = 200;
/// Up to this number of items, comparing each pair is faster than hashing.
const FEW: usize = 8;

/// Returns true if two values are equal by the rules of JSON Schema: numbers by value, objects without order.
pub(crate) fn equal(a: &Value, b: &Value, steps: &mut Steps) -> Result<bool, Exhausted> {
    equal_at(a, b, steps, 0)
}

/// The steps are used up, or a value is nested deeper than [`DEPTH`].
pub(crate) struct Exhausted;

fn equal_at(a: &Value, b: &Value, steps: &mut Steps, depth: u32) -> Result<bool, Exhausted> {
    steps.take(1)?;
    if depth > DEPTH {
        return Err(Exhausted);
    }
    Ok(match (a, b) {
        (Value::Number(a), Value::Number(b)) => number::compare(a, b) == Ordering::Equal,
        (Value::String(a), Value::String(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            steps.take_bytes(a.len())?;
            a == b
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal_at(a, b, steps, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, a) in a {
                steps.take_bytes(name.len())?;
                match b.get(name) {
                    Some(b) if equal_at(a, b, steps, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => a == b,
    })
}

/// Returns true if no two items are equal.
pub(crate) fn all_unique(items: &[Value], steps: &mut Steps) -> Result<bool, Exhausted> {
    if items.len() <= FEW {
        for (index, item) in items.iter().enumerate() {
            for other in items.iter().skip(index + 1) {
                if equal(item, other, steps)? {
                    return Ok(false);
                }
            }
        }
        return Ok(true);
    }
    let state = RandomState::new();
    let mut hashes = Vec::with_capacity(items.len());
    for item in items {
        let mut hasher = state.build_hasher();
        hash(item, &mut hasher, steps, 0)?;
        hashes.push((hasher.finish(), item));
    }
    // Sorting takes about log(n) steps for each item.
    steps.take(items.len() as u64 * u64::from(items.len().ilog2()))?;
    hashes.sort_unstable_by_key(|(hash, _)| *hash);
    for equal_hashes in hashes.chunk_by(|(a, _), (b, _)| a == b) {
        for (index, (_, item)) in equal_hashes.iter().enumerate() {
            for (_, other) in equal_hashes.iter().skip(index + 1) {
                if equal(item, other, steps)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Hashes a value. Equal values have equal hashes.
fn hash(value: &Value, hasher: &mut impl Hasher, steps: &mut Steps, depth: u32) -> Result<(), Exhausted> {
    steps.take(1)?;
    if depth > DEPTH {
        return Err(Exhausted);
    }
    match value {
        Value::Null => 0u8.hash(hasher),
        Value::Bool(bool) => (1u8, bool).hash(hasher),
        Value::Number(number) => match number::as_integer(number) {
            Some(integer) => (2u8, integer).hash(hasher),
            None => (3u8, number.as_f64().unwrap_or_default().to_bits()).hash(hasher),
        },
        Value::String(text) => {
            steps.take_bytes(text.len())?;
            (4u8, text).hash(hasher);
        }
        Value::Array(items) => {
            (5u8, items.len()).hash(hasher);
            for item in items {
                hash(item, hasher, steps, depth + 1)?;
            }
        }
        Value::Object(pairs) => {
            (6u8, pairs.len()).hash(hasher);
            // Sorted, because the hash must not depend on the order of the map.
            let mut pairs: Vec<_> = pairs.iter().collect();
            pairs.sort_unstable_by_key(|(name, _)| name.as_str());
            for (name, value) in pairs {
                steps.take_bytes(name.len())?;
                name.hash(hasher);
                hash(value, hasher, steps, depth + 1)?;
            }
        }
    }
    Ok(())
}

/// Returns the beginning of a value's JSON, for an error message.
pub(crate) fn shown(value: &Value) -> String {
    struct First(Vec<u8>);
    impl io::Write for First {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.len() > 600 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.0.extend(bytes.iter().take(600));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut first = First(Vec::new());
    // An error only means that the text was cut.
    let _ = serde_json::to_writer(&mut first, value);
    text::excerpt(&String::from_utf8_lossy(&first.0), 100)
}
