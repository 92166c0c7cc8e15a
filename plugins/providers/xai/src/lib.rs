//! The adapter of the provider xai.
