//! The skills whose instructions a summary replaces, whether they came from a skill command or from the tool
//! `use_skill`. The model is told to load them again. Called by `summarise`.

use std::collections::BTreeSet;

use patchbay_core::{AssistantPart, AssistantRecord, CompactionRecord, MessageKind, ToolRecord, completion::ToolCall};
use patchbay_skill::Snapshot;
use serde_json::Value;

use crate::{compaction::CompactionPlan, conversation::data, listing::instructed, use_skill::USE_SKILL};

/// Returns the skills of `snapshot` whose instructions appear in the rows of `plan` but are no longer sent, sorted.
pub(crate) fn skills_in_use(plan: &CompactionPlan<'_>, snapshot: &Snapshot) -> Vec<String> {
    let kept_requests = plan.keep_from.filter(|_| plan.requests_only);
    let mut used = BTreeSet::new();
    // The calls of `use_skill` in the last answer: their ids and the skills.
    let mut calls: Vec<(String, String)> = Vec::new();
    for row in plan.rows {
        match row.kind {
            MessageKind::Skill if kept_requests.is_some_and(|from| row.seq >= from) => {}
            MessageKind::Skill => {
                let name = row.data.as_ref().and_then(|data| data.get("skill")).and_then(Value::as_str);
                used.extend(name.map(str::to_owned));
            }
            MessageKind::Compaction => {
                used.extend(data::<CompactionRecord>(row).into_iter().flat_map(|record| record.skills))
            }
            MessageKind::Assistant => {
                let parts = data::<AssistantRecord>(row).map(|record| record.parts).unwrap_or_default();
                calls = parts.iter().filter_map(AssistantPart::tool_call).filter_map(named_skill).collect();
            }
            MessageKind::Tool => {
                let Some(result) = data::<ToolRecord>(row).filter(|result| result.error.is_none()) else { continue };
                let of_call = calls.iter().filter(|(id, _)| *id == result.call_id);
                used.extend(of_call.map(|(_, name)| name.clone()));
            }
            _ => {}
        }
    }
    used.retain(|name| instructed(snapshot).any(|skill| skill.name.as_str() == name));
    used.into_iter().collect()
}

/// Returns the id of a call of `use_skill` and the skill that it names; `None` for other calls.
fn named_skill(call: ToolCall) -> Option<(String, String)> {
    if call.name != USE_SKILL {
        return None;
    }
    let [name] = call.text_arguments(["name"]);
    Some((call.id, name?))
}
