//! File names that differ only by case or Unicode normal form. `skill` and `workspace` compare names with [`caseless`].

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Returns a file name folded to one case and one Unicode normal form. On macOS, two names in a folder are the same file if their
/// folded names are equal. Some file systems distinguish more names.
///
/// ```
/// use patchbay_core::caseless;
///
/// assert_eq!(caseless("SKILL.md"), caseless("skill.MD"));
/// // Composed and decomposed.
/// assert_eq!(caseless("\u{c4}.md"), caseless("a\u{308}.md"));
/// assert_ne!(caseless("a.md"), caseless("\u{e4}.md"));
/// ```
pub fn caseless(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => name.to_ascii_lowercase().into(),
            false => name.into(),
        };
    }
    // One mapping does not suffice: `ẞ` and `ß` are equal only in lower case, `ß` and `ss` only in upper case, and so are the
    // final sigma `ς` and `σ`.
    let folded = name.nfc().collect::<String>().to_lowercase().to_uppercase().to_lowercase();
    folded.nfc().collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_normal_form_are_ignored() {
        for (one, other) in [
            ("\u{c4}.md", "A\u{308}.MD"),
            ("\u{3a3}", "\u{3c2}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{1e9e}", "\u{df}"),
            ("\u{17f}", "S"),
            ("\u{212a}", "k"),
        ] {
            assert_eq!(caseless(one), caseless(other), "{one} and {other}");
        }
    }
}
