//! The notes and their storage.
//!
//! There are two kinds of keys: `note/NNNNNNNNNN` is a note by number, zero-padded because keys sort as text; `last` is
//! the last number in use, in decimal.
//!
//! `add` first reserves a number: it writes `last`, which succeeds only if no other call has changed it. Then it writes
//! the note, which succeeds only if the key is free. So two calls never get the same number, no note is overwritten,
//! and no number is used twice, because `last` only grows. A call that ends between the two writes leaves a number
//! without a note, like a deleted note. A note is confirmed only after it was written.

use patchbay_sdk::{Failure, Result};

use crate::{
    page::{Caller, Page},
    store::{self, is_conflict},
};

/// Maximum number of bytes of a note. Longer texts are documents and belong in a file.
pub(crate) const MAX_NOTE: usize = 16 << 10;
/// Maximum number of bytes of a query. Each word is searched in every note.
pub(crate) const MAX_QUERY: usize = 1024;
/// The number of notes in one page.
pub(crate) const PAGE: usize = 50;
/// The most notes and bytes that one search reads. Each note takes one of the 10,000 host calls, and case folding of
/// this many bytes takes a large part of a call's time.
pub(crate) const SCAN: usize = 4_000;
pub(crate) const SCAN_BYTES: usize = 4 << 20;
/// The most attempts to reserve a number. Each failure means that another call has succeeded.
pub(crate) const TRIES: usize = 32;

const PREFIX: &str = "note/";
const LAST: &str = "last";
const DIGITS: usize = 10;
/// The largest number that fits the key.
pub(crate) const MAX_NUMBER: u64 = 9_999_999_999;
const KEYS: u32 = 200;

pub(crate) fn add(text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::invalid("a note cannot be empty; say what to keep"));
    }
    if text.len() > MAX_NOTE {
        return Err(Failure::new(
            "too-large",
            format!("a note of {} bytes is over the limit of {MAX_NOTE}; split it, or keep it in a file", text.len()),
        ));
    }
    for _ in 0..TRIES {
        let Some(number) = take_number()? else { continue };
        match store::put(&key(number), text.as_bytes(), 0) {
            Ok(_) => return Ok(format!("Note {number} added.")),
            // The key is in use although `last` is smaller, in a store edited by hand: keep the note and try the
            // next number.
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new("conflict", "the note was not added: others are adding notes at this moment; try again"))
}

/// Reserves a number; `None` if another call was faster.
fn take_number() -> Result<Option<u64>> {
    let (last, version) = match store::get(LAST)? {
        Some(entry) => (last(&entry.value)?, entry.version),
        None => (0, 0),
    };
    if last >= MAX_NUMBER {
        return Err(Failure::new("quota", format!("no number is left: the last note has {last}")));
    }
    let number = last + 1;
    match store::put(LAST, number.to_string().as_bytes(), version) {
        Ok(_) => Ok(Some(number)),
        Err(error) if is_conflict(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn list(after: Option<u64>, caller: Caller) -> Result<String> {
    let mut page = Page::default();
    walk(after, |number, text| {
        let fits = page.notes.len() < PAGE;
        match fits {
            true => page.notes.push((number, text)),
            false => page.more = true,
        }
        fits
    })?;
    Ok(page.list(after, caller))
}

pub(crate) fn search(query: &str, after: Option<u64>, caller: Caller) -> Result<String> {
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
    walk(after, |number, text| {
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

pub(crate) fn delete(number: u64) -> Result<String> {
    // A larger number would have a longer key, which is not a key of a note.
    if number <= MAX_NUMBER && store::delete(&key(number))? {
        Ok(format!("Note {number} deleted."))
    } else {
        Err(Failure::new("not-found", format!("note {number} not found")))
    }
}

/// Passes the notes after a number to `next`, in order, until it returns false.
fn walk(after: Option<u64>, mut next: impl FnMut(u64, String) -> bool) -> Result<()> {
    let mut after = after.map(|number| key(number.min(MAX_NUMBER)));
    loop {
        let keys = store::keys(PREFIX, after.as_deref(), KEYS)?;
        let Some(end) = keys.last().cloned() else { return Ok(()) };
        for key in keys {
            let Some(number) = number(&key) else { continue };
            // The note may have been deleted after its key was listed.
            let Some(entry) = store::get(&key)? else { continue };
            if !next(number, String::from_utf8_lossy(&entry.value).into_owned()) {
                return Ok(());
            }
        }
        after = Some(end);
    }
}

/// Folds the case of each character separately. `str::to_lowercase` inspects the context of each sigma: a hostile note
/// can make that slow, and `ΟΔΟΣ` would not be found in `ΟΔΟΣΗΜΑ`.
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
    // `parse` would also accept a sign.
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn last(value: &[u8]) -> Result<u64> {
    let number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| {
        let value = String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned();
        Failure::new(
            "failed",
            format!("the entry '{LAST}' of this skill's store is '{value}', not a number; fix it first"),
        )
    })
}

#[cfg(test)]
mod tests;
