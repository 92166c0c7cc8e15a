use std::sync::Arc;

use patchbay_session::Session;
use reedline::{Completer, CompletionResult, Span, Suggestion};

/// Completes commands, skills and personas, as the session knows them at that moment.
pub(crate) struct SessionCompleter(pub(crate) Arc<Session>);

impl Completer for SessionCompleter {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        let suggestions = self.0.complete(typed).into_iter().map(|suggestion| Suggestion {
            value: suggestion.text,
            description: Some(suggestion.summary).filter(|summary| !summary.is_empty()),
            span: Span::new(suggestion.start, position),
            append_whitespace: suggestion.takes_argument,
            ..Suggestion::default()
        });
        CompletionResult::fresh(suggestions.collect::<Vec<_>>())
    }
}
