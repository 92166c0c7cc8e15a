//! The adapter of the provider demo.
