//! Gives the dependencies the same features whether one crate is built or all of them: see `Cargo.toml`. It has no code.
