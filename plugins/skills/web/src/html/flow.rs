//! Writes text as Markdown: words, spaces, gaps between blocks, marks within a line.
//!
//! Gaps, list markers and opening marks are only written when a word follows. Empty elements therefore leave no trace.

/// Maximum number of bytes of a page's text, and of one flow. The rest is left out.
pub(crate) const MAX_TEXT: usize = 4 << 20;
/// The deepest nesting of lists and quotes that is shown.
const MAX_DEPTH: usize = 12;
/// The deepest nesting of marks; deeper marks are left out.
const MAX_MARKS: usize = 16;

/// The distance to the previous block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    None,
    Line,
    Blank,
}

/// A mark around words within a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Strong,
    Emphasis,
    Struck,
    Code,
    Quoted,
    /// A link to an absolute URL.
    Link(String),
    Super,
    Sub,
}

#[derive(Clone, Debug)]
struct Marked {
    mark: Mark,
    /// True if the mark is not written. Its end tag still ends it.
    is_mute: bool,
    /// The position in the text where its words begin.
    from: Option<usize>,
}

/// The text at the beginning of each line of a block.
#[derive(Clone, Debug)]
struct Prefix {
    /// Prefix of the first line.
    first: String,
    /// Prefix of all other lines.
    rest: String,
    used: bool,
}

/// Markdown under construction.
#[derive(Debug)]
pub(crate) struct Flow {
    text: String,
    gap: Gap,
    has_space: bool,
    prefixes: Vec<Prefix>,
    /// Number of prefixes beyond [`MAX_DEPTH`].
    beyond: usize,
    marks: Vec<Marked>,
    /// Level of the current heading; 0: none.
    heading: usize,
    /// True if text was left out.
    pub(crate) is_full: bool,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self {
            text: String::new(),
            gap: Gap::None,
            has_space: false,
            prefixes: Vec::new(),
            beyond: 0,
            marks: Vec::new(),
            heading: 0,
            is_full: false,
        }
    }

    pub(crate) fn finish(mut self) -> String {
        self.end_marks();
        self.text
    }

    /// Returns the length of the text in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds text in which any amount of white space becomes one space.
    pub(crate) fn text(&mut self, text: &str) {
        let is_space = |char: char| matches!(char, ' ' | '\t' | '\n' | '\r' | '\u{c}' | '\u{a0}');
        // Invisible characters that mark possible line breaks.
        let is_nothing = |char: char| matches!(char, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}');
        if text.contains(is_nothing) {
            return self.text(&text.replace(is_nothing, ""));
        }
        let mut words = text.split(is_space);
        if let Some(first) = words.next()
            && !first.is_empty()
        {
            self.word(first);
        }
        for word in words {
            self.has_space = true;
            if !word.is_empty() {
                self.word(word);
            }
        }
    }

    /// Adds text that is kept together unchanged.
    pub(crate) fn word(&mut self, word: &str) {
        if self.text.len() + word.len() > MAX_TEXT {
            self.is_full = true;
            return;
        }
        self.begin_line();
        for index in 0..self.marks.len() {
            self.open(index, word);
        }
        self.text.push_str(word);
    }

    /// Requests `gap` before the next word.
    pub(crate) fn gap(&mut self, gap: Gap) {
        self.end_marks();
        self.has_space = false;
        // A marker is not followed by a gap.
        if !self.is_at_marker() {
            self.gap = self.gap.max(gap);
        }
    }

    /// Requests a newline before the next word.
    pub(crate) fn line(&mut self) {
        self.gap(Gap::Line);
        if !self.is_at_marker() {
            self.gap = Gap::Line;
        }
    }

    /// Returns true if a quote or an item has begun and has no words yet.
    fn is_at_marker(&self) -> bool {
        self.prefixes.last().is_some_and(|prefix| !prefix.used)
    }

    /// Begins a quote, or a list item with its marker.
    pub(crate) fn indent(&mut self, first: &str) {
        if self.prefixes.len() == MAX_DEPTH {
            self.beyond += 1;
            return;
        }
        let is_quote = first.starts_with('>');
        let rest = if is_quote { first.to_owned() } else { " ".repeat(first.len()) };
        self.prefixes.push(Prefix { first: first.to_owned(), rest, used: false });
    }

    /// Ends the innermost quote or item.
    pub(crate) fn outdent(&mut self) {
        match self.beyond {
            0 => drop(self.prefixes.pop()),
            _ => self.beyond -= 1,
        }
    }

    /// Begins a heading of level 1 to 6; level 0 ends it.
    pub(crate) fn heading(&mut self, level: usize) {
        self.gap(Gap::Blank);
        self.heading = level;
    }

    pub(crate) fn begin(&mut self, mark: Mark) {
        if self.marks.len() < MAX_MARKS {
            let has = |wanted: &Mark| self.marks.iter().any(|marked| marked.mark == *wanted);
            let is_mute = has(&mark) || has(&Mark::Code) || (mark == Mark::Strong && self.heading > 0);
            self.marks.push(Marked { mark, is_mute, from: None });
        }
    }

    /// Ends the innermost mark that is `wanted`. Marks that began inside it continue after it.
    pub(crate) fn end(&mut self, wanted: impl Fn(&Mark) -> bool) {
        let Some(index) = self.marks.iter().rposition(|marked| wanted(&marked.mark)) else { return };
        let inner: Vec<Marked> = self.marks[index + 1..].to_vec();
        while self.marks.len() > index {
            self.end_last();
        }
        self.marks.extend(inner.into_iter().map(|marked| Marked { from: None, ..marked }));
    }

    /// Adds a line unchanged, after the requested gap.
    pub(crate) fn raw_line(&mut self, line: &str) {
        if self.text.len() + line.len() > MAX_TEXT {
            self.is_full = true;
            return;
        }
        self.begin_line();
        self.text.push_str(line);
        if line.is_empty() {
            // Prefixes of empty lines need no trailing spaces.
            self.text.truncate(self.text.trim_end_matches(' ').len());
        }
        self.line();
    }

    /// Adds lines unchanged, as a block.
    pub(crate) fn raw_block(&mut self, text: &str) {
        self.gap(Gap::Blank);
        for line in text.split('\n') {
            // Empty lines are only written between other lines.
            self.raw_line(line);
        }
        self.gap(Gap::Blank);
    }

    fn begin_line(&mut self) {
        if self.gap == Gap::None && !self.text.is_empty() {
            if self.has_space {
                self.text.push(' ');
            }
            self.has_space = false;
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
            if self.gap == Gap::Blank {
                // Within a quote, an empty line has the prefix of the quote.
                for prefix in self.prefixes.iter().take_while(|prefix| prefix.used) {
                    self.text.push_str(&prefix.rest);
                }
                self.text.truncate(self.text.trim_end_matches(' ').len());
                self.text.push('\n');
            }
        }
        for prefix in &mut self.prefixes {
            self.text.push_str(if prefix.used { &prefix.rest } else { &prefix.first });
            prefix.used = true;
        }
        if self.heading > 0 {
            self.text.push_str(&"######"[..self.heading]);
            self.text.push(' ');
        }
        self.gap = Gap::None;
        self.has_space = false;
    }

    fn open(&mut self, index: usize, word: &str) {
        let marked = &mut self.marks[index];
        if marked.is_mute || marked.from.is_some() {
            return;
        }
        let is_plain = word.starts_with(|first: char| first.is_alphanumeric() || "+-−".contains(first));
        self.text.push_str(match &marked.mark {
            Mark::Strong => "**",
            Mark::Emphasis => "*",
            Mark::Struck => "~~",
            Mark::Code => "`",
            Mark::Quoted => "\"",
            Mark::Link(_) => "[",
            Mark::Super if is_plain => "^",
            Mark::Sub if is_plain => "_",
            Mark::Super | Mark::Sub => "",
        });
        marked.from = Some(self.text.len());
    }

    fn end_last(&mut self) {
        let Some(marked) = self.marks.pop() else { return };
        let Some(from) = marked.from else { return };
        match marked.mark {
            Mark::Strong => self.text.push_str("**"),
            Mark::Emphasis => self.text.push('*'),
            Mark::Struck => self.text.push_str("~~"),
            Mark::Code => self.text.push('`'),
            Mark::Quoted => self.text.push('"'),
            Mark::Super | Mark::Sub => {}
            Mark::Link(url) if self.text[from..] == url => {
                self.text.replace_range(from - 1..from, "<");
                self.text.push('>');
            }
            Mark::Link(url) if url.contains(['(', ')']) => self.text.push_str(&format!("](<{url}>)")),
            Mark::Link(url) => self.text.push_str(&format!("]({url})")),
        }
    }

    /// Ends the marks at the end of a block. A link without words stays open for the next block,
    /// because a whole card may be one link.
    fn end_marks(&mut self) {
        let mut waiting = Vec::new();
        while let Some(last) = self.marks.last() {
            if last.from.is_none() && !last.is_mute && matches!(last.mark, Mark::Link(_)) {
                waiting.extend(self.marks.pop());
            } else {
                self.end_last();
            }
        }
        waiting.reverse();
        self.marks = waiting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Flow)) -> String {
        let mut flow = Flow::new();
        write(&mut flow);
        flow.finish()
    }

    #[test]
    fn white_space_is_collapsed() {
        let text = written(|flow| {
            flow.gap(Gap::Blank);
            flow.text("  a \n\t b");
            flow.text("c ");
            flow.text(" d\u{a0}\u{200b}");
            flow.gap(Gap::Blank);
            flow.text(" ");
            flow.gap(Gap::Line);
            flow.text(" e");
        });
        assert_eq!(text, "a bc d\n\ne");
    }

    #[test]
    fn marks_are_adjacent_to_their_words() {
        let text = written(|flow| {
            flow.text("a");
            flow.begin(Mark::Strong);
            flow.text(" b ");
            flow.begin(Mark::Emphasis);
            flow.end(|mark| *mark == Mark::Emphasis);
            flow.begin(Mark::Strong);
            flow.text("c ");
            flow.end(|mark| *mark == Mark::Strong);
            flow.end(|mark| *mark == Mark::Strong);
            flow.text("d");
        });
        assert_eq!(text, "a **b c** d");
    }

    #[test]
    fn marks_end_with_their_block_or_outer_mark() {
        let text = written(|flow| {
            flow.begin(Mark::Strong);
            flow.begin(Mark::Emphasis);
            flow.text("a");
            flow.end(|mark| *mark == Mark::Strong);
            flow.end(|mark| *mark == Mark::Emphasis);
            flow.text(" b ");
            flow.begin(Mark::Struck);
            flow.text("c");
            flow.gap(Gap::Blank);
            flow.text("d");
        });
        assert_eq!(text, "***a*** b ~~c~~\n\nd");
    }

    #[test]
    fn link_without_words_stays_open() {
        let link = |url: &str| Mark::Link(url.to_owned());
        let text = written(|flow| {
            flow.begin(link("https://a/"));
            flow.gap(Gap::Blank);
            flow.heading(2);
            flow.text("Title");
            flow.heading(0);
            flow.text("text");
            flow.end(|mark| matches!(mark, Mark::Link(_)));
            flow.begin(link("https://b/"));
            flow.text("https://b/");
            flow.end(|mark| matches!(mark, Mark::Link(_)));
            flow.begin(link("https://c/(x)"));
            flow.text(" c");
            flow.gap(Gap::Line);
        });
        assert_eq!(text, "## [Title](https://a/)\n\ntext<https://b/> [c](<https://c/(x)>)");
    }

    #[test]
    fn items_and_quotes_have_their_prefixes() {
        let text = written(|flow| {
            flow.text("x");
            flow.gap(Gap::Blank);
            flow.indent("> ");
            flow.text("q");
            flow.gap(Gap::Blank);
            flow.indent("10. ");
            flow.text("a");
            flow.line();
            flow.text("b");
            flow.outdent();
            flow.gap(Gap::Blank);
            flow.text("c");
            flow.outdent();
            flow.gap(Gap::Blank);
            flow.indent("- ");
            flow.outdent();
            flow.text("y");
        });
        assert_eq!(text, "x\n\n> q\n>\n> 10. a\n>     b\n>\n> c\n\ny");
    }

    #[test]
    fn depth_and_length_are_limited() {
        let text = written(|flow| {
            for _ in 0..1_000 {
                flow.indent("> ");
            }
            flow.text("a");
            for _ in 0..1_000 {
                flow.outdent();
            }
            flow.gap(Gap::Line);
            flow.text("b");
        });
        assert_eq!(text, format!("{}a\nb", "> ".repeat(MAX_DEPTH)));
        let mut flow = Flow::new();
        for _ in 0..10 {
            flow.text(&"x".repeat(1 << 20));
        }
        assert!(flow.is_full && flow.len() <= MAX_TEXT);
    }
}
