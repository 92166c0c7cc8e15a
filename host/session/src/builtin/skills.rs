//! `/skills`: lists the skills of the snapshot and its diagnostics. It reads no file.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::session::SessionState;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "skills",
            argument: Argument::None,
            summary: "List the skills of this session's snapshot",
            completion: Completion::None,
        },
        |line, _| Box::pin(async { list(&line.state).into() }),
    )
};

fn list(state: &SessionState) -> Outcome {
    let snapshot = &state.snapshot;
    let mut lines: Vec<String> = Vec::new();
    for skill in snapshot.skills() {
        lines.push(match skill.manifest.summary.as_str() {
            "" => skill.name.to_string(),
            summary => format!("{} - {summary}", skill.name),
        });
    }
    let code = if lines.is_empty() { Code::SkillsEmpty } else { Code::SkillsListed };
    if lines.is_empty() {
        lines.push("No skills available in snapshot.".to_owned());
    }
    if !snapshot.diagnostics().is_empty() {
        lines.extend([String::new(), "Diagnostics:".to_owned()]);
        lines.extend(snapshot.diagnostics().iter().map(|d| format!("- {} [{}] {}", d.name, d.code, d.message)));
    }
    let skills: Vec<_> = snapshot
        .skills()
        .map(|skill| json!({"name": skill.name, "summary": skill.manifest.summary, "digest": skill.digest, "component": skill.component}))
        .collect();
    Outcome::ok(code, lines.join("\n")).with_data(json!({
        "version": snapshot.version(),
        "digest": snapshot.digest(),
        "skills": skills,
        "diagnostics": snapshot.diagnostics(),
    }))
}
