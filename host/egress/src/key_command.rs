//! Commands that the operator configures in `config.toml`, such as a `key_command`, which prints a secret and is run by `secrets`.

use std::{fmt, time::Duration};

use patchbay_core::text;
use patchbay_policy::quoted;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error};

/// A program and its arguments, run without a shell. Displayed with the quotes that a shell would need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyCommand {
    /// The program, then its arguments. Never empty.
    pub(crate) words: Vec<String>,
    /// Time limit of one run, in milliseconds.
    pub(crate) limit_ms: u64,
}

/// A checked command from `config.toml`: a list of a program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

/// The default of `key_command_ms`.
const LIMIT_MS: u64 = 10_000;
/// The largest `key_command_ms`: enough time to log in with a browser.
pub const KEY_COMMAND_MS: u64 = 600_000;
/// Maximum number of words of a command: the program and its arguments.
const WORDS: usize = 64;
/// Size limit of each word, in bytes.
const WORD_BYTES: usize = 4096;
/// How many characters of a command are shown.
const SHOWN: usize = 400;

impl CommandLine {
    /// Returns the command `words`, or `None` if it is invalid.
    pub fn of(words: Vec<String>) -> Option<Self> {
        problem(&words).is_none().then_some(Self(words))
    }

    /// Returns the program, then its arguments. Never empty.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Returns the command with its time limit, `key_command_ms`.
    pub fn within(&self, limit_ms: Option<u64>) -> KeyCommand {
        KeyCommand { words: self.0.clone(), limit_ms: limit_ms.unwrap_or(LIMIT_MS) }
    }
}

impl KeyCommand {
    /// Returns the time limit of one run.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_millis(self.limit_ms)
    }
}

impl fmt::Display for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        f.write_str(&text::excerpt(&words.join(" "), SHOWN))
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        match problem(&words) {
            None => Ok(Self(words)),
            Some(why) => Err(D::Error::custom(why)),
        }
    }
}

/// Describes the problem with a command, if there is one. The message does not show the command, because it may contain
/// a secret.
fn problem(words: &[String]) -> Option<&'static str> {
    let program = words.first().map_or("", String::as_str);
    if program.is_empty() {
        return Some("a command is a list with a program and its arguments: [\"PROGRAM\", \"ARG\"]");
    }
    if program.contains('/') && !program.starts_with('/') {
        return Some("the program of a command is a name without '/', which is looked up in PATH, or an absolute path");
    }
    if words.len() > WORDS || words.iter().any(|word| word.len() > WORD_BYTES || word.contains('\0')) {
        return Some("a command has at most 64 arguments of at most 4096 bytes each, without NUL bytes");
    }
    None
}

impl JsonSchema for CommandLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommandLine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string" } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Table {
        key_command: CommandLine,
    }

    fn parse(text: &str) -> Result<CommandLine, String> {
        let table = toml::from_str::<Table>(&format!("key_command = {text}")).map_err(|error| error.to_string());
        table.map(|table| table.key_command)
    }

    #[test]
    fn command_is_shown_as_for_a_shell() {
        let shown = |text: &str| parse(text).unwrap().within(None).to_string();
        assert_eq!(shown(r#"["gcloud", "auth", "print-access-token"]"#), "gcloud auth print-access-token");
        assert_eq!(shown(r#"["/opt/my tools/key", "--for=$me"]"#), "'/opt/my tools/key' '--for=$me'");
        assert!(shown(&format!(r#"["a", "{}"]"#, "b".repeat(4096))).chars().count() <= 401);
        let command = parse(r#"["a"]"#).unwrap();
        assert_eq!(command.within(None).limit(), Duration::from_secs(10));
        assert_eq!(command.within(Some(5)).limit(), Duration::from_millis(5));
    }

    #[test]
    fn invalid_command_is_refused_and_not_shown() {
        let many = format!("[{}]", "\"sentinel\",".repeat(65));
        let long = format!("[\"a\", \"{}\"]", "sentinel".repeat(600));
        for (text, words) in [
            ("[]", "is a list with a program and its arguments"),
            ("[\"\", \"sentinel\"]", "is a list with a program and its arguments"),
            ("[\"./sentinel\"]", "a name without '/', which is looked up in PATH, or an absolute path"),
            ("[\"sentinel/a\"]", "a name without '/', which is looked up in PATH, or an absolute path"),
            ("[\"../sentinel\"]", "a name without '/', which is looked up in PATH, or an absolute path"),
            ("[\"a\", \"sentinel\\u0000\"]", "without NUL bytes"),
            (&*many, "at most 64 arguments"),
            (&*long, "at most 64 arguments of at most 4096 bytes each"),
        ] {
            let error = toml::from_str::<Table>(&format!("key_command = {text}")).unwrap_err();
            assert!(error.message().contains(words), "{text}: {error}");
            assert!(!error.message().contains("sentinel"), "{error}");
        }
    }
}
