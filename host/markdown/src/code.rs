//! A code block. Its lines are printed alone, at column 0 even in a list, because users copy and run them. The fences
//! and the language are not printed for the same reason; an empty line above and below sets the code apart. Only a
//! quote keeps its `> `, because there the code belongs to another author's text.

use crate::{
    highlight::CodeColours,
    marks::{FenceMark, LineRest},
    options::{Palette, RenderOptions},
    style::TextSpan,
};

#[derive(Clone)]
pub(crate) struct FencedCode {
    mark: u8,
    length: usize,
    /// Indentation of the fence in columns, which is removed from the lines of code, too.
    indent: usize,
    colours: Option<CodeColours>,
}

impl FencedCode {
    pub(crate) fn new(fence: FenceMark<'_>, indent: usize, options: &RenderOptions) -> Self {
        let language = fence.info.split([' ', ',', '{', '\t']).next().unwrap_or_default();
        let colours = (options.palette == Palette::Colour).then(|| CodeColours::new(language)).flatten();
        Self { mark: fence.mark, length: fence.length, indent, colours }
    }

    /// Whether `line` is the closing fence.
    pub(crate) fn is_closed_by(&self, line: &LineRest<'_>) -> bool {
        let text = line.trimmed().trim_end();
        line.indent() < crate::marks::CODE_INDENT && text.len() >= self.length && self.is_all_marks(text)
    }

    /// Whether `text` may become the closing fence.
    pub(crate) fn may_close(&self, text: &str) -> bool {
        let text = text.trim_start_matches([' ', '>']);
        !text.is_empty() && self.is_all_marks(text)
    }

    fn is_all_marks(&self, text: &str) -> bool {
        text.bytes().all(|byte| byte == self.mark)
    }

    pub(crate) fn line(&mut self, line: &mut LineRest<'_>) -> Vec<TextSpan> {
        line.strip(self.indent);
        let coloured = self.colours.as_mut().and_then(|colours| colours.line(&line.text));
        if coloured.is_none() {
            self.colours = None;
        }
        coloured.unwrap_or_else(|| vec![TextSpan::plain(line.text.as_ref())])
    }
}
