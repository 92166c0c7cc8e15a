//! The renderer that fronts use.

use crate::{blocks::BlockSplitter, clean::InputCleaner, line::StyledLine, options::RenderOptions};

/// Renders Markdown that arrives in chunks.
///
/// Returned lines are final. Each character is processed a bounded number of times, and the size of the open text is
/// bounded.
#[derive(Clone)]
pub struct MarkdownRenderer {
    cleaner: InputCleaner,
    blocks: BlockSplitter,
}

impl MarkdownRenderer {
    /// Creates a renderer for one answer.
    pub fn new(options: RenderOptions) -> Self {
        Self { cleaner: InputCleaner::default(), blocks: BlockSplitter::new(options) }
    }

    /// Adds the next chunk and returns the lines that it finishes. Returned lines never change, and do not depend on
    /// how the text is split into chunks.
    pub fn push(&mut self, chunk: &str) -> Vec<StyledLine> {
        for c in chunk.chars() {
            if let Some(c) = self.cleaner.next(c) {
                self.blocks.push(c);
            }
        }
        self.blocks.take()
    }

    /// Returns the open block as it would be drawn now, at most its last `max_rows` lines. The cost grows with the open
    /// block, not with the whole answer.
    pub fn tail(&self, max_rows: usize) -> Vec<StyledLine> {
        let mut preview = self.blocks.clone();
        preview.drop_partial_fence();
        preview.wrap_at_words();
        preview.finish();
        let mut lines = preview.take();
        lines.drain(..lines.len().saturating_sub(max_rows));
        lines
    }

    /// Returns whether other text can be printed after the lines that were returned so far without interrupting a
    /// block.
    pub fn is_between_blocks(&self) -> bool {
        self.blocks.is_between_blocks()
    }

    /// Sets the width for lines that are not committed yet.
    pub fn set_columns(&mut self, columns: usize) {
        self.blocks.set_columns(columns);
    }

    /// Ends the answer and returns the remaining lines.
    pub fn finish(mut self) -> Vec<StyledLine> {
        self.blocks.finish();
        self.blocks.take()
    }
}
