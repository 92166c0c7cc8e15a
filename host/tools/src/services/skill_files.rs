//! Reads the files of the running skill from the snapshot. Reading them does not count as an effect.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{media, text};
use patchbay_sandbox::{Fault, SkillFileEntry, SkillFileReader};
use patchbay_skill::{FileSet, SkillFile};

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

/// Returns at most `limit` of `files` whose paths begin with `prefix` and come after `after`, sorted by bytes.
fn entries(files: &FileSet, prefix: &str, after: Option<&str>, limit: u32) -> Vec<SkillFileEntry> {
    let is_requested = |path: &str| path.starts_with(prefix) && after.is_none_or(|after| path > after);
    let entry = |(path, file): (&str, &SkillFile)| SkillFileEntry {
        path: path.to_owned(),
        size: file.contents.len() as u64,
        digest: file.digest,
        media_type: media::image_or_pdf(&file.contents),
    };
    files.iter().filter(|(path, _)| is_requested(path)).take(limit as usize).map(entry).collect()
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
            Ok(entries(&files, &prefix, after.as_deref(), limit))
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

#[cfg(test)]
mod tests {
    use patchbay_core::Digest;

    use super::*;

    /// Returns a set of these files.
    fn files(files: &[(&str, &[u8])]) -> FileSet {
        let entry = |(path, contents): &(&str, &[u8])| serde_json::json!({"path": path, "size": contents.len(), "digest": Digest::of(contents)});
        let mut pack = serde_json::Value::from_iter(files.iter().map(entry)).to_string().into_bytes();
        pack.push(b'\n');
        pack.extend(files.iter().flat_map(|(_, contents)| contents.iter()));
        FileSet::from_pack(pack).unwrap()
    }

    #[test]
    fn entries_are_selected_by_prefix_and_continue_after_a_path() {
        let png = b"\x89PNG\r\n\x1a\n";
        let files = files(&[("SKILL.md", b"---"), ("a.md", b"1"), ("d/1.md", b"22"), ("d/2.png", png), ("da", b"")]);
        let paths = |prefix, after, limit| -> Vec<String> {
            entries(&files, prefix, after, limit).into_iter().map(|entry| entry.path).collect()
        };
        assert_eq!(paths("", None, u32::MAX), ["SKILL.md", "a.md", "d/1.md", "d/2.png", "da"]);
        assert_eq!(paths("d/", None, 9), ["d/1.md", "d/2.png"]);
        assert_eq!(paths("d", None, 2), ["d/1.md", "d/2.png"]);
        assert_eq!(paths("d", Some("d/2.png"), 2), ["da"]);
        assert_eq!(paths("", Some("b"), 1), ["d/1.md"], "the path need not exist");
        assert_eq!(paths("", Some("da"), 9), [""; 0]);
        assert_eq!(paths("x", None, 9), [""; 0]);
        assert_eq!(paths("", None, 0), [""; 0]);
        let expected = SkillFileEntry {
            path: "d/2.png".to_owned(),
            size: 8,
            digest: Digest::of(png),
            media_type: Some("image/png"),
        };
        assert_eq!(entries(&files, "d/2", None, 9), [expected]);
        assert_eq!(entries(&files, "a", None, 9)[0].media_type, None);
    }
}
