//! The elements of a pattern.

/// One element of a pattern.
#[derive(Debug)]
pub(crate) enum Token {
    Char(char),
    /// `?`: one character except `/`.
    Any,
    /// `[…]`: one character in these ranges or, if negated, in none of them; never `/`.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `*`: any number of characters except `/`.
    Star,
    /// `**`: any number of characters, including `/`.
    Deep,
    /// Precedes the `Deep` and the `/` of `**/`, which may both be skipped.
    Optional,
}
