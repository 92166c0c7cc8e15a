//! Puts the contents of attached files into a conversation: images and PDFs as blobs, texts headed by their paths. A request
//! has a bounded number of images and PDFs; the oldest are left out. `turn` calls it for each request.

use std::collections::BTreeMap;

use patchbay_core::{
    Attachment, Digest,
    completion::{Blob, Block},
};
use patchbay_store::Store;

use crate::conversation::{AttachmentSlot, Conversation};

/// The most images and PDFs in a request.
const FILES: usize = 100;
/// Images and PDFs that are left out together, so that the beginning of the conversation, which providers cache, seldom changes.
const FILE_STEP: usize = 10;
/// The most bytes of images and PDFs in a request: those of the largest message.
const BYTES: u64 = 32 << 20;
/// Bytes that are left out together.
const BYTE_STEP: u64 = 8 << 20;
/// Bytes that an image or a PDF counts in the estimate of a conversation.
const BLOB_BYTES: u64 = 4_800;

/// Puts the contents into the slots of a conversation. A content that is missing in the store is named.
pub(crate) async fn load(store: &Store, mut conversation: Conversation) -> Conversation {
    let slots = std::mem::take(&mut conversation.slots);
    if slots.is_empty() {
        return conversation;
    }
    let left_out = left_out(&slots);
    let needed: Vec<Digest> = slots
        .iter()
        .zip(&left_out)
        .filter(|(_, left_out)| !**left_out)
        .map(|(slot, _)| slot.attachment.digest)
        .collect();
    let store = store.clone();
    // A task that failed has read nothing: the files are named as missing.
    let contents = tokio::task::spawn_blocking(move || read(&store, needed)).await.unwrap_or_default();
    for (slot, left_out) in slots.into_iter().zip(left_out) {
        let AttachmentSlot { message, part, attachment } = slot;
        let part = conversation.messages.get_mut(message).and_then(|message| message.parts.get_mut(part));
        let Some(part) = part else { continue };
        part.block = match contents.get(&attachment.digest) {
            _ if left_out => Block::Text(attachment.placeholder_with(" left out")),
            None => Block::Text(attachment.placeholder_with(" missing")),
            Some(content) if attachment.is_text() => {
                Block::Text(format!("{}:\n\n{}", attachment.name, String::from_utf8_lossy(content)))
            }
            Some(content) => {
                let Attachment { name, media_type, .. } = attachment;
                Block::Blob(Blob { media_type, name: Some(name), data: content.clone() })
            }
        };
    }
    conversation
}

/// Reads each content once.
fn read(store: &Store, digests: Vec<Digest>) -> BTreeMap<Digest, std::sync::Arc<[u8]>> {
    let mut contents = BTreeMap::new();
    for digest in digests {
        if contents.contains_key(&digest) {
            continue;
        }
        match store.attachment(&digest) {
            Ok(Some(content)) => drop(contents.insert(digest, content.into())),
            Ok(None) => tracing::warn!("attachment {digest} is missing or damaged in the store"),
            Err(error) => tracing::warn!("attachment {digest} cannot be read: {error}"),
        }
    }
    contents
}

/// Returns for each slot whether its content is left out: the oldest images and PDFs, if there are too many. Those of the last
/// message that has some are sent.
fn left_out(slots: &[AttachmentSlot]) -> Vec<bool> {
    let blobs: Vec<&AttachmentSlot> = slots.iter().filter(|slot| !slot.attachment.is_text()).collect();
    let last = blobs.last().map(|slot| slot.message);
    let earlier = blobs.iter().filter(|slot| Some(slot.message) != last).count();
    let by_count = blobs.len().saturating_sub(FILES).div_ceil(FILE_STEP) * FILE_STEP;
    let size: u64 = blobs.iter().map(|slot| slot.attachment.size).sum();
    let mut excess = size.saturating_sub(BYTES).div_ceil(BYTE_STEP) * BYTE_STEP;
    let by_size = blobs.iter().take_while(|slot| {
        let is_over = excess > 0;
        excess = excess.saturating_sub(slot.attachment.size);
        is_over
    });
    let mut remaining = by_size.count().max(by_count).min(earlier);
    let is_left_out = |slot: &AttachmentSlot| {
        let is = remaining > 0 && !slot.attachment.is_text();
        remaining -= usize::from(is);
        is
    };
    slots.iter().map(is_left_out).collect()
}

/// Returns the bytes of text that a file counts like in the estimate of a conversation.
pub(crate) fn bytes(attachment: &Attachment) -> u64 {
    if attachment.is_text() { attachment.size } else { BLOB_BYTES }
}

#[cfg(test)]
mod tests {
    use patchbay_core::TEXT_MEDIA;

    use super::*;

    fn slot(message: usize, media_type: &str, size: u64) -> AttachmentSlot {
        let attachment =
            Attachment { name: "a".to_owned(), media_type: media_type.to_owned(), digest: Digest::of(b""), size };
        AttachmentSlot { message, part: 0, attachment }
    }

    /// Returns how many of `count` images, each in a message of its own, are left out.
    fn of_images(count: usize, size: u64) -> usize {
        let slots: Vec<_> = (0..count).map(|message| slot(message, "image/png", size)).collect();
        let left_out = left_out(&slots);
        let first = left_out.iter().take_while(|left_out| **left_out).count();
        assert!(left_out[first..].iter().all(|left_out| !left_out), "only the oldest are left out");
        first
    }

    #[test]
    fn oldest_images_are_left_out_in_steps_of_ten() {
        for (count, expected) in [(1, 0), (100, 0), (101, 10), (110, 10), (111, 20), (250, 150)] {
            assert_eq!(of_images(count, 1), expected, "{count}");
        }
    }

    #[test]
    fn oldest_images_are_left_out_above_the_size_of_a_request() {
        const MIB: u64 = 1 << 20;
        for (count, expected) in [(32, 0), (33, 8), (40, 8), (41, 16)] {
            assert_eq!(of_images(count, MIB), expected, "{count}");
        }
        assert_eq!(of_images(4, 10 * MIB), 1);
    }

    #[test]
    fn last_message_is_sent_whole_and_texts_always() {
        let mut slots = vec![slot(0, "image/png", 20 << 20), slot(0, TEXT_MEDIA, 20)];
        slots.extend((0..20).map(|_| slot(2, "application/pdf", 1 << 20)));
        let left_out = left_out(&slots);
        assert_eq!(left_out.iter().filter(|left_out| **left_out).count(), 1);
        assert!(left_out[0] && !left_out[1]);
    }
}
