//! Lists the folders of a root on several threads, ahead of the reader.
//!
//! Called by `discover.rs`. If all files are in the cache, most of a scan's time is spent in system calls. The reader itself is a
//! single thread, because it counts files against limits in the order of names.

use std::{ffi::OsString, io, num::NonZero, ops::ControlFlow, path::Path, sync::mpsc::sync_channel, thread};

use cap_std::fs::Dir;
use patchbay_policy::Root;

use crate::{
    children::{ChildKind, own_name},
    component,
    listing::{self, Listing},
    reading::parse_name,
};

/// The number of directory entries in one part, which a thread lists before it sends them to the reader. A thread has at most three
/// unfinished parts, which bounds the number of open folders, and the wasted work if later entries exceed a limit.
const PART: usize = 4;

/// Maximum number of threads that list folders at the same time.
const THREADS: usize = 4;

/// A skill's folder, opened and listed.
pub(crate) type ListedFolder = io::Result<(Dir, Listing)>;

/// Calls `read` with each child in order and its listed folder, until `read` breaks. The folder is `None` if the child's directory
/// entry is not a folder or its name cannot be a skill's. `parent` is the folder of the root at `path`.
pub(crate) fn list_ahead(
    root: Root,
    path: &Path,
    parent: &Dir,
    children: &[(OsString, ChildKind)],
    mut read: impl FnMut(&(OsString, ChildKind), Option<ListedFolder>) -> ControlFlow<()>,
) {
    let list = &|(name, kind): &(OsString, ChildKind)| {
        let name = name.to_str().filter(|name| *kind == ChildKind::Folder && parse_name(own_name(name)).is_ok())?;
        Some(list_folder(root, path, parent, name))
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
    let folders = children.iter().filter(|(_, kind)| *kind == ChildKind::Folder).count();
    // Single-file skills need no listing, and for a few folders threads would cost more than they save.
    if threads == 1 || folders <= PART {
        let _ = children.iter().try_for_each(|child| read(child, list(child)));
        return;
    }
    thread::scope(|scope| {
        let start = |first| {
            let (sender, receiver) = sync_channel(1);
            let parts = children.chunks(PART).skip(first).step_by(threads);
            let mut parts = parts.map(|part| part.iter().map(list).collect::<Vec<_>>());
            // Sending fails once the reader has ended.
            scope.spawn(move || parts.try_for_each(|part| sender.send(part)));
            receiver
        };
        let lists: Vec<_> = (0..threads).map(start).collect();
        for (part, list) in children.chunks(PART).zip(lists.iter().cycle()) {
            // This only fails if the thread panicked, and then the scope panics, too.
            let Ok(listed) = list.recv() else { return };
            for (child, listed) in part.iter().zip(listed) {
                if read(child, listed).is_break() {
                    return;
                }
            }
        }
    });
}

/// Opens and lists the folder `name` in `parent`, the folder of the root at `path`.
fn list_folder(root: Root, path: &Path, parent: &Dir, name: &str) -> ListedFolder {
    let folder = component::open_folder(root, path, parent, name)?;
    let listing = listing::list(&folder)?;
    Ok((folder, listing))
}
