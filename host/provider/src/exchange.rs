//! The driver of an exchange.
