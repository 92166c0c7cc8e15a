//! What an agent does when mail wakes it: the lines `on mail LINE` of its own texts. `answer` calls it.

use crate::{own::Own, script};

/// Returns the lines to follow if the last of `texts` is a notification: those of the agent's most recent text with
/// such lines. `None` if there are none.
pub(crate) fn lines(own: &Own<'_>, texts: &[&str]) -> Option<String> {
    texts.last().filter(|text| is_notification(text))?;
    own.texts_from_last().find_map(|text| {
        let lines: Vec<_> = text.lines().filter_map(script::on_mail).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    })
}

/// Returns true for the host's text that wakes an agent with unread mail.
fn is_notification(text: &str) -> bool {
    let count = || {
        let rest = text.strip_prefix("[Notification: You have ")?;
        let rest = rest.strip_suffix(" in your inbox]")?;
        rest.strip_suffix(" unread message").or_else(|| rest.strip_suffix(" unread messages"))
    };
    count().is_some_and(|count| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}
