//! Reads the files of the running skill from the snapshot. Reading them does not count as an effect.

use std::sync::Arc;

use patchbay_core::{media, text};
use patchbay_sandbox::{BoxFuture, Fault, SkillFileEntry, SkillFileReader};
use patchbay_skill::FileSet;

use super::CallServices;

impl CallServices {
    async fn own_files(&self) -> Result<Arc<FileSet>, Fault> {
        let skill = self.record.context.snapshot.skill(self.owner.name.as_str());
        let skill = skill.ok_or_else(|| fault("unavailable", "the skill is not in the snapshot".to_owned()))?;
        let files = self.tools.skill_files(skill).await;
        files.map_err(|error| fault("unavailable", error.to_string()))
    }
}

fn fault(kind: &str, message: String) -> Fault {
    Fault::Failed { kind: kind.to_owned(), message }
}

impl SkillFileReader for CallServices {
    fn entries(
        &self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<SkillFileEntry>, Fault>> {
        Box::pin(async move {
            let files = self.own_files().await?;
            let is_asked = |path: &str| path.starts_with(&prefix) && after.as_deref().is_none_or(|after| path > after);
            let asked = files.iter().filter(|(path, _)| is_asked(path)).take(limit as usize);
            let entry = |(path, file): (&str, &patchbay_skill::SkillFile)| SkillFileEntry {
                path: path.to_owned(),
                size: file.contents.len() as u64,
                digest: file.digest,
                media_type: media::image_or_pdf(&file.contents),
            };
            Ok(asked.map(entry).collect())
        })
    }

    fn read(&self, path: String, offset: u64, max: u32) -> BoxFuture<'_, Result<Vec<u8>, Fault>> {
        Box::pin(async move {
            let files = self.own_files().await?;
            let file = files.get(&path).ok_or_else(|| {
                fault("not-found", format!("a file '{}' is not in the skill", text::excerpt(&path, 80)))
            })?;
            let start = usize::try_from(offset).map_or(file.contents.len(), |start| start.min(file.contents.len()));
            let end = start.saturating_add(max as usize).min(file.contents.len());
            Ok(file.contents[start..end].to_vec())
        })
    }
}
