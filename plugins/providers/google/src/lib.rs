//! The adapter of the provider google.
