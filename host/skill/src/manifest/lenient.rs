//! Makes a second, lenient attempt to parse a frontmatter that is not valid YAML.
//!
//! Authors often write `description: Use when: …` without quotes, and other hosts accept that. So a top-level text line that is not
//! valid YAML is parsed as if its value were quoted, and the diagnostic `frontmatter_mended` reports it. Nothing else is repaired:
//! all other keys must be valid YAML, and every known key at the start of a line must be a key of the result. This ensures that no
//! restriction by the author, such as `eligibility`, is lost.

use std::collections::BTreeMap;

use patchbay_core::{Code, text};
use serde::de::IgnoredAny;

use super::frontmatter::{FrontmatterKeys, leading_key, parse, strict};
use crate::Problem;

/// Keys that contain one line of human-readable text. Only these lines are repaired.
const TEXTS: &[&str] = &[
    "name",
    "description",
    "summary",
    "when_to_use",
    "license",
    "compatibility",
    "version",
    "argument-hint",
    "input_hint",
];

/// Other keys with a meaning for the host. None of them may disappear when lines are repaired.
const KNOWN: &[&str] = &[
    "invocation_mode",
    "command",
    "command_tool",
    "requires_tools",
    "eligibility",
    "capabilities",
    "metadata",
    "allowed-tools",
    "disable-model-invocation",
    "user-invocable",
];

/// Maximum number of keys that [`unused`] returns.
const UNUSED: usize = 20;

/// Returns the top-level keys that have no meaning here, sorted.
pub(super) fn unused(frontmatter: &str) -> Vec<String> {
    let top: BTreeMap<String, IgnoredAny> = parse(frontmatter).ok().flatten().unwrap_or_default();
    let unused = top.into_keys().filter(|key| !TEXTS.contains(&&**key) && !KNOWN.contains(&&**key));
    unused.take(UNUSED).map(|key| text::excerpt(&key, 40)).collect()
}

/// Quotes the text lines that are not valid YAML and parses the result. Returns the keys, the text that was parsed and a note
/// for each repaired line, or `None` if that does not yield a valid frontmatter.
pub(super) fn mend(frontmatter: &str) -> Option<(FrontmatterKeys, String, Vec<Problem>)> {
    let (mut mended, mut notes) = (String::with_capacity(frontmatter.len() + 64), Vec::new());
    for (number, line) in frontmatter.split_inclusive('\n').enumerate() {
        match quoted(line) {
            Some((key, quoted)) => {
                mended.push_str(&quoted);
                // The frontmatter begins on the second line of the file.
                let message = format!("Line {}: '{key}' was read as if it were quoted.", number + 2);
                notes.push(Problem::new(Code::FrontmatterMended, message));
            }
            None => mended.push_str(line),
        }
    }
    if notes.is_empty() {
        return None;
    }
    let keys = strict(&mended).ok()?;
    let top: BTreeMap<String, IgnoredAny> = parse(&mended).ok()??;
    let lost = frontmatter
        .lines()
        .filter_map(leading_key)
        .any(|key| (TEXTS.contains(&key) || KNOWN.contains(&key)) && !top.contains_key(key));
    if lost { None } else { Some((keys, mended, notes)) }
}

/// Returns the key and the quoted form of a text line that is not valid YAML; `None` for any other line.
fn quoted(line: &str) -> Option<(&str, String)> {
    let key = leading_key(line).filter(|key| TEXTS.contains(key))?;
    let value = line[key.len() + 1..].trim();
    // These values are not plain text: quoted, a block that continues below, a comment, a tag, an anchor or an alias.
    if value.is_empty() || value.starts_with(['"', '\'', '|', '>', '#', '!', '&', '*']) {
        return None;
    }
    // A list or a mapping that continues on the next line is not one line of text.
    if (value.starts_with('[') && !value.contains(']')) || (value.starts_with('{') && !value.contains('}')) {
        return None;
    }
    // The line is valid YAML by itself.
    if parse::<BTreeMap<String, IgnoredAny>>(line).is_ok() {
        return None;
    }
    // A JSON string is a quoted YAML string.
    let value = serde_json::to_string(value).ok()?;
    Some((key, format!("{key}: {value}\n")))
}
