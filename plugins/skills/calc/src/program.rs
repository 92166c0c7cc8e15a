//! What the parser makes and the machine runs: a list of steps for a stack.
//!
//! It is flat, in the order of a stack machine, so that neither running nor dropping it recurses, however long a sum
//! is.

use crate::{
    function::Function,
    literal::Literal,
    unit::{Measure, Seen},
};

/// What to do next with the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Push(Literal),
    /// Pushes one of this.
    Unit(Measure),
    Negate,
    Factorial,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    /// Takes that many arguments.
    Call(Function, usize),
}

/// An operation and the column to name when it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) column: usize,
}

/// How the answer is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Units(Measure),
    Hexadecimal,
    Octal,
    Binary,
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) seen: Seen,
    /// What stands after `in`, and its column.
    pub(crate) target: Option<(Target, usize)>,
}
