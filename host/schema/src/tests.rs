//! Compares results with the `jsonschema` library, and tests the limits.

mod generated;
mod hostile;
mod keywords;
mod patterns;
mod random;
mod texts;

use serde_json::{Value, json};

use crate::{PatternBudget, Rejection, Schema};

fn compile(schema: &Value) -> Result<Schema, String> {
    Schema::compile(schema, &mut PatternBudget::default()).map_err(|error| error.of_tool("x"))
}

fn accepts(schema: &Schema, input: &Value) -> bool {
    match schema.check(input) {
        Ok(()) => true,
        Err(Rejection::Invalid { .. }) => false,
        Err(limit) => panic!("{limit}"),
    }
}

/// Returns the verdict of the `jsonschema` library.
fn oracle(schema: &Value, input: &Value) -> bool {
    // TypeBox names no dialect, but writes tuples as in draft-07.
    let seven = ["draft-07/schema", "\"additionalItems\""].iter().any(|word| schema.to_string().contains(word));
    let draft = if seven { jsonschema::Draft::Draft7 } else { jsonschema::Draft::Draft202012 };
    let validator = jsonschema::options().with_draft(draft).should_validate_formats(false).build(schema);
    validator.unwrap_or_else(|error| panic!("{error}: {schema}")).is_valid(input)
}

/// Returns the schema of an object whose property `x` has the given schema.
fn property(x: &Value) -> Value {
    json!({"type": "object", "properties": {"x": x}})
}
