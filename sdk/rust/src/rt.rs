//! What the `skill!` macro expands to. Not for authors.
#![allow(missing_docs)]

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;

use crate::{
    Content, Failure, Reply, Result,
    bindings::patchbay::skill::types::{Failure as WitFailure, Tool},
};

/// Has a panic write its message and place to the host's log, from where the host shows it with the trap. Without a system
/// beneath it the standard library would drop it.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub fn log_panics() {
    use crate::bindings::patchbay::host::log;
    std::panic::set_hook(Box::new(|panic| log::write(log::Level::Error, &panic.to_string())));
}

/// The standard library writes the message to standard error, which is the log.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub fn log_panics() {}

pub fn tool<T: JsonSchema>(name: &str, doc: &[&str]) -> Tool {
    // A model and a person read the schema: no reference to follow, no title or description of a Rust type.
    let mut schema = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.remove("description");
    let description = doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
    Tool {
        name: name.to_owned(),
        description: description.trim().to_owned(),
        input_schema: serde_json::Value::from(schema).to_string(),
        extra: Vec::new(),
    }
}

pub fn run<T: DeserializeOwned, R: Into<Reply>>(
    input: &str,
    tool: impl FnOnce(T) -> Result<R>,
) -> std::result::Result<Vec<Content>, WitFailure> {
    let input = serde_json::from_str(input).map_err(|error| wit(Failure::invalid(error.to_string())))?;
    match tool(input) {
        Ok(reply) => Ok(reply.into().0),
        Err(failure) => Err(wit(failure)),
    }
}

pub fn unknown<T>(tool: &str) -> std::result::Result<T, WitFailure> {
    Err(wit(Failure::new("unknown-tool", format!("this skill has no tool '{tool}'"))))
}

fn wit(failure: Failure) -> WitFailure {
    let (kind, message) = failure.into_parts();
    WitFailure { kind, message }
}
