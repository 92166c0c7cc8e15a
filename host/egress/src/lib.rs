//! Outgoing HTTP.
