//! Words of a command that a person pastes into a shell.

use std::borrow::Cow;

use patchbay_core::text;

/// Quotes `word` so that bash, zsh and sh read it back as one word; a plain word stays as it is.
pub fn quoted(word: &str) -> Cow<'_, str> {
    // It fails for a NUL alone, which no argument can have.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed("''"))
}

/// Quotes the path of a folder. Where it has characters that act or are not seen, the command is for the folder itself:
/// `.`, since a cleaned path could name another folder.
pub fn quoted_folder(path: &str) -> Cow<'_, str> {
    let is_plain = !path.chars().any(char::is_control) && text::clean(path) == path;
    if is_plain { quoted(path) } else { Cow::Borrowed(".") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        for (word, expected) in [
            ("kv", "kv"),
            ("http:api.example.com:8443", "http:api.example.com:8443"),
            ("http:*", "'http:*'"),
            ("http:*.example.com", "'http:*.example.com'"),
            ("/home/me/project", "/home/me/project"),
            ("/home/me/my project", "'/home/me/my project'"),
            ("/a/$(x)`y`", "'/a/$(x)`y`'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
        assert_eq!(shlex::split(&quoted_folder("/it's [a] \"dir\" #1")), Some(vec!["/it's [a] \"dir\" #1".to_owned()]));
        assert_eq!(quoted_folder("/a/\u{1b}[31m"), ".");
        assert_eq!(quoted_folder("/a/b\u{202e}"), ".");
        assert_eq!(quoted_folder("/a\nb"), ".");
    }
}
