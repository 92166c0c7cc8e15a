//! Opens one name of an open directory, never through a link and without blocking. Everything that plugins
//! read is opened here.

use std::io;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

/// The access with which a file is opened.
#[derive(Clone, Copy)]
pub(crate) enum OpenFor {
    Reading,
    /// Write access without truncation.
    Writing,
}

/// Opens the file `name` of `dir`. Returns the metadata of the opened file; earlier metadata of the name may be
/// outdated. Fails for a link, and does not block on a pipe.
pub(crate) fn open(dir: &Dir, name: &str, purpose: OpenFor) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    match purpose {
        OpenFor::Reading => options.read(true),
        OpenFor::Writing => options.write(true),
    };
    let file = dir.open_with(name, options.follow(FollowSymlinks::No).nonblock(true))?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}
