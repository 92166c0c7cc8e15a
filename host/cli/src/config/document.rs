//! Generates `docs/config.md` from the types of `config.toml`.

use std::{env, fmt::Write as _, fs, path::Path};

use serde_json::{Map, Value};

use super::ranges::schema;

/// `make docs` updates the file.
#[test]
fn config_md_matches_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let expected = document();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap() == expected,
        "docs/config.md is not what the source says; run: make docs"
    );
}

fn document() -> String {
    let schema = schema();
    let keys = schema.get("properties").and_then(Value::as_object).unwrap();
    let mut text = include_str!("introduction.md").to_owned();
    let (tables, alone): (Vec<_>, Vec<_>) = keys.iter().partition(|(_, key)| key["type"] == "object");
    if !alone.is_empty() {
        text.push_str("\n## Before the first table\n\n");
        rows(&mut text, &alone.into_iter().map(|(name, key)| (name.clone(), key.clone())).collect(), &Value::Null);
    }
    for (name, table) in tables {
        // A table whose keys the operator names lists the keys of one entry, or the type of its values.
        let each = &table["additionalProperties"];
        let (heading, keys) = match (table.get("properties"), each.get("properties")) {
            (Some(keys), _) => (name.clone(), keys.clone()),
            (None, Some(keys)) => (format!("{name}.NAME"), keys.clone()),
            (None, None) => (name.clone(), Value::Null),
        };
        write!(text, "\n## `[{heading}]`\n\n{}\n", words(name, table)).unwrap();
        if let Value::Object(keys) = keys {
            text.push('\n');
            rows(&mut text, &keys, if table.get("properties").is_some() { table } else { each });
            for (key, table) in keys.iter().filter(|(_, key)| has_section(key)) {
                write!(text, "\n## `[{heading}.{key}]`\n\n{}\n\n", words(key, table)).unwrap();
                let keys = table["properties"].as_object().unwrap();
                rows(&mut text, keys, table);
            }
        }
    }
    text
}

/// Returns whether a key gets its own section: it is a table that contains only tables or lists.
fn has_section(key: &Value) -> bool {
    let keys = key.get("properties").and_then(Value::as_object);
    keys.is_some_and(|keys| {
        !keys.is_empty() && keys.values().all(|key| key["type"] == "object" || key["type"] == "array")
    })
}

/// Lists the keys of a table, required ones first.
fn rows(text: &mut String, keys: &Map<String, Value>, table: &Value) {
    text.push_str("| key | default | values | what and why |\n| --- | --- | --- | --- |\n");
    let required = |key: &str| table["required"].as_array().is_some_and(|keys| keys.iter().any(|found| found == key));
    let keys = keys.iter().filter(|(_, key)| !has_section(key));
    let (first, then): (Vec<_>, Vec<_>) = keys.partition(|(key, _)| required(key));
    for (key, schema) in first.into_iter().chain(then) {
        let default = match &schema["default"] {
            _ if required(key) => "none (required)".to_owned(),
            Value::Null => "none".to_owned(),
            value => shown(key, value),
        };
        let values = match (schema.get("minimum"), schema.get("maximum")) {
            (Some(least), Some(most)) => format!("{} to {}", shown(key, least), shown(key, most)),
            (Some(least), None) if *least != 0 => format!("{} or more", shown(key, least)),
            _ => kind(schema),
        };
        let why = words(key, schema).split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(text, "| `{key}` | {default} | {values} | {why} |").unwrap();
    }
}

/// Returns the doc comment of a key or a table.
fn words<'a>(key: &str, schema: &'a Value) -> &'a str {
    let words = schema["description"].as_str().unwrap_or_else(|| panic!("{key} of config.toml has no doc comment"));
    assert!(!words.contains("[`") && !words.contains('|'), "the doc comment of {key} cannot be a table cell: {words}");
    words
}

/// Returns the type of a key that has no range.
fn kind(schema: &Value) -> String {
    let name = |kind: &Value| match kind.as_str() {
        Some("boolean") => Some("`true` or `false`"),
        Some("integer") => Some("a number"),
        Some("string") => Some("a string"),
        Some("array") => Some("a list"),
        Some("object") => Some("a table"),
        _ => None,
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(name).collect(),
        kind => Vec::from_iter(name(kind)),
    };
    // A variant of an enum with its own doc comment has its own schema.
    let described = schema["oneOf"].as_array().into_iter().flatten().filter_map(|word| word.get("const"));
    let words = schema["enum"].as_array().into_iter().flatten().chain(described).map(|word| format!("`{word}`"));
    match words.collect::<Vec<_>>() {
        words if words.is_empty() => kinds.join(" or "),
        words => words.join(", "),
    }
}

/// Formats a value as TOML, followed by a time or size in a readable unit.
fn shown(key: &str, value: &Value) -> String {
    if let Value::Object(values) = value {
        let pairs = values.iter().filter_map(|(name, value)| Some((name, value.as_u64()?)));
        let pairs: Vec<_> = pairs.map(|(name, number)| format!("{name} = {}", grouped(number))).collect();
        let units: Vec<_> =
            values.values().filter_map(|value| Some(shown(key, value).split_once(" (")?.1.to_owned())).collect();
        let units = units.iter().map(|unit| unit.trim_end_matches(')')).collect::<Vec<_>>().join(", ");
        let units = if units.is_empty() { units } else { format!(" ({units})") };
        return if pairs.is_empty() { "`{}`".to_owned() } else { format!("`{{ {} }}`{units}", pairs.join(", ")) };
    }
    let Some(number) = value.as_u64() else { return format!("`{value}`") };
    let units: &[(u64, &str)] = if key.ends_with("_ms") {
        &[(3_600_000, "h"), (60_000, "min"), (1_000, "s")]
    } else if key.ends_with("_bytes") {
        &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    } else {
        &[]
    };
    match units.iter().find(|(unit, _)| number >= *unit && number % unit == 0) {
        Some((unit, name)) => format!("`{}` ({} {name})", grouped(number), number / unit),
        None => format!("`{}`", grouped(number)),
    }
}

/// Groups digits, such as `1_000_000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join("_")
}
