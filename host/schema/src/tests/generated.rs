//! Schemas written by generators: each fixture compiles, accepts its good inputs and rejects its bad ones.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

use super::{accepts, compile, oracle};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Returns every fixture with its name.
fn fixtures() -> Vec<(String, Value)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(folder()).unwrap().display().to_string();
        (name, serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
    };
    files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json")).map(read).collect()
}

#[test]
fn schemas_of_generators_have_their_verdicts() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 50, "{}", fixtures.len());
    for (name, fixture) in fixtures {
        let schema = &fixture["schema"];
        let compiled = compile(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (list, valid) in [("good", true), ("bad", false)] {
            for input in fixture[list].as_array().unwrap() {
                assert_eq!(accepts(&compiled, input), valid, "{name}: {input}: {:?}", compiled.check(input));
                assert_eq!(oracle(schema, input), valid, "oracle: {name}: {input}");
            }
        }
    }
}

/// Compares a schema written by schemars with its fixture, or writes the fixture if `UPDATE_FIXTURES` is set.
fn schemars<T: JsonSchema>(name: &str, settings: SchemaSettings, good: Value, bad: Value) {
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let fixture = json!({"schema": schema, "good": good, "bad": bad});
    let text = format!("{}\n", serde_json::to_string_pretty(&fixture).unwrap());
    let path = folder().join("schemars").join(format!("{name}.json"));
    if option_env!("UPDATE_FIXTURES").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    } else {
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}: run with UPDATE_FIXTURES=1");
    }
}

/// A greeting.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)]
struct Greeting {
    /// Name of the person.
    #[schemars(length(min = 1, max = 40))]
    name: String,
    #[schemars(range(min = 0, max = 10))]
    times: Option<u8>,
    #[schemars(regex(pattern = r"^[a-z]{2}(-[A-Z]{2})?$"))]
    language: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum Level {
    /// Little.
    Low,
    /// Much.
    High,
}

#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code)]
enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
    Empty,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Either {
    Number(i64),
    Text(String),
    List(Vec<Either>),
}

#[derive(JsonSchema)]
#[allow(dead_code)]
enum Expression {
    Literal(f64),
    Sum(Box<Expression>, Box<Expression>),
    Call { name: String, arguments: Vec<Expression> },
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Node {
    value: i32,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Wrapper<T> {
    value: T,
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Containers {
    map: BTreeMap<String, Vec<u32>>,
    numbered: HashMap<u32, bool>,
    pair: (String, u8),
    fixed: [f32; 3],
    set: std::collections::BTreeSet<String>,
    anything: Value,
    nothing: (),
}

#[derive(JsonSchema)]
#[allow(dead_code)]
struct Flattened {
    id: u64,
    #[serde(flatten)]
    shape: Shape,
}

#[test]
fn schemars_writes_its_fixtures() {
    let new = SchemaSettings::draft2020_12;
    schemars::<Greeting>(
        "struct",
        new(),
        json!([{"name": "Ada"}, {"name": "Ada", "times": null, "language": "de-AT"}]),
        json!([{}, {"name": ""}, {"name": "Ada", "times": 11}, {"name": "Ada", "language": "DE"}, {"name": "Ada", "x": 1}]),
    );
    schemars::<Greeting>("struct_draft_07", SchemaSettings::draft07(), json!([{"name": "Ada"}]), json!([{"name": 1}]));
    schemars::<Wrapper<Level>>("enum", new(), json!([{"value": "Low"}]), json!([{"value": "Middle"}, {}]));
    let shapes = json!([{"value": {"kind": "circle", "radius": 1}}, {"value": {"kind": "empty"}}]);
    let no_shapes = json!([{"value": {"kind": "circle"}}, {"value": {"kind": "line"}}, {"value": {}}]);
    schemars::<Wrapper<Shape>>("tagged", new(), shapes.clone(), no_shapes.clone());
    schemars::<Wrapper<Shape>>("tagged_draft_07", SchemaSettings::draft07(), shapes, no_shapes);
    schemars::<Wrapper<Either>>(
        "untagged",
        new(),
        json!([{"value": 1}, {"value": "a"}, {"value": [1, ["b"]]}]),
        json!([{"value": 1.5}, {"value": [null]}, {}]),
    );
    let expressions = json!([
        {"value": {"Sum": [{"Literal": 1}, {"Call": {"name": "f", "arguments": [{"Literal": 2.5}]}}]}}
    ]);
    let no_expressions =
        json!([{"value": {"Sum": [{"Literal": 1}]}}, {"value": {"Call": {"name": "f", "arguments": [1]}}}]);
    schemars::<Wrapper<Expression>>("recursive_enum", new(), expressions.clone(), no_expressions.clone());
    schemars::<Wrapper<Expression>>("recursive_enum_draft_07", SchemaSettings::draft07(), expressions, no_expressions);
    schemars::<Node>(
        "recursive_struct",
        new(),
        json!([{"value": 1}, {"value": 1, "left": {"value": 2, "right": null}}]),
        json!([{"value": 1, "left": {}}, {"value": 1, "right": {"value": 2, "left": {"value": "x"}}}]),
    );
    schemars::<Containers>(
        "containers",
        new(),
        json!([{"map": {"a": [1]}, "numbered": {"1": true}, "pair": ["a", 1], "fixed": [1, 2, 3], "set": ["a"], "anything": [{}], "nothing": null}]),
        json!([
            {"map": {"a": [-1]}, "numbered": {}, "pair": ["a", 1], "fixed": [1, 2, 3], "set": [], "anything": 1, "nothing": null},
            {"map": {}, "numbered": {}, "pair": ["a"], "fixed": [1, 2, 3], "set": [], "anything": 1, "nothing": null},
            {"map": {}, "numbered": {}, "pair": ["a", 1], "fixed": [1, 2], "set": [], "anything": 1, "nothing": null},
            {"map": {}, "numbered": {}, "pair": ["a", 1], "fixed": [1, 2, 3], "set": ["a", "a"], "anything": 1, "nothing": null},
        ]),
    );
    schemars::<Flattened>(
        "flattened",
        new(),
        json!([{"id": 1, "kind": "box", "width": 1, "height": 2}]),
        json!([{"id": 1, "kind": "box", "width": 1}, {"kind": "empty"}]),
    );
    let inline = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    schemars::<Wrapper<Shape>>(
        "inline",
        inline,
        json!([{"value": {"kind": "empty"}}]),
        json!([{"value": {"kind": "no"}}]),
    );
}
