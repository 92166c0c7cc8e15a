//! Splits the stream into blocks, line by line, and commits finished blocks. The rules are CommonMark's.
//!
//! All decisions depend only on the characters so far, so the lines are the same however the text is split into chunks.

use crate::{
    code::FencedCode,
    containers::{BlockContainer, ListItem, MAX_DEPTH, strip_quote},
    inline,
    line::StyledLine,
    marks::{self, CODE_INDENT, LineRest},
    options::{RenderOptions, WrapMode},
    paragraph::Paragraph,
    style::{TextSpan, TextStyle},
    table::{self, MarkdownTable},
    wrap::wrap,
};

/// An unfinished line is added to the paragraph once it has this many bytes, if it cannot be anything but text.
const EARLY: usize = 128;

/// A line with more bytes is processed in parts.
const MAX_LINE: usize = 256 * 1024;

/// Maximum columns of a paragraph that is left to the terminal to wrap. A longer one is broken between words.
const MAX_COLUMNS: usize = 16 * 1024;

#[derive(Clone)]
enum GrowingBlock {
    None,
    Paragraph(Paragraph),
    Fence(FencedCode),
    /// Indented code, with the number of empty lines that are printed if more code follows.
    Indented(usize),
    Table(MarkdownTable),
}

#[derive(Clone)]
pub(crate) struct BlockSplitter {
    options: RenderOptions,
    containers: Vec<BlockContainer>,
    open: GrowingBlock,
    /// The line that has not ended.
    line: String,
    /// Whether the beginning of the line was already added to the paragraph.
    is_in_text: bool,
    /// If an empty line is due, the number of containers in its prefix.
    blank: Option<usize>,
    has_output: bool,
    out: Vec<StyledLine>,
}

impl BlockSplitter {
    pub(crate) fn new(options: RenderOptions) -> Self {
        Self {
            options,
            containers: Vec::new(),
            open: GrowingBlock::None,
            line: String::new(),
            is_in_text: false,
            blank: None,
            has_output: false,
            out: Vec::new(),
        }
    }

    pub(crate) fn set_columns(&mut self, columns: usize) {
        self.options.columns = columns;
    }

    /// Makes unfinished prose wrap at words, because a preview cannot be wider than the window.
    pub(crate) fn wrap_at_words(&mut self) {
        self.options.wrap = WrapMode::Words;
    }

    /// Returns the lines that were finished since the last call.
    pub(crate) fn take(&mut self) -> Vec<StyledLine> {
        std::mem::take(&mut self.out)
    }

    /// Processes one cleaned character.
    pub(crate) fn push(&mut self, c: char) {
        match c {
            '\n' => self.end_line(),
            c if self.is_in_text => self.push_text(c),
            c => {
                self.line.push(c);
                let before = self.line.len() - c.len_utf8();
                let is_early = before < EARLY && self.line.len() >= EARLY && self.may_begin_early();
                if is_early || self.line.len() >= MAX_LINE {
                    self.begin_part();
                }
            }
        }
    }

    /// Whether no committed line belongs to the open block.
    pub(crate) fn is_between_blocks(&self) -> bool {
        match &self.open {
            GrowingBlock::None => true,
            GrowingBlock::Paragraph(paragraph) => !paragraph.has_rows_out(),
            GrowingBlock::Fence(_) | GrowingBlock::Indented(_) | GrowingBlock::Table(_) => false,
        }
    }

    /// Drops an incomplete closing fence, which a preview would show as code.
    pub(crate) fn drop_partial_fence(&mut self) {
        if matches!(&self.open, GrowingBlock::Fence(code) if code.may_close(&self.line)) {
            self.line.clear();
        }
    }

    /// Commits everything that is still open.
    pub(crate) fn finish(&mut self) {
        if self.is_in_text || !self.line.is_empty() {
            self.end_line();
        }
        self.close_block();
        self.close_to(0);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_text) {
            if let GrowingBlock::Paragraph(paragraph) = &mut self.open {
                paragraph.end_line();
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, true);
        // Reuse the buffer.
        self.line = line;
        self.line.clear();
    }

    fn may_begin_early(&self) -> bool {
        !matches!(self.open, GrowingBlock::Fence(_) | GrowingBlock::Table(_)) && marks::is_surely_text(&self.line)
    }

    /// Processes the beginning of a line that is not complete.
    fn begin_part(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.take_line(&line, false);
        self.is_in_text = matches!(self.open, GrowingBlock::Paragraph(_));
    }

    fn take_line(&mut self, line: &str, is_whole: bool) {
        let mut rest = LineRest::new(line);
        let matched = self.containers.iter().take_while(|container| container.continues(&mut rest)).count();
        let all = matched == self.containers.len();
        if all && self.take_in_fence(&mut rest) {
            return;
        }
        if rest.is_blank() {
            return self.blank_line(matched);
        }
        if all && self.take_in_table(rest.trimmed(), rest.indent()) {
            return;
        }
        self.take_block(rest, matched, is_whole);
    }

    fn take_in_fence(&mut self, rest: &mut LineRest<'_>) -> bool {
        let GrowingBlock::Fence(code) = &mut self.open else { return false };
        if code.is_closed_by(rest) {
            self.open = GrowingBlock::None;
            self.blank = Some(self.containers.len());
        } else {
            let spans = code.line(rest);
            self.emit_code(spans);
        }
        true
    }

    /// Processes a row of a table, or the row of dashes that turns the paragraph's last line into the head of a table.
    fn take_in_table(&mut self, text: &str, indent: usize) -> bool {
        if indent >= CODE_INDENT || text.len() > inline::MAX_INLINE {
            return false;
        }
        match &mut self.open {
            GrowingBlock::Table(open) => {
                if !table::has_cells(text) || text.starts_with('>') || marks::fence(text).is_some() {
                    return false;
                }
                open.add(text, &self.options);
                self.flush_table(false);
                true
            }
            GrowingBlock::Paragraph(paragraph) => {
                let begun = paragraph.held().and_then(|head| MarkdownTable::begin(head, text, &self.options));
                let Some(begun) = begun else { return false };
                paragraph.take_held();
                self.close_block();
                self.open = GrowingBlock::Table(begun);
                true
            }
            _ => false,
        }
    }

    fn blank_line(&mut self, matched: usize) {
        match &mut self.open {
            GrowingBlock::Indented(empty) if matched == self.containers.len() => {
                *empty += 1;
                return;
            }
            _ => self.close_block(),
        }
        self.close_to(matched);
        let depth = self.blank.map_or(matched, |depth| depth.min(matched));
        self.blank = Some(depth);
    }

    /// Processes the rest of a line that is not blank, after the marks of the containers that it continues.
    fn take_block(&mut self, mut rest: LineRest<'_>, mut matched: usize, is_whole: bool) {
        let mut is_new = false;
        loop {
            let indent = rest.indent();
            let in_paragraph = !is_new && matches!(self.open, GrowingBlock::Paragraph(_));
            let continues = in_paragraph && matched == self.containers.len();
            if indent >= CODE_INDENT {
                if in_paragraph {
                    break;
                }
                self.close_to_if(matched, is_new);
                rest.strip(CODE_INDENT);
                return self.indented(&rest);
            }
            let text = rest.trimmed();
            if continues && self.underline(text) {
                return;
            }
            if matched < MAX_DEPTH && text.starts_with('>') {
                self.close_to_if(matched, is_new);
                strip_quote(&mut rest);
                self.containers.push(BlockContainer::Quote);
            } else if marks::is_rule(text) {
                self.close_to_if(matched, is_new);
                return self.emit_rows([vec![TextSpan::plain("---")]]);
            } else if let Some(mark) = marks::item(text).filter(|_| matched < MAX_DEPTH) {
                let content = &text[mark.bytes..];
                let is_empty = content.trim().is_empty();
                if continues && (is_empty || mark.number.is_some_and(|number| number != 1)) {
                    break;
                }
                let sibling = self.containers.get(matched).cloned();
                self.close_to_if(matched, is_new);
                rest.strip_mark(mark.bytes);
                let blanks = rest.indent();
                let blanks = if is_empty || blanks > CODE_INDENT { 1 } else { blanks };
                rest.strip(blanks);
                let item = ListItem::new(mark, indent + mark.bytes + blanks, sibling.as_ref());
                self.containers.push(BlockContainer::Item(item));
                if is_empty {
                    return;
                }
            } else if let Some(heading) = marks::heading(text) {
                self.close_to_if(matched, is_new);
                return self.heading(heading);
            } else if let Some(fence) = marks::fence(text) {
                self.close_to_if(matched, is_new);
                return self.open_fence(fence, indent);
            } else if !in_paragraph && marks::is_html(text) {
                self.close_to_if(matched, is_new);
                let html = TextSpan::plain(crate::clean::visible(text.trim_end()));
                return self.emit_rows([vec![html]]);
            } else {
                break;
            }
            is_new = true;
            matched = self.containers.len();
            if rest.is_blank() {
                return;
            }
        }
        // Without the marks of a quote or an item, a line of text still continues its paragraph (lazy continuation).
        if is_new || !matches!(self.open, GrowingBlock::Paragraph(_)) {
            self.close_to_if(matched, is_new);
        }
        self.text(rest.trimmed(), is_whole);
    }

    /// Before a new block, closes the blocks that the line does not continue. Does nothing if `is_new`, because an
    /// earlier container of the same line has already closed them.
    fn close_to_if(&mut self, matched: usize, is_new: bool) {
        if !is_new {
            self.close_block();
            self.close_to(matched);
        }
    }

    fn text(&mut self, text: &str, is_whole: bool) {
        if !matches!(self.open, GrowingBlock::Paragraph(_)) {
            self.close_block();
            self.open = GrowingBlock::Paragraph(Paragraph::new());
        }
        let GrowingBlock::Paragraph(paragraph) = &mut self.open else { return };
        if is_whole && text.len() <= inline::MAX_INLINE && table::has_cells(text) {
            paragraph.hold(text);
            return;
        }
        paragraph.begin_line("");
        for c in text.chars() {
            self.push_text(c);
        }
        if let (true, GrowingBlock::Paragraph(paragraph)) = (is_whole, &mut self.open) {
            paragraph.end_line();
        }
    }

    fn push_text(&mut self, c: char) {
        let GrowingBlock::Paragraph(paragraph) = &mut self.open else { return };
        paragraph.push(c);
        if paragraph.is_due() {
            let columns = prose_columns(&self.options, &self.containers);
            let rows = paragraph.look(columns, &self.options);
            self.emit_rows(rows);
        }
    }

    fn underline(&mut self, text: &str) -> bool {
        let GrowingBlock::Paragraph(paragraph) = &mut self.open else { return false };
        if !paragraph.is_whole() || !marks::is_underline(text) {
            return false;
        }
        paragraph.make_bold();
        self.close_block();
        true
    }

    fn heading(&mut self, text: &str) {
        let bold = TextStyle { bold: true, ..TextStyle::default() };
        let spans = inline::render(text, bold, &self.options);
        let rows = wrap(&spans, prose_columns(&self.options, &self.containers));
        self.emit_rows(rows.into_iter().map(|row| row.spans));
    }

    fn open_fence(&mut self, fence: marks::FenceMark<'_>, indent: usize) {
        self.begin_code();
        // The language is dropped, but a title or file name after it is printed.
        let title = fence.info.split_once(' ').map_or("", |(_, title)| title.trim());
        if !title.is_empty() {
            let faint = TextStyle { faint: true, ..TextStyle::default() };
            let text = crate::clean::visible(title);
            self.emit_code(vec![TextSpan { text, style: faint, link: None }]);
        }
        self.open = GrowingBlock::Fence(FencedCode::new(fence, indent, &self.options));
    }

    fn indented(&mut self, rest: &LineRest<'_>) {
        match self.open {
            GrowingBlock::Indented(empty) => {
                for _ in 0..empty {
                    self.emit_code(Vec::new());
                }
            }
            _ => {
                self.close_block();
                self.begin_code();
            }
        }
        self.open = GrowingBlock::Indented(0);
        self.emit_code(vec![TextSpan::plain(rest.text.as_ref())]);
    }

    /// Separates code from the text above. Pending markers of items are printed on a line of their own, because the
    /// code begins at column 0.
    fn begin_code(&mut self) {
        if self.containers.iter().any(BlockContainer::has_marker_left) {
            self.emit_rows([Vec::new()]);
        } else {
            self.blank = Some(self.blank.map_or(self.containers.len(), |depth| depth.min(self.containers.len())));
        }
    }

    fn flush_table(&mut self, is_end: bool) {
        let columns = table_columns(&self.options, &self.containers);
        if let GrowingBlock::Table(open) = &mut self.open
            && (is_end || open.is_due())
        {
            let rows = open.lines(columns);
            self.emit_rows(rows);
        }
    }

    /// Commits the open block. Its containers stay.
    fn close_block(&mut self) {
        if matches!(self.open, GrowingBlock::Table(_)) {
            self.flush_table(true);
        }
        match std::mem::replace(&mut self.open, GrowingBlock::None) {
            GrowingBlock::Paragraph(paragraph) => {
                let rows = paragraph.finish(prose_columns(&self.options, &self.containers), &self.options);
                self.emit_rows(rows);
            }
            GrowingBlock::Fence(_) | GrowingBlock::Indented(_) => self.blank = Some(self.containers.len()),
            GrowingBlock::None | GrowingBlock::Table(_) => {}
        }
    }

    /// Closes the containers beyond `depth`. An item without content is printed as its marker.
    fn close_to(&mut self, depth: usize) {
        if depth >= self.containers.len() {
            return;
        }
        self.close_block();
        if self.containers[depth..].iter().any(BlockContainer::has_marker_left) {
            self.emit_rows([Vec::new()]);
        }
        self.containers.truncate(depth);
        // The empty line that is due comes before the next container.
        self.blank = self.blank.map(|blank| blank.min(depth));
    }

    /// Prints rows after the prefix of their containers.
    fn emit_rows(&mut self, rows: impl IntoIterator<Item = Vec<TextSpan>>) {
        for row in rows {
            self.emit_blank();
            let mut prefix = String::new();
            self.containers.iter_mut().for_each(|container| container.write(&mut prefix));
            self.out.push(StyledLine::new(std::iter::once(TextSpan::plain(prefix)).chain(row)));
        }
    }

    /// Prints a line of code, with only the marks of quotes as its prefix.
    fn emit_code(&mut self, spans: Vec<TextSpan>) {
        self.emit_blank();
        let quotes = self.containers.iter().filter(|container| container.is_quote()).count();
        let prefix = TextSpan::plain("> ".repeat(quotes));
        self.out.push(StyledLine::new(std::iter::once(prefix).chain(spans)));
    }

    fn emit_blank(&mut self) {
        let blank = self.blank.take().filter(|_| self.has_output);
        self.has_output = true;
        if let Some(depth) = blank {
            let mut prefix = String::new();
            self.containers.iter().take(depth).for_each(|container| container.write_blank(&mut prefix));
            self.out.push(StyledLine::new([TextSpan::plain(prefix)]));
        }
    }
}

/// Returns the columns for prose after the prefix of `containers`.
fn prose_columns(options: &RenderOptions, containers: &[BlockContainer]) -> usize {
    match options.wrap {
        WrapMode::Words => table_columns(options, containers),
        WrapMode::Terminal => MAX_COLUMNS,
    }
}

fn table_columns(options: &RenderOptions, containers: &[BlockContainer]) -> usize {
    let prefix: usize = containers.iter().map(BlockContainer::width).sum();
    options.columns.clamp(10, 1_000).saturating_sub(prefix).max(10)
}
