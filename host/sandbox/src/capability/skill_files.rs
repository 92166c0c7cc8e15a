//! `patchbay:host/skill-files`: the files of the skill that runs. Needs no grant: they are part of the skill's digest.

use futures_util::future::BoxFuture;
use patchbay_core::Digest;

use super::HostResult;
use crate::{
    Fault,
    bindings::{
        patchbay::host::types::{Error as WitError, Pair},
        unlisted::patchbay::host::skill_files::{self, Entry},
    },
    state::GuestState,
};

/// An entry in the list of a skill's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFileEntry {
    /// The path below the skill's folder.
    pub path: String,
    /// Size of the contents, in bytes.
    pub size: u64,
    /// The digest of the file's contents.
    pub digest: Digest,
    /// The media type of an image or a PDF; `None` for other files.
    pub media_type: Option<&'static str>,
}

/// Reads the files of the skill that a call runs.
pub trait SkillFileReader: Send + Sync {
    /// Returns at most `limit` files whose paths begin with `prefix` and come after `after`, sorted by bytes.
    fn entries(
        &self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<SkillFileEntry>, Fault>>;

    /// Returns at most `max` bytes of a file from `offset`.
    fn read(&self, path: String, offset: u64, max: u32) -> BoxFuture<'_, Result<Vec<u8>, Fault>>;
}

impl GuestState {
    /// Counts the host call and returns the files, or the error for the guest.
    fn skill_files(&mut self) -> HostResult<std::sync::Arc<dyn SkillFileReader>> {
        self.count_host_call()?;
        let files = self.services().and_then(|services| services.skill_files.clone());
        Ok(files.ok_or_else(|| WitError {
            kind: "unavailable".to_owned(),
            message: "a component cannot read the skill's files while it describes its tools".to_owned(),
        }))
    }

    fn skill_files_error(&self, fault: Fault) -> WitError {
        match self.access() {
            Ok(access) => access.guest_error(fault),
            Err(denied) => denied,
        }
    }
}

impl skill_files::Host for GuestState {
    async fn entries(&mut self, prefix: String, after: Option<String>, limit: u32) -> HostResult<Vec<Entry>> {
        let files = or_return!(self.skill_files()?);
        let entry = |SkillFileEntry { path, size, digest, media_type }: SkillFileEntry| {
            let media_type = media_type.map(|value| Pair { name: "media-type".to_owned(), value: value.to_owned() });
            Entry { path, size, digest: digest.to_hex(), extra: media_type.into_iter().collect() }
        };
        let entries = files.entries(prefix, after, limit).await;
        let entries = entries.map(|entries| entries.into_iter().map(entry).collect());
        Ok(entries.map_err(|fault| self.skill_files_error(fault)))
    }

    async fn read(&mut self, path: String, offset: u64, max: u32) -> HostResult<Vec<u8>> {
        let files = or_return!(self.skill_files()?);
        Ok(files.read(path, offset, max).await.map_err(|fault| self.skill_files_error(fault)))
    }
}
