//! The errors of compiling a schema and of checking an input.

use std::fmt::{self, Display};

use patchbay_core::text;

use crate::limits;

/// Why a schema is refused. The text is a predicate without a subject; [`SchemaError::of_tool`] adds the subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    pub(crate) fn new(predicate: impl Display) -> Self {
        Self(text::excerpt(&predicate.to_string(), 300))
    }

    /// Returns the whole sentence: `The schema of tool 'x' uses '$anchor', which is not supported; …`.
    pub fn of_tool(&self, tool: &str) -> String {
        format!("The schema of tool '{tool}' {self}.")
    }
}

impl Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SchemaError {}

/// Why an input is rejected. The text is read by a model or the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input violates the schema.
    #[error("{}{problem}", at(.place))]
    Invalid {
        /// JSON pointer to the value; empty for the input itself.
        place: String,
        /// The violation, with an excerpt of the value.
        problem: String,
    },
    /// The check would take more than [`limits::STEPS`] steps.
    #[error("checking it against the schema takes more than {} steps; use a smaller input", limits::STEPS)]
    TooManySteps,
    /// The input is nested deeper than [`limits::INPUT_DEPTH`], or the applied schemas deeper than
    /// [`limits::APPLIED_DEPTH`].
    #[error("it is nested too deep to check against the schema, which enters at most {} levels", limits::INPUT_DEPTH)]
    TooDeep,
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("at {}: ", text::excerpt(place, 100)) }
}
