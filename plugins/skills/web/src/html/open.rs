//! The elements that are open.
//!
//! A page may open a hundred thousand elements inside each other, so that nothing here may look through them: each
//! entry knows the one of its kind below it, and what bounds it.

use crate::html::tag::{TAGS, Tag};

/// An open element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) tag: Tag,
    /// Whether what is in it is not shown.
    hides: bool,
    /// The places, counted from 1, of the next below: of the same tag, a cell, a table.
    same: u32,
    cell: u32,
    table: u32,
}

/// The open elements, the innermost last. A place counts from 1; 0 is none.
#[derive(Debug)]
pub(crate) struct Open {
    elements: Vec<Element>,
    last: [u32; TAGS],
    cell: u32,
    table: u32,
    hiding: usize,
}

impl Open {
    pub(crate) fn new() -> Self {
        Self { elements: Vec::new(), last: [0; TAGS], cell: 0, table: 0, hiding: 0 }
    }

    /// Opens an element; gives its place.
    pub(crate) fn push(&mut self, tag: Tag, hides: bool) -> u32 {
        let same = self.last[tag as usize];
        self.elements.push(Element { tag, hides, same, cell: self.cell, table: self.table });
        let place = self.elements.len() as u32;
        self.last[tag as usize] = place;
        self.hiding += usize::from(hides);
        if tag.is_cell() {
            self.cell = place;
        }
        if tag == Tag::Table {
            // What is around a table is out of reach from inside it.
            (self.table, self.cell) = (place, place);
        }
        place
    }

    /// Closes the innermost element; gives it with its place.
    pub(crate) fn pop(&mut self) -> Option<(Element, u32)> {
        let place = self.elements.len() as u32;
        let element = self.elements.pop()?;
        self.last[element.tag as usize] = element.same;
        self.cell = element.cell;
        self.table = element.table;
        self.hiding -= usize::from(element.hides);
        Some((element, place))
    }

    /// The innermost element, with its place.
    pub(crate) fn top(&self) -> Option<(Element, u32)> {
        self.elements.last().map(|element| (*element, self.elements.len() as u32))
    }

    /// The place of the innermost open element of `tag` that may be closed from here.
    pub(crate) fn reachable(&self, tag: Tag) -> Option<u32> {
        let place = self.last[tag as usize];
        let floor = match tag {
            Tag::Table => 0,
            _ if tag.is_of_table() => self.table,
            _ => self.cell,
        };
        (place > floor).then_some(place)
    }

    /// The place of the innermost open element of `tag`, wherever it is.
    pub(crate) fn innermost(&self, tag: Tag) -> Option<u32> {
        Some(self.last[tag as usize]).filter(|place| *place > 0)
    }

    /// The place of the innermost table.
    pub(crate) fn table(&self) -> Option<u32> {
        Some(self.table).filter(|place| *place > 0)
    }

    /// Whether what comes now is not shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hiding > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_that_can_be_reached_is_found() {
        let mut open = Open::new();
        open.push(Tag::Div, false);
        open.push(Tag::Div, false);
        assert_eq!(open.reachable(Tag::Div), Some(2));
        open.push(Tag::Table, false);
        assert_eq!((open.reachable(Tag::Div), open.reachable(Tag::Table)), (None, Some(3)));
        open.push(Tag::Tr, false);
        open.push(Tag::Td, false);
        open.push(Tag::P, false);
        assert_eq!(
            (open.reachable(Tag::P), open.reachable(Tag::Tr), open.reachable(Tag::Td)),
            (Some(6), Some(4), Some(5))
        );
        open.push(Tag::Table, false);
        assert_eq!((open.reachable(Tag::Td), open.reachable(Tag::P), open.innermost(Tag::P)), (None, None, Some(6)));
        while open.pop().is_some_and(|(element, _)| element.tag != Tag::Td) {}
        assert_eq!((open.reachable(Tag::Td), open.reachable(Tag::Tr), open.table()), (None, Some(4), Some(3)));
    }

    #[test]
    fn what_hides_hides_until_it_is_closed() {
        let mut open = Open::new();
        open.push(Tag::Nav, true);
        open.push(Tag::Div, false);
        assert!(open.is_hidden());
        open.pop();
        assert!(open.is_hidden());
        open.pop();
        assert!(!open.is_hidden() && open.pop().is_none());
    }
}
