//! JSON of values that the store keeps: personas and the remembered SKILL.md files.

/// Returns `value` as JSON. `value` must contain only what JSON can represent, such as strings, numbers and lists.
pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
