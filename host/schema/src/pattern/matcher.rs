//! Runs a compiled pattern on a text. It tracks the set of all possible states and never has to backtrack.

use super::program::{Instruction, InstructionIndex, Program};
use crate::{validate::Steps, value::Exhausted};

/// Buffers that are reused between matches.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Buffers for each level of nested look-around.
    levels: Vec<LookLevel>,
}

#[derive(Default)]
struct LookLevel {
    now: States,
    next: States,
    /// Instructions that remain to be followed.
    stack: Vec<InstructionIndex>,
}

/// An ordered set of states. `positions` need not be cleared, because an entry only counts if `list` confirms it.
#[derive(Default)]
struct States {
    list: Vec<InstructionIndex>,
    positions: Vec<u32>,
}

impl States {
    fn reset(&mut self, instructions: usize) {
        self.list.clear();
        if self.positions.len() < instructions {
            self.positions.resize(instructions, 0);
        }
    }

    /// Adds a state. Returns true if it is new.
    fn add(&mut self, state: InstructionIndex) -> bool {
        let Some(position) = self.positions.get_mut(state as usize) else { return false };
        if self.list.get(*position as usize) == Some(&state) {
            return false;
        }
        *position = self.list.len() as u32;
        self.list.push(state);
        true
    }
}

pub(super) fn is_match(
    program: &Program,
    text: &str,
    scratch: &mut Scratch,
    steps: &mut Steps,
) -> Result<bool, Exhausted> {
    let run = MatchRun { program, text, start: 0, offset: 0, back: false, anchored: program.anchored };
    run.run(0, scratch, steps)
}

/// One run from a position in the text, forwards or backwards.
#[derive(Clone, Copy)]
struct MatchRun<'a> {
    program: &'a Program,
    text: &'a str,
    start: InstructionIndex,
    offset: usize,
    /// True if the text is read backwards, for look-behind.
    back: bool,
    /// True if a match must begin at `offset`.
    anchored: bool,
}

impl MatchRun<'_> {
    fn run(self, level: usize, scratch: &mut Scratch, steps: &mut Steps) -> Result<bool, Exhausted> {
        let mut own = scratch.levels.get_mut(level).map(std::mem::take).unwrap_or_default();
        let instructions = self.program.instructions.len();
        // Growing the sets is not counted as steps: it happens once per check and is limited by the program's size.
        own.now.reset(instructions);
        own.next.reset(instructions);
        let result = self.advance(level, &mut own, scratch, steps);
        if scratch.levels.len() <= level {
            scratch.levels.resize_with(level + 1, LookLevel::default);
        }
        if let Some(slot) = scratch.levels.get_mut(level) {
            *slot = own;
        }
        result
    }

    fn advance(
        self,
        level: usize,
        own: &mut LookLevel,
        scratch: &mut Scratch,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        let LookLevel { now, next, stack } = own;
        let mut offset = self.offset;
        let mut first = true;
        loop {
            if (first || !self.anchored) && self.follow(self.start, offset, now, stack, level, scratch, steps)? {
                return Ok(true);
            }
            first = false;
            if now.list.is_empty() && self.anchored {
                return Ok(false);
            }
            let Some(c) = (if self.back { before(self.text, offset) } else { after(self.text, offset) }) else {
                return Ok(false);
            };
            let beyond = if self.back { offset - c.len_utf8() } else { offset + c.len_utf8() };
            steps.take(1 + now.list.len() as u64)?;
            for state in &now.list {
                let found = match self.program.instructions.get(*state as usize) {
                    Some(Instruction::Char(expected)) => c == *expected,
                    Some(Instruction::Class(set)) => {
                        self.program.sets.get(*set as usize).is_some_and(|set| set.contains(c))
                    }
                    _ => false,
                };
                if found && self.follow(state + 1, beyond, next, stack, level, scratch, steps)? {
                    return Ok(true);
                }
            }
            std::mem::swap(now, next);
            next.list.clear();
            offset = beyond;
        }
    }

    /// Adds all states that can be reached from `from` without reading a character. Returns
    /// true if one of them is a match.
    #[allow(clippy::too_many_arguments)]
    fn follow(
        self,
        from: InstructionIndex,
        offset: usize,
        states: &mut States,
        stack: &mut Vec<InstructionIndex>,
        level: usize,
        scratch: &mut Scratch,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        stack.clear();
        stack.push(from);
        while let Some(at) = stack.pop() {
            steps.take(1)?;
            if !states.add(at) {
                continue;
            }
            let passes = match self.program.instructions.get(at as usize) {
                None | Some(Instruction::Match) => return Ok(true),
                Some(Instruction::Char(_) | Instruction::Class(_)) => continue,
                Some(Instruction::Split(one, other)) => {
                    stack.extend([*other, *one]);
                    continue;
                }
                Some(Instruction::Jump(to)) => {
                    stack.push(*to);
                    continue;
                }
                Some(Instruction::Start) => offset == 0,
                Some(Instruction::End) => offset == self.text.len(),
                Some(Instruction::LineStart) => before(self.text, offset).is_none_or(is_line_end),
                Some(Instruction::LineEnd) => after(self.text, offset).is_none_or(is_line_end),
                Some(Instruction::Boundary(negate)) => {
                    let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
                    (word(before(self.text, offset)) != word(after(self.text, offset))) != *negate
                }
                Some(Instruction::Look { body, behind, negate }) => {
                    let look = MatchRun { start: *body, offset, back: *behind, anchored: true, ..self };
                    look.run(level + 1, scratch, steps)? != *negate
                }
            };
            if passes {
                stack.push(at + 1);
            }
        }
        Ok(false)
    }
}

fn after(text: &str, offset: usize) -> Option<char> {
    text.get(offset..)?.chars().next()
}

fn before(text: &str, offset: usize) -> Option<char> {
    text.get(..offset)?.chars().next_back()
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}
