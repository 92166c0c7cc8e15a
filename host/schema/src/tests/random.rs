//! Random schemas and values give the same results as the `jsonschema` library.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{accepts, compile, oracle};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4i64..5).prop_map(Value::from),
        (-8i64..9).prop_map(|half| json!(half as f64 / 2.0)),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn merge(parts: Vec<Value>) -> Value {
    let mut all = Map::new();
    for part in parts {
        if let Value::Object(map) = part {
            all.extend(map);
        }
    }
    Value::Object(all)
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set("[abc]", 1..3).prop_map(|names| names.into_iter().collect())
}

fn scalar() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    prop_oneof![
        kind.clone().prop_map(|kind| json!({"type": kind})),
        prop::collection::btree_set(kind, 1..3).prop_map(|kinds| json!({"type": kinds})),
        value().prop_map(|value| json!({"const": value})),
        prop::collection::vec(value(), 1..3).prop_map(|values| json!({"enum": values})),
        (-3i64..4).prop_map(|limit| json!({"minimum": limit})),
        (-3i64..4).prop_map(|limit| json!({"exclusiveMaximum": limit})),
        (-3i64..4).prop_map(|limit| json!({"exclusiveMinimum": limit as f64 / 2.0})),
        (-3i64..4).prop_map(|limit| json!({"maximum": limit as f64 / 2.0})),
        prop::sample::select(vec![json!(1), json!(2), json!(0.5), json!(1.5)]).prop_map(|of| json!({"multipleOf": of})),
        (0u64..3).prop_map(|size| json!({"minLength": size})),
        (0u64..3).prop_map(|size| json!({"maxLength": size})),
        (0u64..3).prop_map(|size| json!({"minItems": size})),
        (0u64..3).prop_map(|size| json!({"maxItems": size})),
        (0u64..3).prop_map(|size| json!({"minProperties": size})),
        (0u64..3).prop_map(|size| json!({"maxProperties": size})),
        any::<bool>().prop_map(|unique| json!({"uniqueItems": unique})),
        names().prop_map(|names| json!({"required": names})),
        ("[abc]", names()).prop_map(|(name, names)| json!({"dependentRequired": {name: names}})),
        prop::sample::select(vec!["^a", "b$", "^(a|b)*$", "^(?!a)"]).prop_map(|pattern| json!({"pattern": pattern})),
        Just(json!({"$ref": "#/$defs/leaf"})),
        Just(json!({"format": "date"})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => prop::collection::vec(scalar(), 0..3).prop_map(merge),
        1 => any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let one = inner.clone();
        let some = prop::collection::vec(inner.clone(), 1..3);
        let map = |name: &'static str| prop::collection::btree_map(name, inner.clone(), 1..3);
        let part = prop_oneof![
            map("[abc]").prop_map(|map| json!({"properties": map})),
            map("\\^?[abc]").prop_map(|map| json!({"patternProperties": map})),
            one.clone().prop_map(|schema| json!({"additionalProperties": schema})),
            one.clone().prop_map(|schema| json!({"propertyNames": schema})),
            one.clone().prop_map(|schema| json!({"items": schema})),
            some.clone().prop_map(|schemas| json!({"prefixItems": schemas})),
            (one.clone(), 0u64..3, 0u64..3).prop_map(|(schema, min, more)| {
                json!({"contains": schema, "minContains": min, "maxContains": min + more})
            }),
            one.clone().prop_map(|schema| json!({"contains": schema})),
            some.clone().prop_map(|schemas| json!({"allOf": schemas})),
            some.clone().prop_map(|schemas| json!({"anyOf": schemas})),
            some.prop_map(|schemas| json!({"oneOf": schemas})),
            one.clone().prop_map(|schema| json!({"not": schema})),
            (one.clone(), one.clone(), one.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            map("[abc]").prop_map(|map| json!({"dependentSchemas": map})),
            // A tree, and a node that refers to its own parts.
            Just(json!({"additionalProperties": {"$ref": "#/$defs/tree"}})),
            Just(json!({"items": {"$ref": "#/$defs/tree"}})),
            scalar(),
        ];
        prop::collection::vec(part, 1..4).prop_map(merge)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn results_equal_those_of_jsonschema(
        x in schema(),
        tree in schema(),
        leaf in scalar(),
        values in prop::collection::vec(value(), 5),
    ) {
        let mut leaf = leaf;
        if leaf.get("$ref").is_some() {
            leaf = json!({});
        }
        let schema = json!({
            "type": "object",
            "properties": {"x": x},
            "$defs": {
                "leaf": leaf,
                "tree": {"type": ["object", "array", "integer"], "items": tree, "additionalProperties": {"$ref": "#/$defs/tree"}}
            }
        });
        let compiled = match compile(&schema) {
            Ok(compiled) => compiled,
            Err(error) => panic!("{error}: {schema}"),
        };
        for value in values {
            let input = json!({"x": value});
            prop_assert_eq!(accepts(&compiled, &input), oracle(&schema, &input), "{} {}", schema, input);
        }
    }

    /// Compiling any JSON as a schema returns a schema or an error, and never panics.
    #[test]
    fn no_schema_panics(x in value(), key in prop::sample::select(vec![
        "type", "enum", "minimum", "multipleOf", "minLength", "pattern", "items", "prefixItems", "contains", "required",
        "properties", "patternProperties", "additionalProperties", "propertyNames", "dependentRequired",
        "dependentSchemas", "allOf", "not", "if", "$ref", "$id", "$schema", "unevaluatedItems", "uniqueItems",
    ]), input in value()) {
        for schema in [json!({"type": "object", key: x}), json!({"type": "object", "properties": {"a": {key: x}}})] {
            if let Ok(schema) = compile(&schema) {
                let _ = schema.check(&input);
            }
        }
    }
}
