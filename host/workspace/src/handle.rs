//! Opening one name of an open directory: never through a link, never waiting.

use std::io;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

/// What a file is opened for.
#[derive(Clone, Copy)]
pub(crate) enum For {
    Reading,
    /// Its contents stay as they are.
    Writing,
}

/// Opens the file `name` of `dir`, and says what was opened: what it was a moment ago does not count. A link is an
/// error, and a pipe without a peer does not block.
pub(crate) fn open(dir: &Dir, name: &str, purpose: For) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    match purpose {
        For::Reading => options.read(true),
        For::Writing => options.write(true),
    };
    let file = dir.open_with(name, options.follow(FollowSymlinks::No).nonblock(true))?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}
