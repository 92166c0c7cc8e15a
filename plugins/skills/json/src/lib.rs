//! The skill `json`: queries JSON with JMESPath. Its input is an expression and a document, its result a JSON value.
//!
//! Neither the expression nor the document is trusted: both are limited before they are used, and so are the values
//! that an expression builds. The steps of a query:
//!
//! 1. `line` splits the user's line into an expression and a document.
//! 2. `document` parses the document within its limits.
//! 3. `expression` compiles and runs the expression. `nesting` limits its depth before it is parsed, `tree` checks the
//!    parsed tree and inserts the counters of `meter`, `functions` has the functions that replace the library's.
//!
//! Without `meter`, `tree` and `nesting`, the sandbox would stop the same hostile expressions, but would report exhausted
//! memory or an exhausted stack, which reveals nothing about the expression (measured on 2026-11-22). With these modules,
//! the error names the limit and what to do, for a component that is 4 % larger.
//!
//! `fault` converts the library's errors into messages. Not supported: changing a document in place, reading a file.
#![deny(missing_docs)]

mod document;
mod expression;
mod fault;
mod functions;
mod line;
mod meter;
mod nesting;
mod tree;

use patchbay_sdk::{Reply, Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

pub use document::Document;
use expression::Expression;

/// The input of [`query`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// JMESPath of at most 4096 bytes, such as `people[?age > `20`].name`. Strings are in single quotes, other JSON
    /// literals in backticks, names with special characters in double quotes.
    expression: String,
    /// The document itself, not a string of JSON text.
    #[schemars(with = "serde_json::Value")]
    document: Document,
}

/// The input of [`run`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// A JMESPath expression, white space, a JSON document.
    line: String,
}

skill! {
    /// Queries a JSON document with a JMESPath expression and returns JSON. Use it to pick values out of a large document,
    /// to filter, sort, count or sum lists, or to rename and regroup fields. Missing values are null, not errors.
    #[extra("read-only" = "true", "deferred" = "true")]
    fn query(input: Query) -> Result<Reply> {
        Expression::compile(&input.expression)?.search(&input.document)
    }

    /// The same for a line that a user typed. Models use `query`.
    #[extra("read-only" = "true", "deferred" = "true")]
    fn run(input: Line) -> Result<Reply> {
        let (expression, document) = line::split(&input.line)?;
        expression.search(&document)
    }
}

#[cfg(test)]
mod tests;
