//! The adapter of the provider openai-compatible.
