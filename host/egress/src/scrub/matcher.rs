//! Finds every spelling of a set of strings in time linear in the input, whatever the input is.
//!
//! The forms are one nondeterministic automaton whose states are bits: bit `n` of a form is set once its first `n + 1` characters
//! have been read. A character advances all states together with a shift and a mask. Because one character may be spelled by
//! several bytes, the states after each of the last [`spelling::LONGEST`] bytes are kept.

use super::forms::{Form, SEPARATORS};
use crate::spelling;

/// Limit of consecutive separators within an encoded secret: a line end and some indentation.
pub(super) const SEPARATORS_IN_A_ROW: u8 = 8;
/// Number of state sets that are kept: the current one, and one for each byte of a character's longest spelling.
const KEPT: usize = spelling::LONGEST + 1;
/// Keeps only the last 8 bits of `Search::escapes`, one for each byte of a character's longest spelling.
const ESCAPES: u8 = u8::MAX;

/// The automaton for a set of forms.
pub(super) struct Matcher {
    forms: Vec<Form>,
    /// The index of the first bit of each form.
    first_bits: Vec<usize>,
    /// Number of 64-bit words in a set of states.
    words: usize,
    /// A mask of the first bits of all forms.
    starts: Vec<u64>,
    /// A mask of the last bits of all forms.
    ends: Vec<u64>,
    /// A mask of the bits after which a separator may occur.
    breaks: Vec<u64>,
    /// The class of each ASCII character, which is the index of its mask. 0 means that it is in no form.
    classes: [u8; 128],
    /// The bits that the characters of each class can lead to, one set for each class.
    masks: Vec<u64>,
    /// The pairs of bytes that a form can begin with. Most of a body is skipped by looking for these.
    leads: Pairs,
    /// An upper bound for the length of a form in any spelling, in bytes.
    pub(super) longest: usize,
}

/// A match, in positions from the beginning of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The sets of states after the last bytes, each at its position modulo [`KEPT`].
    sets: [Vec<u64>; KEPT],
    /// Which of these sets are not empty.
    live: [bool; KEPT],
    /// How many separators in a row end at each of these positions.
    separators: [u8; KEPT],
    /// Which of the last bytes may begin an escape. The lowest bit is the last byte.
    escapes: u8,
    /// Number of bytes read so far.
    position: u64,
    /// The ranges that were found and not yet removed by the caller, in order, without overlaps.
    pub(super) found: Vec<Range>,
    /// The forms whose first match in the last range was followed back to its start.
    traced: Vec<bool>,
}

/// The bytes of the stream that are in memory, and the position of the first one.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) position: u64,
}

impl Window<'_> {
    /// Returns the `length` bytes before `end`.
    fn before(&self, end: u64, length: usize) -> Option<&[u8]> {
        let end = usize::try_from(end.checked_sub(self.position)?).ok()?;
        self.bytes.get(end.checked_sub(length)?..end)
    }
}

impl Matcher {
    pub(super) fn new(mut forms: Vec<Form>) -> Self {
        forms.sort();
        forms.dedup();
        let mut first_bits = Vec::with_capacity(forms.len());
        let mut bits = 0;
        for form in &forms {
            first_bits.push(bits);
            bits += form.text.len();
        }
        let words = bits.div_ceil(64);
        let mut matcher = Self {
            first_bits,
            words,
            starts: vec![0; words],
            ends: vec![0; words],
            breaks: vec![0; words],
            classes: [0; 128],
            masks: vec![0; words],
            leads: Pairs::default(),
            longest: 0,
            forms,
        };
        for (form, first) in matcher.forms.iter().zip(&matcher.first_bits) {
            let length = form.text.len();
            set(&mut matcher.starts, *first);
            set(&mut matcher.ends, first + length - 1);
            for (at, byte) in form.text.iter().enumerate() {
                let Some(class) = matcher.classes.get_mut(usize::from(*byte)) else { continue };
                if *class == 0 {
                    // At most 128 classes of one mask each.
                    *class = u8::try_from(matcher.masks.len() / words.max(1)).unwrap_or(0);
                    matcher.masks.resize(matcher.masks.len() + words, 0);
                }
                set(&mut matcher.masks, usize::from(*class) * words * 64 + first + at);
                if form.breaks && at + 1 < length {
                    set(&mut matcher.breaks, first + at);
                }
            }
            let between = if form.breaks { usize::from(SEPARATORS_IN_A_ROW) } else { 0 };
            matcher.longest = matcher.longest.max(length * spelling::LONGEST * (1 + between));
            let separators = if form.breaks { SEPARATORS } else { &[] };
            if let [first, second, ..] = form.text.as_slice() {
                let next: Vec<u8> = [*second].into_iter().chain(separators.iter().copied()).collect();
                spelling::leads(*first, &next).for_each(|pair| matcher.leads.insert(pair));
            }
        }
        matcher
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub(super) fn search(&self) -> Search {
        Search {
            sets: std::array::from_fn(|_| vec![0; self.words]),
            live: [false; KEPT],
            separators: [0; KEPT],
            escapes: 0,
            position: 0,
            found: Vec::new(),
            traced: vec![false; self.forms.len()],
        }
    }

    /// Reads the bytes of `window` that `search` has not read yet.
    pub(super) fn read(&self, search: &mut Search, window: Window<'_>) {
        let end = window.position + window.bytes.len() as u64;
        while search.position < end {
            // Without an escape, the next byte extends only the states after the last byte.
            if search.escapes != 0 || *at(&search.live, search.position) {
                self.step(search, window);
                continue;
            }
            // Skip bytes that cannot begin a form. It takes two bytes to decide that, so the last byte is not skipped.
            let from = usize::try_from(search.position - window.position).unwrap_or(usize::MAX);
            let rest = window.bytes.get(from..).unwrap_or_default();
            let next = rest.array_windows().position(|pair| self.leads.contains(*pair));
            let skip = next.unwrap_or(rest.len().saturating_sub(1));
            if skip > 0 {
                search.position += skip as u64;
                search.forget();
            }
            self.step(search, window);
        }
    }

    fn step(&self, search: &mut Search, window: Window<'_>) {
        let end = search.position + 1;
        search.position = end;
        let Some([byte]) = window.before(end, 1) else { return };
        search.escapes = (search.escapes << 1 | u8::from(spelling::is_escape(*byte))) & ESCAPES;
        let mut reached = Reached { set: std::mem::take(at_mut(&mut search.sets, end)), separators: 0 };
        reached.set.fill(0);
        for length in 1..=spelling::LONGEST {
            if length > 1 && search.escapes & (1 << (length - 1)) == 0 {
                continue;
            }
            let Some(bytes) = window.before(end, length) else { continue };
            for character in spelling::read(bytes).into_iter().flatten() {
                self.advance(search, end - length as u64, character, &mut reached);
            }
        }
        let live = reached.set.iter().any(|word| *word != 0);
        let ended = live && reached.set.iter().zip(&self.ends).any(|(set, ends)| set & ends != 0);
        *at_mut(&mut search.live, end) = live;
        *at_mut(&mut search.separators, end) = reached.separators;
        *at_mut(&mut search.sets, end) = reached.set;
        if ended {
            self.matched(search, window, end);
        }
    }

    /// Adds the states that `character` leads to from the states at `source`.
    fn advance(&self, search: &Search, source: u64, character: u8, reached: &mut Reached) {
        let class = usize::from(self.classes.get(usize::from(character)).copied().unwrap_or(0));
        let masks = self.masks.get(class * self.words..).unwrap_or_default();
        let separators = at(&search.separators, source) + 1;
        let separates = SEPARATORS.contains(&character) && separators <= SEPARATORS_IN_A_ROW;
        // The mask of class 0 is empty.
        if class == 0 && !separates {
            return;
        }
        let mut carry = 0;
        let bits = self.starts.iter().zip(masks).zip(&self.breaks);
        for ((set, before), ((start, mask), breaks)) in reached.set.iter_mut().zip(at(&search.sets, source)).zip(bits) {
            // The last bit of a form moves to the first bit of the next form, which is set anyway.
            *set |= (before << 1 | carry | start) & mask;
            carry = before >> 63;
            if separates {
                *set |= before & breaks;
            }
        }
        if separates {
            reached.separators = reached.separators.max(separators);
        }
    }

    /// Records the forms that end at `end`.
    fn matched(&self, search: &mut Search, window: Window<'_>, end: u64) {
        for (number, (form, first)) in self.forms.iter().zip(&self.first_bits).enumerate() {
            if !search.has(end, first + form.text.len() - 1) {
                continue;
            }
            // Each character has at least one byte.
            let latest_start = end.saturating_sub(form.text.len() as u64);
            let traced = search.traced.get(number).copied().unwrap_or(false);
            match search.found.last_mut() {
                // The match continues the range, and cannot begin before an earlier match of the same form.
                Some(last) if traced && last.end > latest_start => {
                    last.end = end;
                    continue;
                }
                _ => {}
            }
            let mut start = self.trace(form, form.text.len(), end, window);
            let mut merged = false;
            while let Some(last) = search.found.pop_if(|last| last.end > start) {
                start = start.min(last.start);
                merged = true;
            }
            if !merged {
                search.traced.fill(false);
            }
            search.found.push(Range { start, end });
            if let Some(traced) = search.traced.get_mut(number) {
                *traced = true;
            }
        }
    }

    /// Returns the earliest position at which an unfinished form may begin, or the position of `search` if there is none.
    pub(super) fn pending(&self, search: &Search, window: Window<'_>) -> u64 {
        let mut pending = search.position;
        for back in 0..spelling::LONGEST {
            let Some(bytes) = window.before(search.position, back) else { break };
            let position = search.position - back as u64;
            if back > 0 && !spelling::is_partial(bytes) {
                continue;
            }
            pending = pending.min(position);
            if !at(&search.live, position) {
                continue;
            }
            for (form, first) in self.forms.iter().zip(&self.first_bits) {
                // The state that has read the most characters began first.
                let most = (0..form.text.len() - 1).rev().find(|at| search.has(position, first + at));
                if let Some(at) = most {
                    pending = pending.min(self.trace(form, at + 1, position, window));
                }
            }
        }
        pending
    }

    /// Returns the earliest position at which the first `count` characters of `form` may begin if they end at `end`.
    fn trace(&self, form: &Form, count: usize, end: u64, window: Window<'_>) -> u64 {
        let mut places = vec![end];
        let mut next = Vec::new();
        let spelled = |place: u64, length: usize, wanted: &dyn Fn(u8) -> bool| {
            let found = spelling::read(window.before(place, length)?);
            found.into_iter().flatten().any(wanted).then(|| place - length as u64)
        };
        for (at, character) in form.text.iter().enumerate().take(count).rev() {
            if form.breaks && at + 1 < form.text.len() {
                let mut reached = 0;
                for _ in 0..SEPARATORS_IN_A_ROW {
                    let from = std::mem::replace(&mut reached, places.len());
                    for place in places.get(from..).unwrap_or_default().to_vec() {
                        for length in 1..=spelling::LONGEST {
                            let before = spelled(place, length, &|found| SEPARATORS.contains(&found));
                            places.extend(before.filter(|before| !places.contains(before)));
                        }
                    }
                    if places.len() == reached {
                        break;
                    }
                }
            }
            for place in places.drain(..) {
                for length in 1..=spelling::LONGEST {
                    let before = spelled(place, length, &|found| found == *character);
                    next.extend(before.filter(|before| !next.contains(before)));
                }
            }
            std::mem::swap(&mut places, &mut next);
        }
        // Bytes before the window were released already.
        places.into_iter().min().unwrap_or(window.position)
    }
}

impl Search {
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Prepares the search for another stream. Keeps its memory.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.escapes = 0;
        self.position = 0;
        self.found.clear();
        self.traced.fill(false);
    }

    /// Forgets the states after the last bytes, when no form can continue from them.
    fn forget(&mut self) {
        self.separators.fill(0);
        for (live, set) in self.live.iter_mut().zip(&mut self.sets) {
            if std::mem::take(live) {
                set.fill(0);
            }
        }
    }

    /// Whether `bit` is among the states at `position`.
    fn has(&self, position: u64, bit: usize) -> bool {
        at(&self.sets, position).get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0)
    }
}

struct Reached {
    set: Vec<u64>,
    separators: u8,
}

/// Returns the entry of a ring for `position`.
fn at<T>(ring: &[T; KEPT], position: u64) -> &T {
    let [first, ..] = ring;
    ring.get(slot(position)).unwrap_or(first)
}

fn at_mut<T>(ring: &mut [T; KEPT], position: u64) -> &mut T {
    // A remainder is always within the ring.
    let slot = slot(position).min(KEPT - 1);
    &mut ring[slot]
}

fn slot(position: u64) -> usize {
    usize::try_from(position % KEPT as u64).unwrap_or(0)
}

fn set(words: &mut [u64], bit: usize) {
    if let Some(word) = words.get_mut(bit / 64) {
        *word |= 1 << (bit % 64);
    }
}

/// A set of byte pairs that ignores case, with one bit for each pair.
struct Pairs(Vec<u64>);

impl Default for Pairs {
    fn default() -> Self {
        Self(vec![0; (1 << 16) / 64])
    }
}

impl Pairs {
    fn place([one, two]: [u8; 2]) -> (usize, u64) {
        let pair = u16::from_be_bytes([one.to_ascii_lowercase(), two.to_ascii_lowercase()]);
        (usize::from(pair / 64), 1 << (pair % 64))
    }

    fn insert(&mut self, pair: [u8; 2]) {
        let (word, bit) = Self::place(pair);
        if let Some(word) = self.0.get_mut(word) {
            *word |= bit;
        }
    }

    fn contains(&self, pair: [u8; 2]) -> bool {
        let (word, bit) = Self::place(pair);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{Secret, scrub::forms::forms};

    proptest! {
        /// Skipping bytes does not change the result.
        #[test]
        fn skipping_finds_as_much_as_every_step(
            parts in vec(
                prop_oneof![
                    Just("sk-te%st0%"), Just("sk-te%25st0%25"), Just("%73k-te%st"), Just("0%"), Just("sk-te"), Just("%"),
                    Just("736b2d7465257374302"), Just("736b\n2d 74:65257374302"), Just("c2stdGUlc3QwJQ"), Just("%2"),
                    Just("c2st\r\ndGUlc3\\nQwJQ"), Just("\n"), Just("\\u0073\\u006"), Just("b"), Just("&#115;k-te%"),
                    Just("st0"), Just("&"), Just("s"), Just("plain text of some length, "), Just("\\"), Just("\"}"),
                ],
                0..16,
            ),
        ) {
            let text = parts.concat();
            let secrets = ["sk-te%st0%", "sk-te%st0%sk-te%st1", "0%sk-te%s"].map(|text| Secret::new(text).unwrap());
            let matcher = Matcher::new(secrets.iter().flat_map(forms).collect());
            let window = Window { bytes: text.as_bytes(), position: 0 };
            let (mut skipping, mut stepping) = (matcher.search(), matcher.search());
            matcher.read(&mut skipping, window);
            for _ in text.bytes() {
                matcher.step(&mut stepping, window);
            }
            prop_assert_eq!(&skipping.found, &stepping.found);
            // A search can be used again.
            skipping.restart();
            matcher.read(&mut skipping, window);
            prop_assert_eq!(skipping.found, stepping.found);
        }
    }
}
