//! Parses the keys of a frontmatter as strict YAML, with error messages that name the line and the key.
//!
//! Called by [`Manifest::parse`](crate::Manifest::parse), and by the lenient second attempt in `lenient.rs`.

use std::fmt;

use patchbay_core::{Code, text};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::{Error, Options};

use crate::Problem;

/// The known keys as written, before they are checked. The same keys can appear at the top level and under `metadata`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FrontmatterKeys {
    pub(super) name: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) description: Option<String>,
    pub(super) version: Option<String>,
    pub(super) invocation_mode: Option<String>,
    pub(super) command: Option<String>,
    pub(super) input_hint: Option<String>,
    pub(super) command_tool: Option<String>,
    pub(super) requires_tools: Option<TextList>,
    pub(super) eligibility: Option<EligibilityKeys>,
    pub(super) capabilities: Option<CapabilityList>,
    pub(super) license: ShownText,
    pub(super) compatibility: ShownText,
    #[serde(rename = "allowed-tools")]
    pub(super) allowed_tools: ShownText,
    #[serde(rename = "disable-model-invocation")]
    pub(super) disable_model_invocation: Option<bool>,
    #[serde(rename = "user-invocable")]
    pub(super) user_invocable: Option<bool>,
    #[serde(rename = "argument-hint")]
    pub(super) argument_hint: ShownText,
    pub(super) when_to_use: ShownText,
    pub(super) metadata: Option<MetadataKeys>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct EligibilityKeys {
    pub(super) os: Option<TextList>,
    pub(super) env: Option<TextList>,
    pub(super) binaries: Option<TextList>,
}

/// A list of strings. A single string is accepted as a list of one.
pub(super) struct TextList(pub(super) Vec<String>);

/// The entries of `capabilities`. A single entry is accepted as a list of one.
pub(super) struct CapabilityList(pub(super) Vec<CapabilityKeys>);

#[derive(Deserialize)]
struct CapabilityMap {
    name: String,
    scope: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    optional: bool,
}

/// An entry of `capabilities`: a mapping with `name`, or only the capability as a string, as in `[kv]`.
pub(super) struct CapabilityKeys {
    pub(super) name: String,
    pub(super) scope: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) optional: bool,
}

/// The known keys under `metadata`; `None` if `metadata` is not a mapping.
pub(super) struct MetadataKeys(pub(super) Option<Box<FrontmatterKeys>>);

/// A value that is only displayed. Skills for other hosts use strings, lists and mappings here, and none of these is an error. A
/// list is shown in brackets; a mapping counts as absent.
#[derive(Default)]
pub(super) struct ShownText(pub(super) Option<String>);

/// Defines visitor methods that turn any YAML scalar into `$one`, with the scalar as `$value`.
macro_rules! scalars {
    ($value:ident => $one:expr) => {
        fn visit_str<E: serde::de::Error>(self, $value: &str) -> Result<Self::Value, E> {
            Ok($one)
        }
        fn visit_bool<E: serde::de::Error>(self, $value: bool) -> Result<Self::Value, E> {
            Ok($one)
        }
        fn visit_i64<E: serde::de::Error>(self, $value: i64) -> Result<Self::Value, E> {
            Ok($one)
        }
        fn visit_u64<E: serde::de::Error>(self, $value: u64) -> Result<Self::Value, E> {
            Ok($one)
        }
        fn visit_f64<E: serde::de::Error>(self, $value: f64) -> Result<Self::Value, E> {
            Ok($one)
        }
    };
}

impl<'de> Deserialize<'de> for TextList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextListVisitor;
        impl<'de> Visitor<'de> for TextListVisitor {
            type Value = TextList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of strings")
            }
            scalars!(value => TextList(vec![value.to_string()]));
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TextList, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(TextList(texts))
            }
        }
        from.deserialize_any(TextListVisitor)
    }
}

impl ShownText {
    pub(super) fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

impl<'de> Deserialize<'de> for ShownText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ShownTextVisitor;
        impl<'de> Visitor<'de> for ShownTextVisitor {
            type Value = ShownText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            scalars!(value => ShownText(Some(value.to_string())));
            fn visit_unit<E: serde::de::Error>(self) -> Result<ShownText, E> {
                Ok(ShownText(None))
            }
            fn visit_none<E: serde::de::Error>(self) -> Result<ShownText, E> {
                Ok(ShownText(None))
            }
            fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<ShownText, D::Error> {
                ShownText::deserialize(from)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ShownText, A::Error> {
                let mut items = Vec::new();
                while let Some(ShownText(item)) = list.next_element()? {
                    items.extend(item);
                }
                Ok(ShownText(Some(format!("[{}]", items.join(", ")))))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ShownText, A::Error> {
                while map.next_entry::<serde::de::IgnoredAny, serde::de::IgnoredAny>()?.is_some() {}
                Ok(ShownText(None))
            }
        }
        from.deserialize_any(ShownTextVisitor)
    }
}

impl CapabilityKeys {
    fn from_name(name: &str) -> Self {
        Self { name: name.to_owned(), scope: None, reason: None, optional: false }
    }

    fn from_map<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error> {
        let CapabilityMap { name, scope, reason, optional } =
            CapabilityMap::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Self { name, scope, reason, optional })
    }
}

impl<'de> Deserialize<'de> for CapabilityKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct CapabilityVisitor;
        impl<'de> Visitor<'de> for CapabilityVisitor {
            type Value = CapabilityKeys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a capability")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<CapabilityKeys, E> {
                Ok(CapabilityKeys::from_name(name))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CapabilityKeys, A::Error> {
                CapabilityKeys::from_map(map)
            }
        }
        from.deserialize_any(CapabilityVisitor)
    }
}

impl<'de> Deserialize<'de> for CapabilityList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct CapabilityListVisitor;
        impl<'de> Visitor<'de> for CapabilityListVisitor {
            type Value = CapabilityList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of capabilities")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<CapabilityList, E> {
                Ok(CapabilityList(vec![CapabilityKeys::from_name(name)]))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CapabilityList, A::Error> {
                Ok(CapabilityList(vec![CapabilityKeys::from_map(map)?]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CapabilityList, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(CapabilityList(entries))
            }
        }
        from.deserialize_any(CapabilityListVisitor)
    }
}

impl<'de> Deserialize<'de> for MetadataKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;
        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = MetadataKeys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }
            scalars!(_value => MetadataKeys(None));
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MetadataKeys, A::Error> {
                while list.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(MetadataKeys(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MetadataKeys, A::Error> {
                let keys = FrontmatterKeys::deserialize(MapAccessDeserializer::new(map)).map_err(A::Error::custom)?;
                Ok(MetadataKeys(Some(Box::new(keys))))
            }
        }
        from.deserialize_any(MetadataVisitor)
    }
}

/// Parses a frontmatter as YAML. An empty frontmatter is valid because all keys are optional.
pub(super) fn strict(frontmatter: &str) -> Result<FrontmatterKeys, Problem> {
    let keys: Option<FrontmatterKeys> = parse(frontmatter).map_err(|error| malformed(frontmatter, &error))?;
    Ok(keys.unwrap_or_default())
}

/// Parses YAML with limits on nodes, aliases and depth. No real manifest reaches these limits, and parsing up to them takes
/// milliseconds. Returns `None` for empty text.
pub(super) fn parse<T: for<'de> Deserialize<'de>>(frontmatter: &str) -> Result<Option<T>, Error> {
    if frontmatter.trim().is_empty() {
        return Ok(None);
    }
    serde_saphyr::from_str_with_options(frontmatter, options())
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 40_000,
            max_nodes: 20_000,
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 1 << 20,
            max_depth: 32,
            max_documents: 1,
            max_merge_keys: 100,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
    }
}

/// Converts a YAML error into a problem for the skill's author that names the line of the file and the key.
fn malformed(frontmatter: &str, error: &Error) -> Problem {
    let error = error.without_snippet();
    // The frontmatter begins on the second line of the file.
    let place = error.location().map(|at| (at.line() as usize, at.column() as usize)).filter(|(line, _)| *line > 0);
    let key = place.and_then(|(line, column)| key_at(frontmatter, line, column));
    let words = match key.as_deref().and_then(expected_at) {
        Some((key, expected)) if !is_syntax(error) => format!("{key} {expected}."),
        _ => {
            let words = words(error);
            match key {
                Some(key) => format!("'{key}' is not valid YAML: {words}."),
                None => format!("The frontmatter is not valid YAML: {words}."),
            }
        }
    };
    let message = match place {
        Some((line, _)) => format!("Line {}: {words}", line + 1),
        None => words,
    };
    Problem::new(Code::MalformedFrontmatter, text::excerpt(&message, 400))
}

/// Returns true if the text is not valid YAML, false if it is YAML with a value of the wrong type.
fn is_syntax(error: &Error) -> bool {
    matches!(error, Error::ExternalMessage { .. } | Error::Eof { .. })
}

/// Returns the first line of the parser's message, without the position and the source excerpt.
fn words(error: &Error) -> String {
    let words = error.to_string();
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("it cannot be parsed");
    let mut line = line.trim().trim_start_matches("error:").trim();
    if let Some(rest) = line.strip_prefix("line ")
        && let Some((place, rest)) = rest.split_once(": ")
        && place.bytes().all(|byte| byte.is_ascii_digit() || b" column,".contains(&byte))
    {
        line = rest;
    }
    let line = line.split(" at line ").next().unwrap_or(line);
    text::excerpt(line.trim_end_matches('.'), 200)
}

/// Returns the longest prefix of `path` that is a known key, and a description of the expected value.
fn expected_at(path: &str) -> Option<(&str, &'static str)> {
    let mut path = path;
    loop {
        match expected(path) {
            Some(words) => return Some((path, words)),
            None => path = path.rsplit_once('.')?.0,
        }
    }
}

/// Returns the end of the error message for a known key with a value of the wrong type.
fn expected(key: &str) -> Option<&'static str> {
    Some(match key.rsplit('.').next()? {
        "os" => "must be a list, such as [linux]",
        "env" => "must be a list, such as [HOME]",
        "binaries" => "must be a list, such as [git]",
        "requires_tools" => "must be a list, such as [files__read]",
        "eligibility" => "must have the keys os, env or binaries, such as {os: [linux]}",
        "capabilities" => "must be a list, such as [{name: kv, reason: keeps notes}]",
        "optional" | "disable-model-invocation" | "user-invocable" => "must be true or false",
        "name" | "command" => "must be a string, such as greet",
        "summary" | "description" => "must be a string, such as Greets a person by name",
        "version" => "must be a string, such as 1.2.0",
        "invocation_mode" => "must be llm_orchestration or tool_dispatch",
        "input_hint" => "must be a string, such as NAME",
        "command_tool" => "must be the name of a tool, such as hello",
        "scope" => "must be a string, such as api.example.com",
        "reason" => "must be a string, such as remembers who was greeted",
        _ => return None,
    })
}

/// Returns the path of the key whose value is at `line` and `column` of the frontmatter (both from 1), such as `eligibility.os`.
/// The path is derived from the indentation, and within the line from the text to the left of `column`.
fn key_at(frontmatter: &str, line: usize, column: usize) -> Option<String> {
    let mut path: Vec<(usize, &str)> = Vec::new();
    for (number, text) in frontmatter.lines().enumerate().take(line) {
        let content = text.trim_start_matches([' ', '-']);
        let indent = text.len() - content.len();
        let Some(key) = leading_key(content) else { continue };
        while path.last().is_some_and(|(above, _)| *above >= indent) {
            path.pop();
        }
        path.push((indent, key));
        if number + 1 == line {
            let left: String = text.chars().take(column.saturating_sub(1)).collect();
            let within = text.get(indent + key.len() + 1..left.len().max(indent + key.len() + 1)).unwrap_or_default();
            let inner = within.split(['{', ',', '[']).rev().find_map(|part| leading_key(part.trim_start()));
            path.extend(inner.map(|key| (usize::MAX, key)));
        }
    }
    let keys: Vec<&str> = path.into_iter().map(|(_, key)| key).collect();
    if keys.is_empty() { None } else { Some(text::excerpt(&keys.join("."), 80)) }
}

/// Returns the key with which `text` begins: a word, directly followed by a colon.
pub(super) fn leading_key(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')?;
    let behind = text[end..].strip_prefix(':')?;
    let is_key = end > 0 && (behind.is_empty() || behind.starts_with([' ', '\t', '\r']));
    is_key.then(|| &text[..end])
}
