//! The files that `plugin build` puts into a component beside the SKILL.md.

use std::path::Path;

use patchbay_skill::{files_to_embed, write_archive};

use crate::BuildError;

/// Returns the archive of the files of the skill in `folder`; `None` if there are none.
pub(crate) fn archive(folder: &Path) -> Result<Option<Vec<u8>>, BuildError> {
    let problem = |problem| BuildError::Skill { path: folder.to_owned(), problem };
    let files = files_to_embed(folder).map_err(BuildError::io(folder))?.map_err(problem)?;
    if files.is_empty() {
        return Ok(None);
    }
    write_archive(&files).map(Some).map_err(problem)
}
