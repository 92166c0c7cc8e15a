//! Handles keys. Editing keys go to the composer; the others are handled here.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use patchbay_session::LineInput;

use super::{Front, front_command, menu::Menu, questions::QuestionKey, search::HistorySearch, suspend::Away};
use crate::words;

/// Within this time, a second Ctrl+C leaves, and a second Esc begins [`REWIND`].
const TWICE: Duration = Duration::from_secs(1);
/// The command whose menu lists the messages.
const REWIND: &str = "/rewind ";

impl Front {
    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return self.interrupt(now);
        }
        if self.input.search.is_some() {
            self.conversation.questions.typed(now);
            return self.search_key(key);
        }
        if self.conversation.questions.is_open() && self.question_key(key, now) {
            return;
        }
        self.input.hint = None;
        let asked_to_leave = std::mem::take(&mut self.input.asked_to_leave);
        match (key.code, key.modifiers) {
            (KeyCode::Char('d'), _) if control && self.input.composer.is_empty() => self.leave_if_idle(asked_to_leave),
            (KeyCode::Char('r'), _) if control => {
                self.input.menu = None;
                self.input.search = Some(HistorySearch::default());
            }
            (KeyCode::Char('l'), _) if control => self.redraw(),
            (KeyCode::Char('t'), _) if control => self.show_tasks(),
            (KeyCode::Char('z'), _) if control => self.away = Some(Away::Suspended),
            (KeyCode::Char('g'), _) if control => self.away = Some(Away::Editor),
            (KeyCode::Char('j'), _) if control => self.newline(),
            (KeyCode::Enter, _) if control => self.send_now(),
            (KeyCode::Enter, KeyModifiers::ALT)
                if self.input.composer.is_empty() && !self.activity.queue.lines.is_empty() =>
            {
                self.send_now();
            }
            (KeyCode::Enter, KeyModifiers::ALT) if !self.input.composer.is_empty() && !self.activity.is_idle() => {
                self.enter(false);
            }
            (KeyCode::Enter, modifiers) if modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                self.newline()
            }
            (KeyCode::Enter, _) => self.enter(true),
            (KeyCode::Esc, _) => self.escape(now),
            (KeyCode::Tab, _) if self.input.composer.is_empty() && self.conversation.questions.call() => {}
            (KeyCode::Tab, _) => self.complete(),
            (KeyCode::BackTab, _) => match &mut self.input.menu {
                Some(menu) => menu.previous(),
                None => self.next_mode(),
            },
            (KeyCode::Up, _) => match &mut self.input.menu {
                Some(menu) => menu.previous(),
                None if self.input.composer.is_empty() && !self.activity.queue.lines.is_empty() => self.take_back(),
                None => self.input.composer.up(),
            },
            (KeyCode::Down, _) => match &mut self.input.menu {
                Some(menu) => menu.next(),
                None => self.input.composer.down(),
            },
            (KeyCode::Right, KeyModifiers::NONE) if self.input.composer.expand_paste() => self.edited(),
            _ => {
                if self.input.composer.key(key) {
                    self.edited();
                    self.prepare_own();
                }
            }
        }
    }

    /// Passes a key to the open question. Returns false if the key is for the composer.
    fn question_key(&mut self, key: KeyEvent, now: Instant) -> bool {
        if self.conversation.questions.is_refusing() {
            return self.refusing_key(key, now);
        }
        if !self.input.composer.is_empty() {
            self.conversation.questions.typed(now);
            let denies = key.code == KeyCode::Esc && self.input.menu.is_none();
            if denies {
                self.conversation.deny("");
            }
            return denies;
        }
        match self.conversation.questions.key(key, now) {
            QuestionKey::NotMeant => return false,
            QuestionKey::Taken => {}
            QuestionKey::Print(line) => self.conversation.transcript.notice(&line),
        }
        true
    }

    /// Handles a key while the user types the reason for a no in the composer.
    fn refusing_key(&mut self, key: KeyEvent, now: Instant) -> bool {
        self.conversation.questions.typed(now);
        let why = match key.code {
            KeyCode::Enter if key.modifiers.is_empty() => self.input.composer.expanded(),
            KeyCode::Esc => String::new(),
            _ => return false,
        };
        self.input.composer.clear();
        self.edited();
        self.conversation.deny(&why);
        true
    }

    /// Shift+Tab: switches to the next mode, which applies from the next effect on.
    fn next_mode(&mut self) {
        let mode = self.session.mode().next();
        self.session.set_mode(mode);
        self.input.hint = Some(format!("Mode: {mode}. {}", mode.meaning()));
    }

    /// Ctrl+D: leaves. While agents work, it asks first.
    fn leave_if_idle(&mut self, asked: bool) {
        match self.session.working_agents() {
            working if working > 0 && !asked => {
                self.input.hint = Some(words::leaving(working));
                self.input.asked_to_leave = true;
            }
            _ => self.submit("/quit"),
        }
    }

    /// Ctrl+C: clears the text, or else stops the running work, or else prints how to leave; a second Ctrl+C leaves. The
    /// open question of an agent that is not in view is denied.
    pub(super) fn interrupt(&mut self, now: Instant) {
        self.window.change();
        // Only a press that showed how to leave counts as the first press.
        let again = self.input.interrupted.take().is_some_and(|before| now.saturating_duration_since(before) < TWICE);
        let has_text = !self.input.composer.is_empty();
        if !has_text && self.conversation.questions.agent().is_some_and(|agent| agent != self.conversation.view.id) {
            self.conversation.deny("");
        } else if !has_text && self.own_programs.stop() {
        } else if !has_text && (self.conversation.questions.is_open() || !self.activity.is_idle()) {
            self.stop();
        } else if self.input.search.take().is_some() {
            self.edited();
        } else if has_text {
            self.input.composer.clear();
            self.edited();
        } else if again {
            self.submit("/quit");
        } else {
            self.input.interrupted = Some(now);
            self.input.hint = Some("Ctrl+D leaves.".to_owned());
        }
    }

    /// Esc: closes the menu if it is open, otherwise stops the running work. If it is pressed twice without text, it
    /// lists the messages to go back to.
    fn escape(&mut self, now: Instant) {
        let before = self.input.escaped.take();
        if self.input.menu.take().is_some() {
            return;
        }
        if self.own_programs.stop() {
            return;
        }
        if !self.activity.is_idle() {
            return self.stop();
        }
        if !self.input.composer.is_empty() {
            return;
        }
        if before.is_some_and(|before| now.saturating_duration_since(before) < TWICE) {
            self.input.composer.set(REWIND);
            return self.edited();
        }
        self.input.escaped = Some(now);
        self.input.hint = Some("Esc again lists your messages, to go back to one.".to_owned());
    }

    /// Ctrl+T: shows all tasks of the agent in view, or one row again.
    fn show_tasks(&mut self) {
        self.input.shows_tasks = !self.input.shows_tasks;
        if self.conversation.view.tasks.is_empty() {
            self.input.shows_tasks = false;
            self.input.hint = Some("The model has listed no tasks.".to_owned());
        }
    }

    fn newline(&mut self) {
        self.input.composer.insert("\n");
        self.edited();
    }

    /// Enter: accepts the chosen item of the menu, breaks the line after a backslash, or else runs the text. A message joins the
    /// running turn if `joins` is true; otherwise it waits until the turn has ended.
    fn enter(&mut self, joins: bool) {
        if let Some(chosen) = self.input.menu.as_ref().and_then(Menu::chosen).cloned() {
            self.accept(&chosen);
            if chosen.takes_argument {
                return;
            }
        }
        let text = self.input.composer.text();
        if let Some(before) = text.strip_suffix('\\').filter(|_| self.input.composer.cursor() == text.len()) {
            let text = format!("{before}\n");
            self.input.composer.set(&text);
            return self.edited();
        }
        if text.trim().is_empty() {
            self.session.release_queue();
            return;
        }
        if self.input.composer.is_own_command() && !self.session.is_capturing() {
            let line = self.input.composer.take();
            self.edited();
            return self.run_own(&line);
        }
        if self.attach(joins) {
            return;
        }
        let line = self.input.composer.take();
        self.edited();
        self.run_line(&line, joins);
    }

    /// Runs a line: a command of the terminal, or a line for the session.
    pub(super) fn run_line(&mut self, line: &str, joins: bool) {
        match front_command::run(self, line) {
            Some(is_ok) => self.conversation.transcript.end_output(is_ok),
            None => self.submit(LineInput { joins, ..line.into() }),
        }
    }

    /// Ctrl+Enter: like Enter, but also stops the running work, after which waiting lines are sent immediately.
    fn send_now(&mut self) {
        let (running, is_busy) = (self.activity.busy.running(), !self.activity.is_idle());
        self.enter(true);
        self.activity.sends_after_stop |= is_busy;
        for id in running {
            self.session.stop(id);
        }
        if is_busy {
            self.session.stop_turn();
        }
    }

    fn search_key(&mut self, key: KeyEvent) {
        let Some(search) = &mut self.input.search else { return };
        match key.code {
            KeyCode::Esc => self.input.search = None,
            KeyCode::Enter | KeyCode::Tab => {
                if let Some(line) = search.chosen(self.input.composer.history()) {
                    self.input.composer.recall(&line);
                }
                self.input.search = None;
                self.edited();
            }
            KeyCode::Char('r') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                search.older(self.input.composer.history())
            }
            KeyCode::Down => search.older(self.input.composer.history()),
            KeyCode::Up => search.newer(),
            KeyCode::Backspace => search.backspace(),
            KeyCode::Char(character) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                search.insert(character);
            }
            _ => {}
        }
    }

    /// Ctrl+L: draws the live area again. Finished lines stay.
    fn redraw(&mut self) {
        self.window.redraw();
        self.conversation.transcript.reprint();
    }
}
