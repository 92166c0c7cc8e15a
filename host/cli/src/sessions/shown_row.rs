//! Formats a stored row of a conversation as clean text, for `sessions show`.

use patchbay_core::{AssistantPart, AssistantRecord, Attachment, EventKind, MessageKind, notification_line, text};
use patchbay_store::MessageRow;
use serde_json::Value;

/// Length limit of a tool's input and of its result, in characters.
const TOOL_WORDS: usize = 120;

/// Returns whether a blank line comes before rows of this kind.
pub(super) fn begins_exchange(kind: MessageKind) -> bool {
    matches!(kind, MessageKind::User | MessageKind::Skill | MessageKind::Command | MessageKind::Capture)
}

/// Returns the lines of a row; `None` if other rows already contain everything.
pub(super) fn text(row: &MessageRow) -> Option<String> {
    let content = text::clean(&row.content);
    let content = content.trim_end();
    let event = || EventKind::Message { kind: row.kind, content: String::new(), data: row.data.clone() };
    Some(match row.kind {
        MessageKind::User if data(row, "notification").is_some() => notification_line(content).to_owned(),
        MessageKind::User => {
            let said = format!("> {content}");
            let files = event().attachments();
            std::iter::once(said).chain(files.iter().map(Attachment::placeholder)).collect::<Vec<_>>().join("\n")
        }
        MessageKind::Capture => format!("> {content} (captured)"),
        MessageKind::Skill => format!("> /skill {}", word(row, "skill")),
        MessageKind::Assistant => match event().answer() {
            Some(answer) => return answer_lines(content, &answer),
            None => content.to_owned(),
        },
        MessageKind::Tool => {
            let words = text::excerpt(&row.content, TOOL_WORDS);
            match event().tool_result().and_then(|result| result.error) {
                Some(code) => format!("\u{2717} {words} [{code}]"),
                None => format!("\u{2190} {words}"),
            }
        }
        MessageKind::Compaction => format!("(summary of the conversation up to here)\n{content}"),
        MessageKind::Command => {
            let outcome = word(row, "message");
            let is_ok = data(row, "status").is_some_and(|status| status == "ok");
            match &*outcome {
                // The rows of the command's turn come before this row, and show its result.
                "" if is_ok => return None,
                "" => format!("> {content}"),
                outcome => format!("> {content}\n{outcome}"),
            }
        }
        MessageKind::Notice => content.to_owned(),
    })
}

/// Returns the text of an answer and its tool calls; `None` if it has neither.
fn answer_lines(content: &str, answer: &AssistantRecord) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    if !content.is_empty() {
        lines.push(content.to_owned());
    }
    for part in &answer.parts {
        if let AssistantPart::ToolCall { name, input, .. } = part {
            lines.push(format!("\u{2192} {} {}", text::clean_line(name), text::excerpt(input, TOOL_WORDS)));
        }
    }
    if answer.interrupted {
        lines.push("(interrupted)".to_owned());
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn data<'a>(row: &'a MessageRow, key: &str) -> Option<&'a Value> {
    row.data.as_ref()?.get(key)
}

/// Returns a string of the row's data, cleaned; empty if there is none.
fn word(row: &MessageRow, key: &str) -> String {
    text::clean(data(row, key).and_then(Value::as_str).unwrap_or_default()).trim_end().to_owned()
}
