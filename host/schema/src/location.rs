//! JSON pointers: resolves a `$ref` to its target, and finds the pointer to a value for an error message.

use serde_json::Value;

/// Returns the target of a `$ref` such as `#/$defs/a`.
///
/// # Errors
/// [`Unresolved`] if it has no target in this schema.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, Unresolved> {
    let fragment = reference.strip_prefix('#').ok_or(Unresolved::Outside)?;
    if fragment.is_empty() {
        return Ok(root);
    }
    if !fragment.starts_with('/') {
        return Err(Unresolved::Outside);
    }
    let pointer = decode(fragment).ok_or(Unresolved::Nowhere)?;
    root.pointer(&pointer).ok_or(Unresolved::Nowhere)
}

/// Why a `$ref` has no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// It is not a pointer into this schema.
    Outside,
    /// The pointer has no target.
    Nowhere,
}

/// Decodes percent escapes. `None` if the result is not UTF-8.
fn decode(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || (rest.next()? as char).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Escapes one segment of a pointer.
pub(crate) fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// Returns the pointer to `value`, which must be a part of `root`.
pub(crate) fn pointer_to(root: &Value, value: &Value) -> String {
    // Each visited part, with the index of its parent and its name there.
    let mut seen: Vec<(&Value, usize, String)> = vec![(root, 0, String::new())];
    let mut next = 0;
    while let Some(&(part, ..)) = seen.get(next) {
        if std::ptr::eq(part, value) {
            break;
        }
        match part {
            Value::Array(items) => {
                seen.extend(items.iter().enumerate().map(|(index, item)| (item, next, index.to_string())));
            }
            Value::Object(pairs) => seen.extend(pairs.iter().map(|(name, value)| (value, next, escape(name)))),
            _ => {}
        }
        next += 1;
    }
    let mut parts = Vec::new();
    while let Some((_, parent, name)) = seen.get(next).filter(|_| next != 0) {
        parts.push(name.as_str());
        next = *parent;
    }
    parts.iter().rev().flat_map(|part| ["/", part]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_resolve_and_are_found_again() {
        let root = json!({"a b": [{"x/y~z": 1}, {"ü": 2}]});
        for (reference, value) in
            [("#/a%20b/0/x~1y~0z", json!(1)), ("#/a b/1/%C3%BC", json!(2)), ("#/a b/1/ü", json!(2))]
        {
            assert_eq!(resolve(&root, reference), Ok(&value), "{reference}");
        }
        assert_eq!(resolve(&root, "#"), Ok(&root));
        assert_eq!(pointer_to(&root, &root["a b"][0]["x/y~z"]), "/a b/0/x~1y~0z");
        assert_eq!(pointer_to(&root, &root), "");
    }

    #[test]
    fn references_outside_and_without_a_target_are_distinguished() {
        let root = json!({"a": [1]});
        for outside in ["", "#a", "x", "http://127.0.0.1/x#/a", "other.json#/a"] {
            assert_eq!(resolve(&root, outside), Err(Unresolved::Outside), "{outside}");
        }
        for nowhere in ["#/b", "#/a/1", "#/a/00", "#/a/-", "#/%zz", "#/%", "#/%ff"] {
            assert_eq!(resolve(&root, nowhere), Err(Unresolved::Nowhere), "{nowhere}");
        }
    }
}
