use std::{
    io::{Read as _, Seek as _, SeekFrom},
    sync::Arc,
};

use cap_std::fs::Dir;

use crate::{error::FileError, handle, limits, path::RelPath, resolve, work::Work};

/// See [`Workspace::read`](crate::Workspace::read).
pub(crate) fn read(root: &Arc<Dir>, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, FileError> {
    if max > limits::READ_BYTES {
        return Err(FileError::ReadTooLarge { max });
    }
    let path = RelPath::parse(path)?;
    let found = resolve::follow(root, path, &mut Work::default())?;
    let (mut file, metadata) =
        handle::open(&found.dir, &found.name, handle::For::Reading).map_err(FileError::io(path.as_str()))?;
    if !metadata.is_file() {
        return Err(FileError::Special { path: path.shown() });
    }
    let wanted = metadata.len().saturating_sub(offset).min(max.into());
    if wanted == 0 {
        return Ok(Vec::new());
    }
    file.seek(SeekFrom::Start(offset)).map_err(FileError::io(path.as_str()))?;
    let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or_default());
    file.take(wanted).read_to_end(&mut bytes).map_err(FileError::io(path.as_str()))?;
    Ok(bytes)
}
