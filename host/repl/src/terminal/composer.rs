//! The line that the user types: an editing model (reedline without its painter), pasted texts and the history. The loop
//! in `terminal` passes keys and draws the result of [`Composer::view`].

use std::collections::VecDeque;

use crossterm::event::{Event, KeyCode, KeyEvent};
use patchbay_core::text;
use reedline::{
    EditCommand, EditMode as _, Emacs, Reedline, ReedlineEvent, ReedlineRawEvent, default_emacs_keybindings,
};

use super::{
    history::InputHistory,
    paste::Pastes,
    typed_paths::{PathInText, TypedPaths},
    wrap::{self, Mark, Wrapped},
};

pub(crate) struct Composer {
    model: Reedline,
    keys: Emacs,
    pastes: Pastes,
    paths: TypedPaths,
    history: InputHistory,
    /// Whether the text begins with a `!` that was typed. A pasted `!` is plain text.
    is_own_command: bool,
    /// The most recent lines with words that attach a file, and these words.
    attaching: VecDeque<(String, Vec<String>)>,
}

/// Limit of the lines whose attached files are remembered, to attach them again when a line is recalled.
const ATTACHING: usize = 100;

impl Composer {
    pub(crate) fn new(history: InputHistory) -> Self {
        Self {
            model: Reedline::create(),
            keys: Emacs::new(default_emacs_keybindings()),
            pastes: Pastes::default(),
            paths: TypedPaths::default(),
            history,
            is_own_command: false,
            attaching: VecDeque::new(),
        }
    }

    /// Whether the text is a command that the user typed after `!`.
    pub(crate) fn is_own_command(&self) -> bool {
        self.is_own_command && self.text().starts_with('!') && self.text().trim().len() > 1
    }

    /// Returns the text as typed, with a placeholder for each long paste.
    pub(crate) fn text(&self) -> &str {
        self.model.current_buffer_contents()
    }

    /// Returns the byte offset of the cursor in the text.
    pub(crate) fn cursor(&self) -> usize {
        self.model.current_insertion_point()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Applies an editing key. Returns false if the key has no meaning for the text.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let Ok(raw) = ReedlineRawEvent::try_from(Event::Key(key)) else { return false };
        let event = self.keys.parse_event(raw);
        let before = self.text().to_owned();
        let is_typed = key.code == KeyCode::Char('!') && self.cursor() == 0;
        let edited = self.apply(event);
        if edited {
            self.is_own_command = self.text().starts_with('!') && (is_typed || self.is_own_command);
            self.paths.edited(&before, self.model.current_buffer_contents(), self.model.current_insertion_point());
            self.history.leave();
        }
        edited
    }

    fn apply(&mut self, event: ReedlineEvent) -> bool {
        match event {
            ReedlineEvent::Edit(commands) => {
                self.model.run_edit_commands(&commands);
                true
            }
            ReedlineEvent::Multiple(events) => {
                events.into_iter().fold(false, |edited, event| self.apply(event) | edited)
            }
            ReedlineEvent::UntilFound(events) => events.into_iter().any(|event| self.apply(event)),
            ReedlineEvent::Left => self.run(EditCommand::MoveLeft { select: false }),
            ReedlineEvent::Right => self.run(EditCommand::MoveRight { select: false }),
            _ => false,
        }
    }

    fn run(&mut self, command: EditCommand) -> bool {
        self.model.run_edit_commands(&[command]);
        true
    }

    /// Inserts text at the cursor.
    pub(crate) fn insert(&mut self, text: &str) {
        self.history.leave();
        self.is_own_command &= self.cursor() > 0;
        self.run(EditCommand::InsertString(text.to_owned()));
    }

    /// Inserts a pasted text: cleaned, and as a placeholder if it is long. A second paste of the same text, with the
    /// placeholder still before the cursor, replaces the placeholder with the text.
    pub(crate) fn paste(&mut self, pasted: &str) {
        let pasted = text::clean(&pasted.replace("\r\n", "\n").replace('\r', "\n"));
        let before = self.text().get(..self.cursor()).unwrap_or_default().to_owned();
        match self.pastes.add(&before, &pasted) {
            Ok(shown) => self.insert(&shown),
            Err(placeholder) => {
                let start = before.len() - placeholder;
                let after = self.text().get(before.len()..).unwrap_or_default().to_owned();
                let whole = format!("{}{pasted}", &before[..start]);
                let cursor = whole.len();
                self.replace(&format!("{whole}{after}"), cursor);
            }
        }
    }

    /// Replaces the placeholder at the cursor with its text. Returns false if there is none.
    pub(crate) fn expand_paste(&mut self) -> bool {
        let text = self.text();
        let Some((range, pasted)) = self.pastes.at(text, self.cursor()) else { return false };
        let before = format!("{}{pasted}", &text[..range.start]);
        let whole = format!("{before}{}", &text[range.end..]);
        self.history.leave();
        self.replace(&whole, before.len());
        true
    }

    /// Replaces the text; the cursor is at its end.
    pub(crate) fn set(&mut self, text: &str) {
        self.replace(text, text.len());
    }

    /// Replaces the text and places the cursor at byte `cursor`.
    pub(crate) fn replace(&mut self, text: &str, cursor: usize) {
        self.is_own_command &= text.starts_with('!') && self.text().starts_with('!');
        self.model.run_edit_commands(&[
            EditCommand::Clear,
            EditCommand::InsertString(text.to_owned()),
            EditCommand::MoveToPosition { position: cursor, select: false },
        ]);
    }

    /// Removes the text, which can be brought back by undo.
    pub(crate) fn clear(&mut self) {
        self.history.leave();
        self.is_own_command = false;
        self.run(EditCommand::Clear);
    }

    /// Removes and returns the text, with all pastes in full, and adds it to the history.
    pub(crate) fn take(&mut self) -> String {
        let text = self.pastes.expand(self.text());
        let words = self.paths.words(self.text());
        if !words.is_empty() {
            self.attaching.retain(|(line, _)| *line != text);
            self.attaching.push_back((text.clone(), words));
            self.attaching.drain(..self.attaching.len().saturating_sub(ATTACHING));
        }
        self.pastes.clear();
        self.paths.clear();
        self.clear();
        self.history.add(&text);
        text
    }

    /// Notes that the user chose `word` from the menu.
    pub(crate) fn choose(&mut self, word: &str) {
        self.paths.choose(word);
    }

    /// Returns the paths in the text whose files the user wants to attach. Paths in the text of a placeholder are ignored.
    pub(crate) fn attached_paths(&self) -> Vec<PathInText> {
        self.paths.paths(self.text())
    }

    /// Returns the paths of other words with `@` in the text, which attach nothing.
    pub(crate) fn other_paths(&self) -> Vec<PathInText> {
        self.paths.other_paths(self.text())
    }

    /// Shows a line of the history. Words that attached a file when the line was sent attach it again, if this process
    /// sent it.
    pub(crate) fn recall(&mut self, line: &str) {
        self.set(line);
        for (_, words) in self.attaching.iter().filter(|(sent, _)| sent == line) {
            words.iter().for_each(|word| self.paths.choose(word));
        }
    }

    /// Returns the text with all pastes in full.
    pub(crate) fn expanded(&self) -> String {
        self.pastes.expand(self.text())
    }

    /// Moves up a line, or to the previous entry of the history.
    pub(crate) fn up(&mut self) {
        if self.text()[..self.cursor()].contains('\n') {
            self.run(EditCommand::MoveLineUp { select: false });
        } else if let Some(entry) = self.history.previous(self.model.current_buffer_contents()) {
            self.recall(&entry);
        }
    }

    /// Moves down a line, or to the next entry of the history.
    pub(crate) fn down(&mut self) {
        if self.text()[self.cursor()..].contains('\n') {
            self.run(EditCommand::MoveLineDown { select: false });
        } else if let Some(entry) = self.history.next() {
            self.recall(&entry);
        }
    }

    /// Whether the text is an entry of the history that was not edited.
    pub(crate) fn is_recalled(&self) -> bool {
        self.history.is_browsing()
    }

    pub(crate) fn history(&self) -> &InputHistory {
        &self.history
    }

    /// Returns the rows of `prompt` and the text, at most `height`, with a faint `hint` after the text, and the
    /// cursor's position in them.
    pub(crate) fn view(&self, prompt: &str, columns: usize, height: usize, mark: Mark, hint: Option<&str>) -> Wrapped {
        wrap::input(prompt, self.text(), self.cursor(), columns, height, mark, hint)
    }
}
