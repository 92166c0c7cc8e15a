//! Tests of the declarations.

use patchbay_sdk::tool_index::Pair;
use serde_json::json;

use super::*;

fn tool(name: &str, description: &str, schema: Value) -> Tool {
    let (name, description) = (name.to_owned(), description.to_owned());
    Tool { name, description, input_schema: schema.to_string(), extra: Vec::new() }
}

fn type_of(schema: Value) -> String {
    Types { left: TOOL }.of(&schema, &schema, 0, 0)
}

#[test]
fn tools_are_grouped_by_skill() {
    let path = json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string", "description": "Relative\nto the workspace."}, "first": {"type": "integer"}}});
    let mut sum = tool("a-b__sum", "", json!({"type": "object", "additionalProperties": {"type": "number"}}));
    sum.extra.push(Pair { name: "output-schema".to_owned(), value: r#"{"type":["number","null"]}"#.to_owned() });
    let tools = [
        tool("files__read", "Reads a file.", path),
        sum,
        tool("files__list", "Lists files.", json!({"type": "object"})),
        tool("mcp__git__log", "", json!({"type": "object", "additionalProperties": false})),
    ];
    let expected = r#"declare const tools: {
  files: {
    /** Reads a file. */
    read(input: {
      first?: number;
      /** Relative to the workspace. */
      path: string;
    }): Promise<any>;
    /** Lists files. */
    list(input?: Record<string, unknown>): Promise<any>;
  };
  "a-b": {
    sum(input?: {
      [name: string]: number;
    }): Promise<number | null>;
  };
  mcp: {
    git: {
      log(input?: {}): Promise<any>;
    };
  };
};
"#;
    assert_eq!(declarations(&tools), expected);
    assert!(declarations(&[]).contains("await tools.find()"));
}

#[test]
fn types_of_schemas() {
    for (schema, expected) in [
        (json!(true), "unknown"),
        (json!(false), "never"),
        (json!({"type": "integer"}), "number"),
        (json!({"type": ["string", "null"]}), "string | null"),
        (json!({"enum": ["a", 1, null, "a"]}), "\"a\" | 1 | null"),
        (json!({"const": "x"}), "\"x\""),
        (json!({"type": "array", "items": {"type": "string"}}), "Array<string>"),
        (json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}), "[string, number]"),
        (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "string | number"),
        (
            json!({"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}]}),
            "(string | null) & string",
        ),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "boolean"}}}), "boolean"),
        (json!({"$ref": "https://example.org"}), "unknown"),
        (json!({"enum": []}), "never"),
    ] {
        assert_eq!(type_of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn names_and_comments_cannot_break_out() {
    let hostile = "*/ }; steal(); /*\u{2028}\"\n";
    let properties = json!({hostile: {"type": "string", "description": hostile, "enum": [hostile]}});
    let text = declarations(&[tool("x__y", hostile, json!({"type": "object", "properties": properties}))]);
    let expected = r#"declare const tools: {
  x: {
    /** *\/ }; steal(); /* " */
    y(input?: {
      /** *\/ }; steal(); /* " */
      "*/ }; steal(); /*\u2028\"\n"?: "*/ }; steal(); /*\u2028\"\n";
    }): Promise<any>;
  };
};
"#;
    assert_eq!(text, expected);
}

#[test]
fn large_and_recursive_schemas_are_bounded() {
    let properties: Map<String, Value> =
        (0..1000).map(|n| (format!("p{n}"), json!({"type": "string", "description": "d".repeat(500)}))).collect();
    let large = json!({"type": "object", "properties": properties});
    let text = declarations(&[tool("x__y", &"w ".repeat(5000), large.clone())]);
    assert!(text.len() < 2 * TOOL && text.contains("more properties"), "{} bytes", text.len());

    let recursive = json!({"type": "object", "properties": {
        "a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"$ref": "#"}, "d": {"$ref": "#/properties/d"}}});
    let text = type_of(recursive);
    assert!(text.len() < 16 * TOOL && text.contains("unknown"), "{} bytes", text.len());

    let many: Vec<Tool> = (0..64).map(|n| tool(&format!("x__y{n}"), &"d".repeat(DESCRIPTION), large.clone())).collect();
    let text = declarations(&many);
    assert!(text.len() < BYTES + TOOL && text.contains("more tools match"), "{} bytes", text.len());
}

#[test]
fn lists_of_a_schema_are_read_up_to_a_bound() {
    // Reading all of one of these, or comparing its members with each other, would take minutes.
    const MANY: usize = 200_000;
    let texts: Vec<String> = (0..MANY).map(|n| format!("v{n}")).collect();
    let shown = texts[..MEMBERS].iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join(" | ");
    let more = MANY - MEMBERS;
    assert_eq!(type_of(json!({ "enum": texts })), format!("{shown} | unknown /* {more} more */"));
    assert_eq!(type_of(json!({"enum": vec!["a"; MEMBERS + 1]})), "\"a\"");

    let members: Vec<Value> = texts.iter().map(|text| json!({ "const": text })).collect();
    for word in ["anyOf", "oneOf"] {
        assert_eq!(type_of(json!({ word: members })), format!("{shown} | unknown /* {more} more */"));
    }
    let text = type_of(json!({ "allOf": members }));
    assert!(text.starts_with("\"v0\" & \"v1\" & "), "{text}");
    assert!(text.ends_with(&format!(" & \"v{MEMBERS}\" & unknown /* {} more */", more - 1)), "{text}");
    assert_eq!(type_of(json!({"allOf": []})), "unknown");

    let text = type_of(json!({"type": "array", "prefixItems": vec![json!({"type": "null"}); MANY]}));
    assert_eq!(text, format!("[{}...unknown[]]", "null, ".repeat(MEMBERS)));
    let text = type_of(json!({"type": texts}));
    assert_eq!(text, format!("unknown | unknown /* {} more */", more - 1));

    // Each expansion of the object reads the list again.
    let properties = json!({"v0": {"$ref": "#"}, "v1": {"$ref": "#"}, "w": {"$ref": "#"}});
    let text = type_of(json!({"type": vec!["object"; MANY], "required": texts, "properties": properties}));
    assert!(text.contains("  v0: {\n") && text.contains("  w?: {\n"), "{text}");
    assert!(text.len() < 16 * TOOL, "{} bytes", text.len());
}

#[test]
fn long_texts_of_a_schema_are_read_up_to_a_bound() {
    let long = "a".repeat(1 << 20);
    assert_eq!(key(&long), quoted(&"a".repeat(LITERAL)));
    let blank = format!("first{}last", " ".repeat(1 << 20));
    assert_eq!(comment(&blank, DESCRIPTION).unwrap(), "/** first… */");
    assert_eq!(comment(&" ".repeat(100), DESCRIPTION), None);

    let reference = format!("#/$defs/{long}");
    assert_eq!(type_of(json!({"$ref": reference, "$defs": {long: {"type": "string"}}})), "unknown");
    let short = "a".repeat(100);
    let reference = format!("#/$defs/{short}");
    assert_eq!(type_of(json!({"$ref": reference, "$defs": {short: {"type": "string"}}})), "string");

    // Literals count in full: nested unions of long literals end at the budget of a tool.
    let literals: Vec<String> = (0..MEMBERS).map(|n| format!("{n:0>100}")).collect();
    let properties: Map<String, Value> =
        (0..PROPERTIES).map(|n| (format!("p{n}"), json!({ "enum": literals }))).collect();
    let text = type_of(json!({"type": "object", "properties": properties}));
    assert!(text.len() < 2 * TOOL && text.contains("more properties"), "{} bytes", text.len());
}

#[test]
fn names_are_listed_by_skill() {
    let all = ["a-b__x", "a-b__y", "files__read", "mcp__git__log"].map(|name| tool(name, "", json!({})));
    let page = |after: Option<&str>| {
        let next = all.iter().filter(|tool| after.is_none_or(|after| tool.name.as_str() > after));
        Ok(next.take(3).cloned().collect())
    };
    assert_eq!(names(page).unwrap(), "tools[\"a-b\"]: x, y\ntools.files: read\ntools.mcp.git: log");
}
