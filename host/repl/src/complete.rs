//! Completion in the line editor, which calls it on the terminal's own thread.

use std::sync::Arc;

use patchbay_session::Session;
use reedline::{Completer, CompletionResult, Span, Suggestion};
use tokio::runtime::Handle;

/// Completes commands, skills and personas, as the session knows them at that moment.
pub(crate) struct SessionCompleter {
    pub(crate) runtime: Handle,
    pub(crate) session: Arc<Session>,
}

impl Completer for SessionCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        // The terminal's thread is no thread of the runtime: it may wait.
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
