//! The lines of an outcome: a result, an error in its parts (what, why, what to do), and how long a stopped turn ran. Pure;
//! `transcript` prints them.

use std::{borrow::Cow, time::Duration};

use patchbay_core::{Code, Outcome};
use unicode_width::UnicodeWidthStr as _;

use super::{call_timer::seconds, prose};

/// Begins the message of a stopped line or turn; the rest lists the kept work.
const CANCELLED: &str = "Cancelled. ";

/// Returns the lines of a result for a window of `columns`. The host's texts are wrapped at words. Texts of skills, models and
/// users are not, because they may be code, JSON or tables.
pub(crate) fn result(outcome: &Outcome, columns: usize) -> Vec<String> {
    let is_foreign = matches!(outcome.code, Code::ToolResult | Code::HistoryListed | Code::MailRead);
    let columns = if is_foreign { usize::MAX } else { columns };
    outcome.line().split('\n').flat_map(|line| fitted(line, columns)).collect()
}

/// Returns a line of the host, wrapped at words if the window is too narrow for it.
fn fitted(line: &str, columns: usize) -> Vec<String> {
    if line.width() < columns { vec![line.to_owned()] } else { prose::lines(line, columns) }
}

/// Returns the lines of an error for a window of `columns`. Each part of an error gets its own line and is wrapped at words.
/// Commands and indented lines are not wrapped, except for lists of models. `took` is how long a stopped turn or command
/// ran.
pub(crate) fn lines(outcome: &Outcome, took: Option<Duration>, columns: usize) -> Vec<String> {
    let text = stopped(outcome, took).map_or_else(|| outcome.line(), Cow::Owned);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        if line.starts_with(' ') {
            // The indented lines of other errors may be code.
            let columns = if outcome.code == Code::UnknownModel { columns } else { usize::MAX };
            lines.extend(fitted(line, columns));
            continue;
        }
        let whole = prose::commands_apart(line);
        let is_long = whole.len() > 1 || has_parts(outcome.code) || line.width() >= columns;
        match whole.split_first() {
            Some((said, commands)) if is_long => {
                let parts = parts(said, !commands.is_empty());
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

/// Whether the errors of this code contain their advice in a separate sentence. The commands' reference fixes the texts of
/// other errors, which stay on one line if the window is wide enough.
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

/// Splits a line after each sentence. With `names_command`, the line is a message of the host, and is also split after the
/// first colon that follows more than one word, as in `Error: skill 'x' may not use 'kv': it is not granted.`
fn parts(line: &str, names_command: bool) -> Vec<&str> {
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
            // An apostrophe within a word does not end a quote.
            (end, Some(mark)) if end == mark && !after.starts_with(char::is_alphanumeric) => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) if !before.is_alphanumeric() => quote = Some(character),
            ('(' | '[', None) => depth += 1,
            (')' | ']', None) => depth = depth.saturating_sub(1),
            ('.', None) if depth == 0 && begins_sentence(after) => ends.push(at + 1),
            (':', None) if depth == 0 && reason.is_none() && after.starts_with(' ') && line[head..at].contains(' ') => {
                reason = Some(at + 1);
            }
            _ => {}
        }
        before = character;
    }
    // A colon in a later sentence does not separate a reason.
    let reason = reason.filter(|at| names_command && ends.first().is_none_or(|first| at < first));
    ends.extend(reason);
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

/// Whether the text after a full stop begins a sentence.
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
        let expected = ["Error: openai: Incorrect API key provided: sk-x.", "Check OPENAI_API_KEY or credentials.json"];
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
            "Error: 'a. B; c: d' is no address (it has; white. Space): give one's own; or none",
            "  let a: b = c; d. E",
        ];
        assert_eq!(shown(Code::ProviderUnusable, error, 120), expected);
    }

    #[test]
    fn other_texts_are_not_split_behind_colons_and_semicolons() {
        let error = "column 6: 'calc' is not a unit; there are bit, B, kB. Write one";
        let expected = ["Error: column 6: 'calc' is not a unit;", "there are bit, B, kB.", "Write one"];
        assert_eq!(shown(Code::ToolFailed, error, 42), expected);
        let expected = ["Error: column 6: 'calc' is not a unit; there are bit, B,", "kB.", "Write one"];
        assert_eq!(shown(Code::ToolFailed, error, 60), expected);
    }

    #[test]
    fn results_of_the_host_are_broken_at_words() {
        let mail = "/mail-check - List the inbox, unread mail first";
        let listed = result(&Outcome::ok(Code::CommandsListed, format!("/a - A\n{mail}")), 40);
        assert_eq!(listed, ["/a - A", "/mail-check - List the inbox, unread", "mail first"]);
        let whole = result(&Outcome::ok(Code::CommandsListed, mail), mail.len() + 1);
        assert_eq!(whole, [mail]);
        let kept =
            result(&Outcome::ok(Code::Quit, "The session is kept. To continue: patchbay --session 25ac03e6"), 40);
        assert_eq!(kept, ["The session is kept. To continue:", "patchbay --session 25ac03e6"]);
        // It may be code, JSON or a table.
        for code in [Code::ToolResult, Code::HistoryListed, Code::MailRead] {
            assert_eq!(result(&Outcome::ok(code, mail), 20), [mail]);
        }
    }

    #[test]
    fn listed_models_are_broken_at_words() {
        let error =
            Outcome::refused(Code::UnknownModel, "Unknown model: x\n\nSupported models:\n  Demo: demo-1, demo-small");
        let expected = ["Unknown model: x", "", "Supported models:", "  Demo: demo-1,", "demo-small"];
        assert_eq!(lines(&error, None, 20), expected);
    }

    #[test]
    fn stop_is_worded_with_its_time() {
        let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled. The partial answer is kept.");
        let after = |took| lines(&stopped, took, 80).join("\n");
        assert_eq!(after(Some(Duration::from_secs(3))), "Stopped after 3 s; the partial answer is kept.");
        assert_eq!(after(None), "Cancelled. The partial answer is kept.");
        let failed = Outcome::error(Code::ProviderServer, "Cancelled. No.");
        assert_eq!(lines(&failed, Some(Duration::ZERO), 80).join("\n"), "Error: Cancelled.\nNo.");
    }
}
