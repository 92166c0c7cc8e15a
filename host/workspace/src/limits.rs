//! The limits of one call. They are constants because a hostile plugin chooses the arguments and may have written the
//! files.

/// The longest path in bytes: the limit of Linux.
pub const PATH_BYTES: usize = 4_096;
/// The longest name of a file or directory in bytes: the limit of common file systems.
pub const NAME_BYTES: usize = 255;
/// The most parts of a path. Each directory of a walk uses a file descriptor; real trees are about thirty deep.
pub const DEPTH: usize = 64;

/// The most bytes of one read. Two copies fit easily into a plugin's memory.
pub const READ_BYTES: u32 = 4 << 20;
/// The most bytes of one write. Larger files are build outputs, not texts that a skill edits.
pub const WRITE_BYTES: usize = 8 << 20;

/// The most bytes of a file that are compared before a change that a person allowed. Far more than a person reads, and hashed in
/// half a second.
pub const COMPARED_BYTES: u64 = 64 << 20;

/// The most entries in one page of a walk.
pub const PAGE: u32 = 1_000;
/// The most names that one walk reads, including those behind links: more than twice the Linux sources, about one
/// second.
pub const ENTRIES: u32 = 200_000;
/// The longest glob in bytes.
pub const GLOB_BYTES: usize = 512;
/// The most patterns into which the braces of one glob may expand.
pub const GLOB_ALTERNATIVES: usize = 64;
/// The most matching steps of one walk, for glob and `.gitignore` together: a few seconds at worst. Rules are only
/// matched against directories and against entries that the glob matches, so a real tree of 200,000 files needs a tenth
/// of it.
pub const MATCH_STEPS: u64 = 500_000_000;
/// The most bytes of the `.gitignore` files that apply to one directory: its own and those above it.
pub const RULE_BYTES: usize = 64 << 10;

/// The most links that are followed for one path: the limit of Linux.
pub const LINKS: usize = 40;
/// The most names that are looked up to resolve one path with its links: eight times the deepest path.
pub const LOOKUPS: usize = 512;
