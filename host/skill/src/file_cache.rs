//! The file cache: file contents by [`Stat`]. It saves discovery from reading unchanged files again.
//!
//! [`discover`](crate::discover) looks files up through [`FileCache`]; the crate `session` implements it on top of the
//! store and adds the [`FileRecord`]s of each discovery.
//!
//! Equal stats mean an unchanged file, with git's rule for racy files: a file is cached only if it had been unchanged for a while
//! when it was read ([`Stat::is_settled`]). Every later change then gets another change time. A program that can write the file can
//! set its modification time, but not its change time; a file that replaces it has another inode.
//!
//! If a file changes and its stat does not, the cache describes the *older* bytes. This is safe: grants depend on the cached
//! digest, and [`Component::bytes`](crate::Component::bytes) returns bytes with that digest or fails. New bytes never run under an
//! old digest.

use std::{fmt, io, path::Path, str::FromStr, sync::Arc};

use cap_std::fs::Metadata;
use patchbay_core::Digest;
use serde::{Deserialize, Serialize};

use crate::{FileTotals, Manifest, Problem};

/// The coarsest time stamp resolution of common file systems, in nanoseconds: two seconds, on FAT.
const GRANULE: i64 = 2_000_000_000;

/// File identity and time stamps from `stat(2)`. If a settled file still has an equal value, it is unchanged. `Display` and
/// `FromStr` convert it to and from a string without spaces, for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stat {
    device: u64,
    inode: u64,
    size: u64,
    /// Modification time in nanoseconds since 1970. Programs can set it.
    pub(crate) modified: i64,
    /// Change time in nanoseconds since 1970: the last change of content, name or times. Programs cannot set it.
    pub(crate) changed: i64,
}

impl Stat {
    /// Returns the stat of the file at `path`, following links; `None` on systems without a change time.
    ///
    /// # Errors
    /// The file does not exist, or its metadata cannot be read.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        Ok(Self::new(&Metadata::from_just_metadata(path.metadata()?)))
    }

    #[cfg(unix)]
    pub(crate) fn new(metadata: &Metadata) -> Option<Self> {
        use cap_std::fs::MetadataExt as _;
        let time = |seconds: i64, nanoseconds: i64| seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds);
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: time(metadata.mtime(), metadata.mtime_nsec())?,
            changed: time(metadata.ctime(), metadata.ctime_nsec())?,
        })
    }

    /// This system has no change time that programs cannot set, so files are not cached.
    #[cfg(not(unix))]
    pub(crate) fn new(_: &Metadata) -> Option<Self> {
        None
    }

    /// Returns true if the file had been unchanged for two seconds at `moment`, in nanoseconds since 1970. Any change
    /// after `moment` then results in another stat. So a file may be cached if `moment` is before the read.
    pub fn is_settled(&self, moment: i64) -> bool {
        self.modified.max(self.changed).saturating_add(GRANULE) < moment
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, inode, size, modified, changed } = self;
        write!(f, "{device}:{inode}:{size}:{modified}:{changed}")
    }
}

/// A string that is not the `Display` form of a [`Stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid stat; expected DEVICE:INODE:SIZE:MODIFIED:CHANGED")]
pub struct StatError;

impl FromStr for Stat {
    type Err = StatError;

    fn from_str(text: &str) -> Result<Self, StatError> {
        fn next<'a, T: FromStr>(parts: &mut impl Iterator<Item = &'a str>) -> Result<T, StatError> {
            parts.next().and_then(|part| part.parse().ok()).ok_or(StatError)
        }
        let parts = &mut text.split(':');
        let stat = Self {
            device: next(parts)?,
            inode: next(parts)?,
            size: next(parts)?,
            modified: next(parts)?,
            changed: next(parts)?,
        };
        if parts.next().is_some() { Err(StatError) } else { Ok(stat) }
    }
}

/// The cached content of one file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// Digest of the file's bytes.
    pub digest: Digest,
    /// The parsed SKILL.md, if the file is a SKILL.md or a component with an embedded one. `None` for any other file.
    pub skill_md: Option<Arc<SkillMd>>,
}

/// A parsed SKILL.md, or the problem of a file that should contain a valid one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillMd {
    /// Bytes of the text, which count against `limits.root.skill_md_bytes`.
    pub bytes: u64,
    /// The manifest, or the problem with it. Invalid files are cached, too, to avoid reading them again.
    #[serde(with = "shared")]
    pub manifest: Result<Arc<Manifest>, Problem>,
    /// Problems that do not exclude the skill: one `frontmatter_mended` for each repaired line, and `skill_files_limited` for
    /// embedded files over a limit.
    pub notes: Vec<Problem>,
    /// The totals of the files that are embedded beside the SKILL.md; `None` for a SKILL.md in a folder.
    pub embedded: Option<FileTotals>,
}

/// Serializes a shared manifest by value.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::{Manifest, Problem};

    type Read = Result<Arc<Manifest>, Problem>;

    pub(super) fn serialize<S: Serializer>(value: &Read, to: S) -> Result<S::Ok, S::Error> {
        value.as_deref().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Read, D::Error> {
        Ok(Result::<Manifest, Problem>::deserialize(from)?.map(Arc::new))
    }
}

/// Cached contents of the files of one root.
pub trait FileCache {
    /// Returns the content of `file` in the state `stat`, or `None` if the file must be read. `file` is a path below the root, with
    /// `/` as the separator.
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile>;
}

/// An empty cache: every file is read.
#[derive(Clone, Copy, Debug)]
pub struct NoCache;

impl FileCache for NoCache {
    fn get(&self, _: &str, _: &Stat) -> Option<CachedFile> {
        None
    }
}

/// A file that was read. The caller adds it to the cache if `stat` is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Path below the root, with `/` as the separator.
    pub file: String,
    /// State of the file just before it was read.
    pub stat: Stat,
    /// The cached content of the file.
    pub cached: CachedFile,
}
