//! The size limit of components, which `skill`, `provider`, `plugin` and `session` check before they read a file.

/// Size limit of a component file in bytes: almost twice the size of the largest known language runtime. Larger files are not read.
pub const COMPONENT_BYTES: u64 = 32 << 20;
