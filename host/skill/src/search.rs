//! Finds the entries that match a query best: BM25 in whole numbers, so that every machine returns the same order.
//!
//! `tools` searches tools with it, `agent` skills.

use std::collections::{BTreeMap, HashMap};

/// The texts of an entry. A word of the name counts four times, a word of the arguments twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchTexts<'a> {
    /// The full name. A query that equals it finds the entry first.
    pub name: &'a str,
    /// The names of arguments, separated by blanks.
    pub arguments: &'a str,
    /// The description.
    pub description: &'a str,
}

/// The words of entries, with the entries that contain each.
#[derive(Debug, Default)]
pub struct SearchIndex {
    /// For each word: the number of an entry, and the weighted count of the word in it. Sorted by number.
    entries: HashMap<String, Vec<(u32, u32)>>,
    /// For each entry: the weighted number of its words.
    lengths: Vec<u32>,
    names: HashMap<String, u32>,
}

/// Words of one text that count. More would reward long texts.
const WORDS: usize = 64;
/// One, in the fixed-point numbers of the scores.
const ONE: u64 = 1 << 16;
/// The parameters of BM25, as usual: how soon more of a word counts less, and how much a long entry loses.
const K1: u64 = ONE * 6 / 5;
const B: u64 = ONE * 3 / 4;

impl SearchIndex {
    /// The number of this ranking, which is part of each snapshot. The same snapshot and the same query must have the same
    /// answer: a change of the ranking needs another number.
    pub(crate) const RANKING: u32 = 1;

    /// Indexes entries. Entries with the same score are found in this order.
    pub fn new<'a>(texts: impl IntoIterator<Item = SearchTexts<'a>>) -> Self {
        let mut index = Self::default();
        for (number, texts) in texts.into_iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let mut counts = BTreeMap::<String, u32>::new();
            for (text, weight) in [(texts.name, 4), (texts.arguments, 2), (texts.description, 1)] {
                for word in words(text) {
                    *counts.entry(word).or_default() += weight;
                }
            }
            index.lengths.push(counts.values().sum());
            index.names.insert(texts.name.to_owned(), number);
            for (word, count) in counts {
                index.entries.entry(word).or_default().push((number, count));
            }
        }
        index
    }

    /// Returns the numbers of all entries that contain a word of the query, the best first.
    pub fn find(&self, query: &str) -> Vec<usize> {
        let total = self.lengths.len() as u64;
        let average = (self.lengths.iter().map(|length| u64::from(*length)).sum::<u64>() / total.max(1)).max(1);
        let mut query_words: Vec<_> = words(query).collect();
        query_words.sort();
        query_words.dedup();
        let mut scores = BTreeMap::<u32, u64>::new();
        for found in query_words.iter().filter_map(|word| self.entries.get(word)) {
            let rarity = log2(ONE + (2 * (total - found.len() as u64) + 1) * ONE / (2 * found.len() as u64 + 1));
            for (number, count) in found {
                let length = self.lengths.get(*number as usize).copied().unwrap_or_default();
                let count = u64::from(*count) * ONE;
                let norm = ONE - B + B * u64::from(length) / average;
                let saturated = count * (K1 + ONE) / (count + K1 * norm / ONE);
                *scores.entry(*number).or_default() += rarity * saturated / ONE;
            }
        }
        if let Some(exact) = self.names.get(query.trim()) {
            scores.insert(*exact, u64::MAX);
        }
        let mut found: Vec<(u32, u64)> = scores.into_iter().collect();
        found.sort_by_key(|(number, score)| (std::cmp::Reverse(*score), *number));
        found.into_iter().map(|(number, _)| number as usize).collect()
    }
}

/// Returns the first words of a text: runs of letters and digits in lower case, also split before a capital letter that
/// follows a small one. A plural `s` is dropped.
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
        // The rest is in [1, 2): its square is in [1, 4).
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
