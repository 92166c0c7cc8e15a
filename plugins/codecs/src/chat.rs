//! Chat Completions.
