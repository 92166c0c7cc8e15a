//! The second, lenient reading of a frontmatter that is not valid YAML.
//!
//! People write `description: Use when: …` without quotes, and other hosts read it as it is meant. So a top-level line of
//! plain text that YAML cannot read is read as if the rest of the line were quoted, and a diagnostic says so. Nothing else
//! is mended: all other keys must read strictly, and every known key that the text has at the start of a line must be a key
//! of the result. So no limit that an author wrote, such as `eligibility`, is lost.

use std::collections::BTreeMap;

use patchbay_core::Code;
use serde::de::IgnoredAny;

use super::frontmatter::{FrontmatterKeys, leading_key, parse, strict};
use crate::Problem;

/// FrontmatterKeys whose value is one line of text for people.
const TEXTS: &[&str] =
    &["name", "description", "summary", "license", "compatibility", "version", "argument-hint", "input_hint"];

/// FrontmatterKeys that mean something to the host, apart from [`TEXTS`].
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
    "when_to_use",
];

/// Reads a frontmatter again, the text lines quoted that YAML cannot read. `None` where that does not help.
pub(super) fn mend(frontmatter: &str) -> Option<(FrontmatterKeys, Vec<Problem>)> {
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
    if lost { None } else { Some((keys, notes)) }
}

/// The key of a text line that YAML cannot read by itself, and the line with its value quoted.
fn quoted(line: &str) -> Option<(&str, String)> {
    let key = leading_key(line).filter(|key| TEXTS.contains(key))?;
    let value = line[key.len() + 1..].trim();
    // What is quoted already, goes on below, is a comment, a tag, an anchor or an alias is not plain text.
    if value.is_empty() || value.starts_with(['"', '\'', '|', '>', '#', '!', '&', '*']) {
        return None;
    }
    // A list or a mapping that goes on below is no line of text.
    if (value.starts_with('[') && !value.contains(']')) || (value.starts_with('{') && !value.contains('}')) {
        return None;
    }
    // A list or a mapping is valid YAML, and no text.
    if parse::<BTreeMap<String, IgnoredAny>>(line).is_ok() {
        return None;
    }
    // JSON is YAML.
    let value = serde_json::to_string(value).ok()?;
    Some((key, format!("{key}: {value}\n")))
}
