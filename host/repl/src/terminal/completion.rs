//! Completion of the typed text: requests suggestions from the session, opens the menu, and inserts the user's choice.
//! Called by `keys` for each edit and for Tab, and by the loop in `terminal` when suggestions arrive.

use std::sync::Arc;

use futures_util::FutureExt as _;
use patchbay_session::Suggestion;

use super::{Front, menu::Menu};

impl Front {
    /// Called after each edit: the hints below the text may change.
    pub(super) fn edited(&mut self) {
        self.input.close_menu();
        self.request_completion();
    }

    fn request_completion(&mut self) {
        if self.input.composer.is_recalled() || self.input.composer.is_empty() {
            return;
        }
        let (session, typed) = (Arc::clone(&self.session), self.input.composer.text().to_owned());
        let cursor = self.input.composer.cursor();
        self.input.completing = Some(Box::pin(async move {
            let suggestions = session.complete_at(&typed, cursor).await;
            (typed, suggestions)
        }));
    }

    /// Opens the menu if suggestions are available immediately, as is usual for commands. The menu is then drawn in the
    /// same frame as the typed character and does not flicker.
    pub(super) fn take_suggestions(&mut self) {
        if let Some((typed, suggestions)) =
            self.input.completing.as_mut().and_then(|completing| completing.now_or_never())
        {
            self.completed(&typed, suggestions);
        }
    }

    /// Opens the menu, unless the text has changed or is complete.
    pub(super) fn completed(&mut self, typed: &str, suggestions: Vec<Suggestion>) {
        self.input.completing = None;
        if typed != self.input.composer.text() {
            return;
        }
        // The frame of the key may have been drawn already.
        self.window.change_now();
        self.input.menu = Menu::of(suggestions);
        if std::mem::take(&mut self.input.tab) {
            self.complete();
        } else if self
            .input
            .menu
            .as_ref()
            .and_then(Menu::only)
            .is_some_and(|only| typed.get(only.start..) == Some(&only.text))
        {
            self.input.menu = None;
        }
    }

    /// Completes the text from the menu as far as it is unambiguous, then steps through the menu. If the typed text is not
    /// a prefix of the suggestions, accepts the chosen suggestion or else the first.
    pub(super) fn complete(&mut self) {
        let Some(menu) = &mut self.input.menu else {
            self.input.tab = true;
            if self.input.completing.is_none() {
                self.request_completion();
            }
            return;
        };
        if let Some(only) = menu.only().cloned() {
            return self.accept(&only);
        }
        let best = menu.best().clone();
        let prefix = menu.common_prefix();
        let typed = self.input.composer.text().get(best.start..best.end).unwrap_or_default();
        if !prefix.starts_with(typed) {
            self.accept(&best);
        } else if typed.len() < prefix.len() {
            self.accept(&Suggestion { text: prefix, takes_argument: false, ..best });
        } else {
            menu.next();
        }
    }

    /// Replaces a part of the text with a suggestion.
    pub(super) fn accept(&mut self, suggestion: &Suggestion) {
        let text = self.input.composer.text();
        let before = text.get(..suggestion.start).unwrap_or_default();
        let after = text.get(suggestion.end..).unwrap_or_default();
        let blank = if suggestion.takes_argument && !after.starts_with(char::is_whitespace) { " " } else { "" };
        let kept = format!("{before}{}{blank}", suggestion.text);
        let text = format!("{kept}{after}");
        self.input.composer.choose(&suggestion.text);
        self.input.composer.replace(&text, kept.len());
        self.edited();
    }
}
