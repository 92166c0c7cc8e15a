//! `/help SKILL`: shows the metadata of a skill. It runs no component; files that are not stored yet are read from the workspace.

use std::sync::Arc;

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, text};
use patchbay_policy::Standing;
use patchbay_skill::{FileSet, FileTotals, Skill, SkillFile};
use patchbay_store::StoreError;
use patchbay_tools::SkillFilesError;
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::{Session, invoke};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "help",
            argument: Argument::Required { usage: "SKILL", what: "a skill name" },
            summary: "Show a skill's metadata, without running it",
            completion: Completion::Skills,
        },
        |line, name| {
            Box::pin(async move {
                let Some(skill) = line.state.snapshot.skill(name) else { return invoke::not_found(name).into() };
                match describe(&line.session, skill, line.state.snapshot.files_problem(skill)).await {
                    Ok(outcome) => outcome.into(),
                    Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}.")).into(),
                }
            })
        },
    )
};

/// Describes `skill`. `files_problem` is the reason why none of its files can be read, if the skill exceeds a limit on files.
async fn describe(session: &Session, skill: &Skill, files_problem: Option<&str>) -> Result<Outcome, StoreError> {
    let manifest = &skill.manifest;
    let permits = session.host.tools.permits(skill, session.workspace()).await?;
    let capabilities: Vec<(String, &str, Option<String>)> = manifest
        .capabilities
        .iter()
        .map(|asked| {
            let why = permits.standing(&asked.capability).and_then(Standing::why);
            (asked.capability.to_string(), permits.state(&asked.capability).as_str(), why)
        })
        .collect();
    let files = match skill.files {
        Some(FileTotals { count: 0, .. }) => Ok(Arc::default()),
        _ => session.host.skill_files(session.workspace(), skill).await,
    };
    let mut lines = vec![format!("# /help {}", skill.name), String::new()];
    lines.extend(fields(session, skill, &capabilities));
    lines.extend(files_problem.map(|problem| format!("- `files`: left out. {problem}")));
    lines.extend(file_lines(skill, &files));
    lines.extend(rare_fields(skill));
    let data = data(skill, &capabilities, files.ok().as_deref());
    Ok(Outcome::ok(Code::SkillHelp, lines.join("\n")).with_data(data))
}

/// Returns the lines that every skill has.
fn fields(session: &Session, skill: &Skill, capabilities: &[(String, &str, Option<String>)]) -> Vec<String> {
    let manifest = &skill.manifest;
    let list = |items: &[String]| items.join(", ");
    let shown: Vec<String> = capabilities
        .iter()
        .map(|(name, state, why)| match why {
            Some(why) => format!("{name} ({state}: {why})"),
            None => format!("{name} ({state})"),
        })
        .collect();
    let command_tool = command_tool(session, skill);
    let fields = [
        ("name", skill.name.to_string()),
        ("version", manifest.version.clone().unwrap_or_default()),
        ("summary", manifest.summary.clone()),
        ("source", skill.root.to_string()),
        ("invocation_mode", manifest.invocation_mode.as_str().to_owned()),
        ("command_alias", alias(skill).unwrap_or_default()),
        ("command_tool", command_tool),
        ("tools", tool_names(skill).join(", ")),
        ("requires_tools", list(&manifest.requires_tools)),
        ("eligibility.os", list(&manifest.eligibility.os)),
        ("eligibility.env", list(&manifest.eligibility.env)),
        ("eligibility.binaries", list(&manifest.eligibility.binaries)),
        ("capabilities", shown.join(", ")),
        ("digest", skill.digest.to_string()),
    ];
    // Shown only for skills with a component.
    let component = skill.component.map(|component| ("component", component.to_string()));
    let line = |(name, value): &(&str, String)| {
        let value = if value.is_empty() { "(none)" } else { value };
        format!("- `{name}`: {value}")
    };
    fields.iter().chain(&component).map(line).collect()
}

/// Returns the lines that only some skills have.
fn rare_fields(skill: &Skill) -> Vec<String> {
    let manifest = &skill.manifest;
    let list = |items: &[String]| items.join(", ");
    let audience = manifest.audience;
    let others = [
        ("license", manifest.license.clone()),
        ("compatibility", manifest.compatibility.clone()),
        ("allowed_tools", (!manifest.allowed_tools.is_empty()).then(|| list(&manifest.allowed_tools))),
        ("disable_model_invocation", (!audience.models).then(|| "true".to_owned())),
        ("user_invocable", (!audience.menus).then(|| "false".to_owned())),
        ("not used here", (!manifest.unused.is_empty()).then(|| list(&manifest.unused))),
    ];
    others.into_iter().filter_map(|(name, value)| Some(format!("- `{name}`: {}", value?))).collect()
}

fn tool_names(skill: &Skill) -> Vec<&str> {
    skill.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn alias(skill: &Skill) -> Option<String> {
    skill.manifest.command.as_ref().map(|alias| format!("/{alias}"))
}

/// Returns the same data as JSON, for programs.
fn data(skill: &Skill, capabilities: &[(String, &str, Option<String>)], files: Option<&FileSet>) -> serde_json::Value {
    let manifest = &skill.manifest;
    let audience = manifest.audience;
    let capabilities: Vec<_> = manifest
        .capabilities
        .iter()
        .zip(capabilities)
        .map(|(asked, (name, state, why))| {
            json!({"name": name, "state": state, "stale": why, "reason": asked.reason, "optional": asked.optional})
        })
        .collect();
    json!({
        "name": skill.name,
        "version": manifest.version,
        "summary": manifest.summary,
        "source": skill.root,
        "invocation_mode": manifest.invocation_mode,
        "command_alias": alias(skill),
        "command_tool": manifest.command_tool,
        "tools": tool_names(skill),
        "requires_tools": manifest.requires_tools,
        "eligibility": manifest.eligibility,
        "capabilities": capabilities,
        "digest": skill.digest,
        "component": skill.component,
        "license": manifest.license,
        "compatibility": manifest.compatibility,
        "allowed_tools": manifest.allowed_tools,
        "disable_model_invocation": !audience.models,
        "user_invocable": audience.menus,
        "not_used_here": manifest.unused,
        "files": files.map(files_json),
    })
}

/// Maximum number of files that are listed.
const MAX_FILES: usize = 100;

/// Returns the lines about the skill's files other than SKILL.md and the component; none if there are none.
fn file_lines(skill: &Skill, files: &Result<Arc<FileSet>, SkillFilesError>) -> Vec<String> {
    let (lines, more) = match files {
        Ok(files) => files.lines(MAX_FILES),
        Err(error) => (vec![error.to_string()], 0),
    };
    let head = match skill.files {
        Some(FileTotals { count: 0, .. }) => return Vec::new(),
        Some(FileTotals { count, bytes, .. }) => format!("- `files`: {count} ({})", text::size(bytes)),
        None => "- `files`: unknown".to_owned(),
    };
    let more = (more > 0).then(|| format!("{more} more"));
    let lines = lines.into_iter().chain(more).map(|line| format!("  - {line}"));
    [head].into_iter().chain(lines).collect()
}

fn files_json(files: &FileSet) -> serde_json::Value {
    let file =
        |(path, file): (&str, &SkillFile)| json!({"path": path, "size": file.contents.len(), "digest": file.digest});
    files.others().map(file).collect()
}

/// Returns `command_tool`. For a tool of another skill it adds the owner, because the tool runs with the owner's grants.
fn command_tool(session: &Session, skill: &Skill) -> String {
    let tool = skill.manifest.command_tool.clone().unwrap_or_default();
    let snapshot = session.snapshot();
    match snapshot.tool(&tool) {
        Some((owner, _)) if skill.borrows_tool() => format!("{tool} (of the {} skill '{}')", owner.root, owner.name),
        _ => tool,
    }
}
