//! The caller of a tool, as the journal names it.

use std::{fmt, str::FromStr};

use crate::{AgentId, PrincipalId, text};

/// Length limit of an MCP client's name, in characters.
const CLIENT_CHARS: usize = 64;

/// The caller of a tool. Its text form in the journal is `person`, `person:ID`, `tool:SKILL__TOOL`, `agent:UUID` or `mcp:CLIENT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asker {
    /// A user, through a command.
    Person(PrincipalId),
    /// Another tool, by its full name.
    Tool(String),
    /// The model of the agent with this id.
    Agent(AgentId),
    /// An MCP client, identified by the name that it provided. Created with [`Asker::mcp_client`].
    McpClient(String),
}

impl Asker {
    /// Returns the caller for an MCP client that calls itself `name`: cleaned, cut to 64 characters, and `unknown` if nothing
    /// is left. The name is the client's claim and proves nothing.
    pub fn mcp_client(name: &str) -> Self {
        let name = text::excerpt(name, CLIENT_CHARS);
        Self::McpClient(if name.is_empty() { "unknown".to_owned() } else { name })
    }
}

/// A string that does not name a caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid caller '{}': expected person, person:ID, tool:SKILL__TOOL, agent:UUID or mcp:CLIENT",
    text::excerpt(.0, 80)
)]
pub struct AskerError(String);

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(principal) => principal.fmt(f),
            Self::Tool(tool) => write!(f, "tool:{tool}"),
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::McpClient(client) => write!(f, "mcp:{client}"),
        }
    }
}

impl FromStr for Asker {
    type Err = AskerError;

    fn from_str(text: &str) -> Result<Self, AskerError> {
        let error = || AskerError(text.to_owned());
        match text.split_once(':') {
            None if text == "person" => Ok(Self::Person(PrincipalId::LOCAL)),
            Some(("person", id)) if !id.is_empty() => id.parse().map(Self::Person).map_err(|_| error()),
            Some(("tool", tool)) if !tool.is_empty() => Ok(Self::Tool(tool.to_owned())),
            Some(("agent", agent)) => agent.parse().map(Self::Agent).map_err(|_| error()),
            Some(("mcp", client)) if !client.is_empty() => Ok(Self::McpClient(client.to_owned())),
            _ => Err(error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_reads_back() {
        for (asker, text) in [
            (Asker::Person(PrincipalId::LOCAL), "person".to_owned()),
            (Asker::Person("ada".parse().unwrap()), "person:ada".to_owned()),
            (Asker::Tool("plan__make".to_owned()), "tool:plan__make".to_owned()),
            (Asker::Agent(AgentId::from_bytes([0; 16])), format!("agent:{}", AgentId::from_bytes([0; 16]))),
            (Asker::mcp_client("claude-code"), "mcp:claude-code".to_owned()),
            (Asker::mcp_client("a: b\u{1b}\n"), "mcp:a: b".to_owned()),
            (Asker::mcp_client(" \u{202e}"), "mcp:unknown".to_owned()),
            (Asker::mcp_client(&"x".repeat(100)), format!("mcp:{}…", "x".repeat(64))),
        ] {
            assert_eq!(asker.to_string(), text);
            assert_eq!(text.parse(), Ok(asker));
        }
        for text in ["", "persons", "tool", "tool:", "agent:", "agent:x", "person:", "person:a b", "mcp", "mcp:"] {
            assert!(text.parse::<Asker>().is_err(), "{text}");
        }
    }
}
