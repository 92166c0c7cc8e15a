//! The caller of a tool, as the journal names it.

use std::{fmt, str::FromStr};

use crate::{AgentId, PrincipalId};

/// The caller of a tool. Its text form in the journal: `person`, `person:ID`, `tool:SKILL__TOOL`, `agent:UUID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asker {
    /// A person, by a command.
    Person(PrincipalId),
    /// Another tool, by its full name.
    Tool(String),
    /// The model of an agent.
    Agent(AgentId),
}

/// A text that does not name a caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid caller '{}': expected person, person:ID, tool:SKILL__TOOL or agent:UUID",
    crate::text::excerpt(.0, 80)
)]
pub struct AskerError(String);

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(principal) => principal.fmt(f),
            Self::Tool(tool) => write!(f, "tool:{tool}"),
            Self::Agent(agent) => write!(f, "agent:{agent}"),
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
        ] {
            assert_eq!(asker.to_string(), text);
            assert_eq!(text.parse(), Ok(asker));
        }
        for text in ["", "persons", "tool", "tool:", "agent:", "agent:x", "person:", "person:a b"] {
            assert!(text.parse::<Asker>().is_err(), "{text}");
        }
    }
}
