//! Finds thinking in the text: servers that do not separate it send `<think>…</think>` at the beginning of the answer.

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// Splits the text of one answer into thinking and text. Text that may be the beginning of a tag is
/// held back until more has arrived.
#[derive(Debug, Default)]
pub(super) struct Tags {
    place: Place,
    held: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has arrived.
    #[default]
    Start,
    Thinking,
    /// In the white space after the end of thinking.
    Gap,
    Text,
}

/// A piece of thinking or text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Thinking(String),
    Text(String),
}

impl Tags {
    /// Adds text and returns the pieces whose kind is certain.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while let Some(piece) = self.next() {
            pieces.push(piece);
        }
        pieces.retain(|piece| !matches!(piece, Piece::Thinking(text) | Piece::Text(text) if text.is_empty()));
        pieces
    }

    /// Returns the rest. Later text is not searched for tags.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        let place = std::mem::replace(&mut self.place, Place::Text);
        let rest = std::mem::take(&mut self.held);
        match place {
            _ if rest.is_empty() => None,
            Place::Thinking => Some(Piece::Thinking(rest)),
            Place::Gap => None,
            Place::Start | Place::Text => Some(Piece::Text(rest)),
        }
    }

    /// Returns the next piece, which may be empty; `None` if more text is needed.
    fn next(&mut self) -> Option<Piece> {
        match self.place {
            Place::Start => {
                let said = self.held.trim_start();
                if let Some(rest) = said.strip_prefix(BEGIN) {
                    self.held = rest.to_owned();
                    self.place = Place::Thinking;
                } else if BEGIN.starts_with(said) {
                    return None;
                } else {
                    self.place = Place::Text;
                }
                self.next()
            }
            Place::Thinking => {
                if let Some((thinking, rest)) = self.held.split_once(END) {
                    let thinking = thinking.to_owned();
                    self.held = rest.to_owned();
                    self.place = Place::Gap;
                    return Some(Piece::Thinking(thinking));
                }
                let tail = (1..END.len()).rev().find(|length| self.held.ends_with(&END[..*length])).unwrap_or(0);
                let certain = self.held.len() - tail;
                let thinking: String = self.held.drain(..certain).collect();
                (!thinking.is_empty()).then_some(Piece::Thinking(thinking))
            }
            Place::Gap => {
                self.held = self.held.trim_start().to_owned();
                if self.held.is_empty() {
                    return None;
                }
                self.place = Place::Text;
                self.next()
            }
            Place::Text => {
                let text = std::mem::take(&mut self.held);
                (!text.is_empty()).then_some(Piece::Text(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns thinking and text of an answer that arrives in pieces of `size` bytes.
    fn split(text: &str, size: usize) -> (String, String) {
        let mut tags = Tags::default();
        let (mut thinking, mut said) = (String::new(), String::new());
        let chunks = text.as_bytes().chunks(size).map(|chunk| std::str::from_utf8(chunk).expect("ASCII"));
        let mut pieces: Vec<_> = chunks.flat_map(|chunk| tags.push(chunk)).collect();
        pieces.extend(tags.finish());
        for piece in pieces {
            match piece {
                Piece::Thinking(more) => thinking += &more,
                Piece::Text(more) => said += &more,
            }
        }
        (thinking, said)
    }

    #[test]
    fn only_the_first_tag_is_thinking() {
        for (text, thinking, said) in [
            ("<think>a < b</think>\n\nYes.", "a < b", "Yes."),
            ("\n <think>hm</think>Yes. <think>no</think>", "hm", "Yes. <think>no</think>"),
            ("<think></think>Yes.", "", "Yes."),
            ("<think>never ended </thin", "never ended </thin", ""),
            ("<thinking>x", "", "<thinking>x"),
            ("a <think>b</think>", "", "a <think>b</think>"),
            ("<", "", "<"),
            (" \n", "", " \n"),
            ("<think>x</think> \n", "x", ""),
            ("", "", ""),
        ] {
            for size in 1..=text.len().max(1) {
                assert_eq!(split(text, size), (thinking.to_owned(), said.to_owned()), "{text:?} by {size}");
            }
        }
    }
}
