//! The limits of one call. They are constants because a hostile plugin chooses the arguments and may have written the
//! files.

/// The longest path in bytes: the limit of Linux.
pub const PATH_BYTES: usize = 4_096;
/// The longest name of a file or directory in bytes: the limit of common file systems.
pub const NAME_BYTES: usize = 255;
/// Maximum number of segments of a path. Each directory of a walk uses a file descriptor; real trees are about thirty deep.
pub const DEPTH: usize = 64;

/// Maximum number of bytes of one read. Two copies fit easily into a plugin's memory.
pub const READ_BYTES: u32 = 4 << 20;
/// Maximum number of bytes of one write. Larger files are build outputs, not texts that a skill edits.
pub const WRITE_BYTES: usize = 8 << 20;

/// Maximum number of bytes of a file that are hashed to detect changes since the user was asked. Far more than the user reads, and
/// hashed in half a second.
pub const COMPARED_BYTES: u64 = 64 << 20;
/// The largest file whose contents are shown when the user is asked about a change, in bytes.
pub const SHOWN_BYTES: u64 = 4 << 20;

/// Size limit of a file whose old contents are kept for `/undo`, in bytes.
pub const KEPT_BYTES: u64 = 20 << 20;

/// Maximum number of entries in one page of a walk.
pub const PAGE: u32 = 1_000;
/// Maximum number of names that one walk reads, including names that it looks up to follow links: more than twice the
/// Linux sources, about one second.
pub const ENTRIES: u32 = 200_000;
/// The longest glob in bytes.
pub const GLOB_BYTES: usize = 512;
/// Maximum number of patterns into which the braces of one glob may expand.
pub const GLOB_ALTERNATIVES: usize = 64;
/// The most matching steps of one walk, for glob and `.gitignore` together: a few seconds at worst. Rules
/// are only matched against directories and against entries that the glob matches, so a real tree of
/// 200,000 files needs a tenth of these steps.
pub const MATCH_STEPS: u64 = 500_000_000;
/// Maximum number of bytes of the `.gitignore` files that apply to one directory: its own and those above it.
pub const RULE_BYTES: usize = 64 << 10;

/// Maximum number of links that are followed for one path: the limit of Linux.
pub const LINKS: usize = 40;
/// Maximum number of names that are looked up to resolve one path with its links: eight times the deepest path.
pub const LOOKUPS: usize = 512;

/// Bytes at the beginning of a file that are searched for a NUL byte, which marks a binary file.
pub const BINARY_PROBE: usize = 8 << 10;

/// Maximum number of globs of one search.
pub const SEARCH_GLOBS: usize = 32;
/// The longest pattern of a search in bytes.
pub const PATTERN_BYTES: usize = 4_096;
/// The deepest nesting of groups and repetitions in a pattern.
pub const PATTERN_NESTING: u32 = 100;
/// Maximum number of bytes of a compiled pattern. `\w{100}` exceeds it, `\w{20}` does not.
pub const PATTERN_AUTOMATON: usize = 2 << 20;
/// Maximum number of bytes that each thread caches while it matches a pattern. A full cache is cleared.
pub const PATTERN_CACHE: usize = 2 << 20;
/// The most context lines before and after a matching line.
pub const SEARCH_CONTEXT: u32 = 20;
/// The most matching lines in the result of one search: far more than a model reads.
pub const SEARCH_LINES: u32 = 10_000;
/// Maximum number of bytes of a line in the result of a search.
pub const SEARCH_LINE_BYTES: u32 = 4_096;
/// Maximum number of paths that one search by name returns.
pub const SEARCH_ENTRIES: u32 = 10_000;
/// Maximum number of bytes in the result of one search, a quarter of the default limit for a host call's result.
pub const SEARCH_RESULT_BYTES: usize = 1 << 20;
/// The largest file that is searched, in bytes. Larger files are data or logs.
pub const SEARCHED_FILE_BYTES: u64 = 8 << 20;
/// Maximum number of bytes of files that one search reads: about one second on two cores, if they are cached.
pub const SCANNED_BYTES: u64 = 1 << 30;
/// Maximum number of threads of one search. More threads gain little, because only one thread reads directories.
pub const SEARCH_THREADS: usize = 8;
/// Maximum number of paths that the result of a search names for each reason to skip files.
pub const SKIPPED_PATHS: usize = 10;
