//! Finds the entries that best match a query, using BM25 in integer arithmetic, which returns the same order on every machine.
//!
//! The crate `tools` uses it to search tools, and the crate `agent` to search skills.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap},
};

/// The texts of an entry. Words in the name count four times, words in the arguments twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchTexts<'a> {
    /// The full name. If the query is equal to it, the entry comes first.
    pub name: &'a str,
    /// The names of arguments, separated by blanks.
    pub arguments: &'a str,
    /// The description to search in.
    pub description: &'a str,
}

/// An index from words to the entries that contain them.
#[derive(Debug, Default)]
pub struct SearchIndex {
    /// For each word: the number of an entry, and the score of the word in it. Sorted by number.
    entries: HashMap<String, Vec<(u32, u32)>>,
    count: usize,
    names: HashMap<String, u32>,
}

/// The numbers of the entries that match a query, best first. They are sorted lazily, because callers often need only the first
/// few.
#[derive(Debug)]
pub struct SearchMatches {
    best: BinaryHeap<(u64, Reverse<usize>)>,
    steps: u64,
}

impl SearchMatches {
    /// Returns the work of the search, in steps of about equal time: the number of all entries, and for each word of the query the
    /// number of entries that contain it. It depends only on the entries and the query.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl Iterator for SearchMatches {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.best.pop().map(|(_, Reverse(number))| number)
    }
}

/// Maximum number of words of one text that count. A higher limit would reward long texts.
const WORDS: usize = 64;
/// The number one in the fixed-point format of scores.
const ONE: u64 = 1 << 16;
/// The parameters of BM25, with their usual values: how quickly repeated words count less, and how much long entries are penalized.
const K1: u64 = ONE * 6 / 5;
const B: u64 = ONE * 3 / 4;

impl SearchIndex {
    /// The number of this ranking, which is part of each snapshot. The same snapshot and query must always return the same results,
    /// so any change of the ranking needs a new number.
    pub(crate) const RANKING: u32 = 1;

    /// Indexes entries. Entries with the same score are returned in this order.
    pub fn new<'a>(texts: impl IntoIterator<Item = SearchTexts<'a>>) -> Self {
        let mut index = Self::default();
        // The weighted number of words in each entry.
        let mut lengths = Vec::new();
        for (number, texts) in texts.into_iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let mut counts = BTreeMap::<String, u32>::new();
            for (text, weight) in [(texts.name, 4), (texts.arguments, 2), (texts.description, 1)] {
                for word in words(text) {
                    *counts.entry(word).or_default() += weight;
                }
            }
            lengths.push(counts.values().copied().map(u64::from).sum::<u64>());
            index.names.insert(texts.name.to_owned(), number);
            for (word, count) in counts {
                index.entries.entry(word).or_default().push((number, count));
            }
        }
        index.count = lengths.len();
        let average = (lengths.iter().sum::<u64>() / (lengths.len() as u64).max(1)).max(1);
        for (number, count) in index.entries.values_mut().flatten() {
            let length = lengths.get(*number as usize).copied().unwrap_or_default();
            *count = saturated(*count, length, average);
        }
        index
    }

    /// Returns the numbers of all entries that contain a word of the query, best first.
    pub fn find(&self, query: &str) -> Vec<usize> {
        self.matches(query).collect()
    }

    /// Like [`SearchIndex::find`], for callers that need only the first matches.
    pub fn matches(&self, query: &str) -> SearchMatches {
        let total = self.count as u64;
        let mut query_words: Vec<_> = words(query).collect();
        query_words.sort();
        query_words.dedup();
        let mut scores = vec![None::<u64>; self.count];
        let mut steps = total;
        for found in query_words.iter().filter_map(|word| self.entries.get(word)) {
            let rarity = log2(ONE + (2 * (total - found.len() as u64) + 1) * ONE / (2 * found.len() as u64 + 1));
            steps += found.len() as u64;
            for (number, saturated) in found {
                if let Some(score) = scores.get_mut(*number as usize) {
                    *score.get_or_insert(0) += rarity * u64::from(*saturated) / ONE;
                }
            }
        }
        if let Some(score) = self.names.get(query.trim()).and_then(|exact| scores.get_mut(*exact as usize)) {
            *score = Some(u64::MAX);
        }
        let scored = scores.into_iter().enumerate();
        let scored: Vec<_> = scored.filter_map(|(number, score)| Some((score?, Reverse(number)))).collect();
        SearchMatches { best: BinaryHeap::from(scored), steps }
    }
}

/// Returns the score of a word in an entry, not yet multiplied by the word's rarity. `count` is the word's weighted count, and
/// `length` the entry's weighted number of words.
fn saturated(count: u32, length: u64, average: u64) -> u32 {
    let count = u64::from(count) * ONE;
    let norm = ONE - B + B * length / average;
    // Always below `K1 + ONE`.
    u32::try_from(count * (K1 + ONE) / (count + K1 * norm / ONE)).unwrap_or(u32::MAX)
}

/// Returns the first words of a text, in lower case: runs of letters and digits, also split where an upper-case letter follows a
/// lower-case one. A plural `s` is dropped.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (after_small && c.is_uppercase()) {
            words.push(std::mem::take(&mut word));
            if words.len() > 4 * WORDS {
                break;
            }
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        after_small = c.is_lowercase();
    }
    words.push(word);
    words.into_iter().filter(|word| !word.is_empty()).map(singular).take(WORDS)
}

fn singular(mut word: String) -> String {
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    word
}

/// Returns the binary logarithm of a fixed-point number of at least one.
fn log2(value: u64) -> u64 {
    let whole = value.ilog2() - ONE.ilog2();
    let mut rest = value >> whole;
    let mut log = u64::from(whole) * ONE;
    for bit in (0..ONE.ilog2()).rev() {
        // The rest is in [1, 2), so its square is in [1, 4).
        rest = rest * rest / ONE;
        if rest >= 2 * ONE {
            rest /= 2;
            log += 1 << bit;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[(&'static str, &'static str, &'static str)]) -> SearchIndex {
        let texts = texts.iter().map(|(name, arguments, description)| SearchTexts { name, arguments, description });
        SearchIndex::new(texts)
    }

    #[test]
    fn name_counts_more_than_arguments_and_description() {
        let index = index(&[
            ("a__b", "path", "Mails are sent elsewhere"),
            ("c__d", "mail path", "Sends a text"),
            ("mail__send", "text", "Sends a text"),
            ("e__f", "x", "Nothing of it"),
        ]);
        assert_eq!(index.find("mail"), [2, 1, 0]);
        assert_eq!(index.find("sendMails"), [2, 1, 0]);
        assert_eq!(index.find("rust"), [0_usize; 0]);
        assert_eq!(index.find(""), [0_usize; 0]);
    }

    #[test]
    fn rare_words_count_more_and_equal_scores_keep_the_order() {
        let index = index(&[("b__x", "", "read file"), ("a__x", "", "read file"), ("c__x", "", "read page")]);
        assert_eq!(index.find("read page"), [2, 0, 1]);
        assert_eq!(index.find("files"), [0, 1]);
    }

    #[test]
    fn exact_name_is_first() {
        let index = index(&[("files__read", "", "files read files read"), ("x__y", "", "")]);
        assert_eq!(index.find("x__y"), [1]);
        assert_eq!(index.find("read x__y"), [1, 0]);
    }

    /// Scores and sorts every entry by the ranking's formula. The order must not change for the same `RANKING`.
    fn order_by_formula(texts: &[(String, String)], query: &str) -> Vec<usize> {
        let weighted = |(name, description): &(String, String)| {
            let mut counts = BTreeMap::<String, u64>::new();
            for (text, weight) in [(name, 4), (description, 1)] {
                words(text).for_each(|word| *counts.entry(word).or_default() += weight);
            }
            counts
        };
        let counts: Vec<_> = texts.iter().map(weighted).collect();
        let lengths: Vec<u64> = counts.iter().map(|counts| counts.values().sum()).collect();
        let (total, average) = (texts.len() as u64, lengths.iter().sum::<u64>() / texts.len() as u64);
        let mut found = Vec::new();
        for (number, counts_here) in counts.iter().enumerate() {
            let mut score = None;
            for word in words(query).collect::<std::collections::BTreeSet<_>>() {
                let Some(count) = counts_here.get(&word) else { continue };
                let with = counts.iter().filter(|counts| counts.contains_key(&word)).count() as u64;
                let rarity = log2(ONE + (2 * (total - with) + 1) * ONE / (2 * with + 1));
                let norm = ONE - B + B * lengths[number] / average;
                let saturated = count * ONE * (K1 + ONE) / (count * ONE + K1 * norm / ONE);
                *score.get_or_insert(0) += rarity * saturated / ONE;
            }
            if texts[number].0 == query {
                score = Some(u64::MAX);
            }
            found.extend(score.map(|score| (Reverse(score), number)));
        }
        found.sort_unstable();
        found.into_iter().map(|(_, number)| number).collect()
    }

    #[test]
    fn order_is_that_of_the_formula() {
        const NAMES: [&str; 7] = ["read", "write", "mail", "page", "calendar", "unit", "every"];
        let word = |n: usize| NAMES[n % NAMES.len()];
        // `common` is in every entry, so its score is close to 0.
        let text = |n: usize| {
            let description = format!("common {} ", word(n * n)).repeat(n % 5 + 1) + word(n / 3);
            (format!("{}__{}_{n}", word(n / 7), word(n)), description)
        };
        let texts: Vec<_> = (0..400).map(text).collect();
        let entries = texts.iter().map(|(name, description)| SearchTexts { name, arguments: "", description });
        let index = SearchIndex::new(entries);
        for query in ["read", "common", "mail a page, then another page", "unit__mail_37", "every unit 12", "nothing"] {
            let expected = order_by_formula(&texts, query);
            assert_eq!(index.find(query), expected, "{query}");
            assert!(index.matches(query).take(8).eq(expected.into_iter().take(8)), "{query}");
        }
    }

    #[test]
    fn steps_count_entries_and_matches() {
        let index = index(&[("a__x", "", "read file"), ("b__x", "", "read page"), ("c__x", "", "send mail")]);
        for (query, steps) in [("nothing", 3), ("read", 5), ("read read a page", 7), ("", 3)] {
            assert_eq!(index.matches(query).steps(), steps, "{query}");
        }
    }

    #[test]
    fn long_texts_count_with_their_first_words() {
        let text = format!("{} needle", "word ".repeat(WORDS));
        let texts = [SearchTexts { name: "a", description: &text, ..SearchTexts::default() }];
        assert_eq!(SearchIndex::new(texts).find("needle"), [0_usize; 0]);
        assert_eq!(SearchIndex::new(texts).find("word"), [0]);
    }

    #[test]
    fn logarithm_is_exact_to_four_digits() {
        for value in [1.0, 1.5, 2.0, 3.0, 10.0, 12_345.678_f64] {
            let fixed = log2((value * ONE as f64) as u64) as f64 / ONE as f64;
            assert!((fixed - value.log2()).abs() < 1e-4, "{value}: {fixed}");
        }
    }
}
