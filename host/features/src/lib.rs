//! No code, only dependencies: their features are the same whether you build one crate or the whole workspace. See `Cargo.toml`.
