//! Reads files in ranges and refuses binary files.

use std::ops::ControlFlow;

use patchbay_sdk::{Failure, Result, workspace};

use crate::words::shown;

/// Maximum number of bytes of a file that is written or edited. Larger files are rarely text, and the old and the new text are
/// in memory at the same time.
pub(crate) const MAX_FILE: usize = 2 << 20;
/// Maximum number of bytes of a file that is moved: the most that the host writes in one call.
pub(crate) const MAX_MOVED: usize = 8 << 20;
/// Bytes of one read: few calls, and well below the limit of one call.
const RANGE: u32 = 1 << 20;
/// The number of bytes at the beginning that are searched for a NUL byte, which marks a binary file.
const PROBE: usize = 8 << 10;

/// Passes the bytes of a file to `each`, range by range, until the end of the file or until `each` breaks.
///
/// # Errors
/// Errors of the host, and a binary file.
pub(crate) fn ranges(path: &str, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
    let (mut is_first, mut binary) = (true, Ok(()));
    all_bytes(path, |range| {
        if is_first {
            binary = refuse_binary(path, range);
        }
        is_first = false;
        if binary.is_err() { ControlFlow::Break(()) } else { each(range) }
    })?;
    binary
}

/// Like [`ranges`], for binary files as well.
///
/// # Errors
/// The host could not read the file.
pub(crate) fn all_bytes(path: &str, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<()> {
    let mut offset = 0;
    loop {
        let range = workspace::read(path, offset, RANGE)?;
        offset += range.len() as u64;
        if range.is_empty() || each(&range).is_break() {
            return Ok(());
        }
    }
}

/// Returns whether there is a file at `path`.
///
/// # Errors
/// Errors of the host, except for a missing file.
pub(crate) fn exists(path: &str) -> Result<bool> {
    match workspace::read(path, 0, 1) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == "not-found" => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads a whole file into a string.
///
/// # Errors
/// Errors of the host, a binary file, and a file larger than [`MAX_FILE`].
pub(crate) fn whole(path: &str) -> Result<String> {
    let mut bytes = Vec::new();
    ranges(path, |range| {
        bytes.extend_from_slice(range);
        if bytes.len() > MAX_FILE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if bytes.len() > MAX_FILE {
        let message = format!("'{}' has more than the {MAX_FILE} bytes that can be edited", shown(path));
        return Err(Failure::new("too-large", message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Failure::new("not-text", format!("'{}' is not UTF-8 from byte {offset} on, and cannot be edited", shown(path)))
    })
}

fn refuse_binary(path: &str, start: &[u8]) -> Result<()> {
    match start.iter().take(PROBE).position(|byte| *byte == 0) {
        None => Ok(()),
        Some(offset) => Err(Failure::new(
            "not-text",
            format!("'{}' is a binary file (byte {offset} is NUL), and only text can be read", shown(path)),
        )),
    }
}
