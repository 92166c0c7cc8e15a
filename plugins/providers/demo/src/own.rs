//! The agent of a request, and its own part of the conversation. `answer` builds it, the other modules read it.
//!
//! The host puts an identity text before the first text of each agent: `You are the agent UUID. You have no parent.` or
//! `You are the agent UUID. Your parent is UUID.` The conversation of a forked agent begins with its parent's; only
//! what follows the last identity text is its own. Without an identity text everything is its own.
//!
//! The first identity text is followed by the host's facts about the session's start. The model
//! reads them, but no user wrote them.

use patchbay_provider_sdk::{Block, Message, Part, Role, ToolResult};

/// Length in bytes of a UUID with hyphens.
const UUID_BYTES: usize = 36;

/// The beginnings of the host's texts about the session's start.
const START: [&str; 2] = ["At the start of this session:\n", "Instructions for agents in "];

/// The own part of a conversation.
pub(crate) struct Own<'a> {
    /// `None` without an identity text.
    pub(crate) identity: Option<Identity<'a>>,
    pub(crate) messages: Vec<OwnMessage<'a>>,
}

pub(crate) struct Identity<'a> {
    pub(crate) agent: &'a str,
    pub(crate) parent: Option<&'a str>,
}

/// A message, or the end of the message that contains the identity text.
#[derive(Clone, Copy)]
pub(crate) struct OwnMessage<'a> {
    pub(crate) role: Role,
    pub(crate) parts: &'a [Part],
}

impl<'a> Own<'a> {
    /// Finds the own part of a conversation.
    pub(crate) fn of(messages: &'a [Message]) -> Self {
        let mut own = Self { identity: None, messages: Vec::new() };
        for message in messages.iter().rev() {
            let found = last_identity(message);
            let parts = found.as_ref().map_or(message.parts.as_slice(), |(at, _)| said(&message.parts[at + 1..]));
            own.messages.push(OwnMessage { role: message.role, parts });
            if let Some((_, identity)) = found {
                own.identity = Some(identity);
                break;
            }
        }
        own.messages.reverse();
        own
    }

    /// Returns the user's texts, the last one first.
    pub(crate) fn texts_from_last(&self) -> impl Iterator<Item = &'a str> {
        let user = self.messages.iter().rev().filter(|message| message.role == Role::User);
        user.flat_map(|message| message.parts.iter().rev()).filter_map(text)
    }

    /// Returns the results of the agent's calls.
    pub(crate) fn results(&self) -> impl DoubleEndedIterator<Item = &'a ToolResult> {
        self.messages.iter().flat_map(|message| results(message.parts))
    }

    /// Returns the results after the user's last text, which belong to the current turn; the last one first.
    pub(crate) fn current_results_from_last(&self) -> impl Iterator<Item = &'a ToolResult> {
        let parts = self.messages.iter().rev().flat_map(|message| {
            let is_user = message.role == Role::User;
            message.parts.iter().rev().map(move |part| (is_user, part))
        });
        let current = parts.take_while(|(is_user, part)| !is_user || text(part).is_none());
        current.filter_map(|(_, part)| result(part))
    }
}

/// Returns `parts` without the texts about the session's start that they begin with.
fn said(parts: &[Part]) -> &[Part] {
    let is_start = |part: &&Part| text(part).is_some_and(|text| START.iter().any(|start| text.starts_with(start)));
    &parts[parts.iter().take_while(is_start).count()..]
}

/// Returns the texts of `parts` that are not blank.
pub(crate) fn texts(parts: &[Part]) -> Vec<&str> {
    parts.iter().filter_map(text).collect()
}

/// Returns the results in `parts`.
pub(crate) fn results(parts: &[Part]) -> impl DoubleEndedIterator<Item = &ToolResult> {
    parts.iter().filter_map(result)
}

fn text(part: &Part) -> Option<&str> {
    match &part.block {
        Block::Text(text) if !text.trim().is_empty() => Some(text),
        _ => None,
    }
}

fn result(part: &Part) -> Option<&ToolResult> {
    match &part.block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    }
}

/// Returns the last identity text of a message, with its position.
fn last_identity(message: &Message) -> Option<(usize, Identity<'_>)> {
    if message.role != Role::User {
        return None;
    }
    let parts = message.parts.iter().enumerate().rev();
    parts.filter_map(|(at, part)| Some((at, identity(text(part)?)?))).next()
}

fn identity(text: &str) -> Option<Identity<'_>> {
    let (agent, rest) = text.strip_prefix("You are the agent ")?.split_at_checked(UUID_BYTES)?;
    let parent = match rest.strip_prefix(". You have no parent.") {
        Some("") => None,
        _ => Some(rest.strip_prefix(". Your parent is ")?.strip_suffix('.')?),
    };
    (is_uuid(agent) && parent.is_none_or(is_uuid)).then_some(Identity { agent, parent })
}

/// Returns true for a UUID in lower case with hyphens.
fn is_uuid(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    text.len() == UUID_BYTES && text.bytes().enumerate().all(fits)
}
