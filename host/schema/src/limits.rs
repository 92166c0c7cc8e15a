//! Limits on a schema and on the work of one check. All are far above the needs of schemas that generators write.

/// The deepest nesting of the schema's JSON text.
pub const SCHEMA_DEPTH: usize = 64;
/// The most subschemas, counted as if each reference were replaced by its target. The schemas of one cycle count once.
pub const UNFOLDED: usize = 2_000;
/// Maximum number of references in a row that apply to one value.
pub const CHAIN: u32 = 32;
/// Maximum number of patterns that all tools of one component may have together.
pub const PATTERNS: usize = 256;
/// The most memory for all compiled patterns of one component, in bytes.
pub const PATTERN_BYTES: usize = 4 << 20;
/// Maximum number of levels of the input that a check enters.
pub const INPUT_DEPTH: u32 = 32;
/// The deepest nesting of schemas that are being applied. Bounds the stack of a check.
pub const APPLIED_DEPTH: u32 = 256;
/// Maximum number of steps of one check: visits of a schema with a value, comparisons, states of a pattern. A
/// step takes about ten nanoseconds.
pub const STEPS: u64 = 10_000_000;
