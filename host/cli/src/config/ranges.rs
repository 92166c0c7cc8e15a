//! Checks the ranges of numbers in `config.toml`, which the types declare with `schemars` and serde does not enforce, and that
//! `[limits]` has no unknown keys.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::{ConfigFile, located};

/// Returns the JSON Schema of `config.toml`: types, defaults, ranges and enumerations.
pub(super) fn schema() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    ConfigFile::json_schema(&mut settings.into_generator())
}

/// Checks `text`, which is TOML. The error names the first unknown key or number out of range, with its position.
pub(super) fn check(text: &str) -> Result<(), String> {
    let document = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    table(text, "", document.get_ref(), schema().as_value())
}

fn table(text: &str, path: &str, table_: &DeTable<'_>, schema: &Value) -> Result<(), String> {
    for (spanned, value) in table_ {
        let key = spanned.get_ref().as_ref();
        let keys = schema.get("properties").and_then(Value::as_object);
        let named = keys.and_then(|keys| keys.get(key));
        let Some(schema) = named.or_else(|| schema.get("additionalProperties")) else {
            let Some(keys) = keys else { continue };
            let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
            let message = format!("unknown field `{key}`, expected one of {}", keys.join(", "));
            return Err(located(text, Some(spanned.span().start), &message));
        };
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value.get_ref() {
            DeValue::Table(inner) => table(text, &path, inner, schema)?,
            DeValue::Integer(number) => {
                let (least, most) = range(schema);
                let found = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX);
                if !(least..=most).contains(&found) {
                    let range = match most == i64::MAX.into() {
                        true => format!("{least} or more"),
                        false => format!("from {least} to {most}"),
                    };
                    let message = format!("{path} is {found}; it must be {range}");
                    return Err(located(text, Some(value.span().start), &message));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the smallest and the largest allowed value of a number.
fn range(schema: &Value) -> (i128, i128) {
    let bound = |key| schema.get(key).and_then(Value::as_i64).map(i128::from);
    (bound("minimum").unwrap_or(i64::MIN.into()), bound("maximum").unwrap_or(i64::MAX.into()))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use patchbay_egress::Egress;

    use super::{super::parse, *};

    #[test]
    fn number_out_of_range_is_reported_with_its_position() {
        for (text, words) in [
            ("[limits]\ntime_ms = 0", "line 2, column 11: limits.time_ms is 0; it must be from 1 to 3600000"),
            ("journal = { keep = 0 }", "line 1, column 20: journal.keep is 0; it must be from 1 to 10000000"),
            ("\negress.idle_ms = 0x0", "line 2, column 18: egress.idle_ms is 0; it must be from 1 to 3600000"),
            ("[exchange]\nfuel = 0", "line 2, column 8: exchange.fuel is 0; it must be 1 or more"),
        ] {
            assert_eq!(parse(text).unwrap_err(), words);
        }
    }

    /// The declared ranges match what the crates accept: both ends of each range are allowed, and nothing beyond them.
    #[test]
    fn ends_of_each_range_are_accepted() {
        let schema = schema();
        let mut seen = 0;
        for (table, keys) in schema.get("properties").and_then(Value::as_object).unwrap() {
            for (key, schema) in keys.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if schema.get("maximum").is_none() {
                    continue;
                }
                let (least, most) = range(schema);
                for value in [least, most] {
                    let config = parse(&format!("[{table}]\n{key} = {value}")).unwrap();
                    Egress::new(config.egress);
                    config.exchange.egress();
                }
                let Range { start, end } = least - 1..most + 1;
                for value in [start, end] {
                    let error = parse(&format!("[{table}]\n{key} = {value}")).unwrap_err();
                    assert!(error.starts_with("line 2, column ") && error.contains(&value.to_string()), "{error}");
                }
                seen += 1;
            }
        }
        assert!(seen > 10, "the ranges are not found");
    }
}
