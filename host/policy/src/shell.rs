//! Quotes arguments of the shell commands that denials suggest.

use std::borrow::Cow;

use patchbay_core::text;

/// Quotes `word` for bash, zsh and sh. A word without special characters stays as it is.
pub fn quoted(word: &str) -> Cow<'_, str> {
    // Quoting fails only for a NUL, which no argument can contain.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed("''"))
}

/// Quotes the path of a folder. A path with control or invisible characters becomes `.`, the current folder, because a
/// cleaned path could name another folder.
pub fn quoted_folder(path: &str) -> Cow<'_, str> {
    let is_plain = !path.chars().any(char::is_control) && text::clean(path) == path;
    if is_plain { quoted(path) } else { Cow::Borrowed(".") }
}

/// Returns the command that allows an MCP server of a package. `name` is passed with `--as`.
pub fn allow_server_command(package: &str, server: &str, name: Option<&str>) -> String {
    let name = name.map(|name| format!(" --as {name}")).unwrap_or_default();
    let (package, quoted) = (quoted(package), quoted(server));
    // After '--', a name that begins with '-' is not parsed as an option.
    match server.starts_with('-') {
        true => format!("patchbay plugin allow{name} -- {package} {quoted}"),
        false => format!("patchbay plugin allow {package} {quoted}{name}"),
    }
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
        assert_eq!(allow_server_command("tools", "docs", None), "patchbay plugin allow tools docs");
        assert_eq!(
            allow_server_command("tools", "My docs", Some("docs")),
            "patchbay plugin allow tools 'My docs' --as docs"
        );
        assert_eq!(allow_server_command("tools", "--yes", None), "patchbay plugin allow -- tools --yes");
        assert_eq!(allow_server_command("tools", "-x", Some("NAME")), "patchbay plugin allow --as NAME -- tools -x");
    }
}
