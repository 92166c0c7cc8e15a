//! Removes secrets from responses, errors and logs.
//!
//! - `forms`: the encodings of a secret that are searched for.
//! - `matcher`: finds every spelling of a form in linear time.

mod forms;
mod matcher;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::matcher::{Matcher, Range, Search, Window};
use crate::{Secret, spelling};

const PLACEHOLDER: &[u8] = b"[secret]";

/// Removes secrets from bytes: verbatim, in any letter case, percent-encoded (once or twice), escaped for JSON or HTML, in base64
/// and in hexadecimal (both also broken into lines or groups), and in any mixture of these.
///
/// Takes time linear in the number of bytes, whatever their content. Scrubbing removes echoes. It cannot prevent a
/// server that received a secret from returning it in another encoding, so the operator decides which servers receive a
/// secret.
#[derive(Clone)]
pub struct Scrub(Arc<ScrubParts>);

struct ScrubParts {
    secrets: Vec<Secret>,
    matcher: Matcher,
}

impl Scrub {
    /// Returns a scrub that removes these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut own: Vec<Secret> = Vec::new();
        for secret in secrets {
            if !own.iter().any(|there| there.is(secret)) {
                own.push(secret.clone());
            }
        }
        let matcher = Matcher::new(own.iter().flat_map(forms::forms).collect());
        Self(Arc::new(ScrubParts { secrets: own, matcher }))
    }

    /// Returns a scrub that also removes `secrets`, which is a clone of this one if it removes them already.
    #[must_use]
    pub fn and<'a>(&self, secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let new: Vec<&Secret> = secrets.into_iter().filter(|secret| !self.removes(secret)).collect();
        if new.is_empty() {
            return self.clone();
        }
        Self::new(self.0.secrets.iter().chain(new))
    }

    /// Whether `secret` is one of the secrets.
    fn removes(&self, secret: &Secret) -> bool {
        self.0.secrets.iter().any(|there| there.is(secret))
    }

    /// Whether `secrets` are exactly the secrets that this scrub removes.
    pub(crate) fn is_of(&self, secrets: &[Secret]) -> bool {
        secrets.iter().all(|secret| self.removes(secret))
            && self.0.secrets.iter().all(|own| secrets.iter().any(|secret| own.is(secret)))
    }

    /// Whether there is nothing to remove.
    pub fn is_empty(&self) -> bool {
        self.0.matcher.is_empty()
    }

    /// Whether both were made by the same call of [`Scrub::new`], and therefore remove the same secrets.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether one of `texts` contains a secret. Cheaper than removing it.
    pub fn is_in_any<'t>(&self, texts: impl IntoIterator<Item = &'t [u8]>) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut search = self.0.matcher.search();
        texts.into_iter().any(|bytes| {
            search.restart();
            self.0.matcher.read(&mut search, Window { bytes, position: 0 });
            !search.found.is_empty()
        })
    }

    /// Returns `bytes` without the secrets.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        if self.is_empty() {
            return bytes.to_vec();
        }
        let mut scrubber = self.stream();
        let mut clean = scrubber.push(bytes);
        clean.extend(scrubber.finish());
        clean
    }

    /// Returns `text` without the secrets.
    pub fn text(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Returns `text` without the secrets. Nothing is copied if there is nothing to remove.
    pub fn clean(&self, text: String) -> String {
        if self.is_empty() { text } else { self.text(&text) }
    }

    /// Returns a scrubber for bytes that arrive in pieces. It withholds only bytes that may begin a secret,
    /// because users want to see text early.
    pub fn stream(&self) -> Scrubber {
        Scrubber::new(self.clone(), None)
    }

    /// Returns a scrubber for plugins, which must learn nothing from the withheld bytes. It withholds all bytes since
    /// the last one that cannot be in a secret, such as a line end after `}`.
    pub fn blind_stream(&self) -> Scrubber {
        Scrubber::new(self.clone(), Some(Run::default()))
    }
}

impl Default for Scrub {
    /// A scrubber without secrets removes nothing.
    fn default() -> Self {
        Self::new([])
    }
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrub([secret])")
    }
}

/// Applies a [`Scrub`] to bytes that arrive in pieces. However the bytes are split, the output is the same as from
/// [`Scrub::bytes`].
pub struct Scrubber {
    scrub: Scrub,
    search: Search,
    /// The bytes that are not released yet, and always the last `spelling::LONGEST` bytes.
    bytes: Vec<u8>,
    /// The position of the first of `bytes` in the stream.
    position: u64,
    /// The position of the first byte that is not released.
    released: u64,
    /// For [`Scrub::blind_stream`]: where the bytes that may be in a secret begin, judged without looking at the
    /// secrets.
    run: Option<Run>,
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrubber([secret])")
    }
}

impl Scrubber {
    fn new(scrub: Scrub, run: Option<Run>) -> Self {
        let search = scrub.0.matcher.search();
        Self { scrub, search, bytes: Vec::new(), position: 0, released: 0, run }
    }

    /// Accepts the next piece and returns the bytes that can be released now, possibly none.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.scrub.is_empty() {
            return piece.to_vec();
        }
        self.bytes.extend_from_slice(piece);
        let window = Window { bytes: &self.bytes, position: self.position };
        let matcher = &self.scrub.0.matcher;
        matcher.read(&mut self.search, window);
        let mut until = matcher.pending(&self.search, window);
        if let Some(run) = &mut self.run {
            run.read(piece);
            until = until.min(run.start.max(self.search.position().saturating_sub(matcher.longest as u64)));
        }
        // A range that may still grow is withheld as a whole.
        if let Some(open) = self.search.found.iter().find(|range| range.end > until) {
            until = until.min(open.start);
        }
        self.release(until)
    }

    /// Ends the stream and returns the remaining bytes.
    pub fn finish(&mut self) -> Vec<u8> {
        self.release(self.search.position())
    }

    /// Releases the bytes before the position `until`, which must not be inside a range.
    fn release(&mut self, until: u64) -> Vec<u8> {
        let (position, bytes) = (self.position, &self.bytes);
        let between = |from: u64, to: u64| {
            let index = |at: u64| usize::try_from(at.saturating_sub(position)).unwrap_or(usize::MAX);
            bytes.get(index(from)..index(to)).unwrap_or_default()
        };
        let mut clean = Vec::new();
        let done = self.search.found.partition_point(|range| range.end <= until);
        for Range { start, end } in self.search.found.drain(..done) {
            clean.extend_from_slice(between(self.released, start));
            clean.extend_from_slice(PLACEHOLDER);
            self.released = end;
        }
        clean.extend_from_slice(between(self.released, until));
        self.released = self.released.max(until);
        let kept = self.search.position().saturating_sub(spelling::LONGEST as u64).min(self.released);
        let gone = usize::try_from(kept.saturating_sub(self.position)).unwrap_or(0);
        if gone > 0 {
            self.bytes.drain(..gone.min(self.bytes.len()));
            self.position = kept;
        }
        clean
    }
}

/// The last bytes of a stream that may be within a secret, judged by character class, without looking at the secrets.
#[derive(Debug, Default)]
struct Run {
    /// The position of the first such byte.
    start: u64,
    /// Number of bytes read so far.
    position: u64,
    /// Number of consecutive line ends and tabs at the end.
    separators: u8,
    /// Whether the character before these separators can end a line of base64 or hexadecimal, in any spelling.
    after_code: bool,
}

impl Run {
    fn read(&mut self, piece: &[u8]) {
        for byte in piece {
            self.position += 1;
            match byte {
                b' ' | b':' => {}
                b' '..=b'~' => {
                    self.separators = 0;
                    self.after_code = byte.is_ascii_alphanumeric() || b"+/_-;".contains(byte);
                }
                b'\n' | b'\r' | b'\t' if self.after_code && self.separators < matcher::SEPARATORS_IN_A_ROW => {
                    self.separators += 1;
                }
                _ => {
                    self.start = self.position;
                    self.after_code = false;
                }
            }
        }
    }
}
