//! JSON schemas that would exhaust the time, memory or stack of a validator without limits. Used by the hostile ring and by the
//! tests of untrusted workspaces.

use serde_json::{Map, Value, json};

/// Returns a schema with a chain of `count` definitions. `link` makes each one from a reference to the next; `last` is the end.
pub fn chain(count: usize, link: impl Fn(Value) -> Value, last: Value) -> Value {
    let mut definitions: Map<_, _> =
        (1..count).map(|n| ((n - 1).to_string(), link(json!({"$ref": format!("#/$defs/{n}")})))).collect();
    definitions.insert((count - 1).to_string(), last);
    json!({"type": "object", "$ref": "#/$defs/0", "$defs": definitions})
}

fn beside(reference: &Value, keyword: &str, value: Value) -> Value {
    json!({"$ref": reference["$ref"], keyword: value})
}

/// Returns the name of each case, its schema, and the beginning of its error; `None` if the schema is accepted and cheap.
pub fn hostile() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let unfolded = Some("has more than 2000 subschemas");
    let long = Some("has a chain of more than 32 references");
    let circle = Some("has a '$ref' that leads back to itself");
    let zz = || json!({"required": ["zz"]});
    let patterns: Map<_, _> =
        (0..1_946).map(|n| (n.to_string(), json!({"pattern": format!("\\pL{{18}}{n}")}))).collect();
    let large: Map<_, _> = (0..30).map(|n| (n.to_string(), json!({"pattern": format!("[a-z]{{19000}}{n}")}))).collect();
    let wide = vec![json!({}); 2_000];
    let giant: Vec<_> = (0..9_000).map(Value::from).collect();
    let nested = (0..80).fold(json!({}), |inner, _| json!({"items": inner}));
    let property = |x: Value| json!({"type": "object", "properties": {"x": x}});
    vec![
        (
            "any_of_unevaluated",
            chain(40, |r| json!({"anyOf": [r, r], "unevaluatedProperties": false}), json!({"properties": {"x": true}})),
            Some("uses 'unevaluatedProperties', which is not supported; use 'additionalProperties'"),
        ),
        (
            "chain_unevaluated",
            chain(800, |r| beside(&r, "unevaluatedProperties", json!(false)), json!({})),
            Some("uses 'unevaluatedProperties'"),
        ),
        (
            "chain_recursive",
            chain(2_000, |r| r, json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "minProperties": 1})),
            unfolded,
        ),
        (
            "chain_shorter",
            chain(1_000, |r| r, json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "minProperties": 1})),
            long,
        ),
        ("one_of", chain(60, |r| json!({"oneOf": [r, r]}), zz()), long),
        ("one_of_short", chain(25, |r| json!({"oneOf": [r, r]}), zz()), unfolded),
        (
            "patterns",
            json!({"type": "object", "properties": patterns}),
            Some("takes its component over the limit of 256 patterns"),
        ),
        (
            "pattern_memory",
            json!({"type": "object", "properties": large}),
            Some("takes the patterns of its component over"),
        ),
        ("all_of", chain(25, |r| json!({"allOf": [r, r]}), zz()), unfolded),
        ("any_of", chain(25, |r| json!({"anyOf": [r, r]}), zz()), unfolded),
        ("if", chain(25, |r| json!({"if": r, "then": r, "else": r}), zz()), unfolded),
        ("not", chain(25, |r| json!({"not": {"anyOf": [r, r]}}), zz()), unfolded),
        ("dependent", chain(25, |r| json!({"dependentSchemas": {"x": r, "y": r}}), zz()), unfolded),
        ("prefix_items", chain(25, |r| json!({"prefixItems": [r, r], "items": r}), zz()), unfolded),
        ("contains", chain(25, |r| json!({"contains": r, "items": r}), zz()), unfolded),
        ("names", chain(25, |r| json!({"propertyNames": r, "additionalProperties": r}), zz()), unfolded),
        ("pattern_properties", chain(25, |r| json!({"patternProperties": {"a": r, "b": r}}), zz()), unfolded),
        ("properties", chain(25, |r| json!({"properties": {"a": r, "b": r}}), zz()), unfolded),
        ("beside", chain(25, |r| json!({"$ref": r["$ref"], "allOf": [r]}), zz()), unfolded),
        ("wide", property(json!({"anyOf": wide})), unfolded),
        ("itself", json!({"type": "object", "$ref": "#"}), circle),
        ("itself_below", property(json!({"allOf": [{"$ref": "#/properties/x"}]})), circle),
        ("two_in_turn", json!({"type": "object", "anyOf": [{"$ref": "#/not"}], "not": {"$ref": "#/anyOf/0"}}), circle),
        (
            "into_data",
            property(json!({"enum": [{"$ref": "http://127.0.0.1:1/"}], "$ref": "#/properties/x/enum/0"})),
            Some("has the '$ref' 'http://127.0.0.1:1/', which leads out of the schema"),
        ),
        ("dynamic", property(json!({"$dynamicRef": "#x"})), Some("uses '$dynamicRef'")),
        ("recursive", property(json!({"$recursiveRef": "#"})), Some("uses '$recursiveRef'")),
        ("anchor", property(json!({"$anchor": "x"})), Some("uses '$anchor'")),
        ("inner_id", property(json!({"$id": "x"})), Some("uses '$id'")),
        (
            "counts",
            property(json!({"pattern": "((a{1000}){1000}){1000}"})),
            Some("has the pattern '((a{1000}){1000}){1000}', which cannot be used"),
        ),
        ("deep", property(nested), Some("is nested more than 64 levels deep")),
        // Accepted: the work is bounded.
        ("giant_enum", property(json!({"items": {"enum": giant}, "uniqueItems": true})), None),
        ("tiny_multiple", property(json!({"multipleOf": 5e-324})), None),
        ("backtracking", property(json!({"pattern": "^(a+)+$"})), None),
        ("tree", property(json!({"anyOf": [{"type": "null"}, {"$ref": "#"}]})), None),
        ("self_in_definitions", json!({"type": "object", "$defs": {"x": {"$ref": "#/$defs/x"}}}), None),
    ]
}
