//! Schemas and inputs that try to run endlessly, to exhaust memory or to overflow the stack.

use std::{fmt::Write as _, thread};

use serde_json::{Map, Value, json};

use super::{compile, property};
use crate::{PatternBudget, Rejection, Schema, limits};

/// Returns a chain of definitions, each with references to the next.
fn chain(count: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    let mut defs: Map<_, _> =
        (1..count).map(|n| ((n - 1).to_string(), link(json!({"$ref": format!("#/$defs/{n}")})))).collect();
    defs.insert((count - 1).to_string(), last);
    json!({"type": "object", "$ref": "#/$defs/0", "$defs": defs})
}

/// Returns links that multiply the work, one for every keyword that applies a schema.
fn links() -> Vec<Box<dyn Fn(Value) -> Value>> {
    vec![
        Box::new(|r| json!({"anyOf": [r, r], "unevaluatedProperties": false})),
        Box::new(|r| json!({"anyOf": [r, r]})),
        Box::new(|r| json!({"oneOf": [r, r]})),
        Box::new(|r| json!({"allOf": [r, r]})),
        Box::new(|r| json!({"allOf": [{"not": {"not": r}}, r]})),
        Box::new(|r| json!({"if": r, "then": r, "else": r})),
        Box::new(|r| json!({"not": {"anyOf": [r, r]}})),
        Box::new(|r| json!({"dependentSchemas": {"x": r, "y": r}})),
        Box::new(|r| json!({"properties": {"x": r, "y": r}})),
        Box::new(|r| json!({"patternProperties": {"x": r, "y": r}})),
        Box::new(|r| json!({"additionalProperties": r, "propertyNames": r})),
        Box::new(|r| json!({"prefixItems": [r, r], "items": r})),
        Box::new(|r| json!({"contains": r, "items": r})),
        Box::new(|r| json!({"$ref": r["$ref"], "allOf": [r]})),
    ]
}

#[test]
fn multiplying_references_are_refused() {
    for (index, link) in links().iter().enumerate() {
        for length in [40, 60, 400] {
            let error = compile(&chain(length, link, json!({"required": ["zz"]}))).expect_err(&index.to_string());
            let limit = ["subschemas", "chain", "not supported"].iter().any(|limit| error.contains(limit));
            assert!(limit, "{index}: {error}");
        }
        // A few links are allowed and cheap, except for unsupported keywords.
        if index > 0 {
            let schema = compile(&chain(5, link, json!({"required": ["zz"]})))
                .unwrap_or_else(|error| panic!("{index}: {error}"));
            let _ = schema.check(&json!({"x": {"x": [[[]]]}, "y": {"y": 1}}));
        }
    }
}

#[test]
fn long_reference_chains_are_refused() {
    for (link, last) in [
        (json!({"unevaluatedProperties": false}), json!({})),
        (json!({}), json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "minProperties": 1})),
        (json!({"title": "a"}), json!({"properties": {"x": {"$ref": "#"}}})),
    ] {
        for count in [100, 800, 1_900, 2_000] {
            let link = |r: Value| {
                let mut link = link.clone();
                link["$ref"] = r["$ref"].clone();
                link
            };
            compile(&chain(count, link, last.clone())).unwrap_err();
        }
    }
}

#[test]
fn circular_references_on_one_value_are_refused() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        compile(&property(&json!({keyword: [{"$ref": "#/properties/x"}]}))).unwrap_err();
    }
    for keyword in ["not", "if"] {
        compile(&property(&json!({keyword: {"$ref": "#/properties/x"}}))).unwrap_err();
    }
    compile(&property(&json!({"$ref": "#/properties/x"}))).unwrap_err();
    compile(&property(&json!({"if": true, "then": {"$ref": "#/properties/x"}}))).unwrap_err();
    compile(&property(&json!({"dependentSchemas": {"a": {"$ref": "#/properties/x"}}}))).unwrap_err();
    // A reference through a property or an item describes a tree, not a cycle.
    for keyword in ["items", "contains", "additionalProperties", "propertyNames"] {
        compile(&property(&json!({keyword: {"$ref": "#/properties/x"}}))).unwrap();
    }
}

#[test]
fn pattern_limits_apply_to_the_component() {
    let many: Map<_, _> = (0..1_946).map(|n| (n.to_string(), json!({"pattern": format!("\\pL{{18}}{n}")}))).collect();
    assert!(compile(&json!({"type": "object", "properties": many})).unwrap_err().contains("256 patterns"));
    let mut budget = PatternBudget::default();
    let mut refused = 0;
    for tool in 0..64 {
        let some: Map<_, _> =
            (0..10).map(|n| (n.to_string(), json!({"pattern": format!("\\p{{L}}{{{tool}}}{n}")}))).collect();
        refused += usize::from(Schema::compile(&json!({"type": "object", "properties": some}), &mut budget).is_err());
    }
    assert_eq!(refused, 64 - 25);
}

/// Runs on a thread with a smaller stack than a Wasmtime fiber has. Test builds are not optimized and need even more stack.
fn with_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap().join().unwrap()
}

#[test]
fn deepest_check_fits_a_small_stack() {
    with_small_stack(|| {
        let tree = |kind: Value| {
            let mut inner = json!({"allOf": [{"properties": {"x": {"$ref": "#"}}}]});
            for _ in 0..20 {
                inner = json!({"anyOf": [inner, false], "type": "object"});
            }
            json!({"type": "object", "title": kind, "allOf": [inner]})
        };
        let schema = compile(&tree(json!("t"))).unwrap();
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
        assert_eq!(schema.check(&nested(5)), Ok(()));
        assert_eq!(schema.check(&nested(100)), Err(Rejection::TooDeep));
        // Names, items and trees of every kind.
        let many = json!({
            "type": "object",
            "additionalProperties": {"oneOf": [{"$ref": "#"}, {"type": "array", "items": {"$ref": "#"}}]},
            "propertyNames": {"anyOf": [{"pattern": "^(?=x)x$"}, {"not": {"const": "z"}}]}
        });
        let schema = compile(&many).unwrap();
        assert_eq!(schema.check(&nested(15)), Ok(()));
        assert_eq!(schema.check(&nested(120)), Err(Rejection::TooDeep));
        drop(schema);
        let deep = (0..120).fold(json!([]), |inner, _| json!([inner]));
        let unique = compile(&property(&json!({"uniqueItems": true}))).unwrap();
        let items: Vec<_> = (0..20).map(|_| deep.clone()).collect();
        assert!(matches!(unique.check(&json!({"x": items})), Err(Rejection::Invalid { .. })));
    });
}

#[test]
fn input_depth_is_limited() {
    let schema = compile(&json!({"type": "object", "properties": {"x": {"$ref": "#"}}})).unwrap();
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"x": inner}));
    assert_eq!(schema.check(&nested(32)), Ok(()));
    assert_eq!(schema.check(&nested(33)), Err(Rejection::TooDeep));
    // Parts that no schema checks may be as deep as the parser allows.
    assert_eq!(compile(&json!({"type": "object"})).unwrap().check(&nested(120)), Ok(()));
}

/// Each check either ends normally or reaches the step limit.
#[test]
fn slow_checks_end_at_the_step_limit() {
    let list = |count: usize| Value::from((0..count).collect::<Vec<_>>());
    let words: Vec<_> = (0..4_000).map(|n| json!([n, "word"])).collect();
    let mut alternatives = vec![json!({"type": "string"}); 1_500];
    alternatives.push(json!({"type": "integer"}));
    let patterns: Map<_, _> = (0..200).map(|n| (format!("^(a|aa)+{n}$"), json!(true))).collect();
    let keys: Map<_, _> = (0..2_000).map(|n| (format!("{}{n}", "a".repeat(100)), json!(1))).collect();
    for (schema, input) in [
        (json!({"items": {"enum": words}}), Value::from(vec![json!([3_999, "word"]); 5_000])),
        (json!({"items": {"uniqueItems": true}}), Value::from(vec![list(100); 20_000])),
        (json!({"patternProperties": patterns}), Value::from(keys.clone())),
        (json!({"pattern": "^(?:(?=[a-z]*b)[a-z])*$"}), json!(format!("{}b", "a".repeat(100_000)))),
        (json!({"pattern": "([a-z]{1,5000}x)+"}), json!("a".repeat(100_000))),
        (json!({"items": {"anyOf": alternatives}}), list(100_000)),
    ] {
        let schema = compile(&property(&schema)).unwrap();
        assert_eq!(schema.check(&json!({"x": input})), Err(Rejection::TooManySteps));
    }
    for (schema, input) in [
        (json!({"uniqueItems": true}), list(100_000)),
        (json!({"pattern": "^(a+)+$"}), json!(format!("{}!", "a".repeat(50_000)))),
        (json!({"multipleOf": 1e-300}), json!(1e300)),
        (json!({"items": {"multipleOf": 5e-324}}), Value::from(vec![json!(1.7e308); 10_000])),
        (json!({"additionalProperties": {"type": "integer"}}), Value::from(keys)),
    ] {
        let schema = compile(&property(&schema)).unwrap();
        let result = schema.check(&json!({"x": input}));
        assert!(matches!(result, Ok(()) | Err(Rejection::Invalid { .. })), "{result:?}");
    }
}

/// A limit inside an alternative ends the check; it does not count as a violation of the alternative.
#[test]
fn limits_are_not_counted_as_violations() {
    let slow = json!({"items": {"pattern": "^(?:(?=[a-z]*b)[a-z])*$"}});
    let text = format!("{}b", "a".repeat(100_000));
    let input = json!({"x": [text]});
    for keyword in ["anyOf", "oneOf"] {
        let schema = compile(&property(&json!({keyword: [slow, true]}))).unwrap();
        assert_eq!(schema.check(&input), Err(Rejection::TooManySteps));
    }
    for schema in [json!({"not": slow}), json!({"if": slow}), json!({"contains": slow["items"]})] {
        let schema = compile(&property(&schema)).unwrap();
        assert_eq!(schema.check(&input), Err(Rejection::TooManySteps));
    }
}

#[test]
fn giant_schemas_compile_in_linear_time() {
    // Schemas of the largest allowed size, 64 KiB, each filled with one kind of content.
    let fill = |part: &str, between: &str| {
        let mut text = String::new();
        while text.len() + part.len() < 65_000 {
            if !text.is_empty() {
                text += between;
            }
            text += part;
        }
        text
    };
    let mut names = String::new();
    for n in 0..5_000 {
        let _ = write!(names, "{}\"{n}\":1", if n == 0 { "" } else { "," });
    }
    for text in [
        format!(r#"{{"type":"object","enum":[{}]}}"#, fill("1", ",")),
        format!(r#"{{"type":"object","required":[{}]}}"#, fill("\"a\"", ",")),
        format!(r#"{{"type":"object","allOf":[{}]}}"#, fill("{}", ",")),
        format!(r#"{{"type":"object","const":{{{names}}}}}"#),
        format!(r#"{{"type":"object","properties":{{"a":{{"pattern":"{}"}}}}}}"#, fill("(a|b)", "")),
        format!(r#"{{"type":"object","properties":{{"a":{{"pattern":"{}"}}}}}}"#, fill("(", "")),
        format!(r#"{{"type":"object","properties":{{"a":{{"pattern":"{}"}}}}}}"#, fill("\\\\p{L}", "")),
        format!(r#"{{"type":"object","properties":{{"a":{{"pattern":"(?i){}"}}}}}}"#, fill("[^k]", "")),
        r#"{"type":"object","properties":{"a":{"pattern":"((){1000000}){1000000}"}}}"#.to_owned(),
        r#"{"type":"object","properties":{"a":{"pattern":"(a{1000}){1000}"}}}"#.to_owned(),
    ] {
        let schema: Value = serde_json::from_str(&text).unwrap();
        match compile(&schema) {
            Ok(schema) => drop(schema.check(&json!({"a": "b".repeat(100)}))),
            Err(error) => assert!(error.len() < 400, "{error}"),
        }
    }
    assert_eq!(limits::PATTERN_BYTES, 4 << 20);
}
