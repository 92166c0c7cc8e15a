//! The tools of the skill `{{name}}`.

use patchbay_sdk::{Failure, Result, skill};

// The input of a tool. Its JSON Schema is derived from this type: comments become descriptions, `Option` makes a field optional.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Hello {
    /// Name of the person to greet.
    name: String,
}

// Each function in here is a tool. Its comment is what a model reads to decide when to call it.
skill! {
    /// Greets a person by name.
    fn hello(input: Hello) -> Result<String> {
        if input.name.trim().is_empty() {
            return Err(Failure::invalid("the name is empty"));
        }
        Ok(format!("Hello, {}!", input.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_refused() {
        assert_eq!(hello(Hello { name: "Ada".to_owned() }).unwrap(), "Hello, Ada!");
        assert_eq!(hello(Hello { name: " ".to_owned() }).unwrap_err().kind(), "invalid-input");
    }
}
