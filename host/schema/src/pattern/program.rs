//! Compiles the tree of a pattern into instructions. Counts such as `{3}` are expanded into copies, within a memory limit.

use regex_syntax::hir::ClassUnicode;

use super::{
    MemoryBudget, PatternError,
    parse::{Parsed, Tree},
};

/// Maximum number of instructions of one pattern. The time of a match is proportional to it.
const INSTRUCTIONS: usize = 20_000;
/// Maximum number of tree nodes visited to compile a pattern. Needed because repeating an empty tree creates no instructions.
const VISITS: u32 = 100_000;

pub(super) type InstructionIndex = u32;

#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    Match,
    Char(char),
    /// One character of the class with this index.
    Class(u32),
    /// Continues at both instructions.
    Split(InstructionIndex, InstructionIndex),
    Jump(InstructionIndex),
    Start,
    End,
    LineStart,
    LineEnd,
    /// A word boundary; with `true`, any position that is not one.
    Boundary(bool),
    /// Continues if the program at `body` matches from this position; with `negate`, only if it does not match.
    Look {
        body: InstructionIndex,
        behind: bool,
        negate: bool,
    },
}

/// A set of characters with a bit mask for ASCII.
#[derive(Debug)]
pub(super) struct CharSet {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl CharSet {
    fn new(class: &ClassUnicode) -> Self {
        let ranges: Box<[_]> = class.iter().map(|range| (range.start(), range.end())).collect();
        let mut set = Self { ascii: 0, ranges };
        for byte in 0..128u8 {
            if set.search(byte.into()) {
                set.ascii |= 1 << byte;
            }
        }
        set
    }

    pub(super) fn contains(&self, c: char) -> bool {
        if c.is_ascii() { self.ascii >> (c as u32) & 1 == 1 } else { self.search(c) }
    }

    fn search(&self, c: char) -> bool {
        let after = self.ranges.partition_point(|(start, _)| *start <= c);
        after.checked_sub(1).and_then(|last| self.ranges.get(last)).is_some_and(|(_, end)| c <= *end)
    }
}

#[derive(Debug)]
pub(super) struct Program {
    pub instructions: Box<[Instruction]>,
    pub sets: Box<[CharSet]>,
    /// True if it can only match at the beginning of the text.
    pub anchored: bool,
}

impl Program {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.instructions)
            + self.sets.iter().map(|set| size_of::<CharSet>() + size_of_val(&*set.ranges)).sum::<usize>()
    }
}

pub(super) fn compile(parsed: Parsed, memory: &mut MemoryBudget) -> Result<Program, PatternError> {
    let mut sets = Vec::with_capacity(parsed.classes.len());
    for class in &parsed.classes {
        memory.take(size_of::<CharSet>() + size_of_val(class.ranges()))?;
        sets.push(CharSet::new(class));
    }
    let mut builder = ProgramBuilder { instructions: Vec::new(), memory, visits: VISITS };
    builder.tree(&parsed.tree, false)?;
    builder.push(Instruction::Match)?;
    let anchored = begins_at_start(&parsed.tree);
    Ok(Program { instructions: builder.instructions.into(), sets: sets.into(), anchored })
}

fn begins_at_start(tree: &Tree) -> bool {
    match tree {
        Tree::Start => true,
        Tree::Concat(parts) => parts.first().is_some_and(begins_at_start),
        Tree::Either(options) => options.iter().all(begins_at_start),
        _ => false,
    }
}

struct ProgramBuilder<'a> {
    instructions: Vec<Instruction>,
    memory: &'a mut MemoryBudget,
    /// The number of tree nodes that may still be visited.
    visits: u32,
}

impl ProgramBuilder<'_> {
    /// Adds the instructions of a tree. `back` is true for look-behind, which reads the text backwards.
    fn tree(&mut self, tree: &Tree, back: bool) -> Result<(), PatternError> {
        self.visits = self.visits.checked_sub(1).ok_or_else(too_large)?;
        match tree {
            Tree::Empty => {}
            Tree::Char(c) => self.push(Instruction::Char(*c))?,
            Tree::Class(class) => self.push(Instruction::Class(*class))?,
            Tree::Start => self.push(Instruction::Start)?,
            Tree::End => self.push(Instruction::End)?,
            Tree::LineStart => self.push(Instruction::LineStart)?,
            Tree::LineEnd => self.push(Instruction::LineEnd)?,
            Tree::Boundary(negate) => self.push(Instruction::Boundary(*negate))?,
            Tree::Concat(parts) if back => parts.iter().rev().try_for_each(|part| self.tree(part, back))?,
            Tree::Concat(parts) => parts.iter().try_for_each(|part| self.tree(part, back))?,
            Tree::Either(options) => self.either(options, back)?,
            Tree::Repeat { tree, min, max } => self.repeat(tree, *min, *max, back)?,
            Tree::Look { tree, behind, negate } => {
                let look = self.hole()?;
                let over = self.hole()?;
                let body = self.here();
                self.tree(tree, *behind)?;
                self.push(Instruction::Match)?;
                self.fill(look, Instruction::Look { body, behind: *behind, negate: *negate });
                self.fill(over, Instruction::Jump(self.here()));
            }
        }
        Ok(())
    }

    fn either(&mut self, options: &[Tree], back: bool) -> Result<(), PatternError> {
        let mut ends = Vec::new();
        for (index, option) in options.iter().enumerate() {
            if index + 1 == options.len() {
                self.tree(option, back)?;
                break;
            }
            let split = self.hole()?;
            self.tree(option, back)?;
            ends.push(self.hole()?);
            self.fill(split, Instruction::Split(split + 1, self.here()));
        }
        for end in ends {
            self.fill(end, Instruction::Jump(self.here()));
        }
        Ok(())
    }

    fn repeat(&mut self, tree: &Tree, min: u32, max: Option<u32>, back: bool) -> Result<(), PatternError> {
        let mut last = self.here();
        for _ in 0..min {
            last = self.here();
            self.tree(tree, back)?;
        }
        let Some(max) = max else {
            if min > 0 {
                // The last copy repeats.
                let after = self.here() + 1;
                return self.push(Instruction::Split(last, after));
            }
            let split = self.hole()?;
            self.tree(tree, back)?;
            self.push(Instruction::Jump(split))?;
            self.fill(split, Instruction::Split(split + 1, self.here()));
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.hole()?);
            self.tree(tree, back)?;
        }
        for split in splits {
            self.fill(split, Instruction::Split(split + 1, self.here()));
        }
        Ok(())
    }

    /// Returns the index of the next instruction.
    fn here(&self) -> InstructionIndex {
        self.instructions.len() as InstructionIndex
    }

    /// Adds a placeholder that [`ProgramBuilder::fill`] replaces later.
    fn hole(&mut self) -> Result<InstructionIndex, PatternError> {
        let at = self.here();
        self.push(Instruction::Match)?;
        Ok(at)
    }

    fn fill(&mut self, at: InstructionIndex, instruction: Instruction) {
        if let Some(hole) = self.instructions.get_mut(at as usize) {
            *hole = instruction;
        }
    }

    fn push(&mut self, instruction: Instruction) -> Result<(), PatternError> {
        if self.instructions.len() >= INSTRUCTIONS {
            return Err(too_large());
        }
        self.memory.take(size_of::<Instruction>())?;
        self.instructions.push(instruction);
        Ok(())
    }
}

fn too_large() -> PatternError {
    PatternError::invalid(format!("its repetition counts expand it to more than {INSTRUCTIONS} states"))
}
