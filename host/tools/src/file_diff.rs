//! The difference that a change makes to a file, for a question about it. Pure. Called by `act`.

use std::{collections::VecDeque, fmt};

use patchbay_core::text;
use similar::ChangeTag;

use crate::{
    line_changes,
    shown_input::{line_of_file, without_middle},
};

/// Unchanged lines before and after each change.
const CONTEXT: usize = 3;
/// Limits of the lines that are kept, and of their total bytes. More changed lines are only counted.
const LINES: usize = 2_000;
const BYTES: usize = 256 << 10;
/// Characters of a line that are kept.
const LINE: usize = 1_000;
/// Maximum number of bytes that are compared line by line. In longer texts, all old lines count as removed, and all new as added.
const COMPARED: usize = 256 << 10;

/// The lines that differ between two texts, with unchanged ones around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiff {
    /// Number of lines that were added.
    pub added: usize,
    /// Number of lines that were removed.
    pub removed: usize,
    /// The lines, from top to bottom. Invisible characters are written with escapes.
    pub lines: Vec<DiffLine>,
    /// Number of changed lines that are not in `lines`, because there are too many.
    pub more: usize,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffLine {
    /// An unchanged line with its new number.
    Same(usize, String),
    /// A new line with its number.
    Added(usize, String),
    /// A removed line, with its old number.
    Removed(usize, String),
    /// Unchanged lines that are left out.
    Gap,
    /// Names the file whose lines follow, in a difference of several files.
    Heading(String),
}

impl DiffLine {
    /// Returns the line's number, sign and text; `None` for a gap and a heading.
    pub fn parts(&self) -> Option<(usize, char, &str)> {
        match self {
            Self::Same(number, text) => Some((*number, ' ', text)),
            Self::Added(number, text) => Some((*number, '+', text)),
            Self::Removed(number, text) => Some((*number, '-', text)),
            Self::Gap | Self::Heading(_) => None,
        }
    }

    /// Returns the bytes of its text.
    fn bytes(&self) -> usize {
        match self {
            Self::Same(_, text) | Self::Added(_, text) | Self::Removed(_, text) | Self::Heading(text) => text.len(),
            Self::Gap => 0,
        }
    }
}

impl FileDiff {
    /// Compares a file's old text with the new one. The number of steps is limited, and so is the memory besides the texts. No
    /// clock is involved, so equal texts always have the same difference.
    pub fn new(old: &str, new: &str) -> Self {
        let (start, end) = common_ends(old, new);
        let (old_part, new_part) = (&old[start..old.len() - end], &new[start..new.len() - end]);
        let mut diff = Self::default();
        let before = &new[..start];
        let shown: Vec<&str> = before.split_inclusive('\n').rev().take(CONTEXT).collect();
        let above = lines_in(before) - shown.len();
        let mut hunks = Hunks {
            diff: &mut diff,
            old: above,
            new: above,
            pending: VecDeque::new(),
            after: 0,
            has_gap: false,
            bytes: 0,
        };
        shown.into_iter().rev().for_each(|line| hunks.push(ChangeTag::Equal, line));
        if old_part.len().max(new_part.len()) > COMPARED {
            old_part.split_inclusive('\n').for_each(|line| hunks.push(ChangeTag::Delete, line));
            new_part.split_inclusive('\n').for_each(|line| hunks.push(ChangeTag::Insert, line));
        } else {
            line_changes::of(old_part, new_part, &mut |tag, line| hunks.push(tag, line));
        }
        new[new.len() - end..].split_inclusive('\n').take(CONTEXT).for_each(|line| hunks.push(ChangeTag::Equal, line));
        diff
    }

    /// Adds the difference of another file below `heading`. The limits apply to all files together.
    pub fn append(&mut self, heading: &str, other: Self) {
        self.added += other.added;
        self.removed += other.removed;
        self.more += other.more;
        let mut bytes: usize = self.lines.iter().map(DiffLine::bytes).sum();
        let heading = DiffLine::Heading(without_middle(&text::clean_line(heading), LINE));
        for line in std::iter::once(heading).chain(other.lines) {
            if self.lines.len() < LINES && bytes < BYTES {
                bytes += line.bytes();
                self.lines.push(line);
            } else if matches!(line, DiffLine::Added(..) | DiffLine::Removed(..)) {
                self.more += 1;
            }
        }
    }

    /// Returns the number of digits of the largest line number.
    pub fn digits(&self) -> usize {
        let largest = self.lines.iter().filter_map(DiffLine::parts).map(|(number, ..)| number).max();
        largest.unwrap_or_default().to_string().len()
    }

    /// Returns how many lines differ, such as `+60 −15`, or `no change`.
    pub fn counts(&self) -> String {
        match (self.added, self.removed) {
            (0, 0) => "no change".to_owned(),
            (added, 0) => format!("+{added}"),
            (0, removed) => format!("−{removed}"),
            (added, removed) => format!("+{added} −{removed}"),
        }
    }
}

/// Formats all lines that were kept, each with its number and sign.
impl fmt::Display for FileDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        for (index, line) in self.lines.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match (line, line.parts()) {
                (_, Some((number, sign, text))) => write!(f, "{end}{number:>digits$} {sign} {text}")?,
                (DiffLine::Heading(text), None) => write!(f, "{end}{text}")?,
                (_, None) => write!(f, "{end}{:>digits$}", "…")?,
            }
        }
        if self.more > 0 {
            write!(f, "\n… {} more changed lines", self.more)?;
        }
        Ok(())
    }
}

/// Returns the bytes of the whole lines that both texts have in common at their beginning, and at their end.
fn common_ends(old: &str, new: &str) -> (usize, usize) {
    let same = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
    let is_whole = |text: &str| same == text.len();
    let start = match is_whole(old) && is_whole(new) {
        true => same,
        false => old.as_bytes()[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1),
    };
    let (old, new) = (&old.as_bytes()[start..], &new.as_bytes()[start..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    // A line that differs in one of the texts is not common. The common end can also begin at the start of a line.
    let tail = &old[old.len() - same..];
    let begins_line = same == old.len() && (same == new.len() || new[new.len() - same - 1] == b'\n')
        || same == new.len() && old[old.len() - same - 1] == b'\n';
    let end = match begins_line {
        true => same,
        false => tail.iter().position(|byte| *byte == b'\n').map_or(0, |end| same - end - 1),
    };
    (start, end)
}

fn lines_in(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count() + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Collects the lines of a difference.
struct Hunks<'a, 'b> {
    diff: &'b mut FileDiff,
    /// Number of old and of new lines so far.
    old: usize,
    new: usize,
    /// Unchanged lines that are shown if a change follows.
    pending: VecDeque<(usize, &'a str)>,
    /// Unchanged lines that are still shown after the last change.
    after: usize,
    has_gap: bool,
    bytes: usize,
}

impl<'a> Hunks<'a, '_> {
    fn push(&mut self, tag: ChangeTag, line: &'a str) {
        match tag {
            ChangeTag::Equal => {
                (self.old, self.new) = (self.old + 1, self.new + 1);
                if self.after > 0 {
                    self.after -= 1;
                    self.keep(DiffLine::Same(self.new, shown(line)));
                    return;
                }
                self.pending.push_back((self.new, line));
                if self.pending.len() > CONTEXT {
                    self.pending.pop_front();
                    self.has_gap = true;
                }
                return;
            }
            ChangeTag::Delete => (self.old, self.diff.removed) = (self.old + 1, self.diff.removed + 1),
            ChangeTag::Insert => (self.new, self.diff.added) = (self.new + 1, self.diff.added + 1),
        }
        if std::mem::take(&mut self.has_gap) && !self.diff.lines.is_empty() {
            self.keep(DiffLine::Gap);
        }
        for (number, line) in std::mem::take(&mut self.pending) {
            self.keep(DiffLine::Same(number, shown(line)));
        }
        self.after = CONTEXT;
        if self.diff.lines.len() >= LINES || self.bytes >= BYTES {
            self.diff.more += 1;
            return;
        }
        self.keep(match tag {
            ChangeTag::Delete => DiffLine::Removed(self.old, shown(line)),
            _ => DiffLine::Added(self.new, shown(line)),
        });
    }

    /// Adds a line if there is room for it.
    fn keep(&mut self, line: DiffLine) {
        if self.diff.lines.len() < LINES && self.bytes < BYTES {
            self.bytes += line.bytes();
            self.diff.lines.push(line);
        }
    }
}

/// Returns a line without its end; invisible characters are written with escapes.
fn shown(line: &str) -> String {
    let text = line.strip_suffix('\n');
    let note = if text.is_none() { " (no line end)" } else { "" };
    // Cut first, which limits how much must be escaped.
    without_middle(&line_of_file(&without_middle(text.unwrap_or(line), LINE)), 2 * LINE) + note
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(old: &str, new: &str) -> Vec<String> {
        let line = |line: &DiffLine| match line.parts() {
            Some((number, sign, text)) => format!("{number}{sign}{text}"),
            None => "…".to_owned(),
        };
        FileDiff::new(old, new).lines.iter().map(line).collect()
    }

    #[test]
    fn changes_have_context_and_numbers() {
        let old: String = (1..=30).map(|number| format!("line {number}\n")).collect();
        let new = old.replace("line 5\n", "five\n").replace("line 20\n", "");
        let expected = [
            "2 line 2",
            "3 line 3",
            "4 line 4",
            "5-line 5",
            "5+five",
            "6 line 6",
            "7 line 7",
            "8 line 8",
            "…",
            "17 line 17",
            "18 line 18",
            "19 line 19",
            "20-line 20",
            "20 line 21",
            "21 line 22",
            "22 line 23",
        ];
        assert_eq!(lines(&old, &new), expected);
        assert_eq!(FileDiff::new(&old, &new).counts(), "+1 −2");
        assert_eq!(lines("", "a\nb\n"), ["1+a", "2+b"]);
        assert_eq!(lines("a\n", ""), ["1-a"]);
        assert_eq!(FileDiff::new("a\n", "a\n").counts(), "no change");
    }

    #[test]
    fn every_character_is_shown() {
        assert_eq!(lines("a\n", "a"), ["1-a", "1+a (no line end)"]);
        let hidden = "\tx\u{202e}y\u{1b}[2J\r\n";
        assert_eq!(lines("", hidden), ["1+\tx\\u{202e}y\\u{1b}[2J\\u{d}"]);
    }

    #[test]
    fn large_difference_is_bounded() {
        let old = "x\n".repeat(2 << 20);
        let diff = FileDiff::new(&old, &"y\n".repeat(2 << 20));
        assert_eq!((diff.added, diff.removed), (2 << 20, 2 << 20));
        assert_eq!((diff.lines.len(), diff.more), (LINES, (4 << 20) - LINES));
        // One changed line in a large file.
        let new = format!("{old}z\n");
        assert_eq!(lines(&old, &new).last().unwrap(), "2097153+z");
        let long = FileDiff::new("", &"z".repeat(4 << 20));
        assert!(long.lines[0].parts().unwrap().2.len() < 3 * LINE);
    }

    proptest! {
        /// The difference turns the old text into the new one.
        #[test]
        fn difference_is_true(old in "([abc ]{0,3}\n){0,12}[ab]{0,2}", new in "([abc ]{0,3}\n){0,12}[ab]{0,2}") {
            let diff = FileDiff::new(&old, &new);
            let (mut added, mut removed) = (0, 0);
            for line in &diff.lines {
                let text = |text: &str| text.strip_suffix(" (no line end)").unwrap_or(text).to_owned();
                let at = |of: &str, number: usize| of.lines().nth(number - 1).map(str::to_owned);
                match line {
                    DiffLine::Same(number, same) => prop_assert_eq!(at(&new, *number), Some(text(same))),
                    DiffLine::Added(number, line) => {
                        added += 1;
                        prop_assert_eq!(at(&new, *number), Some(text(line)));
                    }
                    DiffLine::Removed(number, line) => {
                        removed += 1;
                        prop_assert_eq!(at(&old, *number), Some(text(line)));
                    }
                    DiffLine::Gap => {}
                    DiffLine::Heading(_) => prop_assert!(false, "a heading"),
                }
            }
            prop_assert_eq!((added, removed), (diff.added, diff.removed));
            prop_assert_eq!(lines_in(&old) - removed + added, lines_in(&new));
            prop_assert_eq!(added + removed == 0, old == new);
        }
    }
}
