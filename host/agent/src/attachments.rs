//! Puts the contents of attached files, and of images in tool results, into a conversation: images and PDFs as blobs,
//! texts preceded by their paths. The number and size of the blobs in a request are limited, including blobs in tool
//! results; the oldest are left out. `turn` calls it for each request.

use std::collections::BTreeMap;

use patchbay_core::{
    Attachment, Digest,
    completion::{Blob, Block, Message, Part, Piece},
};
use patchbay_store::Store;

use crate::conversation::{AttachmentSlot, Conversation};

/// Maximum number of blobs in a request.
const BLOBS: usize = 100;
/// Blobs are left out in groups of this size. Leaving out one at a time would change the beginning of the conversation,
/// which providers cache, at every request.
const BLOB_STEP: usize = 10;
/// Maximum number of bytes of blobs in a request, which is also the limit for one user message. As base64 they are 27 MiB; APIs
/// accept requests of 32 MB (2026-11-24, platform.claude.com, "Request size limits").
const BYTES: u64 = 20 << 20;
/// The bytes to leave out are rounded up to a multiple of this, for the same reason.
const BYTE_STEP: u64 = 5 << 20;
/// The end of the placeholder that a model reads instead of a blob.
const LEFT_OUT: &str = " left out";

/// Puts the contents into the slots of a conversation, and leaves out the oldest blobs if there are too many. For content that is
/// missing in the store, a note names the file.
pub(crate) async fn load(store: &Store, mut conversation: Conversation) -> Conversation {
    leave_out_oldest(&mut conversation);
    let slots = std::mem::take(&mut conversation.slots);
    if slots.is_empty() {
        return conversation;
    }
    let needed: Vec<Digest> = slots.iter().map(|slot| slot.attachment.digest).collect();
    let store = store.clone();
    // If the task failed, nothing was read, and notes name the files as missing.
    let contents = tokio::task::spawn_blocking(move || read(&store, needed)).await.unwrap_or_default();
    for AttachmentSlot { message, part, piece, attachment } in slots {
        let part = conversation.messages.get_mut(message).and_then(|message| message.parts.get_mut(part));
        let Some(part) = part else { continue };
        if let Some(piece) = piece {
            if let Block::ToolResult(result) = &mut part.block
                && let Some(piece) = result.content.get_mut(piece)
            {
                *piece = match contents.get(&attachment.digest) {
                    None => Piece::Text(attachment.placeholder_with(" missing")),
                    Some(content) => {
                        let media_type = attachment.media_type;
                        Piece::Blob(Blob { media_type, name: None, data: content.clone() })
                    }
                };
            }
            continue;
        }
        part.block = match contents.get(&attachment.digest) {
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

/// Replaces the blobs of messages with notes; returns whether there were any.
pub(crate) fn leave_out_all(messages: &mut [Message]) -> bool {
    let mut is_changed = false;
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        is_changed |= leave_out(part);
    }
    is_changed
}

/// Replaces the blobs of a part with notes; returns whether it had any.
pub(crate) fn leave_out(part: &mut Part) -> bool {
    match &mut part.block {
        Block::Blob(blob) => {
            part.block = Block::Text(blob.placeholder_with(LEFT_OUT));
            true
        }
        Block::ToolResult(result) => {
            let mut is_changed = false;
            for piece in &mut result.content {
                if let Piece::Blob(blob) = piece {
                    *piece = Piece::Text(blob.placeholder_with(LEFT_OUT));
                    is_changed = true;
                }
            }
            is_changed
        }
        _ => false,
    }
}

/// Reads each stored content once, by its digest.
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

/// Replaces the oldest blobs, and the slots for blobs, with notes if there are too many.
fn leave_out_oldest(conversation: &mut Conversation) {
    let mut blobs = Vec::new();
    retain_blobs(conversation, |message, bytes| {
        blobs.push((message, bytes));
        true
    });
    let mut remaining = excess(&blobs);
    if remaining > 0 {
        retain_blobs(conversation, |_, _| {
            let is_kept = remaining == 0;
            remaining -= usize::from(!is_kept);
            is_kept
        });
    }
}

/// Calls `is_kept` for each blob in a slot or in a tool result, in order, with the index of its message and its size. A blob that
/// is not kept is replaced by a note.
fn retain_blobs(conversation: &mut Conversation, mut is_kept: impl FnMut(usize, u64) -> bool) {
    let Conversation { messages, slots, .. } = conversation;
    let mut found = std::mem::take(slots).into_iter().peekable();
    for (at, message) in messages.iter_mut().enumerate() {
        for (index, part) in message.parts.iter_mut().enumerate() {
            let is_at = |slot: &AttachmentSlot, piece| (slot.message, slot.part, slot.piece) == (at, index, piece);
            if let Some(slot) = found.next_if(|slot| is_at(slot, None)) {
                let file = &slot.attachment;
                if file.is_text() || is_kept(at, file.size) {
                    slots.push(slot);
                } else {
                    part.block = Block::Text(file.placeholder_with(LEFT_OUT));
                }
            } else if let Block::ToolResult(result) = &mut part.block {
                for (index, piece) in result.content.iter_mut().enumerate() {
                    if let Some(slot) = found.next_if(|slot| is_at(slot, Some(index))) {
                        if is_kept(at, slot.attachment.size) {
                            slots.push(slot);
                        } else {
                            *piece = Piece::Text(slot.attachment.placeholder_with(LEFT_OUT));
                        }
                    } else if let Piece::Blob(blob) = piece
                        && !is_kept(at, blob.data.len() as u64)
                    {
                        *piece = Piece::Text(blob.placeholder_with(LEFT_OUT));
                    }
                }
            }
        }
    }
}

/// Returns how many of the oldest blobs are left out. `blobs` contains the index of each blob's message and the blob's size. The
/// blobs of the last message that has any are all sent, unless they exceed a limit by themselves.
fn excess(blobs: &[(usize, u64)]) -> usize {
    let bytes = |blobs: &[(usize, u64)]| blobs.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let last = blobs.last().map(|(message, _)| *message);
    let earlier = blobs.iter().take_while(|(message, _)| Some(*message) != last).count();
    let by_count = blobs.len().saturating_sub(BLOBS).div_ceil(BLOB_STEP) * BLOB_STEP;
    let mut too_many = bytes(blobs).saturating_sub(BYTES).div_ceil(BYTE_STEP) * BYTE_STEP;
    let by_size = blobs.iter().take_while(|(_, bytes)| {
        let is_over = too_many > 0;
        too_many = too_many.saturating_sub(*bytes);
        is_over
    });
    let steps = by_size.count().max(by_count);
    let of_last = &blobs[earlier..];
    if of_last.len() > BLOBS || bytes(of_last) > BYTES { steps } else { steps.min(earlier) }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{
        TEXT_MEDIA,
        completion::{Role, ToolResult},
    };

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns how many of `count` images, each in a message of its own, are left out.
    fn of_images(count: usize, size: u64) -> usize {
        excess(&(0..count).map(|message| (message, size)).collect::<Vec<_>>())
    }

    #[test]
    fn oldest_images_are_left_out_in_steps_of_ten() {
        for (count, expected) in [(1, 0), (100, 0), (101, 10), (110, 10), (111, 20), (250, 150)] {
            assert_eq!(of_images(count, 1), expected, "{count}");
        }
    }

    #[test]
    fn oldest_images_are_left_out_above_the_size_of_a_request() {
        for (count, expected) in [(20, 0), (21, 5), (25, 5), (26, 10)] {
            assert_eq!(of_images(count, MIB), expected, "{count}");
        }
        assert_eq!(of_images(3, 10 * MIB), 1);
    }

    #[test]
    fn last_message_is_sent_whole_if_it_fits() {
        let of_last = |count: usize| [&[(0, 10 * MIB)], &*vec![(2, MIB); count]].concat();
        assert_eq!(excess(&of_last(20)), 1);
        // Results of tools in one message may be too large together: 31 MiB are 11 MiB too many.
        assert_eq!(excess(&of_last(21)), 1 + 5);
        assert_eq!(excess(&[(0, 25 * MIB)]), 1);
    }

    #[test]
    fn images_of_tools_and_of_the_user_are_bounded_together() {
        let text = |text: &str| Part::from(Block::Text(text.to_owned()));
        let attached = |name: &str, media_type: &str, size| {
            let (name, media_type) = (name.to_owned(), media_type.to_owned());
            Attachment { name, media_type, digest: Digest::of(b""), size }
        };
        let image = Piece::Blob(Blob { media_type: "image/png".to_owned(), name: None, data: vec![0; 7 << 20].into() });
        let result = |call_id: &str| {
            let content = vec![Piece::Text("shot".to_owned()), image.clone()];
            Part::from(Block::ToolResult(ToolResult {
                call_id: call_id.to_owned(),
                name: "a__b".to_owned(),
                content,
                is_error: false,
            }))
        };
        let message = |role, parts| Message { role, parts };
        let messages = vec![
            message(Role::User, vec![text("[image: a.png]"), text("[file: b.txt]"), text("look")]),
            message(Role::Assistant, vec![text("I look.")]),
            message(Role::User, vec![result("1"), result("2")]),
        ];
        let slots = vec![
            AttachmentSlot { message: 0, part: 0, piece: None, attachment: attached("a.png", "image/png", 1) },
            AttachmentSlot { message: 0, part: 1, piece: None, attachment: attached("b.txt", TEXT_MEDIA, 30 << 20) },
        ];
        let mut fits = Conversation { messages, answers: Vec::new(), counted: None, uncounted: 0, slots };
        let before = format!("{fits:?}");
        leave_out_oldest(&mut fits);
        assert_eq!(format!("{fits:?}"), before);
        let mut conversation = fits;
        conversation.messages[2].parts.push(result("3"));
        leave_out_oldest(&mut conversation);
        // Texts are always sent.
        assert_eq!(conversation.slots.iter().map(|slot| slot.part).collect::<Vec<_>>(), [1]);
        assert_eq!(conversation.messages[0].parts[0], text("[image left out: a.png]"));
        let pieces = conversation.messages[2].parts.iter().map(|part| match &part.block {
            Block::ToolResult(result) => &result.content[1],
            other => panic!("{other:?}"),
        });
        assert_eq!(pieces.collect::<Vec<_>>(), [&Piece::Text("[image left out]".to_owned()), &image, &image]);
        assert!(leave_out_all(&mut conversation.messages) && !leave_out_all(&mut conversation.messages));
    }
}
