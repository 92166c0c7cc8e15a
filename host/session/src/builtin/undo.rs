//! `/undo [N] [--only]`: restores files to their contents from before a turn or command.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{AgentId, CallId, Code, Outcome, text};
use patchbay_store::{AgentRow, FileChangeRow, Undone};
use patchbay_tools::FileReverter;
use serde_json::{Value, json};

use super::{BeginsTurn, BuiltIn};
use crate::{
    Session,
    change_sets::{ChangeGroup, ChangesByFile, FileUndo, find_group, plan},
    file_differences::FileDifferences,
    line::context::LineContext,
};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    begins_turn: |_, _| BeginsTurn::IfIdle { releases: false },
    ends_itself: true,
    ..BuiltIn::new(
        Spec {
            name: "undo",
            argument: Argument::Optional { usage: "[N] [--only]" },
            summary: "Undo the file changes of the last turn or command, or of change N; --only leaves out forked agents",
            completion: Completion::None,
        },
        |line, argument| Box::pin(async move { undo(line, argument).await.into() }),
    )
};

async fn undo(line: &LineContext, argument: &str) -> Result<Outcome, Outcome> {
    let wanted = Wanted::parse(argument).ok_or_else(|| {
        Outcome::error(Code::InvalidArgs, "/undo requires the number of a change, --only, or nothing.")
    })?;
    if line.turn.is_none() {
        return Err(running());
    }
    let group = wanted.find(line).await?;
    let number = group.number();
    let undone = RestoredFiles::new(line, group).await?;
    let mut data = undone.data();
    data["change"] = number.into();
    if undone.restored.is_empty() && !undone.refused.is_empty() {
        let message = format!("change {number} was not undone:\n{}", undone.reasons());
        return Ok(Outcome::error(Code::ChangeKept, message).with_data(data));
    }
    let first = match undone.restored.len() {
        0 => format!("Change {number}: the files already have their earlier contents."),
        count => format!("Undid change {number}: {}.", files(count)),
    };
    Ok(Outcome::ok(Code::ChangeUndone, undone.under(first, Some(number))).with_data(data))
}

fn running() -> Outcome {
    let message = "cannot undo changes while an agent that made them is working. Wait for it to finish or press Ctrl+C to stop it.";
    Outcome::error(Code::TurnRunning, message)
}

/// Formats a number of files, such as `2 files`.
pub(super) fn files(count: usize) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

/// The changes that the user selected with the arguments.
pub(super) struct Wanted {
    number: Option<u64>,
    only: bool,
}

impl Wanted {
    pub(super) fn parse(argument: &str) -> Option<Self> {
        let mut wanted = Self { number: None, only: false };
        for word in argument.split_whitespace() {
            match word {
                "--only" if !wanted.only => wanted.only = true,
                number if wanted.number.is_none() => wanted.number = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(wanted)
    }

    /// Returns the change group that was selected.
    ///
    /// # Errors
    /// The outcome of the refused command if the group is not found, or of a store error.
    pub(super) async fn find(&self, line: &LineContext) -> Result<ChangeGroup, Outcome> {
        let (session, store) = (&line.session, line.session.log().store());
        let sets = store.change_sets(session.id()).await.map_err(|error| failed(&error))?;
        let agents = session.all_agents().await?;
        let found = find_group(&sets, &agents, line.agent.id(), self.number, self.only);
        found.ok_or_else(|| match self.number {
            None => Outcome::error(Code::ChangeNotFound, "no file changes to undo here."),
            Some(number) if sets.iter().any(|set| set.number == number && set.undone == Undone::All) => {
                Outcome::error(Code::ChangeNotFound, format_args!("change {number} is already undone."))
            }
            Some(number) => Outcome::error(Code::ChangeNotFound, format_args!("change {number} was not found.")),
        })
    }
}

pub(super) fn failed(error: &patchbay_store::StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}."))
}

impl Session {
    /// Returns the agents of the session, including dead ones.
    ///
    /// # Errors
    /// The outcome of a store error.
    pub(super) async fn all_agents(&self) -> Result<Vec<AgentRow>, Outcome> {
        let store = self.log().store();
        let mut agents = store.agents(self.id()).await.map_err(|error| failed(&error))?;
        agents.extend(store.dead_agents(self.id(), u32::MAX).await.map_err(|error| failed(&error))?.0);
        Ok(agents)
    }

    /// Returns whether an agent of the group other than `own` is running a turn. `own` is busy with the command itself.
    fn is_worked_on(&self, group: &ChangeGroup, own: AgentId) -> bool {
        let agents = self.agents();
        let others = group.agents.iter().filter(|agent| **agent != own).filter_map(|agent| agents.get(*agent));
        others.into_iter().any(|agent| agent.is_answering())
    }

    /// Returns the changes to the files of `group` as [`ChangeGroup::by_file`] filters them.
    ///
    /// # Errors
    /// The outcome of a store error.
    pub(super) async fn changes_of(&self, group: &ChangeGroup) -> Result<ChangesByFile, Outcome> {
        let rows = self.log().store().file_changes(self.id(), &group.numbers).await.map_err(|error| failed(&error))?;
        Ok(group.by_file(rows))
    }

    /// Returns the [`FileReverter`] for the command of `line`, which shows or undoes `group`.
    ///
    /// # Errors
    /// The outcome of a store error.
    pub(super) async fn file_reverter(&self, line: &LineContext, group: &ChangeGroup) -> Result<FileReverter, Outcome> {
        let (hold, call) = (self.log().hold(), CallId::of_line(line.line));
        let tools = &self.host.tools;
        let (agent, workspace, editor) = (line.agent.id(), self.workspace(), line.client.editor.clone());
        let reverter = tools.file_reverter(hold, agent, call, &group.numbers, workspace, editor).await;
        reverter.map_err(|error| failed(&error))
    }
}

/// The files that one command restored.
pub(super) struct RestoredFiles<'a> {
    line: &'a LineContext,
    group: ChangeGroup,
    reverter: FileReverter,
    shown: FileDifferences,
    pub(super) restored: Vec<String>,
    /// The files that were left alone, with the reasons.
    pub(super) refused: Vec<(String, String)>,
    /// The number of the command's own change; `None` if it changed no file.
    own: Option<u64>,
}

impl<'a> RestoredFiles<'a> {
    /// Undoes the changes of `group`.
    ///
    /// # Errors
    /// The outcome of a refused command: an agent is working on the files, or the store failed.
    pub(super) async fn new(line: &'a LineContext, group: ChangeGroup) -> Result<Self, Outcome> {
        if line.session.is_worked_on(&group, line.agent.id()) {
            return Err(running());
        }
        let reverter = line.session.file_reverter(line, &group).await?;
        let (shown, restored, refused) = (FileDifferences::default(), Vec::new(), Vec::new());
        let mut undone = Self { line, group, reverter, shown, restored, refused, own: None };
        undone.run().await?;
        Ok(undone)
    }

    async fn run(&mut self) -> Result<(), Outcome> {
        let mut done = Vec::new();
        for (path, rows) in self.line.session.changes_of(&self.group).await? {
            if self.line.stop.is_cancelled() {
                self.refused.push((path, "the command was stopped".to_owned()));
                continue;
            }
            match self.take_back(&path, &rows).await {
                Ok(true) => self.restored.push(path),
                // An earlier undo in the group may have restored the file. The change is not marked as undone again, because that
                // undo can still be undone.
                Ok(false) if self.group.is_since => {}
                Ok(false) => done.push(path),
                Err(reason) => self.refused.push((path, reason)),
            }
        }
        done.extend_from_slice(&self.restored);
        let (session, call) = (&self.line.session, CallId::of_line(self.line.line));
        let own = session.log().store().end_reverting(session.log().hold(), call, &self.group.numbers, &done).await;
        self.own = own.map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Returns the details for programs.
    pub(super) fn data(&self) -> Value {
        let refused: Vec<&str> = self.refused.iter().map(|(path, _)| path.as_str()).collect();
        json!({"own": self.own, "restored": self.restored, "refused": refused})
    }

    /// Appends to `message` the differences, the files that were left alone, and the command that redoes the changes. `again` is
    /// the number of the change, if it can be used to undo the rest later.
    pub(super) fn under(&self, mut message: String, again: Option<u64>) -> String {
        if !self.shown.is_empty() {
            message += &format!("\n{}", self.shown);
        }
        if !self.refused.is_empty() {
            message += &format!("\nNot undone:\n{}", self.reasons());
            message.extend(again.map(|number| format!("\nTo undo the rest later: /undo {number}")));
        }
        message.extend(self.own.map(|own| format!("\nTo redo it: /undo {own}")));
        message
    }

    /// Undoes the changes of one file. Returns whether the file changed.
    ///
    /// # Errors
    /// The reason why the file was left alone.
    async fn take_back(&mut self, path: &str, rows: &[FileChangeRow]) -> Result<bool, String> {
        let now = self.reverter.now(path).await?;
        let found = now.as_ref().map(|now| now.file.digest);
        let to = match plan(rows, &self.group.numbers, found) {
            FileUndo::Done => return Ok(false),
            FileUndo::To(to) => to,
            FileUndo::NotKept => return Err("its earlier contents were too large to keep".to_owned()),
            FileUndo::ChangedSince(Some(number)) => return Err(format!("changed since by change {number}")),
            FileUndo::ChangedSince(None) => return Err("changed since, not by a tool of this session".to_owned()),
        };
        let contents = match to {
            None => None,
            Some((digest, mode)) => match self.reverter.kept(digest).await {
                Some(contents) => Some((contents, mode)),
                None => return Err("its earlier contents are no longer stored".to_owned()),
            },
        };
        let shown = contents.as_ref().map(|(contents, _)| contents.clone());
        self.reverter.restore(path, found, contents).await?;
        self.shown.add(path, now.and_then(|now| now.contents).as_deref(), shown.as_deref());
        Ok(true)
    }

    pub(super) fn reasons(&self) -> String {
        let lines = self.refused.iter().map(|(path, reason)| format!("- {}: {reason}", text::excerpt(path, 200)));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_is_a_number_and_a_word() {
        let parsed = |argument| Wanted::parse(argument).map(|wanted| (wanted.number, wanted.only));
        assert_eq!(parsed(""), Some((None, false)));
        assert_eq!(parsed("--only"), Some((None, true)));
        assert_eq!(parsed("12  --only"), Some((Some(12), true)));
        assert_eq!(parsed("--only 12"), Some((Some(12), true)));
        for wrong in ["-1", "1 2", "all", "--only --only"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
