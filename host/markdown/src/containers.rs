//! The quotes and list items around a block, and the prefix that they add to its lines.

use crate::marks::{ItemMark, LineRest};

/// Maximum nesting of quotes and lists. Deeper levels are shown as text, which bounds the cost of each line.
pub(crate) const MAX_DEPTH: usize = 16;

#[derive(Clone)]
pub(crate) enum BlockContainer {
    Quote,
    Item(ListItem),
}

#[derive(Clone)]
pub(crate) struct ListItem {
    /// Columns of blanks that a line needs to belong to the item.
    indent: usize,
    delimiter: u8,
    /// The number as written and as shown.
    numbers: Option<(u32, u32)>,
    /// The marker before the first line.
    marker: String,
    is_marker_out: bool,
}

impl ListItem {
    /// Creates the item after `sibling`. A bullet is always shown as `-`. A number is kept unless it repeats the
    /// previous number; then the next number is shown, because authors often write `1.` for every item.
    pub(crate) fn new(mark: ItemMark, indent: usize, sibling: Option<&BlockContainer>) -> Self {
        let before = match sibling {
            Some(BlockContainer::Item(item)) if item.delimiter == mark.delimiter => item.numbers,
            _ => None,
        };
        let numbers = mark.number.map(|written| match before {
            Some((last, shown)) if last == written => (written, shown.saturating_add(1)),
            _ => (written, written),
        });
        let marker = match numbers {
            Some((_, shown)) => format!("{shown}{} ", char::from(mark.delimiter)),
            None => "- ".to_owned(),
        };
        Self { indent, delimiter: mark.delimiter, numbers, marker, is_marker_out: false }
    }
}

impl BlockContainer {
    /// Removes the mark that continues this container from `line`; false if there is none.
    pub(crate) fn continues(&self, line: &mut LineRest<'_>) -> bool {
        match self {
            Self::Quote => strip_quote(line),
            Self::Item(_) if line.is_blank() => true,
            Self::Item(item) => {
                let belongs = line.indent() >= item.indent;
                if belongs {
                    line.strip(item.indent);
                }
                belongs
            }
        }
    }

    pub(crate) fn is_quote(&self) -> bool {
        matches!(self, Self::Quote)
    }

    /// Whether this is an item whose marker was not written yet.
    pub(crate) fn has_marker_left(&self) -> bool {
        matches!(self, Self::Item(item) if !item.is_marker_out)
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item(item) => item.marker.len(),
        }
    }

    /// Writes the prefix of the next line.
    pub(crate) fn write(&mut self, out: &mut String) {
        match self {
            Self::Item(item) if !item.is_marker_out => {
                item.is_marker_out = true;
                out.push_str(&item.marker);
            }
            _ => self.write_blank(out),
        }
    }

    /// Writes the prefix without a marker.
    pub(crate) fn write_blank(&self, out: &mut String) {
        match self {
            Self::Quote => out.push_str("> "),
            Self::Item(item) => out.extend(std::iter::repeat_n(' ', item.marker.len())),
        }
    }
}

/// Removes `>` and one blank, if `line` begins with them.
pub(crate) fn strip_quote(line: &mut LineRest<'_>) -> bool {
    let begins = line.indent() < crate::marks::CODE_INDENT && line.trimmed().starts_with('>');
    if begins {
        line.strip_mark(1);
        line.strip(1);
    }
    begins
}
