//! What the tests and benchmarks share: the binary in a home of its own, and guests written by hand.

pub mod answers;
pub mod binary;
pub mod guest;
pub mod services;
