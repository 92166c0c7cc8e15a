//! Converts the tags and words of a page to text, in one pass without a tree.
//!
//! End tags that may be omitted (of a paragraph, an item or a cell) are added by the rules of HTML; superfluous end
//! tags are ignored. Every tag costs the same at any depth.

use url::Url;

use crate::html::{
    attributes::Attributes,
    flow::{Flow, Gap, MAX_TEXT, Mark},
    link::Links,
    open::Open,
    parts::Parts,
    table::Table,
    tag::{HEADINGS, Tag},
};

/// Maximum number of bytes of a title, of a description, and of a picture's text.
const MAX_LINE: usize = 300;
/// The deepest nesting of tables that is converted. Each table contains the text of its nested tables once more.
const MAX_TABLES: usize = 8;
/// The state of the conversion.
pub(crate) struct Document<'a> {
    links: Links<'a>,
    parts: Parts,
    open: Open,
    /// The text of the page, followed by the text of each open cell.
    flows: Vec<(Flow, usize)>,
    tables: Vec<Table>,
    lists: Vec<List>,
    /// Bytes of all closed cells.
    spent: usize,
    code: Option<Code>,
    in_title: bool,
    title: Option<String>,
    description: Option<String>,
}

struct Code {
    place: u32,
    text: String,
    language: Option<String>,
}

struct List {
    place: u32,
    number: Option<u32>,
    /// The position in the flow where the list begins.
    offset: usize,
}

/// The result of the conversion.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) text: String,
    /// True if the page was too long and the text was cut.
    pub(crate) is_cut: bool,
}

impl<'a> Document<'a> {
    pub(crate) fn new(page: &'a Url) -> Self {
        Self {
            links: Links::new(page),
            parts: Parts::default(),
            open: Open::new(),
            flows: vec![(Flow::new(), 1)],
            tables: Vec::new(),
            lists: Vec::new(),
            spent: 0,
            code: None,
            in_title: false,
            title: None,
            description: None,
        }
    }

    /// Returns true if no more text is accepted.
    pub(crate) fn is_full(&self) -> bool {
        let written: usize = self.flows.iter().map(|(flow, _)| flow.len()).sum();
        self.spent + written > MAX_TEXT || self.flows.iter().any(|(flow, _)| flow.is_full)
    }

    pub(crate) fn text(&mut self, text: &str) {
        if self.in_title {
            let title = self.title.get_or_insert_default();
            title.push_str(&text[..text.floor_char_boundary(MAX_LINE.saturating_sub(title.len()))]);
        } else if self.open.is_hidden() {
        } else if let Some(code) = &mut self.code {
            code.text.push_str(text);
        } else {
            self.flow().text(text);
        }
    }

    pub(crate) fn start(&mut self, tag: Tag, attributes: &Attributes, is_self_closing: bool) {
        if tag.is_void() {
            return self.void(tag, attributes);
        }
        if tag == Tag::Title {
            // An SVG picture may have a title, too.
            self.in_title = !self.open.is_hidden() && self.title.is_none();
            if !self.in_title {
                self.open.push(tag, true);
            }
            return;
        }
        if tag.is_block() {
            self.imply_ends(tag);
        }
        let was_hidden = self.open.is_hidden();
        let in_article = self.open.innermost(Tag::Article).or(self.open.innermost(Tag::Main)).is_some();
        let is_frame = matches!(tag, Tag::Footer | Tag::Aside) && !in_article;
        let hides = tag.is_gone() || is_frame || attributes.hides();
        if !tag.is_block() && !was_hidden && !hides {
            return self.start_inline(tag, attributes);
        }
        if is_self_closing && (was_hidden || tag == Tag::Svg) {
            return;
        }
        let place = self.open.push(tag, hides);
        if !was_hidden && !hides {
            self.opened(tag, place, attributes);
        } else if !was_hidden && tag.is_block() {
            self.flow().gap(Gap::Line);
        }
    }

    pub(crate) fn end(&mut self, tag: Tag) {
        if tag == Tag::Title {
            self.in_title = false;
        }
        let is_heading = tag.heading().is_some();
        // The end tag of any heading ends a heading of any level.
        let place = match is_heading {
            true => HEADINGS.iter().filter_map(|heading| self.open.reachable(*heading)).max(),
            false => self.open.reachable(tag),
        };
        match place {
            Some(place) => self.close(place),
            None if self.open.is_hidden() => {}
            None if tag == Tag::Br => self.flow().gap(Gap::Line),
            None if tag == Tag::P => self.flow().gap(Gap::Blank),
            None => self.flow().end(|mark| is_mark_of(tag, mark)),
        }
    }

    /// Closes all elements and returns the page.
    pub(crate) fn finish(mut self, is_cut: bool) -> Page {
        self.close(1);
        let is_cut = is_cut || self.is_full();
        let whole = self.flows.into_iter().next().map(|(flow, _)| flow.finish()).unwrap_or_default();
        let text = self.parts.of(&whole).to_owned();
        let line = |text: Option<String>| text.map(|text| one_line(&text)).filter(|text| !text.is_empty());
        Page { title: line(self.title), description: line(self.description), text, is_cut }
    }

    /// Closes all elements down to a position.
    fn close(&mut self, place: u32) {
        while let Some((element, at)) = self.open.top() {
            if at < place {
                break;
            }
            // Elements inside a hidden element were never opened.
            let was_hidden = self.open.is_hidden();
            self.open.pop();
            if !was_hidden {
                self.closed(element.tag, at);
            }
        }
    }

    /// Closes the elements that end where `tag` begins.
    fn imply_ends(&mut self, tag: Tag) {
        let among = |open: &Open, tags: &[Tag]| tags.iter().filter_map(|tag| open.reachable(*tag)).max();
        let bound =
            |open: &Open, tags: &[Tag]| tags.iter().filter_map(|tag| open.innermost(*tag)).max().unwrap_or_default();
        let open = &self.open;
        let ended = match tag {
            Tag::Li => open.reachable(Tag::Li).filter(|place| *place > bound(open, &[Tag::Ul, Tag::Ol])),
            Tag::Dt | Tag::Dd => among(open, &[Tag::Dt, Tag::Dd]).filter(|place| *place > bound(open, &[Tag::Dl])),
            Tag::Td | Tag::Th => {
                among(open, &[Tag::Td, Tag::Th, Tag::Caption]).filter(|place| *place > bound(open, &[Tag::Tr]))
            }
            Tag::Tr => among(open, &[Tag::Tr, Tag::Caption, Tag::Td, Tag::Th]),
            Tag::Tbody | Tag::Thead => among(open, &[Tag::Tbody, Tag::Thead, Tag::Tr, Tag::Caption]),
            // Every block element ends a paragraph.
            _ => open.reachable(Tag::P),
        };
        if let Some(place) = ended {
            self.close(place);
        }
        if tag.heading().is_some()
            && let Some((element, place)) = self.open.top()
            && element.tag.heading().is_some()
        {
            self.close(place);
        }
    }

    fn start_inline(&mut self, tag: Tag, attributes: &Attributes) {
        if let Some(code) = &mut self.code {
            if let Some(found) = attributes.language().filter(|_| tag == Tag::Code) {
                code.language.get_or_insert_with(|| found.to_owned());
            }
            return;
        }
        let mark = match tag {
            Tag::A => {
                self.flow().end(|mark| matches!(mark, Mark::Link(_)));
                match attributes.href.as_deref().and_then(|href| self.links.follow(href)) {
                    Some(url) => Mark::Link(url),
                    None => return,
                }
            }
            Tag::B => Mark::Strong,
            Tag::Em => Mark::Emphasis,
            Tag::Del => Mark::Struck,
            Tag::Code => Mark::Code,
            Tag::Q => Mark::Quoted,
            Tag::Sup => Mark::Super,
            Tag::Sub => Mark::Sub,
            _ => return,
        };
        self.flow().begin(mark);
    }

    fn void(&mut self, tag: Tag, attributes: &Attributes) {
        match tag {
            Tag::Base => {
                if let Some(href) = &attributes.href {
                    self.links.set_base(href);
                }
            }
            Tag::Meta => {
                let name = attributes.name.as_deref().unwrap_or_default();
                if name.eq_ignore_ascii_case("description") || name.eq_ignore_ascii_case("og:description") {
                    self.description = self.description.take().or_else(|| attributes.content.clone());
                }
            }
            _ if self.open.is_hidden() || attributes.hides() => {}
            Tag::Br => match &mut self.code {
                Some(code) => code.text.push('\n'),
                None => self.flow().gap(Gap::Line),
            },
            Tag::Hr => self.flow().raw_block("---"),
            Tag::Img if self.code.is_none() => {
                let alt = one_line(attributes.alt.as_deref().unwrap_or_default());
                if !alt.is_empty() {
                    self.flow().text(&format!("[image: {alt}]"));
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, tag: Tag, place: u32, attributes: &Attributes) {
        let offset = if let [(flow, _)] = &self.flows[..] { Some(flow.len()) } else { None };
        self.parts.open(tag, attributes, place, offset);
        if let Some(code) = &mut self.code {
            // Some pages put each line of code into a block.
            if !code.text.is_empty() && !code.text.ends_with('\n') {
                code.text.push('\n');
            }
            return;
        }
        if let Some(level) = tag.heading() {
            return self.flow().heading(level);
        }
        match tag {
            Tag::Ul | Tag::Ol => {
                let is_inner = self.lists.last().is_some();
                self.flow().gap(if is_inner { Gap::Line } else { Gap::Blank });
                let start = attributes.start.as_deref().and_then(|start| start.trim().parse().ok());
                let number = (tag == Tag::Ol).then(|| start.unwrap_or(1));
                let offset = self.flow().len();
                self.lists.push(List { place, number, offset });
            }
            Tag::Li => self.item(),
            Tag::Dt => self.flow().gap(Gap::Line),
            Tag::Dd => {
                self.flow().line();
                self.flow().indent(": ");
            }
            Tag::Blockquote => {
                self.flow().gap(Gap::Blank);
                self.flow().indent("> ");
            }
            Tag::Pre => {
                self.flow().gap(Gap::Blank);
                let language = attributes.language().map(str::to_owned);
                self.code = Some(Code { place, text: String::new(), language });
            }
            Tag::Table => {
                self.flow().gap(Gap::Blank);
                if self.tables.len() < MAX_TABLES {
                    self.tables.push(Table::new(place));
                }
            }
            Tag::Tr => match self.table() {
                Some(index) => {
                    let (table, flow) = (&mut self.tables[index], self.flows.last_mut());
                    if let Some((flow, _)) = flow {
                        table.row(flow);
                    }
                }
                None => self.flow().gap(Gap::Line),
            },
            Tag::Td | Tag::Th | Tag::Caption if self.table().is_some() => {
                let span = attributes.colspan.as_deref().and_then(|span| span.trim().parse().ok());
                self.flows.push((Flow::new(), span.unwrap_or(1)));
            }
            Tag::P | Tag::Section | Tag::Article | Tag::Main | Tag::Dl | Tag::Caption => self.flow().gap(Gap::Blank),
            _ => self.flow().gap(Gap::Line),
        }
    }

    fn item(&mut self) {
        let marker = match self.lists.last_mut() {
            Some(List { number: Some(number), .. }) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "- ".to_owned(),
        };
        let offset = self.flow().len();
        match self.lists.last().is_none_or(|list| list.offset == offset) {
            true => self.flow().gap(Gap::Line),
            false => self.flow().line(),
        }
        self.flow().indent(&marker);
    }

    fn closed(&mut self, tag: Tag, place: u32) {
        let offset = self.flows.first().map_or(0, |(flow, _)| flow.len());
        self.parts.close(place, offset);
        if let Some(code) = self.code.take_if(|code| code.place == place) {
            return self.end_code(&code);
        }
        if self.code.is_some() {
            return;
        }
        if tag.heading().is_some() {
            return self.flow().heading(0);
        }
        match tag {
            Tag::Ul | Tag::Ol => {
                self.lists.pop_if(|list| list.place == place);
                match self.lists.is_empty() {
                    true => self.flow().gap(Gap::Blank),
                    false => self.flow().line(),
                }
            }
            Tag::Li | Tag::Dd => {
                self.flow().line();
                self.flow().outdent();
            }
            Tag::Blockquote => {
                self.flow().gap(Gap::Blank);
                self.flow().outdent();
            }
            Tag::Table => self.end_table(place),
            Tag::Td | Tag::Th | Tag::Caption if self.table().is_some() => self.end_cell(tag),
            Tag::P | Tag::Section | Tag::Article | Tag::Main | Tag::Dl | Tag::Caption => self.flow().gap(Gap::Blank),
            _ if tag.is_block() => self.flow().gap(Gap::Line),
            _ => {}
        }
    }

    fn end_code(&mut self, Code { text, language, .. }: &Code) {
        let code = text.strip_prefix('\n').unwrap_or(text).trim_end();
        if code.is_empty() {
            return;
        }
        // A fence longer than any in the code.
        let ticks = code.split(|char| char != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat((ticks + 1).max(3));
        let language = language.as_deref().unwrap_or_default();
        self.flow().raw_block(&format!("{fence}{language}\n{code}\n{fence}"));
    }

    /// Returns the index of the innermost open table.
    fn table(&self) -> Option<usize> {
        let last = self.tables.len().checked_sub(1)?;
        (self.open.table() == Some(self.tables[last].place)).then_some(last)
    }

    fn end_cell(&mut self, tag: Tag) {
        if self.flows.len() < 2 {
            return;
        }
        let Some((flow, span)) = self.flows.pop() else { return };
        let is_full = flow.is_full;
        let text = flow.finish();
        self.spent += text.len();
        match self.tables.last_mut() {
            Some(table) if tag != Tag::Caption => table.cell(text, span),
            _ => self.flow().raw_block(text.trim()),
        }
        self.flow().is_full |= is_full;
    }

    fn end_table(&mut self, place: u32) {
        match self.tables.pop_if(|table| table.place == place) {
            Some(table) => {
                table.finish(self.flow());
                if let Some(outer) = self.tables.last_mut() {
                    outer.has_table = true;
                }
            }
            None => self.flow().gap(Gap::Blank),
        }
    }

    fn flow(&mut self) -> &mut Flow {
        // The flow of the page itself always exists.
        let last = self.flows.len() - 1;
        &mut self.flows[last].0
    }
}

fn is_mark_of(tag: Tag, mark: &Mark) -> bool {
    match mark {
        Mark::Link(_) => tag == Tag::A,
        Mark::Strong => tag == Tag::B,
        Mark::Emphasis => tag == Tag::Em,
        Mark::Struck => tag == Tag::Del,
        Mark::Code => tag == Tag::Code,
        Mark::Quoted => tag == Tag::Q,
        Mark::Super => tag == Tag::Sup,
        Mark::Sub => tag == Tag::Sub,
    }
}

/// Replaces newlines and cuts the text.
fn one_line(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(MAX_LINE)];
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
