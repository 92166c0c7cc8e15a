//! The pictures in tool results, for fronts that show them. Rows only contain the digests of pictures.

use std::collections::BTreeMap;

use patchbay_core::{Digest, ToolRecord, ToolRecordPart};

use crate::Session;

impl Session {
    /// Returns the stored pictures of a result by their digests. Missing pictures, and pictures of more than `most` bytes, are
    /// left out.
    pub async fn pictures(&self, record: &ToolRecord, most: u64) -> BTreeMap<Digest, Vec<u8>> {
        let named = record.content.iter().filter_map(|part| match part {
            ToolRecordPart::StoredBlob { media_type, digest, size }
                if media_type.starts_with("image/") && *size <= most =>
            {
                Some(*digest)
            }
            _ => None,
        });
        let named: Vec<Digest> = named.collect();
        if named.is_empty() {
            return BTreeMap::new();
        }
        let store = self.log().store().clone();
        let read = move || {
            let content = |digest: Digest| match store.attachment(&digest) {
                Ok(content) => content.map(|content| (digest, content)),
                Err(error) => {
                    tracing::warn!("picture {digest} of a result cannot be read: {error}");
                    None
                }
            };
            named.into_iter().filter_map(content).collect()
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}
