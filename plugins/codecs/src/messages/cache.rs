//! Cache points: the API caches everything up to a marked block. Used by [`super::request`].
//!
//! A request reads an earlier request's cache entry if one of its points is at most 20 blocks after a point of the earlier
//! request. One request may have four points (2026-11-23, platform.claude.com, "Prompt caching"). So the messages have a
//! point at their end, one where the previous request ended, and one every [`STEP`] blocks back from the end. A summary
//! request only has the point where the previous request ended: the summary replaces the conversation, so no later request
//! would read a new entry.

use patchbay_provider_sdk::Role;

use crate::body::Json;
use crate::object;

/// Maximum number of points of a request.
pub(super) const MOST: usize = 4;

/// Blocks between two points. Fewer than the API's 20, because some blocks cannot have a point.
const STEP: usize = 15;

/// Marks a block as a cache point.
pub(super) fn mark(block: &mut Json) {
    block.put("cache_control", object! { "type": "ephemeral" });
}

/// Marks at most `points` blocks of the messages. `writes` is false for a summary request, whose end gets no point.
pub(super) fn mark_messages(messages: &mut [(Role, Vec<Json>)], points: usize, writes: bool) {
    let ends: Vec<usize> = messages
        .iter()
        .scan(0, |end, (_, content)| {
            *end += content.len();
            Some(*end)
        })
        .collect();
    let Some(last) = ends.last() else { return };
    // The previous request ended with the message before the last answer.
    let answer = messages.iter().rposition(|(role, _)| *role == Role::Assistant);
    let before = answer.and_then(|answer| answer.checked_sub(1)).map(|before| ends[before]);
    let steps = (0..).map_while(|step| last.checked_sub(step * STEP)).skip(1);
    let (end, steps) = (Some(*last).filter(|_| writes), writes.then_some(steps).into_iter().flatten());
    let mut blocks: Vec<&mut Json> = messages.iter_mut().flat_map(|(_, content)| content).collect();
    let mut marked: Vec<usize> = Vec::new();
    for end in end.into_iter().chain(before).chain(steps) {
        // Thinking and blocks of the API's own tools are sent back unchanged, so the nearest block before them gets the point
        // instead.
        let at = blocks[..end].iter().rposition(|block| matches!(block, Json::Object(_)));
        let Some(at) = at.filter(|at| !marked.contains(at)) else { continue };
        if marked.len() == points {
            return;
        }
        mark(blocks[at]);
        marked.push(at);
    }
}
