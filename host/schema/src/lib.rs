//! Validates the inputs of tools against their JSON Schemas.
//!
//! The crate `tools` compiles the schemas of a component when it describes it, and checks the input of each call.
//!
//! Why not a library: a schema comes from a plugin and an input from a model, so both may be hostile. Public validators
//! do not limit their work: some loop, exhaust memory or overflow the stack on schemas of a few kilobytes. This crate
//! supports the part of JSON Schema that generators write, with limits everywhere:
//!
//! - [`Schema::compile`] takes time linear in the size of the schema. It refuses unsupported keywords and schemas over
//!   [`limits`]. A schema becomes a list of nodes, and a `$ref` an index into it, so nothing is copied.
//! - [`Schema::check`] counts its steps and its depth. Its worst case is bounded, which lets it run on any thread.
//! - Patterns are ECMA-262 regular expressions. Without look-around, a match takes time linear in pattern and text.
//!
//! The dialect is draft-07 if `$schema` names it, otherwise 2020-12. `format` is an annotation. Unknown keywords are
//! ignored.

mod compile;
mod error;
mod keyword;
pub mod limits;
mod location;
mod number;
mod pattern;
mod unfold;
mod validate;
mod value;

#[cfg(test)]
mod tests;

pub use compile::PatternBudget;
pub use error::{Rejection, SchemaError};

use keyword::Node;
use pattern::Pattern;
use serde_json::Value;

/// Version of the rules by which schemas are accepted or refused. Increase it when the rules change to invalidate
/// results stored under older rules.
pub const RULES: u32 = 1;

/// A compiled schema. Node 0 is its root.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    patterns: Box<[Pattern]>,
}

impl Schema {
    /// Compiles the schema of a tool's input. `patterns` is the budget that all tools of the component share.
    ///
    /// # Errors
    /// [`SchemaError`] if the schema is invalid, uses an unsupported keyword, or is over a limit.
    pub fn compile(schema: &Value, patterns: &mut PatternBudget) -> Result<Self, SchemaError> {
        compile::compile(schema, patterns)
    }

    /// Checks an input. For a valid input and a schema without recursion and patterns it allocates no memory.
    ///
    /// # Errors
    /// [`Rejection`] with the first violation, or with the limit that the check reached.
    pub fn check(&self, input: &Value) -> Result<(), Rejection> {
        validate::check(self, input, limits::STEPS)
    }
}
