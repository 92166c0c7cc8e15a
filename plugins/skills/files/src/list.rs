//! The tool `list`: lists files with their sizes, in pages.

use patchbay_sdk::{
    Content, Reply, Result,
    workspace::{self, Entry},
};

use crate::words::shown;

/// Maximum number of files of one answer: about 10,000 tokens.
pub(crate) const PAGE: usize = 500;
/// Entries of one request: one more than a page, to detect whether there are more.
const LIMIT: u32 = PAGE as u32 + 1;
/// The default glob.
const ALL: &str = "**/*";

pub(crate) fn list(glob: Option<&str>, after: Option<&str>) -> Result<Reply> {
    let glob = glob.unwrap_or(ALL);
    let mut entries = workspace::walk(glob, after, LIMIT)?;
    let more = entries.len() > PAGE;
    entries.truncate(PAGE);
    let lines = entries.iter().map(|Entry { path, is_directory, size }| line(path, *is_directory, *size));
    let lines: Vec<String> = lines.collect();
    let Some(last) = entries.last() else {
        let after = after.map(|after| format!(" after '{}'", shown(after))).unwrap_or_default();
        return Ok(format!("No files match '{}'{after}.", shown(glob)).into());
    };
    let reply = Reply::from(lines.join("\n"));
    Ok(match more {
        true => reply.with(Content::Text(format!("[There are more. To continue: list with after '{}'.]", last.path))),
        false => reply,
    })
}

/// Returns the line of one file or folder.
pub(crate) fn line(path: &str, is_directory: bool, size: u64) -> String {
    match is_directory {
        true => format!("{path}/"),
        false => format!("{path} ({size} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::Host;

    fn shown(host: &Host, glob: Option<&str>, after: Option<&str>) -> Vec<String> {
        let answer = host.run(|| patchbay_sdk::rt::run("{}", |_: serde_json::Value| list(glob, after)));
        let text = |content| match content {
            Content::Text(text) => text,
            other => panic!("text, not {other:?}"),
        };
        answer.expect("a list").into_iter().map(text).collect()
    }

    #[test]
    fn files_come_with_their_sizes() {
        let files = Host::new().with_file("a", "").with_file("b/c d", "xyz");
        assert_eq!(shown(&files, None, None), ["a (0 bytes)\nb/c d (3 bytes)"]);
        assert_eq!(shown(&files, Some("b/*"), None), ["b/c d (3 bytes)"]);
        assert_eq!(shown(&files, Some("x"), None), ["No files match 'x'."]);
        assert_eq!(shown(&files, None, Some("b/c d")), ["No files match '**/*' after 'b/c d'."]);
        assert_eq!(line("b", true, 9), "b/");
    }

    #[test]
    fn pages_continue_to_the_end() {
        let names = (0..2 * PAGE + 1).map(|number| format!("{number:06}"));
        let files = names.fold(Host::new(), |host, name| host.with_file(&name, ""));
        let first = shown(&files, None, None);
        assert_eq!(first[0].lines().count(), PAGE);
        assert_eq!(first[1], "[There are more. To continue: list with after '000499'.]");
        let second = shown(&files, None, Some("000499"));
        assert!(second[0].starts_with("000500 ") && second[1].contains("'000999'"), "{second:?}");
        assert_eq!(shown(&files, None, Some("000999")), ["001000 (0 bytes)"]);
        // A page that exactly fits announces no more files.
        assert_eq!(shown(&files, None, Some("000500")).len(), 1);
    }
}
