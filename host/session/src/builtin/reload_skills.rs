//! `/reload_skills`: builds a new snapshot for this session. The conversation and the persona stay the same.

use std::collections::BTreeMap;

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Name, Outcome};
use patchbay_skill::{Diff, Snapshot};
use patchbay_store::{Store, StoreError};
use serde_json::json;

use super::{BeginsTurn, BuiltIn, CommandChange, Effect};
use crate::{building::Built, line::context::LineContext};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    begins_turn: |_, _| BeginsTurn::NoButDelays,
    ..BuiltIn::new(
        Spec {
            name: "reload_skills",
            argument: Argument::None,
            summary: "Rebuild this session's snapshot of skills",
            completion: Completion::None,
        },
        |line, _| {
            Box::pin(async move {
                let LineContext { session, state, .. } = line;
                let version = state.snapshot.version() + 1;
                let (id, workspace) = (session.id(), session.workspace());
                match session.host.build_snapshot(id, workspace, version, session.uses_skills()).await {
                    Ok(built) => {
                        let diff = Diff::between(&state.snapshot, &built.snapshot);
                        match changed_files(session.host.store(), &state.snapshot, &built, &diff).await {
                            Ok(files) => {
                                let outcome = report(&built.snapshot, &diff, &files);
                                Effect::Change(outcome, CommandChange::Snapshot(Box::new(built)))
                            }
                            Err(error) => Outcome::error(error.code(), format_args!("{error}.")).into(),
                        }
                    }
                    Err(error) => {
                        Outcome::error(error.code(), format_args!("{error} The snapshot stays as it was.")).into()
                    }
                }
            })
        },
    )
};

/// Returns all changed files of each changed skill. A skill is left out if the list of its old or of its new files is not known.
async fn changed_files<'d>(
    store: &Store,
    old: &Snapshot,
    built: &Built,
    diff: &'d Diff,
) -> Result<BTreeMap<&'d Name, Vec<String>>, StoreError> {
    let mut changed = BTreeMap::new();
    for name in &diff.changed {
        let digest = |snapshot: &Snapshot| snapshot.skill(name.as_str()).map(|skill| skill.digest);
        let (Some(before), Some(now)) = (digest(old), digest(&built.snapshot)) else { continue };
        if let (Some(before), Some(now)) = (store.skill_files(&before).await?, built.files.get(&now)) {
            changed.insert(name, patchbay_skill::changed_files(&before, now));
        }
    }
    Ok(changed)
}

fn report(new: &Snapshot, diff: &Diff, changed_files: &BTreeMap<&Name, Vec<String>>) -> Outcome {
    let (version, count) = (new.version(), new.skills().len());
    let mut lines = vec![format!("Reloaded skills for current session. version={version} count={count}")];
    for (mark, names) in [('+', &diff.added), ('-', &diff.removed), ('~', &diff.changed)] {
        lines.extend(names.iter().map(|name| format!("{mark} {name}")));
    }
    let diagnosed = diff.diagnosed.iter();
    lines.extend(diagnosed.map(|found| format!("! {} [{}] {}", found.name, found.code, found.message)));
    Outcome::ok(Code::SkillsReloaded, lines.join("\n")).with_data(json!({
        "version": version,
        "count": count,
        "digest": new.digest(),
        "added": diff.added,
        "removed": diff.removed,
        "changed": diff.changed,
        "changed_files": changed_files,
        "diagnostics": diff.diagnosed,
    }))
}
