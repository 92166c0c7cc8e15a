//! The environment variables that may hold a secret: `env` of `config.toml`, one name or a list of them.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// Names of environment variables. The first one that is set and not empty contains the secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Variables(Vec<String>);

/// Maximum number of variables in one list. The documentation of services names two at most.
const VARIABLES: usize = 8;

impl Variables {
    /// Returns the names in `names`, which must be valid.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Returns the names; none for `env = ""`.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Returns the first name; empty without any.
    pub fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes `A`, or `A or B` for several variables.
impl fmt::Display for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" or "))
    }
}

/// Whether `text` can name an environment variable.
pub fn is_variable(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    text.bytes().next().is_some_and(letter) && text.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

impl<'de> Deserialize<'de> for Variables {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrList;
        impl<'de> Visitor<'de> for NameOrList {
            type Value = Variables;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an environment variable, or a list of names")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Variables, E> {
                if name.is_empty() {
                    return Ok(Variables::default());
                }
                checked(name.to_owned()).map(|name| Variables(vec![name]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Variables, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element::<String>()? {
                    let name = checked(name)?;
                    if !names.contains(&name) {
                        names.push(name);
                    }
                    if names.len() > VARIABLES {
                        return Err(A::Error::custom(format!("at most {VARIABLES} environment variables")));
                    }
                }
                match names.is_empty() {
                    true => Err(A::Error::custom("the list names no environment variable")),
                    false => Ok(Variables(names)),
                }
            }
        }
        deserializer.deserialize_any(NameOrList)
    }
}

/// Checks a name. The error does not show it, because it may be the secret itself.
fn checked<E: Error>(name: String) -> Result<String, E> {
    match is_variable(&name) {
        true => Ok(name),
        false => Err(E::custom("invalid name of an environment variable: use A-Z, 0-9 and '_'")),
    }
}

impl JsonSchema for Variables {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Variables".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Table {
        env: Variables,
    }

    #[test]
    fn variables_are_a_name_or_a_list() {
        for (text, expected) in [
            ("\"\"", &[][..]),
            ("\"A_KEY\"", &["A_KEY"]),
            ("[\"A_KEY\"]", &["A_KEY"]),
            ("[\"A_KEY\", \"B_KEY\", \"A_KEY\"]", &["A_KEY", "B_KEY"]),
        ] {
            let table = toml::from_str::<Table>(&format!("env = {text}")).unwrap();
            assert_eq!(table.env.names(), expected, "{text}");
        }
        assert_eq!(Variables::new(["A".to_owned(), "B".to_owned()]).to_string(), "A or B");
    }

    #[test]
    fn invalid_variable_is_refused_and_not_shown() {
        let many = format!("[{}]", (0..9).map(|n| format!("\"A{n}\",")).collect::<String>());
        for (text, words) in [
            ("\"sk-12345678\"", "invalid name of an environment variable"),
            ("[\"A\", \"sk-12345678\"]", "invalid name of an environment variable"),
            ("[\"A\", \"\"]", "invalid name of an environment variable"),
            ("[]", "the list names no environment variable"),
            (&*many, "at most 8 environment variables"),
        ] {
            let error = toml::from_str::<Table>(&format!("env = {text}")).unwrap_err();
            assert!(error.message().contains(words) && !error.message().contains("12345"), "{text}: {error}");
        }
    }
}
