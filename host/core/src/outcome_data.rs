//! Typed details of outcomes, which fronts read. In JSON they are objects whose type follows from the outcome's code.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{AgentId, Code, completion::Stop};

/// Details of an [`Outcome`](crate::Outcome).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OutcomeData {
    /// The way in which a turn ended.
    Turn(Box<TurnData>),
    /// The child agent that was created.
    Forked(ForkedData),
    /// The agents that were killed.
    Killed(KilledData),
    /// The new agent that `/rewind` created.
    Rewound(Box<RewoundData>),
    /// Other details, which programs read and fronts do not.
    Details(Value),
}

/// Details about a turn that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnData {
    /// Why the turn has no result, such as a refusal by the model; `None` if it has one, or if the outcome is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The model of the last answer; `None` if the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider of the last answer; `None` if the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why the last answer ended; `None` if the turn failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// Whether the message of a failed turn has no answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// Details of the command that began the turn, such as the name of its skill.
    #[serde(flatten)]
    pub command: Map<String, Value>,
}

/// The child agent that `/fork` created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedData {
    /// The id of the child agent.
    pub child_uuid: AgentId,
    /// The model and the thinking level that the child begins with.
    pub model: String,
    /// Whether the child begins with a turn.
    pub turn: bool,
}

/// The agents that were killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KilledData {
    /// The agent itself, then its descendants.
    pub killed: Vec<AgentId>,
    /// The texts of their waiting lines, which were not run.
    pub lines: Vec<String>,
}

/// The result of `/rewind`: an agent that continues another agent's conversation from before one of its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewoundData {
    /// The new agent.
    pub agent: AgentId,
    /// The agent whose conversation it continues. That agent is now held.
    pub rewound: AgentId,
    /// The text of the message, as it was typed.
    pub text: String,
    /// The names of the files attached to the message.
    pub attached: Vec<String>,
    /// The results of restoring files that were changed since the message; empty if this was not requested.
    #[serde(flatten)]
    pub files: Map<String, Value>,
}

impl OutcomeData {
    /// Reads the JSON details of an outcome with this code. Another shape, written by an older or newer build, becomes
    /// [`Self::Details`].
    pub(crate) fn read(code: Code, data: Value) -> Self {
        let read = match code {
            Code::Forked => ForkedData::deserialize(&data).map(Self::Forked).ok(),
            Code::Killed => KilledData::deserialize(&data).map(Self::Killed).ok(),
            Code::Rewound => RewoundData::deserialize(&data).map(|data| Self::Rewound(Box::new(data))).ok(),
            _ if code == Code::Answered || data.get("unanswered").is_some() => {
                TurnData::deserialize(&data).map(|turn| Self::Turn(Box::new(turn))).ok()
            }
            _ => None,
        };
        read.unwrap_or(Self::Details(data))
    }
}

impl From<Value> for OutcomeData {
    fn from(details: Value) -> Self {
        Self::Details(details)
    }
}

impl From<TurnData> for OutcomeData {
    fn from(data: TurnData) -> Self {
        Self::Turn(Box::new(data))
    }
}

impl From<ForkedData> for OutcomeData {
    fn from(data: ForkedData) -> Self {
        Self::Forked(data)
    }
}

impl From<KilledData> for OutcomeData {
    fn from(data: KilledData) -> Self {
        Self::Killed(data)
    }
}

impl From<RewoundData> for OutcomeData {
    fn from(data: RewoundData) -> Self {
        Self::Rewound(Box::new(data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_read_by_the_code_of_its_outcome() {
        let agent = AgentId::from_bytes([7; 16]);
        let turn = json!({"failure": "f", "model": "m", "provider": "p", "skill": "s", "stop": "refusal"});
        let unanswered = json!({"unanswered": true, "skill": "s"});
        let forked = json!({"child_uuid": agent, "model": "m", "turn": true});
        let killed = json!({"killed": [agent], "lines": ["x"]});
        let rewound = json!({"agent": agent, "attached": ["a"], "change": 1, "rewound": agent, "text": "x"});
        for (code, json, is_typed) in [
            (Code::Answered, &turn, true),
            (Code::ProviderServer, &unanswered, true),
            (Code::Forked, &forked, true),
            (Code::Killed, &killed, true),
            (Code::Rewound, &rewound, true),
            (Code::SkillsListed, &killed, false),
            // Written by a build with other shapes.
            (Code::Forked, &json!({"child": 1}), false),
            (Code::Answered, &json!({"stop": "new"}), false),
        ] {
            let data = OutcomeData::read(code, json.clone());
            assert_eq!(!matches!(data, OutcomeData::Details(_)), is_typed, "{json}");
            assert_eq!(&serde_json::to_value(&data).unwrap(), json);
        }
    }
}
