//! The notes, and how they are kept.
//!
//! Two kinds of entries: `note/NNNNNNNNNN` is a note under its number, zero-padded so that the order of keys is the
//! order of numbers; `last` is the last number that was taken, in decimal.
//!
//! `add` first takes a number (a write of `last` that succeeds only if nobody else took one since it was read), then
//! writes the note (which succeeds only if there is none). So no two calls get the same number, no note is ever written
//! over, and no number is given twice, since `last` only grows. A call that ends between the two writes leaves a number
//! without a note, which is what a deleted note leaves as well. A note is acknowledged only after it was written.

use patchbay_sdk::{Failure, Result};

use crate::{
    page::{Caller, Page},
    store::{Store, is_conflict},
};

/// Bytes of a note. Pages of text; what is longer is a document, and belongs into a file.
pub(crate) const MAX_NOTE: usize = 16 << 10;
/// Bytes of a search: each word costs a look at every note.
pub(crate) const MAX_QUERY: usize = 1024;
/// Notes of one page: what a person or a model takes in at once.
pub(crate) const PAGE: usize = 50;
/// Notes that one search reads, and the bytes of them: each is a call to the host, of which a call has 10,000, and
/// folding the case of this many bytes takes a fair part of its time.
pub(crate) const SCAN: usize = 4_000;
pub(crate) const SCAN_BYTES: usize = 4 << 20;
/// Tries to take a number. Each that fails means that somebody else took one, so that calls as a whole get on.
pub(crate) const TRIES: usize = 32;

const PREFIX: &str = "note/";
const LAST: &str = "last";
const DIGITS: usize = 10;
/// The greatest number that fits its digits.
pub(crate) const MAX_NUMBER: u64 = 9_999_999_999;
/// Keys that are asked for at a time.
const KEYS: u32 = 200;

/// The notes in a store.
pub(crate) struct Notes<S> {
    store: S,
}

impl<S: Store> Notes<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store }
    }

    pub(crate) fn add(&mut self, text: &str) -> Result<String> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Failure::invalid("a note cannot be empty; say what to keep"));
        }
        if text.len() > MAX_NOTE {
            return Err(Failure::new(
                "too-large",
                format!(
                    "a note of {} bytes is over the limit of {MAX_NOTE}; split it, or keep it in a file",
                    text.len()
                ),
            ));
        }
        for _ in 0..TRIES {
            let Some(number) = self.take_number()? else { continue };
            match self.store.put(&key(number), text.as_bytes(), 0) {
                Ok(_) => return Ok(format!("Note {number} added.")),
                // A note that `last` does not know of, from a store put together by hand: it stays, the next is tried.
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Failure::new("conflict", "the note was not added: others are adding notes at this moment; try again"))
    }

    /// A number that nobody else has or gets; none if somebody else was faster.
    fn take_number(&mut self) -> Result<Option<u64>> {
        let (last, version) = match self.store.get(LAST)? {
            Some(entry) => (last(&entry.value)?, entry.version),
            None => (0, 0),
        };
        if last >= MAX_NUMBER {
            return Err(Failure::new("quota", format!("no number is left: the last note has {last}")));
        }
        let number = last + 1;
        match self.store.put(LAST, number.to_string().as_bytes(), version) {
            Ok(_) => Ok(Some(number)),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn list(&mut self, after: Option<u64>, caller: Caller) -> Result<String> {
        let mut page = Page::default();
        self.walk(after, |number, text| {
            let fits = page.notes.len() < PAGE;
            match fits {
                true => page.notes.push((number, text)),
                false => page.more = true,
            }
            fits
        })?;
        Ok(page.list(after, caller))
    }

    pub(crate) fn search(&mut self, query: &str, after: Option<u64>, caller: Caller) -> Result<String> {
        let query = query.trim();
        if query.len() > MAX_QUERY {
            return Err(Failure::new(
                "too-large",
                format!("a search of {} bytes is over the limit of {MAX_QUERY}; use fewer words", query.len()),
            ));
        }
        let words: Vec<String> = query.split_whitespace().map(folded).collect();
        if words.is_empty() {
            return Err(Failure::invalid("a search needs at least one word; to see all notes, list them"));
        }
        let mut page = Page::default();
        let (mut read, mut bytes) = (0, 0);
        self.walk(after, |number, text| {
            if page.notes.len() == PAGE || read == SCAN || bytes > SCAN_BYTES {
                page.more = true;
                return false;
            }
            read += 1;
            bytes += text.len();
            page.searched = number;
            let folded = folded(&text);
            if words.iter().all(|word| folded.contains(word)) {
                page.notes.push((number, text));
            }
            true
        })?;
        Ok(page.matches(query, caller))
    }

    pub(crate) fn delete(&mut self, number: u64) -> Result<String> {
        // A greater number has a longer key, which could not be a note's.
        if number <= MAX_NUMBER && self.store.delete(&key(number))? {
            Ok(format!("Note {number} deleted."))
        } else {
            Err(Failure::new("not-found", format!("note {number} not found")))
        }
    }

    /// Gives the notes after a number, in order, until `next` says stop.
    fn walk(&mut self, after: Option<u64>, mut next: impl FnMut(u64, String) -> bool) -> Result<()> {
        let mut after = after.map(|number| key(number.min(MAX_NUMBER)));
        loop {
            let keys = self.store.keys(PREFIX, after.as_deref(), KEYS)?;
            let Some(end) = keys.last().cloned() else { return Ok(()) };
            for key in keys {
                let Some(number) = number(&key) else { continue };
                // A note may be deleted while it is on its way.
                let Some(entry) = self.store.get(&key)? else { continue };
                if !next(number, String::from_utf8_lossy(&entry.value).into_owned()) {
                    return Ok(());
                }
            }
            after = Some(end);
        }
    }
}

/// Text without its case, letter by letter: `str::to_lowercase` looks around at every final sigma, which a hostile note
/// can make slow, and by which `ΟΔΟΣ` would not be found in `ΟΔΟΣΗΜΑ`.
fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let folded = text.chars().flat_map(char::to_lowercase);
    folded.map(|char| if char == 'ς' { 'σ' } else { char }).collect()
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:0DIGITS$}")
}

fn number(key: &str) -> Option<u64> {
    let digits = key.strip_prefix(PREFIX)?;
    // `parse` takes a sign as well.
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn last(value: &[u8]) -> Result<u64> {
    let number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| {
        let value = String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned();
        Failure::new(
            "failed",
            format!("the entry '{LAST}' of this skill's store is '{value}', not a number; mend it first"),
        )
    })
}

#[cfg(test)]
mod tests;
