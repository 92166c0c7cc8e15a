//! Quotes words of the shell commands that denials suggest.

use std::borrow::Cow;

use patchbay_core::text;

/// Quotes `word` for bash, zsh and sh. A word without special characters stays as it is.
pub fn quoted(word: &str) -> Cow<'_, str> {
    // It fails only for a NUL, which no argument can contain.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed("''"))
}

/// Quotes the path of a folder. A path with control or invisible characters becomes `.`, the current folder, because a
/// cleaned path could name another folder.
pub fn quoted_folder(path: &str) -> Cow<'_, str> {
    let is_plain = !path.chars().any(char::is_control) && text::clean(path) == path;
    if is_plain { quoted(path) } else { Cow::Borrowed(".") }
}

/// Returns the command that allows an MCP server of a package.
pub fn allow_server_command(package: &str, server: &str) -> String {
    // A name that looks like an option.
    let end = if server.starts_with('-') { "-- " } else { "" };
    format!("patchbay plugin allow {end}{} {}", quoted(package), quoted(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
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

    #[test]
    fn name_of_a_server_is_an_argument() {
        assert_eq!(allow_server_command("tools", "docs"), "patchbay plugin allow tools docs");
        assert_eq!(allow_server_command("tools", "My docs"), "patchbay plugin allow tools 'My docs'");
        assert_eq!(allow_server_command("tools", "--yes"), "patchbay plugin allow -- tools --yes");
    }
}
