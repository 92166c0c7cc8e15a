//! Parses `plugin.json`. Unknown fields and an `extensions` that is not an object are noted; for any other violation of the
//! specification, the package is refused.

use std::{fmt, str::FromStr};

use patchbay_core::{Code, text};
use serde_json::Value;

use super::json::{self, Fields, MANIFEST_BYTES, kind};
use crate::Problem;

/// The longest metadata string that is kept, in characters. Longer strings are cut.
const TEXT_CHARS: usize = 1_024;
/// Maximum number of keywords that are kept.
const KEYWORDS: usize = 50;
/// The most unknown fields and namespaces that are named.
const NAMED: usize = 20;

/// The Agent Plugins version that a file targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecVersion {
    /// 1.0.0.
    V1_0,
    /// The draft 1.1.0, which adds `displayName`, `icon`, and `extensions` in server entries.
    V1_1,
}

impl SpecVersion {
    const ALL: [Self; 2] = [Self::V1_0, Self::V1_1];

    /// Returns the version number as it appears in schema identifiers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0.0",
            Self::V1_1 => "1.1.0",
        }
    }

    /// Returns the `$schema` value for a file. `file` is `plugin` or `mcp`.
    pub fn schema(self, file: &str) -> String {
        format!("https://agent-plugins.org/schemas/{}/{file}.schema.json", self.as_str())
    }

    /// Finds the version of a `$schema` value. The error is a phrase with the supported values.
    pub(super) fn of_schema(schema: &str, file: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|version| version.schema(file) == schema).ok_or_else(|| {
            let supported = Self::ALL.map(|version| version.schema(file)).join("' or '");
            format!("unsupported $schema '{}'; expected '{supported}'", text::excerpt(schema, 120))
        })
    }
}

/// The name of a package: 1 to 64 characters of `a-z`, `0-9`, `-` and `.`, with a letter or digit at both ends, without `--` or
/// `..`. Unlike a [`Name`](patchbay_core::Name) it may contain dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginName(String);

impl PluginName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PluginName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = name.as_bytes();
        let ends =
            bytes.first().is_some_and(|byte| is_plain(*byte)) && bytes.last().is_some_and(|byte| is_plain(*byte));
        let all = bytes.iter().all(|byte| is_plain(*byte) || matches!(byte, b'-' | b'.'));
        if ends && all && name.len() <= 64 && !name.contains("--") && !name.contains("..") {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "invalid name '{}': use 1 to 64 of a-z, 0-9, '-' and '.', begin and end with a letter or digit, and do not use '--' or '..'",
            text::excerpt(name, 80)
        ))
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A checked `plugin.json`. Strings are cleaned and cut for display, and never interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginManifest {
    /// The targeted version.
    pub spec: SpecVersion,
    /// The package name.
    pub name: PluginName,
    /// The label for display; `None` if the name is used.
    pub display_name: Option<String>,
    /// The version as written; often, but not always, a semantic version.
    pub version: Option<String>,
    /// One line about the package.
    pub description: Option<String>,
    /// The author according to the package, which proves nothing.
    pub author: Author,
    /// The address of the documentation.
    pub homepage: Option<String>,
    /// The address of the sources.
    pub repository: Option<String>,
    /// The license, usually an SPDX identifier.
    pub license: Option<String>,
    /// Words for searches, at most 50.
    pub keywords: Vec<String>,
    /// Namespaces of other clients in `extensions`, sorted, at most 20. Their contents are not read.
    pub namespaces: Vec<String>,
}

/// The `author` of a `plugin.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The name for display.
    pub name: Option<String>,
    /// The email address as written.
    pub email: Option<String>,
    /// The web address as written.
    pub url: Option<String>,
}

impl PluginManifest {
    /// Parses a `plugin.json`. Also returns a note for each ignored field.
    ///
    /// # Errors
    /// `package_schema_unsupported` for an unknown version, `package_limit` over 256 KiB, otherwise `package_manifest_invalid`.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Vec<Problem>), Problem> {
        let problem = |code| move |why: String| Problem::new(code, format!("plugin.json: {why}."));
        if bytes.len() as u64 > MANIFEST_BYTES {
            return Err(problem(Code::PackageLimit)(format!("over {MANIFEST_BYTES} bytes")));
        }
        let invalid = problem(Code::PackageManifestInvalid);
        let mut fields = json::object(bytes).map_err(invalid)?;
        // The version is read first, because it selects the rules for everything else.
        let missing = || {
            format!(
                "'$schema' is missing, so it is not an Agent Plugin; write '{}'",
                SpecVersion::V1_0.schema("plugin")
            )
        };
        let schema = fields.string("$schema").and_then(|schema| schema.ok_or_else(missing)).map_err(invalid)?;
        let spec = SpecVersion::of_schema(&schema, "plugin").map_err(problem(Code::PackageSchemaUnsupported))?;
        let (namespaces, mut ignored) = namespaces(fields.take("extensions"));
        let manifest = metadata(&mut fields, spec, namespaces).map_err(invalid)?;
        let unknown = fields.left();
        ignored.extend(unknown.iter().take(NAMED).map(|name| format!("unknown field '{name}' is ignored")));
        if unknown.len() > NAMED {
            ignored.push(format!("{} more unknown fields are ignored", unknown.len() - NAMED));
        }
        Ok((manifest, ignored.into_iter().map(problem(Code::PackageFieldIgnored)).collect()))
    }

    /// Returns the label for display.
    pub fn label(&self) -> &str {
        self.display_name.as_deref().unwrap_or(self.name.as_str())
    }
}

fn metadata(fields: &mut Fields, spec: SpecVersion, namespaces: Vec<String>) -> Result<PluginManifest, String> {
    let name = fields.required("name")?.parse()?;
    let mut display_name = None;
    if spec == SpecVersion::V1_1 {
        display_name = shown(fields, "displayName")?;
        // Only checked to be a string: icons are never shown or opened.
        fields.string("icon")?;
    }
    let author = match fields.take("author") {
        None => Author::default(),
        Some(author) => self::author(author).map_err(|error| format!("'author': {error}"))?,
    };
    let keywords = fields.strings("keywords")?;
    Ok(PluginManifest {
        spec,
        name,
        display_name,
        version: shown(fields, "version")?,
        description: shown(fields, "description")?,
        author,
        homepage: shown(fields, "homepage")?,
        repository: shown(fields, "repository")?,
        license: shown(fields, "license")?,
        keywords: keywords.iter().take(KEYWORDS).map(|keyword| text::excerpt(keyword, 80)).collect(),
        namespaces,
    })
}

fn author(author: Value) -> Result<Author, String> {
    let mut fields = Fields::of(author)?;
    let author = Author {
        name: shown(&mut fields, "name")?,
        email: shown(&mut fields, "email")?,
        url: shown(&mut fields, "url")?,
    };
    fields.closed()?;
    Ok(author)
}

/// Removes a field and cleans it for display; `None` if it is absent or empty.
fn shown(fields: &mut Fields, key: &str) -> Result<Option<String>, String> {
    let text = fields.string(key)?.map(|text| text::excerpt(&text, TEXT_CHARS));
    Ok(text.filter(|text| !text.is_empty()))
}

/// Returns the names in `extensions`, and phrases about entries that cannot be namespaces.
fn namespaces(extensions: Option<Value>) -> (Vec<String>, Vec<String>) {
    match extensions {
        None => Default::default(),
        Some(Value::Object(extensions)) => {
            let mut names: Vec<_> = extensions.keys().map(|name| text::excerpt(name, 80)).collect();
            names.sort();
            names.truncate(NAMED);
            (names, Vec::new())
        }
        Some(other) => {
            (Vec::new(), vec![format!("'extensions' must be an object, not {}; the field is ignored", kind(&other))])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(fields: &Value) -> Result<(PluginManifest, Vec<String>), Problem> {
        let mut all = json!({"$schema": SpecVersion::V1_0.schema("plugin"), "name": "a"});
        for (key, value) in fields.as_object().unwrap() {
            all[key] = value.clone();
        }
        let (manifest, notes) = PluginManifest::parse(all.to_string().as_bytes())?;
        assert!(notes.iter().all(|note| note.code == Code::PackageFieldIgnored));
        Ok((manifest, notes.into_iter().map(|note| note.message).collect()))
    }

    fn refusal(fields: &Value) -> (Code, String) {
        let problem = with(fields).unwrap_err();
        (problem.code, problem.message)
    }

    #[test]
    fn full_manifest_is_read() {
        let (manifest, notes) = with(&json!({
            "name": "acme.tools", "version": "1.2.0", "description": "Tools\nof acme", "license": "MIT", "keywords": ["a", "b"],
            "author": {"name": "Acme", "email": "a@example.com", "url": "https://example.com"},
            "homepage": "not a url", "repository": "",
            "extensions": {"com.example.client": {"setting": true}, "org.other": 5},
        }))
        .unwrap();
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!((manifest.name.as_str(), manifest.label()), ("acme.tools", "acme.tools"));
        assert_eq!(manifest.description.as_deref(), Some("Tools of acme"));
        assert_eq!(manifest.author.email.as_deref(), Some("a@example.com"));
        assert_eq!((manifest.homepage.as_deref(), manifest.repository), (Some("not a url"), None));
        assert_eq!(manifest.namespaces, ["com.example.client", "org.other"]);
    }

    #[test]
    fn unknown_fields_and_odd_extensions_are_noted() {
        let (_, notes) = with(&json!({"commands": "./x", "displayName": 7, "extensions": []})).unwrap();
        assert_eq!(
            notes,
            [
                "plugin.json: 'extensions' must be an object, not an array; the field is ignored.",
                "plugin.json: unknown field 'commands' is ignored.",
                "plugin.json: unknown field 'displayName' is ignored.",
            ]
        );
    }

    #[test]
    fn names_follow_the_specification() {
        for name in ["my-plugin", "acme.tools", "lint3r", "a", "a.-b", &"x".repeat(64)] {
            assert_eq!(with(&json!({"name": name})).unwrap().0.name.as_str(), name);
        }
        for name in ["My-Plugin", "-start", "end.", "has--double", "too..many", "", "a_b", "a/b", "ä", &"x".repeat(65)]
        {
            let (code, message) = refusal(&json!({"name": name}));
            assert_eq!(code, Code::PackageManifestInvalid);
            assert!(message.starts_with(&format!("plugin.json: invalid name '{name}': use")), "{message}");
        }
    }

    #[test]
    fn wrong_types_refuse_the_package() {
        for (fields, why) in [
            (json!({"name": null}), "'name' must be a string, not null"),
            (json!({"version": 1}), "'version' must be a string, not a number"),
            (json!({"author": "me"}), "'author': expected an object, found a string"),
            (json!({"author": {"nick": "me"}}), "'author': unknown field 'nick'"),
            (json!({"author": {"name": []}}), "'author': 'name' must be a string, not an array"),
            (json!({"keywords": "a"}), "'keywords' must be an array of strings, not a string"),
            (json!({"keywords": ["a", true]}), "'keywords[1]' must be a string, not a boolean"),
        ] {
            assert_eq!(refusal(&fields), (Code::PackageManifestInvalid, format!("plugin.json: {why}.")));
        }
        let message = |bytes: &[u8]| PluginManifest::parse(bytes).unwrap_err().message;
        assert_eq!(
            message(b"{}"),
            "plugin.json: '$schema' is missing, so it is not an Agent Plugin; write \
             'https://agent-plugins.org/schemas/1.0.0/plugin.schema.json'."
        );
        assert!(message(b"{").starts_with("plugin.json: EOF while parsing"));
        let large = vec![b' '; MANIFEST_BYTES as usize + 1];
        assert_eq!(PluginManifest::parse(&large).unwrap_err().code, Code::PackageLimit);
    }

    #[test]
    fn other_versions_are_refused_with_the_supported_ones() {
        assert_eq!(
            refusal(&json!({"$schema": "https://agent-plugins.org/schemas/9.9.9/plugin.schema.json"})),
            (
                Code::PackageSchemaUnsupported,
                "plugin.json: unsupported $schema 'https://agent-plugins.org/schemas/9.9.9/plugin.schema.json'; expected \
                 'https://agent-plugins.org/schemas/1.0.0/plugin.schema.json' or \
                 'https://agent-plugins.org/schemas/1.1.0/plugin.schema.json'."
                    .to_owned()
            )
        );
        assert_eq!(refusal(&json!({"$schema": SpecVersion::V1_0.schema("mcp")})).0, Code::PackageSchemaUnsupported);
    }

    #[test]
    fn draft_has_a_display_name_and_an_icon() {
        let schema = SpecVersion::V1_1.schema("plugin");
        let draft = json!({"$schema": schema, "displayName": "Acme Tools", "icon": "https://not.fetched/x.svg"});
        let (manifest, notes) = with(&draft).unwrap();
        assert_eq!((manifest.label(), &notes[..]), ("Acme Tools", &[][..]));
        assert_eq!(with(&json!({"$schema": schema, "displayName": ""})).unwrap().0.label(), "a");
        let (_, message) = refusal(&json!({"$schema": schema, "icon": 5}));
        assert_eq!(message, "plugin.json: 'icon' must be a string, not a number.");
    }
}
