//! The tool `find`: finds files by name in all folders, with a single host call.

use patchbay_sdk::{
    Content, Reply, Result,
    workspace_search::{self, Entry, NameQuery},
};

use crate::{
    list::{PAGE, line},
    words::shown,
};

pub(crate) fn find(name: &str, ignore_case: bool, after: Option<&str>) -> Result<Reply> {
    let query = NameQuery {
        globs: vec![in_any_folder(name)],
        ignore_case,
        directories: true,
        after: after.map(str::to_owned),
        max_entries: PAGE as u32,
        time_ms: None,
        extra: Vec::new(),
    };
    let results = workspace_search::find(&query)?;
    if results.entries.is_empty() {
        let after = after.map(|after| format!(" after '{}'", shown(after))).unwrap_or_default();
        return Ok(format!("No files are named '{}'{after}.", shown(name)).into());
    }
    let lines = results.entries.iter().map(|Entry { path, is_directory, size }| line(path, *is_directory, *size));
    let reply = Reply::from(lines.collect::<Vec<_>>().join("\n"));
    Ok(match results.next {
        Some(next) => reply.with(Content::Text(format!("[There are more. To continue: find with after '{next}'.]"))),
        None => reply,
    })
}

/// Returns the glob for a name: without a folder it applies to any folder.
fn in_any_folder(name: &str) -> String {
    let name = name.strip_prefix("./").unwrap_or(name).trim_end_matches('/');
    if name.contains('/') { name.to_owned() } else { format!("**/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::Host;

    fn found(host: &Host, name: &str, ignore_case: bool, after: Option<&str>) -> Vec<String> {
        let answer = host.run(|| patchbay_sdk::rt::run("{}", |_: serde_json::Value| find(name, ignore_case, after)));
        let text = |content| match content {
            Content::Text(text) => text,
            other => panic!("text, not {other:?}"),
        };
        answer.expect("a list").into_iter().map(text).collect()
    }

    #[test]
    fn names_match_in_any_folder() {
        let host = Host::new().with_file("README.md", "12").with_file("a/b/readme.txt", "").with_folder("a/readme");
        assert_eq!(found(&host, "README*", false, None), ["README.md (2 bytes)"]);
        assert_eq!(found(&host, "README*", true, None), ["README.md (2 bytes)\na/b/readme.txt (0 bytes)\na/readme/"]);
        for same in ["a/*/*.txt", "./a/**/readme.txt", "readme.txt"] {
            assert_eq!(found(&host, same, false, None), ["a/b/readme.txt (0 bytes)"], "{same}");
        }
        assert_eq!(found(&host, "readme/", false, None), ["a/readme/"]);
        assert_eq!(found(&host, "x", false, None), ["No files are named 'x'."]);
        assert_eq!(found(&host, "README*", false, Some("b")), ["No files are named 'README*' after 'b'."]);
    }

    #[test]
    fn one_call_of_the_host_fills_a_page() {
        let names = (0..PAGE + 1).map(|number| format!("d{}/{number:06}.txt", number % 7));
        let host = names.fold(Host::new(), |host, name| host.with_file(&name, ""));
        let first = found(&host, "*.txt", false, None);
        assert_eq!((first[0].lines().count(), host.calls().len()), (PAGE, 1));
        let last = first[0].lines().last().and_then(|line| line.split(' ').next()).expect("a path");
        assert_eq!(first[1], format!("[There are more. To continue: find with after '{last}'.]"));
        assert_eq!(found(&host, "*.txt", false, Some(last)).len(), 1);
    }
}
