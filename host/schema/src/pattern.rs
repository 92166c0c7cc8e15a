//! ECMA-262 regular expressions for the keyword `pattern`: parsed, compiled to a small program, and matched without
//! backtracking.
//!
//! The time for one text is at most (states × characters) steps, times the length of the text for each level of
//! look-around. Back-references are not supported because they have no such bound.
//!
//! - [`parse`]: parses the pattern into a tree.
//! - [`program`]: compiles the tree into instructions, within a memory limit.
//! - [`matcher`]: runs a program on a text.

mod matcher;
mod parse;
mod program;

pub(crate) use matcher::Scratch;

use crate::{validate::Steps, value::Exhausted};
use program::Program;

#[derive(Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    program: Program,
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// It needs more memory than is left.
    Memory,
    /// It is invalid or unsupported, for this reason.
    Invalid(String),
}

impl PatternError {
    fn invalid(problem: impl Into<String>) -> Self {
        Self::Invalid(problem.into())
    }
}

impl Pattern {
    /// Compiles a pattern. Its tree and its program together may take at most `bytes` of memory.
    pub(crate) fn compile(pattern: &str, bytes: usize) -> Result<Self, PatternError> {
        let bytes = bytes.checked_sub(pattern.len()).ok_or(PatternError::Memory)?;
        let mut memory = MemoryBudget { left: bytes };
        let parsed = parse::parse(pattern, &mut memory)?;
        let program = program::compile(parsed, &mut memory)?;
        Ok(Self { text: pattern.into(), program })
    }

    /// Returns the memory of the compiled pattern in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.program.bytes()
    }

    /// Returns the pattern as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if the pattern matches anywhere in `text`.
    pub(crate) fn is_match(&self, text: &str, scratch: &mut Scratch, steps: &mut Steps) -> Result<bool, Exhausted> {
        matcher::is_match(&self.program, text, scratch, steps)
    }
}

/// The memory left for a pattern's tree and program, in bytes.
struct MemoryBudget {
    left: usize,
}

impl MemoryBudget {
    fn take(&mut self, bytes: usize) -> Result<(), PatternError> {
        self.left = self.left.checked_sub(bytes).ok_or(PatternError::Memory)?;
        Ok(())
    }
}
