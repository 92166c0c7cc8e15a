//! The set of pattern positions that the matcher has reached.

use super::token::Token;

/// A set of positions in a pattern, one bit per position.
#[derive(Default)]
pub(crate) struct StateSet(Vec<u64>);

impl StateSet {
    /// Makes the set empty, with room for the positions 0 to `last`.
    pub(super) fn start(&mut self, last: usize) {
        self.0.clear();
        self.0.resize(last / 64 + 1, 0);
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(super) fn add(&mut self, state: usize) {
        if let Some(word) = self.0.get_mut(state / 64) {
            *word |= 1 << (state % 64);
        }
    }

    pub(super) fn contains(&self, state: usize) -> bool {
        self.0.get(state / 64).is_some_and(|word| word & (1 << (state % 64)) != 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn any_before(&self, end: usize) -> bool {
        self.0.iter().enumerate().any(|(index, word)| *word != 0 && index * 64 + (word.trailing_zeros() as usize) < end)
    }

    /// Calls `visit` for every position, in ascending order.
    pub(super) fn each(&self, mut visit: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                visit(index * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }

    /// Adds the positions that can be reached without a character. Returns the cost of the next character in steps.
    pub(super) fn skip(&mut self, tokens: &[Token]) -> u64 {
        let mut steps = self.0.len() as u64;
        for index in 0..self.0.len() {
            let mut done = 0u64;
            // A position is only reached from lower positions, so it is correct to handle the lowest one first.
            while let Some(rest) = self.0.get(index).map(|word| word & !done).filter(|rest| *rest != 0) {
                let bit = rest.trailing_zeros() as usize;
                done |= 1 << bit;
                steps += 1;
                let state = index * 64 + bit;
                match tokens.get(state) {
                    Some(Token::Star | Token::Deep) => self.add(state + 1),
                    Some(Token::Optional) => {
                        self.add(state + 1);
                        self.add(state + 3);
                    }
                    _ => {}
                }
            }
        }
        steps
    }
}
