//! The lines of an error or of a stop: an error in its parts (what, why, what to do), and how long a stopped turn ran.
//! Pure; `transcript` prints them.

use std::{borrow::Cow, time::Duration};

use patchbay_core::{Code, Outcome};
use unicode_width::UnicodeWidthStr as _;

use super::{prose, transcript::seconds};

/// Begins the message of a line or a turn that was stopped; what follows says what is kept.
const CANCELLED: &str = "Cancelled. ";

/// Returns the lines of an error for a window of `columns`. An error that has parts has a line for each; parts are broken at
/// words, commands and lines that are indented are not broken. `took` is the time that a stopped turn or command ran.
pub(crate) fn lines(outcome: &Outcome, took: Option<Duration>, columns: usize) -> Vec<String> {
    let text = stopped(outcome, took).map_or_else(|| outcome.line(), Cow::Owned);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.starts_with(' ') {
            lines.push(line.to_owned());
            continue;
        }
        let whole = prose::commands_apart(line);
        let is_long = whole.len() > 1 || has_parts(outcome.code) || line.width() >= columns;
        match whole.split_first() {
            Some((said, commands)) if is_long => {
                let parts = parts(said, !commands.is_empty() || said.width() >= columns);
                lines.extend(parts.iter().flat_map(|part| prose::lines(part, columns)));
                lines.extend(commands.iter().map(|command| (*command).to_owned()));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Returns how a line or a turn was stopped, with its time.
fn stopped(outcome: &Outcome, took: Option<Duration>) -> Option<String> {
    let kept = outcome.message.strip_prefix(CANCELLED).filter(|_| outcome.code == Code::TurnCancelled)?;
    let mut characters = kept.chars();
    let first = characters.next()?.to_lowercase();
    Some(format!("Stopped after {}; {first}{}", seconds(took?), characters.as_str()))
}

/// Whether the errors of this code say what to do in a sentence of its own. The texts of other errors are those of the
/// commands' reference; they stay on one line where there is room.
fn has_parts(code: Code) -> bool {
    matches!(
        code,
        Code::ProviderAuthentication
            | Code::ProviderRateLimit
            | Code::ProviderInvalidRequest
            | Code::ProviderNotFound
            | Code::ProviderServer
            | Code::ProviderTimeout
            | Code::ProviderContentFilter
            | Code::ProviderNetwork
            | Code::ProviderUnknown
            | Code::ProviderUnusable
            | Code::ProviderPending
    )
}

/// Splits a line behind its sentences and semicolons. If `splits_reason` or there are several, also behind the first colon that
/// follows more than a name: `Error: skill 'x' may not use 'kv': it is not granted.`
fn parts(line: &str, splits_reason: bool) -> Vec<&str> {
    const PREFIX: &str = "Error: ";
    let head = if line.starts_with(PREFIX) { PREFIX.len() } else { 0 };
    let mut ends = Vec::new();
    let mut reason = None;
    let mut quote = None;
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, character) in line.char_indices().skip_while(|(at, _)| *at < head) {
        let after = &line[at + character.len_utf8()..];
        match (character, quote) {
            // An apostrophe ends no quote.
            (end, Some(mark)) if end == mark && !after.starts_with(char::is_alphanumeric) => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) if !before.is_alphanumeric() => quote = Some(character),
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) => depth = depth.saturating_sub(1),
            ('.', None) if depth == 0 && begins_sentence(after) => ends.push(at + 1),
            (';', None) if depth == 0 && after.starts_with(' ') => ends.push(at + 1),
            (':', None) if depth == 0 && reason.is_none() && after.starts_with(' ') && line[head..at].contains(' ') => {
                reason = Some(at + 1);
            }
            _ => {}
        }
        before = character;
    }
    // A colon in a later part belongs to it.
    let reason = reason.filter(|at| ends.first().is_none_or(|first| at < first));
    ends.extend(reason.filter(|_| splits_reason || !ends.is_empty()));
    ends.sort_unstable();
    let mut parts = Vec::new();
    let mut start = 0;
    for end in ends.into_iter().chain([line.len()]) {
        parts.push(line[start..end].trim());
        start = end;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a text that follows a full stop is a sentence.
fn begins_sentence(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next() == Some(' ') && characters.next().is_some_and(|first| first.is_uppercase() || first == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: Code, message: &str, columns: usize) -> Vec<String> {
        lines(&Outcome::error(code, message), None, columns)
    }

    #[test]
    fn error_with_a_command_has_three_parts() {
        let error = "skill 'keeper' may not use 'kv': it is not granted. To grant it: patchbay grant add keeper kv";
        let expected = [
            "Error: skill 'keeper' may not use 'kv':",
            "it is not granted.",
            "To grant it:",
            "patchbay grant add keeper kv",
        ];
        assert_eq!(shown(Code::Denied, error, 120), expected);
        assert_eq!(shown(Code::Denied, error, 40), expected);
    }

    #[test]
    fn error_of_a_provider_says_what_to_do_on_its_own_line() {
        let error = "openai: Incorrect API key provided: sk-x. Check OPENAI_API_KEY or credentials.json";
        let expected =
            ["Error: openai: Incorrect API key provided:", "sk-x.", "Check OPENAI_API_KEY or credentials.json"];
        assert_eq!(shown(Code::ProviderAuthentication, error, 120), expected);
        let narrow = shown(Code::ProviderAuthentication, error, 24);
        assert_eq!(narrow[..2], ["Error: openai:", "Incorrect API key"]);
        let short = "demo: demo fails as requested: server";
        assert_eq!(shown(Code::ProviderServer, short, 80), [format!("Error: {short}")]);
        assert_eq!(shown(Code::ProviderServer, short, 40), ["Error: demo: demo fails as requested:", "server"]);
    }

    #[test]
    fn other_errors_stay_on_one_line_where_there_is_room() {
        let error = "already capturing. Use /fork to send or /cancel to discard.";
        assert_eq!(shown(Code::CaptureActive, error, 80), [format!("Error: {error}")]);
        let narrow = ["Error: already capturing.", "Use /fork to send or /cancel to", "discard."];
        assert_eq!(shown(Code::CaptureActive, error, 40), narrow);
    }

    #[test]
    fn quoted_texts_and_indented_lines_are_not_split() {
        let error = "'a. B; c: d' is no address (it has; white. Space): give one's own; or none\n  let a: b = c; d. E";
        let expected = [
            "Error: 'a. B; c: d' is no address (it has; white. Space):",
            "give one's own;",
            "or none",
            "  let a: b = c; d. E",
        ];
        assert_eq!(shown(Code::ProviderUnusable, error, 80), expected);
    }

    #[test]
    fn stop_is_worded_with_its_time() {
        let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled. What came is kept.");
        let after = |took| lines(&stopped, took, 80).join("\n");
        assert_eq!(after(Some(Duration::from_secs(3))), "Stopped after 3 s; what came is kept.");
        assert_eq!(after(None), "Cancelled. What came is kept.");
        let failed = Outcome::error(Code::ProviderServer, "Cancelled. No.");
        assert_eq!(lines(&failed, Some(Duration::ZERO), 80).join("\n"), "Error: Cancelled.\nNo.");
    }
}
