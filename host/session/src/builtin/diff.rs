//! `/diff [N]`: shows how a turn or command changed files.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use patchbay_store::FileChangeRow;
use patchbay_tools::FileReverter;
use serde_json::json;

use super::{
    BuiltIn, CommandKind,
    undo::{self, Wanted},
};
use crate::{change_sets::ChangeGroup, file_differences::FileDifferences, line::context::LineContext};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "diff",
            argument: Argument::Optional { usage: "[N]" },
            summary: "Show how the last turn or command changed files, or change N",
            completion: Completion::None,
        },
        |line, argument| Box::pin(async move { diff(line, argument).await.into() }),
    )
};

async fn diff(line: &LineContext, argument: &str) -> Result<Outcome, Outcome> {
    let wanted = Wanted::parse(argument).filter(|_| !argument.contains("--only"));
    let wanted = wanted
        .ok_or_else(|| Outcome::error(Code::InvalidArgs, "/diff requires the number of a change, or nothing."))?;
    let group = wanted.find(line).await?;
    let reverter = line.session.file_reverter(line, &group).await?;
    let mut shown = FileDifferences::default();
    let files = line.session.changes_of(&group).await?;
    for (path, rows) in &files {
        add(&mut shown, &reverter, &group, path, rows).await;
    }
    let (number, count) = (group.number(), undo::files(files.len()));
    let message = format!("Change {number}: {count}.\n{shown}\nTo undo it: /undo {number}");
    let paths: Vec<&String> = files.keys().collect();
    Ok(Outcome::ok(Code::ChangeShown, message).with_data(json!({"change": number, "files": paths})))
}

/// Adds the difference between a file's contents before the group's first change and its present contents.
async fn add(
    shown: &mut FileDifferences,
    reverter: &FileReverter,
    group: &ChangeGroup,
    path: &str,
    rows: &[FileChangeRow],
) {
    let mut of_group = rows.iter().filter(|row| group.numbers.contains(&row.number));
    let (first, last) = (of_group.next(), of_group.next_back());
    let Some(first) = first else { return };
    let last = last.unwrap_or(first);
    let before = match first.before {
        Some(digest) => reverter.kept(digest).await,
        None => None,
    };
    if first.before.is_some() && before.is_none() {
        return shown.note(path, "its earlier contents are not stored");
    }
    match reverter.now(path).await {
        Err(reason) => shown.note(path, &reason),
        Ok(now) => {
            let is_as_left = now.as_ref().map(|now| now.file.digest) == last.after;
            let contents = match now {
                Some(now) if now.contents.is_none() => return shown.note(path, "it is too large to compare"),
                now => now.and_then(|now| now.contents),
            };
            shown.add(path, before.as_deref(), contents.as_deref());
            if !is_as_left {
                shown.note(path, "changed since; compared with its present contents");
            }
        }
    }
}
