//! A parsed expression: a list of steps for a stack machine. `parse` creates it, `eval` runs it.
//!
//! It is flat: neither running nor dropping it recurses, even for a very long sum.

use crate::{
    function::Function,
    literal::Literal,
    unit::{Measure, Seen},
};

/// The operation of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Push(Literal),
    /// Pushes the quantity 1 of this measure.
    Unit(Measure),
    Negate,
    Factorial,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    /// Calls a function with this number of arguments.
    Call(Function, usize),
}

/// An operation, and the column for its errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) column: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Units(Measure),
    Hexadecimal,
    Octal,
    Binary,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) seen: Seen,
    /// The conversion after `in`, and its column.
    pub(crate) target: Option<(Target, usize)>,
}
