//! Text on standard input that is attached to the first message: `git diff | patchbay exec 'Review:'`.
//!
//! Without `--attach -`, only a pipe that was made for this process is read. The pipe in
//! `git ls-files | while read f; do patchbay exec "$f"; done` belongs to the loop: reading it would consume the loop's lines. The
//! same is true for a script that a shell reads from its standard input, as on some CI systems. In both cases the parent process
//! has the same pipe open for reading. Unfortunately a wrapper such as `timeout 60 patchbay exec` looks the same, which is why a
//! note names `--attach -`.

use std::io::{self, Read as _};

use patchbay_core::{Code, Outcome, TEXT_MEDIA, text};
use patchbay_session::NewAttachment;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::out::note;

/// The name of the attachment in the conversation.
const NAME: &str = "standard input";
/// Limit of the text in bytes, the same as for an attached text file.
const BYTES: u64 = 256 << 10;
/// How long to wait for the first byte without `--attach -`, in seconds.
const FIRST_BYTE: i64 = 1;

/// Reads standard input to its end, for `--attach -`.
///
/// # Errors
/// [`Code::AttachmentRefused`]: it cannot be read, or is not UTF-8 text of at most 256 KiB.
pub(super) async fn read() -> Result<NewAttachment, Outcome> {
    on_a_thread(read_to_end).await
}

/// Reads standard input if it is a pipe that only this process reads, and if a byte arrives within a second. Returns `None` if
/// there is nothing to attach.
///
/// # Errors
/// The same as for [`read`].
pub(super) async fn read_if_piped() -> Result<Option<NewAttachment>, Outcome> {
    let piped = on_a_thread(|| match Pipe::find() {
        Pipe::None => Ok(None),
        Pipe::Shared => {
            if has_bytes(0) {
                note(
                    "Note: standard input was not attached, because the calling process may read it as well. To attach it: \
                     --attach -; to omit this note: --no-stdin",
                );
            }
            Ok(None)
        }
        Pipe::Own => match has_bytes(FIRST_BYTE) {
            true => read_to_end().map(Some),
            false => Ok(None),
        },
    });
    // The writer may close the pipe without sending a byte.
    let attached = piped.await?.filter(|attached| attached.size() > 0);
    if let Some(attached) = &attached {
        let size = text::size(attached.size());
        note(&format!("Attached standard input to the first message ({size}). To leave it out: --no-stdin"));
    }
    Ok(attached)
}

/// Reads standard input to its end. If the input never ends, the thread stays blocked, but `--timeout` and signals still end the
/// process.
fn read_to_end() -> Result<NewAttachment, Outcome> {
    let refused = |message: std::fmt::Arguments<'_>| Outcome::error(Code::AttachmentRefused, message);
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(format_args!("cannot read standard input: {error}.")))?;
    if bytes.len() as u64 > BYTES {
        return Err(refused(format_args!(
            "standard input has more than {} KiB; nothing was sent. Write it to a file and name the file in your message, or pass \
             --no-stdin.",
            BYTES >> 10
        )));
    }
    let attached = NewAttachment::new(NAME, bytes);
    attached.ok().filter(|attached| attached.media_type() == TEXT_MEDIA).ok_or_else(|| {
        refused(format_args!(
            "standard input is not UTF-8 text; nothing was sent. Attach other files with --attach FILE, or pass --no-stdin."
        ))
    })
}

/// Returns whether standard input has a byte, or ends, within `seconds`.
fn has_bytes(seconds: i64) -> bool {
    let timeout = Timespec { tv_sec: seconds, tv_nsec: 0 };
    loop {
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Outcome> + Send + 'static,
) -> Result<T, Outcome> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Outcome::error(Code::Internal, format_args!("standard input was not read: {error}.")))
    })
}

/// The kind of pipe at standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipe {
    /// Standard input is not a pipe (for example a terminal or a file), or is closed.
    None,
    /// Only this process reads it.
    Own,
    /// The parent process can read it as well, or this is unknown.
    Shared,
}

#[cfg(unix)]
impl Pipe {
    fn find() -> Self {
        use std::{fs::File, os::unix::fs::FileTypeExt as _, thread::sleep, time::Duration};

        use std::os::fd::AsFd as _;

        /// How long a shell may take to close its own end of the pipe after it has started this process.
        const CLOSING: Duration = Duration::from_millis(100);

        let kind =
            io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| Ok(File::from(stdin).metadata()?.file_type()));
        if !kind.is_ok_and(|kind| kind.is_fifo()) {
            return Self::None;
        }
        if is_read_by_parent() {
            sleep(CLOSING);
            if is_read_by_parent() {
                return Self::Shared;
            }
        }
        Self::Own
    }
}

#[cfg(not(unix))]
impl Pipe {
    fn find() -> Self {
        Self::None
    }
}

/// Returns whether the parent process has the pipe at standard input open for reading; true if unknown.
#[cfg(target_os = "linux")]
fn is_read_by_parent() -> bool {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    // The process has no parent if it is the first one in a container.
    let Some(parent) = rustix::process::getppid() else { return false };
    let folder = format!("/proc/{}/fd", parent.as_raw_nonzero());
    let (Ok(own), Ok(entries)) = (fs::read_link("/proc/self/fd/0"), fs::read_dir(folder)) else { return true };
    // The mode of such a link shows how the file is open. The parent may have only the writing end of the pipe.
    entries.flatten().any(|entry| {
        let can_read = || entry.path().symlink_metadata().is_ok_and(|link| link.permissions().mode() & 0o400 != 0);
        fs::read_link(entry.path()).is_ok_and(|other| other == own) && can_read()
    })
}

/// There is no portable way to list the files that another process has open.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_read_by_parent() -> bool {
    true
}
