//! The adapter of the provider meta.
