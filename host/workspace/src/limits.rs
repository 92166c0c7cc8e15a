//! What one call may cost, and why so much. The guest chooses the arguments and may have written the files, so
//! nothing here is left to them.

/// The longest path, in bytes: what Linux takes.
pub const PATH_BYTES: usize = 4_096;
/// The longest name of one file or directory, in bytes: what file systems take.
pub const NAME_BYTES: usize = 255;
/// The most parts of a path. Each open directory of a walk costs a file descriptor; real trees have some thirty.
pub const DEPTH: usize = 64;

/// The most bytes of one read: what fits easily into a guest's memory, twice.
pub const READ_BYTES: u32 = 4 << 20;
/// The most bytes of one write: larger is an artefact, not a text that a skill edits.
pub const WRITE_BYTES: usize = 8 << 20;

/// The longest page of a walk.
pub const PAGE: u32 = 1_000;
/// The most names that one walk looks at, those behind links too: more than twice the Linux sources, and about a
/// second.
pub const ENTRIES: u32 = 200_000;
/// The longest glob, in bytes.
pub const GLOB_BYTES: usize = 512;
/// The most globs that the braces of one glob may stand for.
pub const GLOB_ALTERNATIVES: usize = 64;
/// The most steps of matching, glob and `.gitignore` together, in one walk: a few seconds at worst. Only directories
/// and what the glob matched are held against rules, so a real tree of 200,000 files takes a tenth of it.
pub const MATCH_STEPS: u64 = 500_000_000;
/// The most bytes of `.gitignore` files in force for one directory: its own and those above it.
pub const RULE_BYTES: usize = 64 << 10;

/// The most links that one path may lead through: what Linux follows.
pub const LINKS: usize = 40;
/// The most names that are looked up to follow one path, with its links: eight times the deepest path.
pub const LOOKUPS: usize = 512;
