//! Compares two texts line by line. It counts steps rather than time: a slow machine finds the same changes as a fast
//! one. Pure. Called by `file_diff`.
//!
//! Myers' algorithm takes up to the square of the number of lines in steps. Parts that are too long for that are divided at lines
//! that occur once in each text. A long part without such lines counts as replaced.

use std::{collections::HashMap, ops::Range};

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices};

/// How many lines of both texts together Myers' algorithm compares. This takes at most the square of this number of steps.
const AT_ONCE: usize = 4_000;
/// Steps for all parts of a text together.
const STEPS: usize = 4 * AT_ONCE * AT_ONCE;

/// Passes each line of `old` and `new` to `found`, from top to bottom: unchanged lines once, as `new` has them.
pub(crate) fn of<'a>(old: &'a str, new: &'a str, found: &mut impl FnMut(ChangeTag, &'a str)) {
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let mut comparison = Comparison { old: &old, new: &new, steps: STEPS, found };
    comparison.part(0..old.len(), 0..new.len(), true);
}

struct Comparison<'a, 'b, F> {
    old: &'b [&'a str],
    new: &'b [&'a str],
    /// Number of steps that are left.
    steps: usize,
    found: &'b mut F,
}

impl<'a, F: FnMut(ChangeTag, &'a str)> Comparison<'a, '_, F> {
    /// Compares a part of each text. A part that is too long is divided if `may_divide` is set.
    fn part(&mut self, old: Range<usize>, new: Range<usize>, may_divide: bool) {
        let lines = old.len() + new.len();
        if lines <= AT_ONCE
            && let Some(left) = self.steps.checked_sub(lines * lines)
        {
            self.steps = left;
            return self.compare(old, new);
        }
        let anchors = if may_divide { self.anchors(old.clone(), new.clone()) } else { Vec::new() };
        let (mut old_start, mut new_start) = (old.start, new.start);
        for (old_at, new_at) in anchors {
            self.part(old_start..old_at, new_start..new_at, false);
            (self.found)(ChangeTag::Equal, self.new[new_at]);
            (old_start, new_start) = (old_at + 1, new_at + 1);
        }
        if (old_start, new_start) == (old.start, new.start) {
            self.old[old].iter().for_each(|line| (self.found)(ChangeTag::Delete, line));
            self.new[new].iter().for_each(|line| (self.found)(ChangeTag::Insert, line));
        } else {
            self.part(old_start..old.end, new_start..new.end, false);
        }
    }

    fn compare(&mut self, old: Range<usize>, new: Range<usize>) {
        let (old, new) = (&self.old[old], &self.new[new]);
        for op in capture_diff_slices(Algorithm::Myers, old, new) {
            match op {
                DiffOp::Equal { new_index, len, .. } => {
                    new[new_index..new_index + len].iter().for_each(|line| (self.found)(ChangeTag::Equal, line));
                }
                op => {
                    old[op.old_range()].iter().for_each(|line| (self.found)(ChangeTag::Delete, line));
                    new[op.new_range()].iter().for_each(|line| (self.found)(ChangeTag::Insert, line));
                }
            }
        }
    }

    /// Returns the positions of lines that occur once in each part: the most lines that have the same order in both.
    fn anchors(&self, old: Range<usize>, new: Range<usize>) -> Vec<(usize, usize)> {
        // The position of each line in both parts. The inner `None` means that the line occurs more than once there.
        let mut places: HashMap<&str, [Option<Option<usize>>; 2]> = HashMap::new();
        for (text, lines, range) in [(0, self.old, old), (1, self.new, new.clone())] {
            for at in range {
                let place = &mut places.entry(lines[at]).or_default()[text];
                *place = Some(if place.is_none() { Some(at) } else { None });
            }
        }
        let pairs = new.filter_map(|at| match places.get(self.new[at])? {
            [Some(Some(old_at)), Some(Some(_))] => Some((*old_at, at)),
            _ => None,
        });
        longest_ascending(pairs.collect())
    }
}

/// Returns the longest subsequence of `pairs` that ascends by the first numbers. `pairs` already ascends by the second ones.
fn longest_ascending(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // For each length, the index of the pair with the smallest first number that ends a subsequence of that length.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (first, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *first);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut longest: Vec<_> =
        std::iter::successors(ends.last().copied(), |index| before[*index]).map(|index| pairs[index]).collect();
    longest.reverse();
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str) -> Vec<(ChangeTag, String)> {
        let mut changes = Vec::new();
        of(old, new, &mut |tag, line| changes.push((tag, line.to_owned())));
        changes
    }

    fn count(changes: &[(ChangeTag, String)], tag: ChangeTag) -> usize {
        changes.iter().filter(|(of, _)| *of == tag).count()
    }

    /// Asserts that both texts can be put together again from the changes.
    fn assert_true(changes: &[(ChangeTag, String)], old: &str, new: &str) {
        let text =
            |without| changes.iter().filter(|(tag, _)| *tag != without).map(|(_, line)| &**line).collect::<String>();
        assert!(text(ChangeTag::Insert) == old && text(ChangeTag::Delete) == new);
    }

    #[test]
    fn long_texts_are_divided_at_lines_that_occur_once() {
        let old: String = (0..20_000).map(|number| format!("line {number}\n\n")).collect();
        let new = old.replace("line 5\n", "five\n").replace("line 9000\n", "").replace("line 19999\n", "last\n");
        let changes = changes(&old, &new);
        assert_true(&changes, &old, &new);
        assert_eq!((count(&changes, ChangeTag::Delete), count(&changes, ChangeTag::Insert)), (3, 2));
    }

    /// Without a bound, these would take billions of steps.
    #[test]
    fn hard_texts_are_replaced() {
        let old: String = (0..60_000).map(|number| ["a\n", "b\n"][number % 2]).collect();
        let new: String = (0..60_000).map(|number| ["c\n", "a\n", "d\n"][number % 3]).collect();
        let replaced = changes(&old, &new);
        assert_true(&replaced, &old, &new);
        assert_eq!(count(&replaced, ChangeTag::Equal), 0);
        // Many parts, each within its limit: the total number of steps is bounded, too.
        let part = |letters: [&str; 2], number: usize| format!("unique {number}\n{}", letters.join("\n").repeat(900));
        let old: String = (0..40).map(|number| part(["x\n", "y\n"], number)).collect();
        let new: String = (0..40).map(|number| part(["y\n", "z\n"], number)).collect();
        assert_true(&changes(&old, &new), &old, &new);
    }

    #[test]
    fn longest_order_of_both_texts_is_kept() {
        let ascending = longest_ascending(vec![(5, 0), (1, 1), (2, 2), (9, 3), (3, 4), (4, 5)]);
        assert_eq!(ascending, [(1, 1), (2, 2), (3, 4), (4, 5)]);
        assert_eq!(longest_ascending(Vec::new()), []);
    }
}
