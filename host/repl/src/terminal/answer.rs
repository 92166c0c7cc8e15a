//! An answer while it streams: which of its lines are finished, and the rows of its open block. The transcript passes text;
//! the crate `markdown` renders it.

use patchbay_markdown::{MarkdownRenderer, RenderOptions, StyledLine};

use super::{live::Row, style::Look};

/// One text block of an answer.
pub(crate) struct StreamedAnswer {
    renderer: MarkdownRenderer,
    columns: usize,
}

impl StreamedAnswer {
    pub(crate) fn new(columns: usize, look: Look) -> Self {
        Self { renderer: MarkdownRenderer::new(options(columns, look)), columns }
    }

    /// Adds text, and returns the lines that it completes.
    pub(crate) fn push(&mut self, text: &str) -> Vec<String> {
        self.renderer.push(text).iter().map(StyledLine::to_ansi).collect()
    }

    /// Returns the last rows of the open block, at most `height`.
    pub(crate) fn tail(&self, height: usize) -> Vec<Row> {
        let limit = self.columns.saturating_sub(1);
        let lines = self.renderer.tail(height);
        lines.iter().map(|line| line.cut(limit)).map(|line| Row { width: line.width(), text: line.to_ansi() }).collect()
    }

    /// Whether other text may be printed now without being inside a block.
    pub(crate) fn is_between_blocks(&self) -> bool {
        self.renderer.is_between_blocks()
    }

    /// Returns the lines that are not finished yet.
    pub(crate) fn finish(self) -> Vec<String> {
        self.renderer.finish().iter().map(StyledLine::to_ansi).collect()
    }

    /// Adapts to another width of the window.
    pub(crate) fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
        self.renderer.set_columns(prose_columns(columns));
    }
}

/// Prose is wrapped one column before the edge, as in all live rows.
fn prose_columns(columns: usize) -> usize {
    columns.saturating_sub(1)
}

fn options(columns: usize, look: Look) -> RenderOptions {
    RenderOptions {
        columns: prose_columns(columns),
        wrap: look.wrap,
        palette: look.palette,
        ..RenderOptions::default()
    }
}
