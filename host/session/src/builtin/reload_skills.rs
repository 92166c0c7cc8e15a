//! `/reload_skills`: builds a new snapshot for this session. Conversation and persona stay.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use patchbay_skill::{Diff, Snapshot};
use serde_json::json;

use super::{BuiltIn, CommandChange, Effect, EffectFuture};
use crate::lines::LineContext;

pub(crate) struct ReloadSkillsCommand;

static SPEC: Spec = Spec {
    name: "reload_skills",
    argument: Argument::None,
    summary: "Rebuild this session's snapshot of skills",
    completion: Completion::None,
};

impl BuiltIn for ReloadSkillsCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            let LineContext { session, state, .. } = line;
            let version = state.snapshot.version() + 1;
            match session.host.build_snapshot(session.id(), session.workspace(), version).await {
                Ok(built) => {
                    let outcome = report(&state.snapshot, &built.snapshot);
                    Effect::Change(outcome, CommandChange::Snapshot(Box::new(built)))
                }
                Err(error) => {
                    Outcome::error(error.code(), format_args!("{error} The snapshot stays as it was.")).into()
                }
            }
        })
    }
}

fn report(old: &Snapshot, new: &Snapshot) -> Outcome {
    let (version, count) = (new.version(), new.skills().len());
    let diff = Diff::between(old, new);
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
        "diagnostics": diff.diagnosed,
    }))
}
