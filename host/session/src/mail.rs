//! Mail between the agents of a session: the operations of the mail commands and of the models' mail tools. A mail is stored
//! before it is acknowledged.

use std::sync::Arc;

use patchbay_core::{AgentId, Code, Outcome, text};
use patchbay_store::{AgentRow, MailRow, NewMail, SessionChange, StoreError};
use serde_json::{Value, json};

use crate::{
    Session,
    prepared::{Prepare, Prepared},
};

/// Length limit of a mail in bytes.
const BYTES: usize = 64 << 10;
/// Length limit of a mail's excerpt in a list, in characters.
const PREVIEW: usize = 50;

impl Session {
    /// Returns the change that sends `body` to `to`.
    pub(crate) fn send_mail(self: &Arc<Self>, from: AgentId, to: AgentRow, body: String) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            if body.trim().is_empty() {
                return Err(Outcome::error(Code::InvalidArgs, "message body cannot be empty."));
            }
            if body.len() > BYTES {
                let message = format!("message of {} bytes is over the limit of {BYTES}.", body.len());
                return Err(Outcome::error(Code::MailTooLong, message));
            }
            let to = to.id;
            if session.agent(to).is_none_or(|agent| agent.is_dead()) {
                return Err(Outcome::error(Code::AgentDead, format_args!("recipient agent '{to}' is dead.")));
            }
            let limit = session.host.agent_settings.limits.mails;
            if session.log().store().mail_counts(to).await.map_err(store_failed)?.all >= limit.into() {
                let message = format!("the inbox of agent '{to}' is full ({limit} messages).");
                return Err(Outcome::error(Code::LimitMail, message));
            }
            let mail = NewMail { from, to, body, limit: Some(limit), wakes: true };
            let change = SessionChange { requires_alive: vec![from], mail: vec![mail], ..SessionChange::default() };
            let outcome = Outcome::ok(Code::MailSent, format!("Mail sent to {to}.")).with_data(json!({"to": to}));
            let applied = Box::new(move |_: &[_]| session.mail_came(to, from));
            Ok(Prepared { change, applied, ..Prepared::shown(outcome, json!({"status": "sent", "to": to})) })
        })
    }

    /// Returns the outcome and the result that list the inbox of `agent`, or only its mail from `from`.
    pub(crate) async fn list_mail(&self, agent: AgentId, from: Option<AgentId>) -> Result<(Outcome, Value), Outcome> {
        let inbox = self.log().store().inbox(agent, from).await.map_err(store_failed)?;
        let unread = inbox.iter().filter(|mail| !mail.read).count();
        let messages: Vec<Value> = inbox.iter().map(summary).collect();
        let result = json!({"messages": messages, "unread": unread});
        let sender = from.map(|from| format!(" from {}", from.short())).unwrap_or_default();
        if inbox.is_empty() {
            let outcome = Outcome::ok(Code::MailEmpty, format!("No messages{sender}."));
            return Ok((outcome.with_data(result.clone()), result));
        }
        let s = if inbox.len() == 1 { "" } else { "s" };
        let mut lines = vec![format!("Inbox ({} message{s}{sender}, {unread} unread):", inbox.len())];
        lines.extend(inbox.iter().map(line));
        Ok((Outcome::ok(Code::MailListed, lines.join("\n")).with_data(result.clone()), result))
    }

    /// Returns the change that shows mail `number` of `agent` and marks it as read.
    pub(crate) fn read_mail(self: &Arc<Self>, agent: AgentId, number: u64) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            let mail = session.mail(agent, number).await?;
            let message = format!("From: {} ({})\n\n{}", mail.from.short(), minute(mail.sent_at), mail.body);
            let result = json!({
                "number": number, "from": mail.from, "sent_at": minute(mail.sent_at), "message": mail.body,
            });
            let change = SessionChange { reads_mail: vec![(agent, number)], ..SessionChange::default() };
            let outcome = Outcome::ok(Code::MailRead, text::clean(&message)).with_data(result.clone());
            Ok(Prepared { change, ..Prepared::shown(outcome, result) })
        })
    }

    /// Returns the change that deletes mail `number` of `agent`.
    pub(crate) fn delete_mail(self: &Arc<Self>, agent: AgentId, number: u64) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            session.mail(agent, number).await?;
            let change = SessionChange { deletes_mail: Some((agent, number)), ..SessionChange::default() };
            let outcome = Outcome::ok(Code::MailDeleted, "Message deleted.");
            Ok(Prepared { change, ..Prepared::shown(outcome, json!({"deleted": number})) })
        })
    }

    async fn mail(&self, agent: AgentId, number: u64) -> Result<MailRow, Outcome> {
        let mail = self.log().store().mail(agent, number).await.map_err(store_failed)?;
        mail.ok_or_else(|| Outcome::error(Code::MailNotFound, format_args!("message {number} not found.")))
    }
}

fn store_failed(error: StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}."))
}

/// Parses the number of a mail from a command's argument.
pub(crate) fn number(typed: &str) -> Result<u64, Outcome> {
    typed.parse().map_err(|_| {
        let message = format!("'{}' is not a message number.", text::excerpt(typed, 80));
        Outcome::error(Code::InvalidArgs, message)
    })
}

fn line(mail: &MailRow) -> String {
    let MailRow { number, from, sent_at, read, body } = mail;
    let unread = if *read { "" } else { "[unread] " };
    let preview = text::excerpt(body, PREVIEW);
    format!("  {number}. {unread}from {} ({}): {preview}", from.short(), minute(*sent_at))
}

fn summary(mail: &MailRow) -> Value {
    let MailRow { number, from, sent_at, read, body } = mail;
    json!({
        "number": number, "from": from, "sent_at": minute(*sent_at), "read": read,
        "preview": text::excerpt(body, PREVIEW),
    })
}

/// Formats a time in milliseconds since 1970 as UTC, to the minute.
pub(crate) fn minute(unix_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms).unwrap_or_default().strftime("%Y-%m-%d %H:%M").to_string()
}
