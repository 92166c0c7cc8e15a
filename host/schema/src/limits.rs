//! Limits of a schema and of the work of one check. Each is far above what generators write.

/// The deepest nesting of the schema's JSON text.
pub const SCHEMA_DEPTH: usize = 64;
/// The most subschemas, counted as if each reference were replaced by its target. The schemas of one cycle count once.
pub const UNFOLDED: usize = 2_000;
/// The most references in a row that apply to one value.
pub const CHAIN: u32 = 32;
/// The most patterns of all tools of one component.
pub const PATTERNS: usize = 256;
/// The most bytes of all compiled patterns of one component.
pub const PATTERN_BYTES: usize = 4 << 20;
/// The most levels of the input that a check enters.
pub const INPUT_DEPTH: u32 = 32;
/// The most schemas that are applied inside each other at one moment. Bounds the stack of a check.
pub const APPLIED_DEPTH: u32 = 256;
/// The most steps of one check: visits of a schema with a value, comparisons, states of a pattern. A
/// step takes about ten nanoseconds.
pub const STEPS: u64 = 10_000_000;
