//! The actions of an agent woken by mail: the lines `on mail LINE` in its own texts, and the messages in a
//! notification. Called by `answer` and `variables`.

use serde_json::Value;

use crate::{own::Own, script};

/// Returns the lines to follow if the last of `texts` is a notification: the lines in the agent's most recent text
/// that has any. `None` otherwise.
pub(crate) fn lines(own: &Own<'_>, texts: &[&str]) -> Option<String> {
    texts.last().filter(|text| notification(text).is_some())?;
    own.texts_from_last().find_map(|text| {
        let lines: Vec<_> = text.lines().filter_map(script::on_mail).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    })
}

/// Returns the first line of the host's text that wakes an agent with unread mail; `None` for any other
/// text. The messages follow the line.
pub(crate) fn notification(text: &str) -> Option<&str> {
    let line = text.lines().next()?;
    let rest = line.strip_prefix("[Notification: You have ")?.strip_suffix(" in your inbox]")?;
    let count = rest.strip_suffix(" unread message").or_else(|| rest.strip_suffix(" unread messages"))?;
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(line)
}

/// Returns the texts of the messages in all notifications after the user's last text, in order.
pub(crate) fn messages(own: &Own<'_>) -> Vec<String> {
    let notifications = own.texts_from_last().take_while(|text| notification(text).is_some());
    let mut notifications: Vec<&str> = notifications.collect();
    notifications.reverse();
    let lines = notifications.into_iter().flat_map(str::lines).filter(|line| line.starts_with('{'));
    let mails = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    mails.filter_map(|mail| mail["message"].as_str().map(str::to_owned)).collect()
}
