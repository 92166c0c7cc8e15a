use super::Token;

/// A set of places in a pattern, a bit each.
#[derive(Default)]
pub(crate) struct Places(Vec<u64>);

impl Places {
    /// No place, of 0 to `last`.
    pub(super) fn start(&mut self, last: usize) {
        self.0.clear();
        self.0.resize(last / 64 + 1, 0);
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(super) fn add(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    pub(super) fn contains(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word & (1 << (place % 64)) != 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn any_before(&self, end: usize) -> bool {
        self.0.iter().enumerate().any(|(index, word)| *word != 0 && index * 64 + (word.trailing_zeros() as usize) < end)
    }

    /// Every place, in ascending order.
    pub(super) fn each(&self, mut visit: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                visit(index * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// Adds what can be reached without a character. Gives what the next character will cost, in steps.
    pub(super) fn skip(&mut self, tokens: &[Token]) -> u64 {
        let mut steps = self.0.len() as u64;
        for index in 0..self.0.len() {
            let mut done = 0u64;
            // A place is reached from lower ones alone, so the lowest that is not done is never too early.
            while let Some(rest) = self.0.get(index).map(|word| word & !done).filter(|rest| *rest != 0) {
                let bit = rest.trailing_zeros() as usize;
                done |= 1 << bit;
                steps += 1;
                let place = index * 64 + bit;
                match tokens.get(place) {
                    Some(Token::Star | Token::Deep) => self.add(place + 1),
                    Some(Token::Optional) => {
                        self.add(place + 1);
                        self.add(place + 3);
                    }
                    _ => {}
                }
            }
        }
        steps
    }
}
