use std::{fmt, str::FromStr};

use crate::AgentId;

/// Who has a tool called. Its text form is the one of the journal: `person`, `tool:SKILL__TOOL`, `agent:UUID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asker {
    /// A person, by a command.
    Person,
    /// Another tool, by its full name.
    Tool(String),
    /// The model of an agent.
    Agent(AgentId),
}

/// A text that names no asker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' names nobody who could ask: it reads person, tool:SKILL__TOOL or agent:UUID", crate::text::excerpt(.0, 80))]
pub struct AskerError(String);

impl fmt::Display for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => f.write_str("person"),
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
            None if text == "person" => Ok(Self::Person),
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
    fn reads_back_as_written() {
        for asker in [Asker::Person, Asker::Tool("plan__make".to_owned()), Asker::Agent(AgentId::random())] {
            assert_eq!(asker.to_string().parse(), Ok(asker));
        }
        for text in ["", "persons", "tool", "tool:", "agent:", "agent:x", "person:"] {
            assert!(text.parse::<Asker>().is_err(), "{text}");
        }
    }
}
