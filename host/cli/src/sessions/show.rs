//! `patchbay sessions show`: prints the stored conversation of an agent, or the tree of agents. Another process may have the
//! session open, because nothing is written.

use std::process::ExitCode;

use patchbay_core::{AgentId, Code, SessionId, text};
use patchbay_session::Host;
use patchbay_store::{AgentRow, MessageRow, Store};
use serde_json::{Value, json};

use super::{find, shown_row, tree};
use crate::{CliError, args::ShowSession, out::print_line};

/// Rows per read of the store.
const PAGE: u32 = 64;
/// Number of agents that the error about an ambiguous UUID lists.
const LISTED: usize = 5;

pub(super) async fn run(host: &Host, arguments: ShowSession) -> Result<ExitCode, CliError> {
    let ShowSession { id, tree, agent, json } = arguments;
    let (store, session) = (host.store(), find(host, &id).await?);
    let view = store.session(session).await?.agent;
    if tree {
        tree::print(store, session, view, json).await?;
    } else {
        let id = match agent {
            Some(agent) => find_agent(store, session, &agent).await?,
            None => view,
        };
        let not_found = || agent_not_found(&id.to_string());
        let agent = store.agent(session, id).await?.ok_or_else(not_found)?;
        print_conversation(store, session, &agent, json).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the agent of a session whose UUID begins with `prefix`.
async fn find_agent(store: &Store, session: SessionId, prefix: &str) -> Result<AgentId, CliError> {
    if prefix.is_empty() {
        return Err(CliError::new(Code::InvalidArgs, "--agent requires a UUID or the beginning of one."));
    }
    let found = store.agents_with_prefix(session, prefix, LISTED as u32 + 1).await?;
    match &found[..] {
        [one] => Ok(one.id),
        [] => Err(agent_not_found(prefix)),
        several => {
            let ids: Vec<String> = several.iter().take(LISTED).map(|agent| agent.id.to_string()).collect();
            let message = format!("'{}' matches several agents: {}.", text::excerpt(prefix, 80), ids.join(", "));
            Err(CliError::new(Code::AmbiguousUuid, message))
        }
    }
}

fn agent_not_found(agent: &str) -> CliError {
    let message =
        format!("agent '{}' was not found; 'patchbay sessions show ID --tree' lists them.", text::excerpt(agent, 80));
    CliError::new(Code::AgentNotFound, message)
}

/// Prints the rows of an agent that are stored at this moment, page by page.
async fn print_conversation(store: &Store, session: SessionId, agent: &AgentRow, json: bool) -> Result<(), CliError> {
    let (mut from, last) = (1, store.last_seq(session).await?);
    let mut is_first = true;
    if let Some(inherited) = inherited(agent, json) {
        is_first = false;
        if !print_line(format_args!("{inherited}")) {
            return Ok(());
        }
    }
    loop {
        let rows = store.messages_of(session, agent.id, from..=last, PAGE).await?;
        let Some(end) = rows.last().map(|row| row.seq) else { break };
        for row in &rows {
            let shown = if json { Some(object(row).to_string()) } else { shown_row::text(row) };
            let Some(shown) = shown else { continue };
            let blank = if !json && !is_first && shown_row::begins_exchange(row.kind) { "\n" } else { "" };
            is_first = false;
            if !print_line(format_args!("{blank}{shown}")) {
                return Ok(());
            }
        }
        from = end + 1;
    }
    if is_first && !json {
        print_line(format_args!("(no messages)"));
    }
    Ok(())
}

/// Returns the line about the rows that the agent inherits from its parent, or from the agent that it continues; `None` for the
/// root.
fn inherited(agent: &AgentRow, json: bool) -> Option<String> {
    let parent = agent.parent?;
    let from = match agent.rewound {
        Some(rewound) => format!("Continues {}", rewound.short()),
        None => format!("Forked from {}", parent.short()),
    };
    Some(match agent.fork_point {
        point if json => {
            let rewound = agent.rewound;
            json!({"agent": agent.id, "parent": parent, "rewound": rewound, "fork_point": point}).to_string()
        }
        0 => format!("{from}, before its first message."),
        point => format!("{from} after row {point}: it knows the conversation up to that row."),
    })
}

/// Returns a row as `exec --json` prints it.
fn object(row: &MessageRow) -> Value {
    let MessageRow { seq, agent, kind, content, data } = row;
    let mut object = json!({
        "event": "message",
        "kind": kind,
        "content": content,
        "agent": agent,
        "seq": seq,
    });
    if let Some(data) = data {
        object["data"] = data.clone();
    }
    object
}
