//! JSON Schema of tool inputs.
//!
//! A schema comes from a plugin and an input from a model, so both may be hostile. Public validators have no limit on
//! their work: some loop, exhaust memory or overflow the stack on schemas of a few kilobytes. This crate supports the
//! part of JSON Schema that generators write and has limits everywhere:
//!
//! - [`Schema::compile`] takes time linear in the size of the schema. It refuses what it does not support, and what is
//!   over [`limits`]. A schema becomes a list of nodes; a `$ref` is an index into it, so nothing is copied.
//! - [`Schema::check`] counts its steps and its depth. Its worst case is known, so that it can run in place on any thread.
//! - Patterns are ECMA-262 regular expressions, matched in linear time for each pattern and text.
//!
//! The dialect is draft-07 if `$schema` names it, else 2020-12. `format` is an annotation. Unknown keywords are ignored.

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

/// Number of the rules by which schemas are refused. A change of the rules changes the number, so that verdicts that were
/// kept are not used again.
pub const RULES: u32 = 1;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    nodes: Box<[Node]>,
    patterns: Box<[Pattern]>,
}

impl Schema {
    /// Compiles the schema of a tool's input. `patterns` is what the other tools of the component left for patterns.
    ///
    /// # Errors
    /// [`SchemaError`] if the schema is invalid, uses a keyword that is not supported, or is over a limit.
    pub fn compile(schema: &Value, patterns: &mut PatternBudget) -> Result<Self, SchemaError> {
        compile::compile(schema, patterns)
    }

    /// Checks an input. Allocates nothing for an input that is valid under a schema without recursion and patterns.
    ///
    /// # Errors
    /// [`Rejection`], with the first violation, or with the limit that the check reached.
    pub fn check(&self, input: &Value) -> Result<(), Rejection> {
        validate::check(self, input, limits::STEPS)
    }
}
