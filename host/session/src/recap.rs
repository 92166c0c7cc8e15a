//! Formats the last exchange of a resumed session in a few lines, and the first words of a session. An exchange here is a message
//! with its answer. Used by `notices` and `host`.

use patchbay_core::{Attachment, MessageKind, notification_line, text};
use patchbay_store::MessageRow;
use serde_json::Value;

/// Maximum number of lines shown of the message.
const SAID: usize = 3;
/// Maximum number of files shown of the message.
const FILES: usize = 3;
/// Maximum number of lines shown of the answer. Its last lines are shown, because the conversation continues there.
const ANSWERED: usize = 12;
/// Appended to a message without an answer, and to an incomplete answer.
const NO_ANSWER: &str = "(no answer)";
const INTERRUPTED: &str = "(interrupted)";
/// Appended to a message whose turn has not ended.
const RUNNING: &str = "(running)";
/// Length limit of a shown line, in characters.
const WIDTH: usize = 400;
/// Length limit of [`typed_excerpt`], in characters.
const TYPED: usize = 60;

/// The last exchange of a resumed session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastExchange {
    /// Number of messages and answers before it.
    pub earlier: u64,
    /// The first lines of the message, cleaned.
    pub said: Vec<String>,
    /// The source of the whole answer, cleaned; `None` without an answer.
    pub answer: Option<String>,
    /// How the exchange ended, if not with a complete answer.
    pub note: Option<&'static str>,
}

/// Returns the message `said` and its `answer`, with `earlier` messages before them.
pub(crate) fn last_exchange(earlier: u64, said: &MessageRow, answer: Option<MessageRow>) -> LastExchange {
    let note = match &answer {
        None => Some(NO_ANSWER),
        Some(answer) => is_interrupted(answer).then_some(INTERRUPTED),
    };
    LastExchange { earlier, said: said_lines(said), answer: answer.map(|row| text::clean(&row.content)), note }
}

/// Returns the message `said` and its `answer`, cleaned and shortened. A turn that `is_running` may still add to them.
pub(crate) fn lines(said: &MessageRow, answer: Option<&MessageRow>, is_running: bool) -> Vec<String> {
    let mut shown = lines_of(said, answer, is_running);
    if is_running {
        shown.push(RUNNING.to_owned());
    }
    shown
}

/// Like [`lines`], but does not append that the turn is running. The answer of an agent that `is_working` may still come.
pub(crate) fn lines_of(said: &MessageRow, answer: Option<&MessageRow>, is_working: bool) -> Vec<String> {
    let mut shown = said_lines(said);
    let Some(answer) = answer else {
        if !is_working {
            shown.push(NO_ANSWER.to_owned());
        }
        return shown;
    };
    let lines = split(&answer.content);
    let before = lines.len().saturating_sub(ANSWERED);
    if before > 0 {
        shown.push(left_out(before));
    }
    shown.extend(lines.into_iter().skip(before));
    if is_interrupted(answer) {
        shown.push(INTERRUPTED.to_owned());
    }
    shown
}

/// Returns the first lines of a message.
fn said_lines(said: &MessageRow) -> Vec<String> {
    let mut shown: Vec<String> = match said.kind {
        MessageKind::Skill => vec![format!("/skill {}", word(said, "skill"))],
        _ => {
            let is_notification = said.data.as_ref().is_some_and(|data| data.get("notification").is_some());
            let content = if is_notification { notification_line(&said.content) } else { said.content.as_str() };
            // A message that only has files has no lines.
            let lines = if content.trim().is_empty() { Vec::new() } else { split(content) };
            let more = lines.len().saturating_sub(SAID);
            let mut shown: Vec<String> = lines.into_iter().take(SAID).collect();
            if more > 0 {
                shown.push(left_out(more));
            }
            let files = Attachment::from_data(said.data.as_ref());
            let shown_files = files.iter().take(FILES).map(|file| text::excerpt(&file.placeholder(), WIDTH));
            shown.extend(shown_files);
            if let Some(more) = files.len().checked_sub(FILES).filter(|more| *more > 0) {
                shown.push(format!("\u{2026} {more} more {}", if more == 1 { "file" } else { "files" }));
            }
            shown
        }
    };
    if let Some(first) = shown.first_mut() {
        first.insert_str(0, "> ");
    }
    shown
}

/// Returns whether an answer was interrupted, so its text is incomplete.
fn is_interrupted(answer: &MessageRow) -> bool {
    answer.data.as_ref().and_then(|data| data.get("interrupted")).is_some_and(|interrupted| *interrupted == true)
}

/// Returns the first words of a session, whose first message is `said`, in one line of at most `max` characters.
pub(crate) fn first_words(said: &MessageRow, max: usize) -> String {
    match said.kind {
        MessageKind::Skill => text::excerpt(&format!("/skill {}", word(said, "skill")), max),
        _ => text::excerpt(&said.content, max),
    }
}

/// Returns a message as the user can send it again: for the instructions of a skill, the command with its input.
pub(crate) fn typed(said: &MessageRow) -> String {
    let of_data = |key| said.data.as_ref().and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default();
    match said.kind {
        MessageKind::Skill => format!("/skill {} {}", of_data("skill"), of_data("input")).trim_end().to_owned(),
        _ => said.content.clone(),
    }
}

/// Returns the beginning of [`typed`] in one line, or the placeholders of the files if the message has no text.
pub(crate) fn typed_excerpt(said: &MessageRow) -> String {
    text::excerpt(&Attachment::text_or_placeholders(&typed(said), said.data.as_ref()), TYPED)
}

fn word(row: &MessageRow, key: &str) -> String {
    text::excerpt(row.data.as_ref().and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default(), WIDTH)
}

fn left_out(lines: usize) -> String {
    format!("\u{2026} {lines} more {}", if lines == 1 { "line" } else { "lines" })
}

/// Splits a text into cleaned lines of at most [`WIDTH`] characters, without blank lines at its ends.
fn split(text: &str) -> Vec<String> {
    let clean = text::clean(text);
    clean
        .trim_matches('\n')
        .trim_end()
        .lines()
        .map(|line| match line.char_indices().nth(WIDTH) {
            Some((end, _)) => format!("{}\u{2026}", &line[..end]),
            None => line.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use patchbay_core::AgentId;
    use serde_json::json;

    use super::*;

    fn row(kind: MessageKind, content: &str, data: Option<Value>) -> MessageRow {
        MessageRow { seq: 1, agent: AgentId::random(), kind, content: content.to_owned(), data }
    }

    #[test]
    fn last_exchange_shows_how_it_ended() {
        let said = row(MessageKind::User, "How much?\n", None);
        let answer = |data| row(MessageKind::Assistant, "\nTwo.\n\nOr three.\n", Some(data));
        let whole = answer(json!({"parts": []}));
        assert_eq!(lines(&said, Some(&whole), false), ["> How much?", "Two.", "", "Or three."]);
        let half = answer(json!({"interrupted": true}));
        assert_eq!(lines(&said, Some(&half), false), ["> How much?", "Two.", "", "Or three.", "(interrupted)"]);
        assert_eq!(lines(&said, None, false), ["> How much?", "(no answer)"]);
        assert_eq!(lines(&said, None, true), ["> How much?", "(running)"]);
        assert_eq!(lines(&said, Some(&whole), true), ["> How much?", "Two.", "", "Or three.", "(running)"]);
        let skill = row(MessageKind::Skill, "Ten pages of instructions", Some(json!({"skill": "plan_compiler"})));
        assert_eq!(lines(&skill, None, false), ["> /skill plan_compiler", "(no answer)"]);
    }

    #[test]
    fn notification_is_one_line() {
        let content = "[Notification: You have 1 unread message in your inbox]\n\nMessages:\n{}";
        let said = row(MessageKind::User, content, Some(json!({"notification": true})));
        let line = "> [Notification: You have 1 unread message in your inbox]";
        assert_eq!(lines(&said, None, false), [line, "(no answer)"]);
    }

    #[test]
    fn last_exchange_has_the_whole_answer() {
        let said = row(MessageKind::User, "How much?\n", None);
        let answer = row(MessageKind::Assistant, "**Two**\u{1b}[2J\n", Some(json!({"interrupted": true})));
        let shown = last_exchange(7, &said, Some(answer));
        assert_eq!((shown.earlier, &*shown.said), (7, &["> How much?".to_owned()][..]));
        assert_eq!((shown.answer.as_deref(), shown.note), (Some("**Two**[2J\n"), Some("(interrupted)")));
        let unanswered = last_exchange(0, &said, None);
        assert_eq!((unanswered.answer, unanswered.note), (None, Some("(no answer)")));
    }

    #[test]
    fn shown_lines_are_cleaned_and_bounded() {
        let many: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        let shown = lines(&row(MessageKind::User, &many, None), Some(&row(MessageKind::Assistant, &many, None)), false);
        assert_eq!(shown[..4], ["> line 1", "line 2", "line 3", "\u{2026} 37 more lines"]);
        assert_eq!((shown.len(), &*shown[4], &*shown[5]), (4 + 1 + 12, "\u{2026} 28 more lines", "line 29"));
        let sly = "\u{1b}[2J\u{202e}x".to_owned() + &"y".repeat(2 * WIDTH);
        let shown = lines(&row(MessageKind::User, &sly, None), None, false);
        assert!(shown[0].starts_with("> [2Jxy") && shown[0].chars().count() == WIDTH + 3, "{}", shown[0]);
    }

    #[test]
    fn attached_files_are_named() {
        let file = |name: &str| Attachment {
            name: name.to_owned(),
            media_type: "image/png".to_owned(),
            digest: patchbay_core::Digest::of(b""),
            size: 1,
        };
        let said = |names: &[&str], text: &str| {
            let data = Attachment::to_data(&names.iter().map(|name| file(name)).collect::<Vec<_>>());
            row(MessageKind::User, text, data)
        };
        let shown = lines(&said(&["a.png"], "What is this?"), None, false);
        assert_eq!(shown, ["> What is this?", "[image: a.png]", "(no answer)"]);
        let shown = lines(&said(&["1", "2", "3", "4"], "Look"), None, false);
        assert_eq!(shown[1..5], ["[image: 1]", "[image: 2]", "[image: 3]", "\u{2026} 1 more file"]);
    }

    #[test]
    fn first_words_are_one_clean_line() {
        let words = |kind, content: &str, data| first_words(&row(kind, content, data), 12);
        assert_eq!(words(MessageKind::User, "  How\n much\u{1b}[2J?", None), "How much[2J?");
        assert_eq!(words(MessageKind::User, "How much is it?", None), "How much is \u{2026}");
        assert_eq!(words(MessageKind::Command, "/calc 1", None), "/calc 1");
        assert_eq!(words(MessageKind::Skill, "Many", Some(json!({"skill": "plan"}))), "/skill plan");
        let skill = row(MessageKind::Skill, "Many", Some(json!({"skill": "plan", "input": "a\nb"})));
        assert_eq!((&*typed(&skill), &*typed_excerpt(&skill)), ("/skill plan a\nb", "/skill plan a b"));
    }
}
