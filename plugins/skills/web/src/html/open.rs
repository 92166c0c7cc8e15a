//! The stack of open elements.
//!
//! A page may nest a hundred thousand elements, so no operation may search the stack: each entry stores the positions
//! of the next lower element of its kind and of the elements that bound it.

use crate::html::tag::{TAGS, Tag};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) tag: Tag,
    /// True if its contents are not shown.
    hides: bool,
    /// The positions, from 1, of the next lower element with the same tag, cell and table.
    same: u32,
    cell: u32,
    table: u32,
}

/// The open elements, innermost last. Positions count from 1; 0 is none.
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

    /// Opens an element and returns its position.
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
            // Elements outside a table cannot be closed from inside it.
            (self.table, self.cell) = (place, place);
        }
        place
    }

    /// Closes the innermost element and returns it with its position.
    pub(crate) fn pop(&mut self) -> Option<(Element, u32)> {
        let place = self.elements.len() as u32;
        let element = self.elements.pop()?;
        self.last[element.tag as usize] = element.same;
        self.cell = element.cell;
        self.table = element.table;
        self.hiding -= usize::from(element.hides);
        Some((element, place))
    }

    /// Returns the innermost element with its position.
    pub(crate) fn top(&self) -> Option<(Element, u32)> {
        self.elements.last().map(|element| (*element, self.elements.len() as u32))
    }

    /// Returns the position of the innermost open element `tag` that may be closed from here.
    pub(crate) fn reachable(&self, tag: Tag) -> Option<u32> {
        let place = self.last[tag as usize];
        let floor = match tag {
            Tag::Table => 0,
            _ if tag.is_of_table() => self.table,
            _ => self.cell,
        };
        (place > floor).then_some(place)
    }

    /// Returns the position of the innermost open element `tag`, even outside the current table.
    pub(crate) fn innermost(&self, tag: Tag) -> Option<u32> {
        Some(self.last[tag as usize]).filter(|place| *place > 0)
    }

    /// Returns the position of the innermost table.
    pub(crate) fn table(&self) -> Option<u32> {
        Some(self.table).filter(|place| *place > 0)
    }

    /// Returns true if the current contents are not shown.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hiding > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_reachable_element_is_found() {
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
    fn hidden_element_hides_until_it_is_closed() {
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
