//! Error messages for users and models.

use serde_json::json;

use super::{compile, property};

#[test]
fn violations_name_pointer_and_value() {
    let schema = json!({
        "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "list": {"type": "array", "items": {"type": ["string", "null"]}, "uniqueItems": true, "maxItems": 2},
            "kind": {"enum": ["a", "b", "c"]},
            "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "maybe": {"anyOf": [{"type": "object", "properties": {"a/b": {"type": "boolean"}}}, {"type": "null"}]},
            "one": {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
            "names": {"propertyNames": {"maxLength": 1}}
        }
    });
    let compiled = compile(&schema).unwrap();
    assert_eq!(compiled.check(&json!({"n": 1})), Ok(()));
    for (input, text) in [
        (json!({"n": "x"}), r#"at /n: "x" is not of type "integer""#),
        (json!({}), r#""n" is a required property"#),
        (json!([]), r#"[] is not of type "object""#),
        (json!({"n": 0}), "at /n: 0 is less than the minimum of 1"),
        (json!({"n": 1, "m": 1}), "Additional properties are not allowed ('m' was unexpected)"),
        (json!({"n": 1, "list": ["a", 1]}), r#"at /list/1: 1 is not of types "null", "string""#),
        (json!({"n": 1, "list": ["a", "a"]}), r#"at /list: ["a","a"] has non-unique elements"#),
        (json!({"n": 1, "list": ["a", "b", "c"]}), r#"at /list: ["a","b","c"] has more than 2 items"#),
        (json!({"n": 1, "kind": "d"}), r#"at /kind: "d" is not one of "a", "b" or "c""#),
        (json!({"n": 1, "name": "a"}), r#"at /name: "a" is shorter than 2 characters"#),
        (json!({"n": 1, "name": "Aa"}), r#"at /name: "Aa" does not match "^[a-z]+$""#),
        (json!({"n": 1, "maybe": {"a/b": 1}}), r#"at /maybe/a~1b: 1 is not of type "boolean""#),
        (json!({"n": 1, "maybe": 1}), "at /maybe: 1 is not valid under any of the schemas listed in 'anyOf'"),
        (json!({"n": 1, "one": 2}), "at /one: 2 is valid under more than one of the schemas listed in 'oneOf'"),
        (
            json!({"n": 1, "names": {"ab": 1}}),
            r#"at /names: the property name "ab" is invalid: "ab" is longer than 1 character"#,
        ),
    ] {
        assert_eq!(compiled.check(&input).unwrap_err().to_string(), text);
    }
    let long = compiled.check(&json!({"n": "y".repeat(1 << 20)})).unwrap_err().to_string();
    assert!(long.len() < 200 && long.ends_with("… is not of type \"integer\""), "{long}");
}

#[test]
fn refusals_name_keyword_and_limit() {
    let wide: Vec<_> = (0..2_000).map(|n| json!({"minimum": n})).collect();
    let chain = |length: usize| {
        let links = (0..length).map(|n| (n.to_string(), json!({"$ref": format!("#/$defs/{}", n + 1)})));
        let mut defs: serde_json::Map<_, _> = links.collect();
        defs.insert(length.to_string(), json!({}));
        json!({"type": "object", "$ref": "#/$defs/0", "$defs": defs})
    };
    compile(&chain(31)).unwrap();
    let patterns = |count: usize| {
        let properties: serde_json::Map<_, _> =
            (0..count).map(|n| (n.to_string(), json!({"pattern": format!("{n}")}))).collect();
        json!({"type": "object", "properties": properties})
    };
    compile(&patterns(256)).unwrap();
    let large: serde_json::Map<_, _> =
        (0..20).map(|n| (n.to_string(), json!({"pattern": format!("[a-z]{{19000}}{n}")}))).collect();
    let deep = (0..40).fold(json!({}), |inner, _| json!({"items": inner, "x": {}}));
    let deeper = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
    compile(&property(&deep)).unwrap();
    for (schema, text) in [
        (
            json!({"type": "object", "unevaluatedProperties": false}),
            "uses 'unevaluatedProperties', which is not supported; use 'additionalProperties'",
        ),
        (
            property(&json!({"unevaluatedItems": {}})),
            "uses 'unevaluatedItems', which is not supported; use 'items' beside 'prefixItems'",
        ),
        (
            property(&json!({"$anchor": "a"})),
            "uses '$anchor', which is not supported; use a '$ref' such as '#/$defs/NAME'",
        ),
        (property(&json!({"$dynamicRef": "#a"})), "uses '$dynamicRef', which is not supported; use '$ref'"),
        (property(&json!({"$recursiveRef": "#"})), "uses '$recursiveRef', which is not supported; use '$ref'"),
        (
            property(&json!({"$id": "a"})),
            "uses '$id', which is not supported; remove it (only the top level may have an '$id')",
        ),
        (
            json!({"type": "object", "$ref": "http://127.0.0.1:1/x"}),
            "has the '$ref' 'http://127.0.0.1:1/x', which leads out of the schema; use one such as '#/$defs/NAME'",
        ),
        (property(&json!({"$ref": "#/$defs/x"})), "has the '$ref' '#/$defs/x', which leads nowhere"),
        (json!({"type": "array"}), r#"does not have "type": "object" at its top level; a tool's input is an object"#),
        (
            property(&json!({"type": 5})),
            "is invalid at /properties/x: 'type' is 5, but must be the name of a JSON type or a list of them",
        ),
        (
            property(&json!({"items": [{}], "prefixItems": [{}]})),
            "is invalid at /properties/x: 'items' is [{}], but must be a schema when 'prefixItems' is present",
        ),
        (property(&json!(5)), "is invalid at /properties/x: the subschema is 5, but must be an object or a boolean"),
        (property(&json!({"pattern": "(a"})), "has the pattern '(a', which cannot be used: unclosed '('"),
        (property(&json!({"anyOf": wide})), "has more than 2000 subschemas when each '$ref' is replaced by its target"),
        (chain(40), "has a chain of more than 32 references ('$ref'), at /$defs/7"),
        (patterns(257), "takes its component over the limit of 256 patterns"),
        (
            json!({"type": "object", "properties": large}),
            "takes the patterns of its component over the limit of 4 MiB when they are compiled",
        ),
        (
            property(&json!({"allOf": [{"$ref": "#/properties/x"}]})),
            "has a '$ref' that leads back to itself without entering a property or an item, at /properties/x/allOf/0",
        ),
        (
            json!({"type": "object", "$ref": "#"}),
            "has a '$ref' that leads back to itself without entering a property or an item",
        ),
        (property(&deeper), "is nested more than 64 levels deep"),
    ] {
        assert_eq!(compile(&schema).unwrap_err(), format!("The schema of tool 'x' {text}."));
    }
}
