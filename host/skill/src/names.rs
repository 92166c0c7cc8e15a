//! Makes the names of a skill's files independent of the system. When looking up a name, macOS ignores case and normal form, but
//! Linux does not. A skill's digest covers these names, so the rules for them must not depend on the system:
//! [`Listing`](crate::listing::Listing) applies the same rules everywhere.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization as _;

/// Returns a path in the form that a skill's digest contains: composed (NFC), as editors and git write it. `None` for a path that
/// mixes both normal forms, because [`alternative`] would not find it again.
pub(crate) fn composed(path: &str) -> Option<Cow<'_, str>> {
    if path.is_ascii() {
        return Some(path.into());
    }
    let composed: String = path.nfc().collect();
    if composed == path {
        return Some(path.into());
    }
    path.nfd().eq(path.chars()).then(|| composed.into())
}

/// Returns the other form in which a composed path may be on disk: decomposed (NFD). `None` if both forms are equal.
pub(crate) fn alternative(path: &str) -> Option<String> {
    if path.is_ascii() {
        return None;
    }
    let decomposed: String = path.nfd().collect();
    (decomposed != path).then_some(decomposed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOSED: &str = "\u{e4}.md";
    const DECOMPOSED: &str = "a\u{308}.md";

    #[test]
    fn paths_are_composed_and_found_again() {
        assert_eq!(composed("a/b.md").as_deref(), Some("a/b.md"));
        assert_eq!(composed(COMPOSED).as_deref(), Some(COMPOSED));
        assert_eq!(composed(DECOMPOSED).as_deref(), Some(COMPOSED));
        assert_eq!(composed(&format!("{COMPOSED}/{DECOMPOSED}")), None);
        assert_eq!(alternative(COMPOSED).as_deref(), Some(DECOMPOSED));
        assert_eq!((alternative("a.md"), alternative("\u{4e2d}.md")), (None, None));
    }
}
