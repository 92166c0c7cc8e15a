//! The rule for model names, used for parsed choices, `config.toml` and errors.

use patchbay_core::text;

/// The longest model name, in bytes.
const NAME_BYTES: usize = 128;
/// The rule for model names, in words.
pub(crate) const NAME_RULE: &str = "a model name has 1 to 128 visible ASCII characters and no white space";

/// Returns why `name` is not a model name; `None` if it is one. The same rule applies to typed text,
/// `config.toml` and stored choices.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    if name.chars().any(char::is_whitespace) {
        Some("it contains white space")
    } else if text::clean(name) != name {
        Some("it contains invisible characters")
    } else if !name.is_ascii() {
        Some("it contains characters that are not ASCII")
    } else if name.is_empty() {
        Some("it is empty")
    } else if name.len() > NAME_BYTES {
        Some("it is too long")
    } else {
        None
    }
}
