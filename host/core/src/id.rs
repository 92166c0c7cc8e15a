//! The UUIDs of sessions, agents, lines and calls.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::Hasher;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(Uuid);

        impl $name {
            /// Returns a new random id, for tests. A host makes its ids from its `Source`, which a replay can set.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            /// Makes the id from its bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// Returns the bytes of the id.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// Returns the first 8 characters, the form used in messages.
            pub fn short(&self) -> String {
                self.0.simple().to_string()[..8].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    };
}

id!(
    /// Identifies a session: one user's tree of agents.
    SessionId
);
id!(
    /// Identifies an agent: one conversation of a session.
    AgentId
);
id!(
    /// Identifies a line that the user typed, or a request of an MCP client. Ids of later
    /// lines sort after earlier ones.
    LineId
);
id!(
    /// Identifies one call of a tool, which is a row of the journal and the parent of its nested calls. The id is derived from
    /// the caller, which lets a resumed session recognise it.
    CallId
);

impl LineId {
    /// Returns the id (UUIDv7) of a line that is accepted at `unix_ms`, in milliseconds since 1970. `random` is a random UUID.
    pub fn new(unix_ms: u64, random: [u8; 16]) -> Self {
        // Bytes 6 and 8 of a random UUID hold its version and variant; the others are random.
        let [a, b, c, d, e, f, _, g, _, h, i, j, ..] = random;
        Self(Builder::from_unix_timestamp_millis(unix_ms, &[a, b, c, d, e, f, g, h, i, j]).into_uuid())
    }
}

impl CallId {
    /// Returns the id of the call that the user's line makes.
    pub const fn of_line(line: LineId) -> Self {
        Self(line.0)
    }

    /// Returns the id of a call that a model requested: call number `index` (from 0) of the answer in row `row` of `session`.
    pub fn of_answer(session: SessionId, row: u64, index: u32) -> Self {
        Self::derive("answer", session.as_bytes(), &row.to_be_bytes(), index)
    }

    /// Returns the id of a nested call of `parent`: number `ordinal` (from 0) in the order in which `parent` issues its calls.
    pub fn nested(parent: Self, ordinal: u32) -> Self {
        Self::derive("nested", parent.as_bytes(), &[], ordinal)
    }

    /// UUIDv8: the first 16 bytes of a SHA-256, with version and variant set.
    fn derive(kind: &str, parent: &[u8], row: &[u8], ordinal: u32) -> Self {
        let mut hasher = Hasher::default();
        hasher.field(kind).field(parent).field(row).field(ordinal.to_be_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finish().as_bytes()[..16]);
        Self(Builder::from_custom_bytes(bytes).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_derived_and_distinct() {
        let (one, two) = (SessionId::from_bytes([1; 16]), SessionId::from_bytes([2; 16]));
        let call = CallId::of_answer(one, 3, 0);
        assert_eq!(call, CallId::of_answer(one, 3, 0));
        assert_eq!(call.0.get_version_num(), 8);
        let others = [
            CallId::of_answer(one, 3, 1),
            CallId::of_answer(one, 4, 0),
            CallId::of_answer(two, 3, 0),
            CallId::nested(call, 0),
            CallId::nested(call, 1),
            CallId::nested(CallId::nested(call, 0), 0),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != call && !others[..at].contains(other), "{at}");
        }
        // Stored rows contain such ids, so the derivation must never change.
        assert_eq!(call.to_string(), "30e97ff7-5a0f-81f9-9e58-98d75ba2736d");
    }

    #[test]
    fn line_ids_sort_by_time() {
        let (early, late) = (LineId::new(1_795_291_440_123, [9; 16]), LineId::new(1_795_291_440_124, [1; 16]));
        assert!(early < late && LineId::new(5, [1; 16]) != LineId::new(5, [2; 16]));
        assert_eq!(early.0.get_version_num(), 7);
        assert_eq!(CallId::of_line(early).as_bytes(), early.as_bytes());
    }
}
