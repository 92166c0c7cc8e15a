//! Finds `println!` and similar macros in the sources of a Rust skill. On `wasm32-unknown-unknown` their output is
//! silently discarded, and the first thing a new author tries is `println!`.

use std::{fs, path::Path};

/// Macros whose output is lost.
const LOST: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
/// Maximum number of files to read.
const FILES: usize = 500;
/// Size limit of a file, in bytes. Larger files are skipped.
const BYTES: u64 = 1 << 20;

/// Returns a note about the first macro in `src` whose output is lost, or `None`. This is a plain text search: it
/// ignores comment lines, but not a comment at the end of a line of code.
pub(crate) fn lost_output(folder: &Path) -> Option<String> {
    let mut folders = vec![folder.join("src")];
    let mut read = 0;
    while let Some(next) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(next).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                read += 1;
                let small = path.metadata().is_ok_and(|found| found.len() <= BYTES);
                if read > FILES || !small {
                    continue;
                }
                if let Some((line, found)) = fs::read_to_string(&path).ok().as_deref().and_then(first) {
                    let file = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    return Some(format!(
                        "{file}:{line}: {found} prints nothing in a component; write to the plugin's log with patchbay_sdk::log::write"
                    ));
                }
            }
        }
    }
    None
}

/// Returns the line number and name of the first macro. Searches only up to the first `#[cfg(test)]`, because tests run
/// natively and may print.
fn first(source: &str) -> Option<(usize, &'static str)> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().enumerate().find_map(|(index, line)| {
        let is_call = |name: &&&str| {
            line.match_indices(**name).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
            })
        };
        let found = LOST.iter().find(is_call).filter(|_| !line.trim_start().starts_with("//"))?;
        Some((index + 1, *found))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_macro_is_found() {
        assert_eq!(first("fn a() {\n    eprintln!(\"x\");\n}"), Some((2, "eprintln!")));
        assert_eq!(first("let x = dbg!(y);"), Some((1, "dbg!")));
        assert_eq!(first("// println!(1)\nmy_println!(2);\nwriteln!(f)"), None);
        assert_eq!(first("fn a() {}\n#[cfg(test)]\nmod tests { println!(1) }"), None);
    }

    #[test]
    fn folder_is_searched_in_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("src/deep")).unwrap();
        assert_eq!(lost_output(folder.path()), None);
        fs::write(folder.path().join("src/deep/b.rs"), "\nprintln!(1);").unwrap();
        let note = lost_output(folder.path()).unwrap();
        assert!(note.starts_with("src/deep/b.rs:2: println! prints nothing"), "{note}");
    }
}
