//! Limits of a schema and of the work that one validation may take. Each is far above what generators write.

/// Nesting of the schema's JSON text.
pub const SCHEMA_DEPTH: usize = 64;
/// Subschemas after every reference is replaced by its target. The schemas of one cycle count once.
pub const UNFOLDED: usize = 2_000;
/// References in a row that apply to one value.
pub const CHAIN: u32 = 32;
/// Patterns of all tools of one component.
pub const PATTERNS: usize = 256;
/// Bytes of all compiled patterns of one component.
pub const PATTERN_BYTES: usize = 4 << 20;
/// Levels of the input that a validation enters.
pub const INPUT_DEPTH: u32 = 32;
/// Schemas that are being applied inside each other at one moment. Bounds the stack that a validation takes.
pub const APPLIED_DEPTH: u32 = 256;
/// Steps of one validation: visits of a schema and a value, comparisons, states of a pattern. A step takes some ten
/// nanoseconds.
pub const STEPS: u64 = 10_000_000;
