//! From a tree to instructions. Counts become copies, so that the memory is known before it is used.

use regex_syntax::hir::ClassUnicode;

use super::{
    Memory, PatternError,
    parse::{Parsed, Tree},
};

/// Instructions of one pattern; the time to match is a multiple of it.
const INSTRUCTIONS: usize = 20_000;
/// Nodes of the tree that are visited to make them: a count of something empty makes none.
const VISITS: u32 = 100_000;

/// Index of an instruction.
pub(super) type At = u32;

#[derive(Clone, Copy, Debug)]
pub(super) enum Instruction {
    Match,
    Char(char),
    /// A character of a class.
    Class(u32),
    /// Both.
    Split(At, At),
    Jump(At),
    Start,
    End,
    LineStart,
    LineEnd,
    Boundary(bool),
    /// Whether the program at `body` matches from here.
    Look {
        body: At,
        behind: bool,
        negate: bool,
    },
}

/// A set of characters, quick for those of ASCII.
#[derive(Debug)]
pub(super) struct Set {
    ascii: u128,
    ranges: Box<[(char, char)]>,
}

impl Set {
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
    pub sets: Box<[Set]>,
    /// Whether it can match at the beginning of the text only.
    pub anchored: bool,
}

impl Program {
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.instructions)
            + self.sets.iter().map(|set| size_of::<Set>() + size_of_val(&*set.ranges)).sum::<usize>()
    }
}

pub(super) fn compile(parsed: Parsed, memory: &mut Memory) -> Result<Program, PatternError> {
    let mut sets = Vec::with_capacity(parsed.classes.len());
    for class in &parsed.classes {
        memory.take(size_of::<Set>() + size_of_val(class.ranges()))?;
        sets.push(Set::new(class));
    }
    let mut compiler = Compiler { instructions: Vec::new(), memory, visits: VISITS };
    compiler.tree(&parsed.tree, false)?;
    compiler.push(Instruction::Match)?;
    let anchored = begins_at_start(&parsed.tree);
    Ok(Program { instructions: compiler.instructions.into(), sets: sets.into(), anchored })
}

fn begins_at_start(tree: &Tree) -> bool {
    match tree {
        Tree::Start => true,
        Tree::Concat(parts) => parts.first().is_some_and(begins_at_start),
        Tree::Either(options) => options.iter().all(begins_at_start),
        _ => false,
    }
}

struct Compiler<'a> {
    instructions: Vec<Instruction>,
    memory: &'a mut Memory,
    visits: u32,
}

impl Compiler<'_> {
    /// Adds the instructions of a tree. `back`: for a text that is read backwards, as look-behind does.
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
                // The last copy is the one that repeats.
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

    fn here(&self) -> At {
        self.instructions.len() as At
    }

    /// An instruction that is filled in later.
    fn hole(&mut self) -> Result<At, PatternError> {
        let at = self.here();
        self.push(Instruction::Match)?;
        Ok(at)
    }

    fn fill(&mut self, at: At, instruction: Instruction) {
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
    PatternError::invalid(format!("its counts make it larger than {INSTRUCTIONS} states"))
}
