//! The adapter of the provider anthropic.
