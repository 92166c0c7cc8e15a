//! Adds advice to messages of the C compiler and the linker.

use std::{fs, path::Path};

/// Text that occurs in a message, and the advice to add.
const ADVICE: &[(&str, &str)] = &[
    (
        "but the argument has type 'patchbay_str'",
        "a patchbay_str is not a char *: write %.*s in the format, and PATCHBAY_STR(…) around the argument",
    ),
    (
        "ignoring return value of function",
        "it returns false if it fails, and has recorded why: write `if (!…) return false;`",
    ),
    (
        "initializing 'patchbay_run *'",
        "a tool is `static bool NAME(patchbay_call *call, patchbay_value input)`: it adds its result with patchbay_textf or \
         patchbay_jsonf, and returns what they return",
    ),
    (
        "undefined symbol: patchbay_tool",
        "the skill declares no tools: write PATCHBAY_TOOLS({.name = …, .description = …, .schema = …, .run = …}) in skill.c, once, \
         outside of functions",
    ),
    (
        "duplicate symbol: patchbay_tool",
        "PATCHBAY_TOOLS is used twice: use it once in the folder, with the tools of all files",
    ),
    ("unknown type name 'bool'", "include \"patchbay.h\" first: it includes <stdbool.h>, <stddef.h> and <stdint.h>"),
    (
        "file not found",
        "only headers of this folder, of sdk/ and of the C library are available: put the library's sources into \
         this folder",
    ),
];
/// The most source lines that are listed for one name.
const PLACES: usize = 3;
/// The most edits between a mistyped name and the name that is suggested.
const NEAR: usize = 3;

/// Returns the compiler's output with added advice. Paths of cached objects in `tools` are
/// replaced by the author's files.
pub(super) fn explained(printed: &str, tools: &Path, folder: &Path) -> String {
    let printed = named_objects(printed, tools);
    let (mut out, mut pending) = (Vec::new(), None::<String>);
    let mut given: Vec<String> = Vec::new();
    for line in printed.lines() {
        if is_start(line) {
            flush(&mut out, &mut pending, &mut given);
            pending = advice(line, folder);
        }
        out.push(line.to_owned());
    }
    flush(&mut out, &mut pending, &mut given);
    out.join("\n")
}

/// Adds pending advice below its message, unless the same advice was added before.
fn flush(out: &mut Vec<String>, pending: &mut Option<String>, given: &mut Vec<String>) {
    let Some(advice) = pending.take().filter(|advice| !given.contains(advice)) else { return };
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    out.push(format!("note: {advice}"));
    given.push(advice);
}

/// Returns whether a line begins a message, or ends the last one.
fn is_start(line: &str) -> bool {
    line.contains(": error: ")
        || line.contains(": fatal error: ")
        || line.contains(": warning: ")
        || line.contains(" generated.")
}

fn advice(line: &str, folder: &Path) -> Option<String> {
    if let Some((_, advice)) = ADVICE.iter().find(|(words, _)| line.contains(words)) {
        return Some((*advice).to_owned());
    }
    if let Some((_, rest)) = line.split_once("call to undeclared function '") {
        let name = rest.split('\'').next().unwrap_or_default();
        return Some(match nearest(name, folder) {
            Some(near) => format!("did you mean '{near}'? sdk/patchbay.h has the functions of the SDK"),
            None => format!("include the header that declares '{name}', or check its name"),
        });
    }
    let (_, name) = line.split_once("undefined symbol: ")?;
    let places = places_of(name.trim(), folder);
    let places = if places.is_empty() { String::new() } else { format!(", used in {},", places.join(", ")) };
    Some(format!(
        "'{name}'{places} is not defined in any .c file of this folder or of sdk/: define it, or remove the code \
         that uses it; files in other folders are not compiled"
    ))
}

/// Returns the SDK function with the name closest to `name`, if it is close enough.
fn nearest(name: &str, folder: &Path) -> Option<String> {
    let header = fs::read_to_string(folder.join("sdk/patchbay.h")).ok()?;
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("patchbay_"));
    names
        .map(|word| (distance(word, name), word))
        .min()
        .filter(|(distance, _)| *distance <= NEAR)
        .map(|(_, word)| word.to_owned())
}

/// Returns how many characters must be inserted, removed or replaced to turn one name into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Returns FILE:LINE of the first lines that contain a name, in the .c files of a folder.
pub(crate) fn places_of(name: &str, folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    let mut places = Vec::new();
    for path in files {
        let (Ok(text), Some(file)) = (fs::read_to_string(&path), path.file_name()) else { continue };
        for (index, line) in text.lines().enumerate() {
            if has_word(line, name) && places.len() < PLACES {
                places.push(format!("{}:{}", file.to_string_lossy(), index + 1));
            }
        }
    }
    places
}

/// Returns whether the code before a line comment contains `word` as a whole word. A word that ends with punctuation, such as
/// `time(`, may be followed by anything.
fn has_word(line: &str, word: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    code.match_indices(word).any(|(at, _)| {
        let is_whole = !is_part(word.chars().next_back()) || !is_part(code[at + word.len()..].chars().next());
        is_whole && !is_part(code[..at].chars().next_back())
    })
}

/// Replaces paths of objects in the compiler's cache with the names of their sources.
fn named_objects(printed: &str, tools: &Path) -> String {
    let cache = tools.join("cache/o").display().to_string();
    let mut parts = printed.split(&cache);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `/HASH/skill.o`
        let end = part.find(|c: char| c.is_whitespace() || c == ':' || c == ')').unwrap_or(part.len());
        let name = part[..end].rsplit('/').next().unwrap_or_default();
        out.push_str(&name.strip_suffix(".o").map_or(name.to_owned(), |name| format!("{name}.c")));
        out.push_str(&part[end..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_sources_and_names_get_places() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("skill.c"), "// greet\nbool greets;\nbool x() { return greet(1); }\n").unwrap();
        let printed = "wasm-ld: error: /tools/cache/o/0123/skill.o: undefined symbol: greet\n";
        let explained = explained(printed, Path::new("/tools"), folder.path());
        assert!(
            explained
                .starts_with("wasm-ld: error: skill.c: undefined symbol: greet\nnote: 'greet', used in skill.c:3, is")
        );
    }

    #[test]
    fn distance_counts_changes() {
        for (a, b, expected) in
            [("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ab", 1), ("", "ab", 2), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn advice_follows_the_message_once() {
        let message = "skill.c:8:3: error: ignoring return value of function declared\n    8 |   f();\n      |   ^\n";
        let explained =
            explained(&format!("{message}{message}2 errors generated.\n"), Path::new("/tools"), Path::new("/none"));
        let lines: Vec<&str> = explained.lines().collect();
        assert!(lines[3].starts_with("note: it returns false if it fails"), "{explained}");
        assert_eq!((lines.len(), explained.matches("note: ").count()), (8, 1), "{explained}");
    }
}
