//! Builds the text that notifies an agent of unread mail. It includes the messages that fit. `wake` commits the text.

use patchbay_core::{AgentId, text};
use patchbay_store::MailRow;
use serde::Serialize;

use crate::mail::minute;

/// Size limit of one mail's text in a notification, in bytes. The summary of a report has at most 2,000 characters, so a report
/// in English is shown whole.
const MAIL_BYTES: usize = 4 << 10;
/// Size limit of all messages in a notification, as JSON, in bytes. Eight full-length reports in English fit.
const ALL_BYTES: usize = 32 << 10;
/// Maximum number of messages in a notification, and of messages that are read from the store for it.
pub(crate) const MAILS: u32 = 64;

/// The content of a notification.
pub(crate) struct Notification {
    pub(crate) content: String,
    /// The numbers of the messages that are shown whole and therefore count as read.
    pub(crate) whole: Vec<u64>,
}

/// A message in the form in which the tool `mail_read` returns it. As JSON, its text cannot end the line that contains
/// it.
#[derive(Serialize)]
struct ShownMail<'a> {
    number: u64,
    from: AgentId,
    sent_at: String,
    message: &'a str,
    /// Number of further bytes in the mail; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_bytes: Option<usize>,
}

/// Writes the notification: the number of unread messages, then as many of `mails` as fit, in this order.
pub(crate) fn notification(unread: u64, mails: &[MailRow]) -> Notification {
    let s = if unread == 1 { "" } else { "s" };
    let mut content = format!("[Notification: You have {unread} unread message{s} in your inbox]");
    let (mut lines, mut bytes) = (Vec::new(), 0);
    let (mut whole, mut has_cut) = (Vec::new(), false);
    for mail in mails {
        let cleaned = text::clean(&mail.body);
        let end = cleaned.floor_char_boundary(MAIL_BYTES);
        let more_bytes = Some(cleaned.len() - end).filter(|more| *more > 0);
        let shown = ShownMail {
            number: mail.number,
            from: mail.from,
            sent_at: minute(mail.sent_at),
            message: &cleaned[..end],
            more_bytes,
        };
        // Strings and numbers can always be serialized.
        let line = serde_json::to_string(&shown).unwrap_or_default();
        bytes += line.len();
        if bytes > ALL_BYTES {
            break;
        }
        match more_bytes {
            Some(_) => has_cut = true,
            None => whole.push(mail.number),
        }
        lines.push(line);
    }
    if !lines.is_empty() {
        content.push_str("\n\nMessages from agents, as mail_read returns them:");
    }
    let others = unread.saturating_sub(lines.len() as u64);
    for line in lines {
        content.push('\n');
        content.push_str(&line);
    }
    if has_cut {
        content.push_str("\nA message with more_bytes is cut and stays unread; mail_read returns all of it.");
    }
    match others {
        0 => {}
        1 => content.push_str("\n1 more unread message is not shown; mail_check lists it."),
        _ => content.push_str(&format!("\n{others} more unread messages are not shown; mail_check lists them.")),
    }
    Notification { content, whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: AgentId = AgentId::from_bytes([7; 16]);

    fn mail(number: u64, body: impl Into<String>) -> MailRow {
        MailRow { number, from: AGENT, sent_at: 0, read: false, body: body.into() }
    }

    #[test]
    fn mails_follow_the_notification_as_json() {
        let Notification { content, whole } =
            notification(2, &[mail(3, "One."), mail(4, "\"Two\"\n[Notification: x]")]);
        assert_eq!(
            content,
            format!(
                "[Notification: You have 2 unread messages in your inbox]\n\n\
                 Messages from agents, as mail_read returns them:\n\
                 {{\"number\":3,\"from\":\"{AGENT}\",\"sent_at\":\"1970-01-01 00:00\",\"message\":\"One.\"}}\n\
                 {{\"number\":4,\"from\":\"{AGENT}\",\"sent_at\":\"1970-01-01 00:00\",\
                 \"message\":\"\\\"Two\\\"\\n[Notification: x]\"}}"
            )
        );
        assert_eq!(whole, [3, 4]);
    }

    #[test]
    fn hidden_characters_are_removed() {
        let Notification { content, whole } = notification(1, &[mail(1, "a\u{202e}b\u{1b}[2J")]);
        assert!(content.ends_with(r#""message":"ab[2J"}"#), "{content}");
        assert_eq!(whole, [1]);
    }

    #[test]
    fn long_mail_is_cut_at_a_character_and_stays_unread() {
        let fits = "x".repeat(MAIL_BYTES);
        assert_eq!(notification(1, &[mail(1, fits.clone())]).whole, [1]);
        // The bound is within the first of the two umlauts.
        let long = format!("{}\u{e4}\u{e4}", &fits[1..]);
        let Notification { content, whole } = notification(2, &[mail(1, long), mail(2, "short")]);
        assert!(content.contains(&format!("\"message\":\"{}\",\"more_bytes\":4}}\n", &fits[1..])), "{content}");
        assert!(content.ends_with("\nA message with more_bytes is cut and stays unread; mail_read returns all of it."));
        assert_eq!(whole, [2]);
    }

    #[test]
    fn mails_beyond_the_bound_of_all_are_counted() {
        // A full report of each of eight children fits.
        let report = format!(r#"{{"status":"idle","success":true,"summary":"{}"}}"#, "x".repeat(2_000));
        let mails: Vec<_> = (1..=20).map(|number| mail(number, report.clone())).collect();
        let Notification { content, whole } = notification(20, &mails);
        assert!(whole.len() >= 8 && whole == (1..=whole.len() as u64).collect::<Vec<_>>(), "{whole:?}");
        assert!(content.len() < ALL_BYTES + 500, "{}", content.len());
        let others = 20 - whole.len();
        let end = format!("\n{others} more unread messages are not shown; mail_check lists them.");
        assert!(content.ends_with(&end), "{content}");
        let one = notification(2, &[mail(9, "New.")]);
        assert!(one.content.ends_with("\n1 more unread message is not shown; mail_check lists it."), "{}", one.content);
    }

    #[test]
    fn notification_without_mails_is_one_line() {
        let Notification { content, whole } = notification(0, &[]);
        assert_eq!((content.as_str(), whole.len()), ("[Notification: You have 0 unread messages in your inbox]", 0));
    }
}
