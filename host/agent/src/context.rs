//! The system context of a turn: persona and skills. It is the same for all agents of a session. The session builds it before
//! each turn.

use patchbay_skill::{InvocationMode, Manifest, Snapshot};

/// Returns the system context: the persona's texts and the skills with instructions.
pub fn system_context(persona: impl IntoIterator<Item = String>, snapshot: &Snapshot) -> Vec<String> {
    let mut context: Vec<String> = persona.into_iter().filter(|text| !text.trim().is_empty()).collect();
    context.extend(catalogue(snapshot));
    context
}

/// Lists the skills whose instructions `use_skill` returns.
fn catalogue(snapshot: &Snapshot) -> Option<String> {
    let lines: Vec<String> = instructed(snapshot)
        .map(|(name, summary, hint)| {
            let hint = hint.map(|hint| format!(" (input: {hint})")).unwrap_or_default();
            if summary.is_empty() { format!("- {name}{hint}") } else { format!("- {name}: {summary}{hint}") }
        })
        .collect();
    let head = "Skills. When one fits the task, call the tool use_skill with its name and follow the instructions that it gives:";
    (!lines.is_empty()).then(|| format!("{head}\n{}", lines.join("\n")))
}

/// Returns name, summary and input hint of each skill with instructions for a model.
pub(crate) fn instructed(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    let for_models =
        |manifest: &Manifest| manifest.invocation_mode == InvocationMode::LlmOrchestration && manifest.audience.models;
    snapshot.skills().filter(move |skill| for_models(&skill.manifest)).map(|skill| {
        let manifest = &skill.manifest;
        (skill.name.as_str(), manifest.summary.as_str(), manifest.input_hint.as_deref())
    })
}
