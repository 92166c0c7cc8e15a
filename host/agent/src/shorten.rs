//! Shortens the last exchange of a conversation for the request of its summary, if it alone is longer than
//! the model can read. Each step changes something only if the exchange is still too long after the steps
//! before it. Called by `compaction`.

use patchbay_core::completion::{Block, Message, Piece, Role};
use serde_json::json;

use crate::{
    attachments::leave_out,
    tokens::{part_tokens, text_tokens, tokens},
};

/// Bytes that each text keeps while anything else can be left out.
const KEPT: usize = 1_000;
/// Bytes of the longest note about omitted text. No text becomes shorter than this.
const NOTE: usize = 64;

/// Shortens an exchange to `room` tokens, or as far as possible. Its first message is the user's and has no tool results. The
/// roles still alternate, and each call still has its result.
pub(crate) fn shorten(messages: &mut Vec<Message>, room: u64) {
    // An API accepts thinking only unchanged, and a summary does not need it.
    drop_blocks(messages, room, |block| matches!(block, Block::Thinking(_)));
    level_texts(messages, room, Role::Assistant, KEPT);
    level_texts(messages, room, Role::User, KEPT);
    // Opaque blocks may belong together, so all of them are dropped.
    drop_blocks(messages, room, |block| matches!(block, Block::Opaque(_)));
    replace_inputs_and_files(messages, room);
    drop_rounds(messages, room);
    level_texts(messages, room, Role::Assistant, NOTE);
    level_texts(messages, room, Role::User, NOTE);
}

/// Removes blocks. A message without any other block gets a note.
fn drop_blocks(messages: &mut [Message], room: u64, is_dropped: impl Fn(&Block) -> bool) {
    if tokens(messages) <= room {
        return;
    }
    for message in messages {
        message.parts.retain(|part| !is_dropped(&part.block));
        if message.parts.is_empty() {
            message.parts.push(Block::Text("[left out]".to_owned()).into());
        }
    }
}

/// Cuts the longest texts to the same length: the largest with which the messages fit, but at least `floor` bytes. The
/// assistant's texts are its answers and the tool results.
fn level_texts(messages: &mut [Message], room: u64, role: Role, floor: usize) {
    let size = tokens(messages);
    if size <= room {
        return;
    }
    let mut lengths = Vec::new();
    for_each_text(messages, role, |text| {
        lengths.push(text.len());
        false
    });
    let of_texts = |cap: usize| lengths.iter().map(|length| text_tokens((*length).min(cap))).sum::<u64>();
    let of_others = size - of_texts(usize::MAX);
    let (mut cap, mut most) = (floor, lengths.iter().copied().max().unwrap_or_default());
    while cap < most {
        let middle = cap + (most - cap).div_ceil(2);
        if of_others + of_texts(middle) <= room {
            cap = middle;
        } else {
            most = middle - 1;
        }
    }
    for_each_text(messages, role, |text| {
        let is_long = text.len() > cap;
        if is_long {
            *text = shortened(text, cap);
        }
        is_long
    });
}

/// Calls `change` for each text. `change` returns whether it changed the text.
fn for_each_text(messages: &mut [Message], role: Role, mut change: impl FnMut(&mut String) -> bool) {
    for message in messages {
        for part in &mut message.parts {
            let is_changed = match &mut part.block {
                Block::Text(text) if message.role == role => change(text),
                Block::ToolResult(result) if role == Role::Assistant => {
                    for piece in &mut result.content {
                        if let Piece::Text(text) = piece {
                            change(text);
                        }
                    }
                    false
                }
                _ => false,
            };
            if is_changed {
                // Adapter data, such as a signature, belongs to the text as it was.
                part.opaque = None;
            }
        }
    }
}

/// Returns the beginning and the end of a text of more than `cap` bytes, with a note between them: at most `cap` bytes.
pub(crate) fn shortened(text: &str, cap: usize) -> String {
    let half = cap.saturating_sub(NOTE) / 2;
    let head = &text[..text.floor_char_boundary(half)];
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    let left_out = text.len() - head.len() - tail.len();
    format!("{head}\n[{left_out} bytes were left out]\n{tail}")
}

/// Replaces long inputs of calls, images and other files with notes, the oldest first.
fn replace_inputs_and_files(messages: &mut [Message], room: u64) {
    let mut size = tokens(messages);
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if size <= room {
            return;
        }
        size -= part_tokens(part);
        match &mut part.block {
            Block::ToolCall(call) if call.input.len() > NOTE => {
                // An input is always a JSON object.
                call.input = json!({"left_out": format!("{} bytes", call.input.len())}).to_string();
                part.opaque = None;
            }
            _ => {
                leave_out(part);
            }
        }
        size += part_tokens(part);
    }
}

/// Removes the oldest answers after the first message, each with the message that follows it. The last answer stays.
fn drop_rounds(messages: &mut Vec<Message>, room: u64) {
    let mut size = tokens(messages);
    if size <= room {
        return;
    }
    size += text_tokens(NOTE);
    let mut dropped = 0;
    while size > room && messages.len() - dropped > 3 {
        size -= tokens(&messages[dropped + 1..dropped + 3]);
        dropped += 2;
    }
    if dropped > 0 {
        messages.drain(1..=dropped);
        let note = format!("[{dropped} messages were left out]");
        messages[0].parts.push(Block::Text(note).into());
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::completion::{Blob, Part, ToolCall, ToolResult};
    use proptest::prelude::*;

    use super::*;

    fn text(text: impl Into<String>) -> Part {
        Block::Text(text.into()).into()
    }

    fn thinking(bytes: usize) -> Part {
        Part { block: Block::Thinking("t".repeat(bytes)), opaque: Some("signed".to_owned()) }
    }

    fn call(id: usize, input: usize) -> Part {
        let input = json!({"x": "i".repeat(input)}).to_string();
        Block::ToolCall(ToolCall { id: format!("c{id:04}"), name: "a__b".to_owned(), input }).into()
    }

    fn result(id: usize, content: Vec<Piece>) -> Part {
        let (call_id, name) = (format!("c{id:04}"), "a__b".to_owned());
        Block::ToolResult(ToolResult { call_id, name, content, is_error: false }).into()
    }

    fn said(text: impl Into<String>) -> Piece {
        Piece::Text(text.into())
    }

    fn image() -> Piece {
        Piece::Blob(Blob { media_type: "image/png".to_owned(), name: None, data: [0_u8; 8].as_slice().into() })
    }

    fn user(parts: Vec<Part>) -> Message {
        Message { role: Role::User, parts }
    }

    fn answer(parts: Vec<Part>) -> Message {
        Message { role: Role::Assistant, parts }
    }

    /// Returns the text of a part; for a tool result, its first text.
    fn shown(part: &Part) -> &str {
        match &part.block {
            Block::Text(text) => text,
            Block::ToolResult(result) => match &result.content[0] {
                Piece::Text(text) => text,
                Piece::Blob(blob) => panic!("{blob:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn ids(messages: &[Message]) -> Vec<&str> {
        let parts = messages.iter().flat_map(|message| &message.parts);
        let id = |part| match part {
            &Part { block: Block::ToolCall(ref call), .. } => Some(call.id.as_str()),
            _ => None,
        };
        parts.filter_map(id).collect()
    }

    #[test]
    fn long_results_share_the_room_and_short_ones_stay() {
        let lengths = [100, 30_000, 600_000];
        let results = lengths.iter().enumerate();
        let results = results.map(|(id, length)| result(id, vec![said(format!("{}END", "r".repeat(*length)))]));
        let calls = (0..3).map(|id| call(id, 2)).collect();
        let mut messages = vec![user(vec![text("Read.")]), answer(calls), user(results.collect())];
        let before = messages.clone();
        shorten(&mut messages, 10_000);
        let size = tokens(&messages);
        assert!((9_950..=10_000).contains(&size), "{size}");
        assert_eq!((&messages[..2], &messages[2].parts[0]), (&before[..2], &before[2].parts[0]));
        let [one, two] = [1, 2].map(|at| shown(&messages[2].parts[at]));
        assert!(one.len().abs_diff(two.len()) < 3, "{} {}", one.len(), two.len());
        for (text, length) in [(one, 30_003), (two, 600_003)] {
            let (head, rest) = text.split_once("\n[").unwrap();
            let (left_out, tail) = rest.split_once(" bytes were left out]\n").unwrap();
            assert!(head.starts_with('r') && tail.ends_with("END"));
            assert_eq!(head.len() + left_out.parse::<usize>().unwrap() + tail.len(), length);
        }
    }

    #[test]
    fn users_text_is_shortened_after_the_answer() {
        let long = "u".repeat(9_000);
        let mut messages = vec![user(vec![text(&*long)]), answer(vec![text("a".repeat(90_000))])];
        messages[1].parts[0].opaque = Some("signed".to_owned());
        shorten(&mut messages, 5_000);
        assert_eq!(shown(&messages[0].parts[0]), long);
        assert!(shown(&messages[1].parts[0]).len() < 6_000 && messages[1].parts[0].opaque.is_none());
        shorten(&mut messages, 2_000);
        assert!((4_500..6_000).contains(&shown(&messages[0].parts[0]).len()));
        assert!((900..=KEPT).contains(&shown(&messages[1].parts[0]).len()));
    }

    #[test]
    fn thinking_is_dropped_whole() {
        let mut messages = vec![user(vec![text("Think.")]), answer(vec![thinking(90_000), text("Done.")])];
        messages.extend([user(vec![text("More.")]), answer(vec![thinking(90_000)])]);
        shorten(&mut messages, 1_000);
        assert_eq!(messages[1].parts, [text("Done.")]);
        assert_eq!(messages[3].parts, [text("[left out]")]);
    }

    #[test]
    fn oldest_inputs_and_images_are_replaced_when_texts_are_short() {
        let calls = vec![call(0, 30_000), call(1, 30_000), call(2, 2)];
        let results =
            vec![result(0, vec![image(), said("one")]), result(1, vec![said("two")]), result(2, vec![image()])];
        let mut messages = vec![user(vec![text("Write.")]), answer(calls), user(results)];
        let last = messages[2].parts[2].clone();
        shorten(&mut messages, 13_300);
        let Block::ToolCall(first) = &messages[1].parts[0].block else { panic!("{messages:?}") };
        assert_eq!((&*first.input, &messages[1].parts[1]), (r#"{"left_out":"30008 bytes"}"#, &call(1, 30_000)));
        shorten(&mut messages, 1_700);
        assert_eq!((shown(&messages[2].parts[0]), &messages[2].parts[2]), ("[image left out]", &last));
    }

    #[test]
    fn oldest_rounds_are_dropped_when_nothing_else_is_long() {
        let mut messages = vec![user(vec![text("Go on.")])];
        for id in 0..500 {
            messages.extend([answer(vec![call(id, 2)]), user(vec![result(id, vec![said("r".repeat(90))])])]);
        }
        shorten(&mut messages, 1_000);
        let left = ids(&messages);
        assert!((20..30).contains(&left.len()) && left.last() == Some(&"c0499"), "{left:?}");
        assert_eq!(shown(&messages[0].parts[1]), format!("[{} messages were left out]", 2 * (500 - left.len())));
        assert!(tokens(&messages) <= 1_000);
    }

    /// A text of about this many bytes. Most of its characters have two bytes.
    fn long(bytes: usize) -> String {
        format!("x{}", "ä".repeat(bytes / 2))
    }

    fn length() -> impl Strategy<Value = usize> {
        prop_oneof![0..200_usize, 900..1_100_usize, 0..50_000_usize]
    }

    fn exchange() -> impl Strategy<Value = Vec<Message>> {
        let calls = prop::collection::vec((length(), length(), any::<bool>()), 1..4);
        let round = (prop::option::of(length()), prop::option::of(length()), any::<bool>(), calls);
        let rounds = prop::collection::vec(round, 0..8);
        (length(), rounds, prop::option::of((length(), length()))).prop_map(|(first, rounds, last)| {
            let mut messages = vec![user(vec![text(long(first))])];
            let mut id = 0;
            for (thought, words, is_opaque, calls) in rounds {
                let mut parts: Vec<Part> = thought.map(thinking).into_iter().collect();
                parts.extend(words.map(|words| Part { opaque: Some("signed".to_owned()), ..text(long(words)) }));
                parts.extend(is_opaque.then(|| Part::from(Block::Opaque("{}".to_owned()))));
                let mut results = Vec::new();
                for (input, output, has_image) in calls {
                    parts.push(call(id, input));
                    results.push(result(id, has_image.then(image).into_iter().chain([said(long(output))]).collect()));
                    id += 1;
                }
                messages.extend([answer(parts), user(results)]);
            }
            messages.extend(last.map(|(thought, words)| answer(vec![thinking(thought), text(long(words))])));
            messages
        })
    }

    /// Checks what every API requires of messages.
    fn assert_valid(messages: &[Message]) -> Result<(), TestCaseError> {
        for (at, message) in messages.iter().enumerate() {
            prop_assert_eq!(message.role, if at % 2 == 0 { Role::User } else { Role::Assistant });
            prop_assert!(!message.parts.is_empty());
            for part in &message.parts {
                let Block::ToolCall(call) = &part.block else { continue };
                prop_assert!(serde_json::from_str::<serde_json::Map<_, _>>(&call.input).is_ok(), "{}", call.input);
                let results = messages[at + 1].parts.iter();
                let results =
                    results.filter(|part| matches!(&part.block, Block::ToolResult(it) if it.call_id == call.id));
                prop_assert_eq!(results.count(), 1);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn shortened_exchange_fits_and_stays_valid(messages in exchange(), room in 0..60_000_u64) {
            let (mut short, mut again, mut shortest) = (messages.clone(), messages.clone(), messages.clone());
            shorten(&mut short, room);
            shorten(&mut again, room);
            shorten(&mut shortest, 0);
            prop_assert_eq!(&short, &again);
            prop_assert!(tokens(&short) <= room.max(tokens(&shortest)), "{} of {room}", tokens(&short));
            prop_assert!(tokens(&shortest) < 700, "{}", tokens(&shortest));
            prop_assert!(short == messages || tokens(&messages) > room);
            assert_valid(&short)?;
            assert_valid(&shortest)?;
            prop_assert!(ids(&messages).ends_with(&ids(&short)));
        }
    }
}
