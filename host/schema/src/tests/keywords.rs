//! Each keyword with values that it accepts and values that it rejects.

use serde_json::{Value, json};

use super::{accepts, compile, oracle, property};

#[test]
fn each_keyword_accepts_and_rejects() {
    // A schema for `x`, valid values, invalid values.
    let cases: Vec<(Value, Vec<Value>, Vec<Value>)> = vec![
        (json!(true), vec![json!(1), json!(null)], vec![]),
        (json!(false), vec![], vec![json!(1), json!(null)]),
        (json!({"type": "integer"}), vec![json!(1), json!(1.0), json!(-3)], vec![json!(1.5), json!("1"), json!(null)]),
        (json!({"type": "number"}), vec![json!(1), json!(1.5)], vec![json!("1"), json!(true)]),
        (json!({"type": ["string", "null"]}), vec![json!("a"), json!(null)], vec![json!(0), json!([])]),
        (json!({"type": "array"}), vec![json!([1])], vec![json!({})]),
        (json!({"type": "boolean"}), vec![json!(true)], vec![json!(0)]),
        (json!({"const": {"a": [1, 2.0]}}), vec![json!({"a": [1.0, 2]})], vec![json!({"a": [1]}), json!({})]),
        (json!({"const": null}), vec![json!(null)], vec![json!(0), json!(false)]),
        (json!({"enum": ["a", "b"]}), vec![json!("b")], vec![json!("c"), json!(1)]),
        (json!({"enum": [1, "b", [null]]}), vec![json!(1.0), json!([null])], vec![json!("1"), json!(true)]),
        (json!({"minimum": 2}), vec![json!(2), json!("a")], vec![json!(1.99)]),
        (json!({"exclusiveMinimum": 2}), vec![json!(2.01)], vec![json!(2), json!(2.0)]),
        (json!({"maximum": 2.5}), vec![json!(2), json!(2.5)], vec![json!(3)]),
        (json!({"exclusiveMaximum": 2}), vec![json!(1)], vec![json!(2)]),
        (json!({"multipleOf": 0.01}), vec![json!(19.99), json!(3)], vec![json!(0.005)]),
        (json!({"multipleOf": 3}), vec![json!(9), json!(0), json!("x")], vec![json!(10)]),
        (json!({"minLength": 2}), vec![json!("äö"), json!(1)], vec![json!("ä"), json!("")]),
        (json!({"maxLength": 2}), vec![json!("🙂🙂")], vec![json!("abc")]),
        (json!({"pattern": "^a+$"}), vec![json!("aa"), json!(1)], vec![json!("ab"), json!("")]),
        (json!({"minItems": 1}), vec![json!([1]), json!({})], vec![json!([])]),
        (json!({"maxItems": 1}), vec![json!([1])], vec![json!([1, 2])]),
        (
            json!({"uniqueItems": true}),
            vec![json!([1, "1", [1]])],
            vec![json!([1, 2, 1.0]), json!([{"a": 1}, {"a": 1}])],
        ),
        (
            json!({"uniqueItems": true}),
            vec![json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "9", [9]])],
            vec![json!([0, 1, 2, 3, 4, 5, 6, 7, 8, {"a": 1, "b": 2}, {"b": 2, "a": 1}])],
        ),
        (json!({"uniqueItems": false}), vec![json!([1, 1])], vec![]),
        (json!({"items": {"type": "integer"}}), vec![json!([]), json!([1, 2])], vec![json!([1, "a"])]),
        (json!({"items": false}), vec![json!([])], vec![json!([1])]),
        (
            json!({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}}),
            vec![json!([1]), json!([1, "a", null])],
            vec![json!(["a"]), json!([1, "a", 1])],
        ),
        (json!({"contains": {"const": 1}}), vec![json!([0, 1])], vec![json!([]), json!([0])]),
        (
            json!({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}),
            vec![json!([1, 1]), json!([1, 0, 1, 1])],
            vec![json!([1]), json!([1, 1, 1, 1])],
        ),
        (json!({"contains": {"const": 1}, "minContains": 0}), vec![json!([])], vec![]),
        (json!({"minProperties": 1}), vec![json!({"a": 1}), json!([])], vec![json!({})]),
        (json!({"maxProperties": 1}), vec![json!({"a": 1})], vec![json!({"a": 1, "b": 2})]),
        (json!({"required": ["a", "b"]}), vec![json!({"a": 1, "b": null}), json!(1)], vec![json!({"a": 1})]),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            vec![json!({"b": 1}), json!({"a": 1, "b": 1})],
            vec![json!({"a": 1})],
        ),
        (
            json!({"dependentSchemas": {"a": {"required": ["b"]}}}),
            vec![json!({}), json!({"a": 1, "b": 1})],
            vec![json!({"a": 1})],
        ),
        (json!({"propertyNames": {"maxLength": 1}}), vec![json!({"a": 1})], vec![json!({"ab": 1})]),
        (json!({"propertyNames": {"pattern": "^x-"}}), vec![json!({"x-a": 1})], vec![json!({"a": 1})]),
        (
            json!({"properties": {"a": {"type": "integer"}}, "patternProperties": {"^x": {"type": "string"}},
                   "additionalProperties": {"type": "null"}}),
            vec![json!({"a": 1, "xa": "b", "c": null}), json!({})],
            vec![json!({"a": "1"}), json!({"xa": 1}), json!({"c": 1})],
        ),
        (
            json!({"properties": {"a": true}, "additionalProperties": false}),
            vec![json!({"a": [1]}), json!({})],
            vec![json!({"b": 1})],
        ),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 3}]}), vec![json!(2)], vec![json!(0), json!(4)]),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}), vec![json!("a"), json!(3)], vec![json!(2)]),
        (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), vec![json!(2), json!(9)], vec![json!(6), json!(5)]),
        (json!({"not": {"type": "string"}}), vec![json!(1)], vec![json!("a")]),
        (
            json!({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 5}}),
            vec![json!("ab"), json!(5)],
            vec![json!("a"), json!(4)],
        ),
        (json!({"then": false, "else": false}), vec![json!(1)], vec![]),
        (json!({"unevaluatedProperties": true}), vec![json!({"a": 1})], vec![]),
        // Annotations, and unknown keywords.
        (json!({"format": "email", "x-unknown": {"$ref": 5}, "nullable": true}), vec![json!("no address")], vec![]),
        (json!({"minLength": 2.0}), vec![json!("ab")], vec![json!("a")]),
    ];
    for (x, good, bad) in cases {
        let schema = property(&x);
        let compiled = compile(&schema).unwrap_or_else(|error| panic!("{error}"));
        for (values, valid) in [(good, true), (bad, false)] {
            for value in values {
                let input = json!({"x": value});
                assert_eq!(accepts(&compiled, &input), valid, "{x} {value}");
                assert_eq!(oracle(&schema, &input), valid, "oracle: {x} {value}");
            }
        }
    }
}

#[test]
fn references_may_point_anywhere_in_the_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "b": {"$ref": "#/properties/a/anyOf/0"},
            "c": {"$ref": "#/$defs/name%20with~1slash~0", "maxLength": 3},
            "tree": {"$ref": "#"},
            "elsewhere": {"$ref": "#/components/schemas/s"}
        },
        "additionalProperties": false,
        "$defs": {"name with/slash~": {"type": "string"}, "unused": {"$ref": "http://127.0.0.1/none"}},
        "components": {"schemas": {"s": {"const": 7}}}
    });
    let compiled = compile(&schema).unwrap();
    for (input, valid) in [
        (json!({"a": null, "b": 1, "c": "abc", "elsewhere": 7}), true),
        (json!({"b": null}), false),
        (json!({"c": "abcd"}), false),
        (json!({"c": 1}), false),
        (json!({"elsewhere": 8}), false),
        (json!({"tree": {"tree": {"b": 5}}}), true),
        (json!({"tree": {"tree": {"b": "5"}}}), false),
        (json!({"tree": {"d": 1}}), false),
    ] {
        assert_eq!(accepts(&compiled, &input), valid, "{input}");
    }
}

/// A pointer may lead into data, which is then read as a schema.
#[test]
fn reference_into_data_is_read_as_a_schema() {
    let into = |target: &str, data: Value| json!({"type": "object", "properties": {"a": {"enum": [data]}, "b": {"$ref": target}}});
    let compiled = compile(&into("#/properties/a/enum/0", json!({"type": "integer"}))).unwrap();
    assert!(accepts(&compiled, &json!({"b": 1})) && !accepts(&compiled, &json!({"b": "1"})));
    for data in [json!(5), json!({"type": 5}), json!({"$anchor": "a"}), json!({"$ref": "http://127.0.0.1/x"})] {
        compile(&into("#/properties/a/enum/0", data)).unwrap_err();
    }
}

#[test]
fn draft_07_keywords_have_their_meaning() {
    for draft in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema"] {
        let schema = json!({
            "$schema": draft, "$id": "https://example.com/x.json", "type": "object",
            "properties": {
                "pair": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false},
                // Keywords next to a reference have no effect.
                "short": {"$ref": "#/definitions/text", "maxLength": 1},
                "some": {"contains": {"const": 1}, "minContains": 5},
                "prefix": {"prefixItems": [false]}
            },
            "dependencies": {"pair": ["short"], "some": {"required": ["prefix"]}},
            "definitions": {"text": {"type": "string"}}
        });
        let compiled = compile(&schema).unwrap();
        for (input, valid) in [
            (json!({"pair": [1, "a"], "short": "long"}), true),
            (json!({"pair": [1, "a"]}), false),
            (json!({"pair": [1, "a", 2], "short": ""}), false),
            (json!({"some": [1], "prefix": [1]}), true),
            (json!({"some": [1]}), false),
            (json!({"short": 1}), false),
        ] {
            assert_eq!(accepts(&compiled, &input), valid, "{input}");
            assert_eq!(oracle(&schema, &input), valid, "oracle: {input}");
        }
    }
}

/// The type, `required` or the discriminator is checked before subtrees, which keeps a tree with many kinds of nodes cheap.
#[test]
fn recursive_unions_take_few_steps() {
    let kinds: Vec<_> = (0..10)
        .map(|kind| {
            json!({
                "type": "object", "required": ["type"],
                "properties": {
                    "args": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                    "type": {"const": format!("k{kind}")}
                }
            })
        })
        .collect();
    // These alternatives have no discriminator, but `required` is checked before subtrees, so `a` is rejected at once.
    let alike: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            json!({
                "type": "object", "required": [name],
                "properties": {"args": {"type": "array", "items": {"$ref": "#/$defs/node"}}}
            })
        })
        .collect();
    for node in [json!({"oneOf": kinds}), json!({"anyOf": alike})] {
        let schema = json!({
            "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}
        });
        let compiled = compile(&schema).unwrap();
        let mut tree = json!({"type": "k9", "b": 1});
        for _ in 0..14 {
            tree = json!({"type": "k9", "b": 1, "args": [tree, {"type": "k0", "b": 1}]});
        }
        assert_eq!(crate::validate::check(&compiled, &json!({"root": tree}), 20_000), Ok(()));
    }
}
