//! What is known of a file without reading it.
//!
//! A file that has not changed since it was last read is not read again. That it has not changed is told by its [`Stat`],
//! with git's rule for racy files: what was read of a file is worth remembering only where the file had been at rest for a
//! while by then ([`Stat::is_settled`]), so that any later change is bound to show in the time of change. Who may write the
//! file may set its time of modification, but not its time of change; and who puts another file in its place has another
//! inode.
//!
//! Should a file change all the same without its stat telling, what is known is of *older* bytes, and nothing worse: the
//! digest that is known decides what is granted, and [`Component::bytes`](crate::Component::bytes) gives bytes of that
//! digest or none. So old bytes may run under the digest that is theirs; new bytes never run under an old digest.

use std::{fmt, io, path::Path, str::FromStr, sync::Arc};

use cap_std::fs::Metadata;
use patchbay_core::Digest;
use serde::{Deserialize, Serialize};

use crate::{Manifest, Problem};

/// The coarsest times that a file system in use keeps, in nanoseconds: two seconds, as FAT does.
const GRANULE: i64 = 2_000_000_000;

/// A file in one of its states, as the system tells it without reading it. Two that are equal are the same file in the same
/// state, where it was settled. Shown, it is a text without blanks, another one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stat {
    device: u64,
    inode: u64,
    size: u64,
    /// Nanoseconds since 1970.
    pub(crate) modified: i64,
    /// When anything of the file last changed, its name or its times too. Nobody can set it.
    pub(crate) changed: i64,
}

impl Stat {
    /// The stat of the file at `path`, links followed; none where the system tells too little.
    ///
    /// # Errors
    /// Where there is no such file, or it cannot be looked at.
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

    /// Without a time of change that nobody can set, nothing is known.
    #[cfg(not(unix))]
    pub(crate) fn new(_: &Metadata) -> Option<Self> {
        None
    }

    /// Whether the file had been at rest for a while at `moment`, in nanoseconds since 1970: whatever changes it after that
    /// moment gives it another stat. What was read of it then is worth remembering, if `moment` was before the reading.
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

/// A text that is no [`Stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a stat: it reads DEVICE:INODE:SIZE:MODIFIED:CHANGED")]
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

/// What a file of a skill holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// The digest of its bytes.
    pub digest: Digest,
    /// What its SKILL.md says: that which the file is, or that which is embedded in it. `None` for any other file.
    pub skill_md: Option<Arc<SkillMd>>,
}

/// A SKILL.md that was read, or a file that should hold one and cannot be a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillMd {
    /// Its bytes, for `limits.root.skill_md_bytes`.
    pub bytes: u64,
    /// What it says, or what is wrong with it. A file that is wrong is not read again either.
    #[serde(with = "shared")]
    pub manifest: Result<Arc<Manifest>, Problem>,
    /// Lines that were mended.
    pub mended: Vec<Problem>,
}

/// A manifest that is shared, written as what it is.
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

/// What is remembered of the files of one root.
pub trait FileCache {
    /// What `file` (its path below the root, its parts joined by `/`) held in the very state `stat`, if that is remembered.
    fn get(&self, file: &str, stat: &Stat) -> Option<CachedFile>;
}

/// Nothing is remembered: every file is read.
#[derive(Clone, Copy, Debug)]
pub struct NoCache;

impl FileCache for NoCache {
    fn get(&self, _: &str, _: &Stat) -> Option<CachedFile> {
        None
    }
}

/// What was read of a file: to be remembered, if it was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Its path below the root, its parts joined by `/`.
    pub file: String,
    /// Its state just before it was read.
    pub stat: Stat,
    /// What it held.
    pub cached: CachedFile,
}
