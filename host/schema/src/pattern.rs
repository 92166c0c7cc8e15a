//! ECMA-262 regular expressions, as `pattern` uses them: parsed, compiled to a small program, and matched by following all
//! alternatives at once. The time for one text is at most (states × characters), counted in steps, times the length of
//! the text for each level of look-around. There are no back-references, which no such bound exists for.
//!
//! - [`parse`]: from text to a tree.
//! - [`program`]: from the tree to instructions, within limits of memory.
//! - [`matcher`]: runs a program on a text.

mod matcher;
mod parse;
mod program;

pub(crate) use matcher::Scratch;

use crate::{validate::Steps, value::Exhausted};
use program::Program;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    program: Program,
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// It is over the memory that is left.
    Memory,
    /// What is wrong with it.
    Invalid(String),
}

impl PatternError {
    fn invalid(problem: impl Into<String>) -> Self {
        Self::Invalid(problem.into())
    }
}

impl Pattern {
    /// Compiles a pattern into at most `bytes` of memory.
    pub(crate) fn compile(pattern: &str, bytes: usize) -> Result<Self, PatternError> {
        let bytes = bytes.checked_sub(pattern.len()).ok_or(PatternError::Memory)?;
        let mut memory = Memory { left: bytes };
        let parsed = parse::parse(pattern, &mut memory)?;
        let program = program::compile(parsed, &mut memory)?;
        Ok(Self { text: pattern.into(), program })
    }

    /// The memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.program.bytes()
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches anywhere in `text`.
    pub(crate) fn is_match(&self, text: &str, scratch: &mut Scratch, steps: &mut Steps) -> Result<bool, Exhausted> {
        matcher::is_match(&self.program, text, scratch, steps)
    }
}

/// The memory that a pattern may still take, its tree and its program together.
struct Memory {
    left: usize,
}

impl Memory {
    fn take(&mut self, bytes: usize) -> Result<(), PatternError> {
        self.left = self.left.checked_sub(bytes).ok_or(PatternError::Memory)?;
        Ok(())
    }
}
