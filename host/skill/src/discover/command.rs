//! Reads commands in Claude Code's format: skills that are a single Markdown file. Only packages have commands.

use std::{collections::BTreeMap, sync::Arc};

use cap_std::fs::Metadata;

use super::{ListedFiles, RootScan, SKILL_MD, ScannedFile, no_skill_md};
use crate::{
    Candidate, FileStorage, FileTotals, Problem,
    component::ComponentFile,
    embedded::SKILL_MD_BYTES,
    files,
    reading::{parse_command, parse_name},
    source::FileSource,
};

impl RootScan<'_> {
    /// Reads the command at the path `file`. The file acts as the skill's SKILL.md.
    pub(super) fn command(&mut self, file: &str, name: &str, metadata: Option<Metadata>) -> Result<Candidate, Problem> {
        let name = parse_name(name)?;
        self.budget.count_file(metadata.as_ref().map_or(0, Metadata::len))?;
        let scanned = match self.cached(file, metadata.as_ref()) {
            Some((cached, size)) if cached.skill_md.is_some() => ScannedFile { cached, size, instructions: None },
            _ => {
                let (bytes, stat) = files::read_stat(self.folder, file, SKILL_MD_BYTES)
                    .map_err(|error| Problem::unreadable("The command", &error))?
                    .ok_or_else(no_skill_md)?;
                let fresh = parse_command(&name, &bytes);
                self.record(file.to_owned(), stat, fresh.cached.clone());
                ScannedFile { cached: fresh.cached, size: bytes.len() as u64, instructions: fresh.instructions }
            }
        };
        let place =
            ComponentFile { root: self.root, path: Arc::clone(&self.path), folder: None, file: file.to_owned() };
        let listed = ListedFiles {
            files: BTreeMap::from([(SKILL_MD.to_owned(), scanned.cached.digest)]),
            totals: FileTotals::none(FileStorage::Pack),
            source: FileSource::Command(place),
            skipped: Vec::new(),
            folder_id: None,
        };
        self.candidate(name, scanned, listed, None)
    }
}
