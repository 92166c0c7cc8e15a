//! The typed text, and everything open around it: the menu, the search, a hint, files that are being read.

use std::time::Instant;

use futures_util::future::BoxFuture;
use patchbay_core::Outcome;
use patchbay_session::{LineInput, Suggestion};

use super::{composer::Composer, history::InputHistory, menu::Menu, search::HistorySearch, wrap::Mark};

/// A line that was taken back from the queue.
pub(super) struct TakenBackLine {
    pub(super) text: String,
    pub(super) attached: Vec<String>,
}

/// Reads the files of a typed text. Returns the text and its files.
pub(super) type ReadingFiles = BoxFuture<'static, (String, Result<FilesOfLine, Outcome>)>;

/// A text with its files.
pub(super) struct FilesOfLine {
    pub(super) input: LineInput,
    /// Paths of files that the text names but does not attach.
    pub(super) unattached: Vec<String>,
}

/// The known facts about the command at the beginning of the text.
#[derive(Debug)]
pub(super) struct CommandHelp {
    pub(super) text: String,
    pub(super) cursor: usize,
    pub(super) mark: Mark,
    pub(super) usage: Option<String>,
}

impl Default for CommandHelp {
    fn default() -> Self {
        Self { text: String::new(), cursor: 0, mark: Mark::None, usage: None }
    }
}

pub(super) struct FrontInput {
    pub(super) composer: Composer,
    pub(super) menu: Option<Menu>,
    pub(super) search: Option<HistorySearch>,
    pub(super) command_help: CommandHelp,
    pub(super) completing: Option<BoxFuture<'static, (String, Vec<Suggestion>)>>,
    /// Whether Tab was pressed before the suggestions arrived.
    pub(super) tab: bool,
    /// Reads the files of the text that was entered.
    pub(super) attaching: Option<ReadingFiles>,
    /// Takes a line back from the queue.
    pub(super) taking_back: Option<BoxFuture<'static, Option<TakenBackLine>>>,
    /// Reads the list of the workspace's sessions.
    pub(super) listing: Option<BoxFuture<'static, String>>,
    /// A short message below the composer, until the next key.
    pub(super) hint: Option<String>,
    /// When Ctrl+C last showed how to leave.
    pub(super) interrupted: Option<Instant>,
    /// When Esc last showed that a second Esc lists the messages to go back to.
    pub(super) escaped: Option<Instant>,
    /// Whether all tasks of the agent in view are shown.
    pub(super) shows_tasks: bool,
    /// Whether the next Ctrl+D leaves although agents work.
    pub(super) asked_to_leave: bool,
}

impl FrontInput {
    pub(super) fn new(history: InputHistory) -> Self {
        Self {
            composer: Composer::new(history),
            menu: None,
            search: None,
            command_help: CommandHelp::default(),
            completing: None,
            tab: false,
            attaching: None,
            taking_back: None,
            listing: None,
            hint: None,
            interrupted: None,
            escaped: None,
            shows_tasks: false,
            asked_to_leave: false,
        }
    }

    /// Closes the menu after an edit: it belonged to the old text.
    pub(super) fn close_menu(&mut self) {
        self.hint = None;
        self.menu = None;
        self.tab = false;
        self.completing = None;
    }
}
