//! Contains no code, only dependencies. It keeps their features the same whether you build one crate or the whole workspace. See
//! `Cargo.toml`.
