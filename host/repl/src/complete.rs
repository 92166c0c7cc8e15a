//! Completion in the line editor. `editor` installs it; reedline calls it on the terminal's thread.

use std::sync::Arc;

use patchbay_session::Session;
use reedline::{Completer, CompletionResult, Span, Suggestion};
use tokio::runtime::Handle;

/// Completes commands, skills, personas and models from the session's current state.
pub(crate) struct SessionCompleter {
    pub(crate) runtime: Handle,
    pub(crate) session: Arc<Session>,
}

impl Completer for SessionCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        // The terminal's thread is not a runtime thread, so it may block.
        let suggestions = self.runtime.block_on(self.session.complete(typed));
        let suggestions = suggestions.into_iter().map(|suggestion| Suggestion {
            value: suggestion.text,
            description: Some(suggestion.summary).filter(|summary| !summary.is_empty()),
            span: Span::new(suggestion.start, position),
            append_whitespace: suggestion.takes_argument,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}
