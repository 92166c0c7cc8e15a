//! Validates the inputs of tools against their JSON Schemas.
//!
//! The `tools` crate compiles a component's schemas when the component declares its tools, and checks the input of each call.
//!
//! Why not a library: a schema comes from a plugin and an input from a model, so both may be hostile. Public validators
//! do not limit their work: some loop, exhaust memory or overflow the stack on schemas of a few kilobytes. This crate
//! supports the part of JSON Schema that generators write, with limits everywhere:
//!
//! - [`Schema::compile`] takes time linear in the size of the schema. It refuses unsupported keywords and schemas over
//!   [`limits`]. A schema becomes a list of nodes, and a `$ref` an index into it, so nothing is copied.
//! - [`Schema::check`] counts its steps and its depth. Its worst case is bounded, which lets it run on any thread.
//! - Patterns are ECMA-262 regular expressions. Without look-around, the time of a match is linear in the length of the text.
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

/// Version of the rules by which schemas are accepted or refused. Increase it whenever the rules change: this
/// invalidates results that were stored under older rules.
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

    /// Checks an input. While the input is valid, memory is allocated only for recursion, patterns, `uniqueItems` and
    /// `propertyNames`.
    ///
    /// # Errors
    /// [`Rejection`] with the first violation, or with the limit that the check reached.
    pub fn check(&self, input: &Value) -> Result<(), Rejection> {
        validate::check(self, input, limits::STEPS)
    }
}
