//! Agents: the turn, its conversation, compaction.
