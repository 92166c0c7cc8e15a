//! Describes calls of the host's own tools (forks, mail and skills) in sentences, because the results are JSON for the model. Pure.

use patchbay_core::{Task, text};
use serde_json::Value;

use super::call_text::{quoted, word};

/// Length limit of a mail's text, in characters.
const MAIL: usize = 160;
/// Characters of a UUID that are shown.
const SHORT: usize = 8;

/// Describes a call of one of the host's tools, or returns `None` for another tool or an invalid input.
pub(super) fn sentence(tool: &str, input: &Value) -> Option<String> {
    let number = || input.get("number").and_then(Value::as_u64);
    Some(match tool {
        "fork" => format!("fork {}", quoted(input, "prompt")?),
        "kill" => format!("kill {}", agent(input, "uuid")?),
        "mail_send" => format!("mail to {} {}", agent(input, "to")?, quoted(input, "message")?),
        "mail_check" => "check the mail".to_owned(),
        "mail_filter" => format!("list the mail from {}", agent(input, "from")?),
        "mail_read" => format!("read mail {}", number()?),
        "mail_delete" => format!("delete mail {}", number()?),
        "set_agent_model" => format!("set the model of {} to {}", agent(input, "agentId")?, word(input, "model")?),
        "use_skill" => format!("use the skill {}", word(input, "name")?),
        "task_list" => match input.get("tasks")?.as_array()?.len() {
            0 => "remove the tasks".to_owned(),
            count => match Task::line(&Task::list(input.get("tasks")?)) {
                Some(line) => format!("tasks {line}"),
                None if count == 1 => "complete 1 task".to_owned(),
                None => format!("complete {count} tasks"),
            },
        },
        "skill_file" => format!("read {} of the skill {}", word(input, "path")?, word(input, "skill")?),
        "find_skills" => format!("search the skills for {}", quoted(input, "query")?),
        "find_tools" => format!("search the tools for {}", quoted(input, "query")?),
        _ => return None,
    })
}

/// Describes the result of one of the host's tools, or returns `None` for another tool or an unknown format.
pub(super) fn result(tool: &str, content: &str) -> Option<String> {
    if !matches!(tool, "fork" | "kill" | "task_list") && !tool.starts_with("mail_") {
        return None;
    }
    let result: Value = serde_json::from_str(content).ok()?;
    match tool {
        "fork" => Some(format!("child {}", agent(&result, "child_uuid")?)),
        "kill" => {
            let killed = result.get("killed")?.as_array()?.iter().filter_map(Value::as_str).map(short);
            Some(format!("ended {}", killed.collect::<Vec<_>>().join(", ")))
        }
        "task_list" => {
            let number = |key: &str| result.get(key).and_then(Value::as_u64);
            Some(format!("{} of {} done", number("completed")?, number("tasks")?))
        }
        "mail_send" => Some("sent".to_owned()),
        "mail_delete" => Some("deleted".to_owned()),
        "mail_read" => Some(mail(&agent(&result, "from")?, result.get("message")?.as_str()?)),
        "mail_check" | "mail_filter" => {
            let messages = result.get("messages")?.as_array()?.len();
            let s = if messages == 1 { "" } else { "s" };
            Some(format!("{messages} message{s}, {} unread", result.get("unread")?.as_u64()?))
        }
        _ => None,
    }
}

/// Returns a mail as a sentence. The report of a child is JSON.
fn mail(from: &str, message: &str) -> String {
    let report = serde_json::from_str(message).ok().filter(|report: &Value| report.get("status").is_some());
    let words = |key: &str| report.as_ref().and_then(|report| word(report, key)).map(|text| text::excerpt(&text, MAIL));
    let succeeded = report.as_ref().and_then(|report| report.get("success")).and_then(Value::as_bool);
    match (succeeded, words("summary"), words("error")) {
        (Some(true), Some(summary), _) => format!("{from} answered: {summary}"),
        (Some(true), None, _) => format!("{from} is done"),
        (Some(false), _, Some(error)) => format!("{from} failed: {error}"),
        (Some(false), _, None) => format!("{from} failed"),
        (None, ..) => format!("{from} writes: {}", text::excerpt(message, MAIL)),
    }
}

fn agent(value: &Value, key: &str) -> Option<String> {
    Some(short(value.get(key)?.as_str()?))
}

fn short(uuid: &str) -> String {
    text::clean_line(uuid).chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AGENT: &str = "a1b2c3d4-0000-4000-8000-000000000000";

    #[test]
    fn calls_name_agents_shortly() {
        for (tool, input, expected) in [
            ("fork", json!({"prompt": "Read\nthe logs"}), Some("fork \"Read the logs\"")),
            ("kill", json!({"uuid": AGENT}), Some("kill a1b2c3d4")),
            ("mail_send", json!({"to": AGENT, "message": "Stop."}), Some("mail to a1b2c3d4 \"Stop.\"")),
            ("mail_read", json!({"number": 3}), Some("read mail 3")),
            ("mail_check", json!({}), Some("check the mail")),
            ("use_skill", json!({"name": "plan"}), Some("use the skill plan")),
            ("find_tools", json!({"query": "pdf"}), Some("search the tools for \"pdf\"")),
            ("task_list", json!({"tasks": [{"content": "Read", "status": "pending"}]}), Some("tasks 0/1 Read")),
            ("task_list", json!({"tasks": [{"content": "Read", "status": "completed"}]}), Some("complete 1 task")),
            ("task_list", json!({"tasks": []}), Some("remove the tasks")),
            ("mail_read", json!({"number": "three"}), None),
            ("other", json!({}), None),
        ] {
            assert_eq!(sentence(tool, &input).as_deref(), expected, "{tool}");
        }
    }

    #[test]
    fn results_are_sentences() {
        let said = |tool, result: Value| super::result(tool, &result.to_string());
        assert_eq!(said("fork", json!({"child_uuid": AGENT})).unwrap(), "child a1b2c3d4");
        assert_eq!(said("kill", json!({"killed": [AGENT, AGENT]})).unwrap(), "ended a1b2c3d4, a1b2c3d4");
        let mail = |message: Value| {
            let message = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            said("mail_read", json!({"number": 1, "from": AGENT, "sent_at": "", "message": message})).unwrap()
        };
        let answered = json!({"status": "idle", "success": true, "summary": "The logs\nare \u{1b}[2Jclean."});
        assert_eq!(mail(answered), "a1b2c3d4 answered: The logs are [2Jclean.");
        let failed = json!({"status": "idle", "success": false, "summary": "I begin", "error": "out of tokens"});
        assert_eq!(mail(failed), "a1b2c3d4 failed: out of tokens");
        assert_eq!(mail(json!("{\"a\": 1}")), "a1b2c3d4 writes: {\"a\": 1}");
        assert_eq!(said("mail_check", json!({"messages": [{}], "unread": 1})).unwrap(), "1 message, 1 unread");
        assert_eq!(said("mail_check", json!({"messages": 1})), None);
        assert_eq!(said("task_list", json!({"tasks": 5, "completed": 2})).unwrap(), "2 of 5 done");
        assert_eq!(said("files__read", json!({"child_uuid": AGENT})), None);
    }
}
