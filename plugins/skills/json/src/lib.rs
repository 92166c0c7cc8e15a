//! Queries JSON with JMESPath: an expression and a document in, a JSON value out.
//!
//! The expression and the document both come from somebody who may mean harm, so that each is bounded before it is
//! worked on, and so is what an expression builds on its way. The way of a query:
//!
//! * `line` splits a person's line into an expression and a document,
//! * `document` reads the document, within its limits,
//! * `expression` compiles the expression and runs it; `nesting` bounds it before it is parsed, `tree` checks what was
//!   parsed and puts the meters of `meter` into it,
//! * `functions` holds the functions that are not the library's own,
//! * `fault` puts the library's errors into words.
//!
//! Not here: changing a document in place, reading one from a file.
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
    /// A JMESPath expression of at most 4096 bytes, such as `people[?age > `20`].name`. String literals stand in
    /// single quotes, numbers and other JSON literals in backticks, names with special characters in double quotes.
    expression: String,
    /// The JSON document to query: the value itself, not a string that holds JSON text.
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
    /// Queries, filters and reshapes a JSON document with a JMESPath expression and answers with the JSON result.
    /// Use it to pick values out of a large document, to filter, sort, count or sum lists, or to rename and regroup
    /// fields. What the document does not have gives null, not an error. The result is exact and always the same.
    fn query(input: Query) -> Result<Reply> {
        Expression::compile(&input.expression)?.search(&input.document)
    }

    /// The same for a line that a person typed: EXPRESSION, white space, DOCUMENT. Other programs use `query`.
    fn run(input: Line) -> Result<Reply> {
        let (expression, document) = line::split(&input.line)?;
        expression.search(&document)
    }
}

#[cfg(test)]
mod tests;
