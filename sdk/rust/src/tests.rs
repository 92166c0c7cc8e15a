//! Tests of the macro `skill!`: descriptions, inputs, results and failures of tools.

use serde_json::{Value, json};

use crate::{
    Blob, Content, Failure, Reply, Result,
    bindings::{exports::patchbay::skill::skill::Guest as _, patchbay::host::types::Error as HostError},
    skill,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greet {
    /// Name of the person to greet.
    name: String,
    /// How often.
    times: Option<u8>,
}

/// This comment must not appear in the schema.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

skill! {
    /// Greets a person by name.
    ///
    /// Politely.
    fn greet(input: Greet) -> Result<String> {
        let times: usize = input.times.unwrap_or(1).into();
        if input.name.is_empty() {
            return Err(Failure::new("no-name", "the name is empty"));
        }
        Ok(vec![format!("Hello, {}!", input.name); times].join(" "))
    }

    /// Counts attachments.
    #[extra("read-only" = "true", "kind" = "other")]
    fn count(_input: Nothing, blobs: Vec<Blob>) -> Result<Value> {
        Ok(json!(blobs.len()))
    }

    /// Fails as the host does.
    fn denied(_input: Nothing) -> Result<Reply> {
        Err(HostError { kind: "denied".into(), message: "not granted".into() })?
    }

    /// Fails as a library does.
    fn broken(_input: Nothing) -> Result<Reply> {
        "x".parse::<u8>()?;
        Ok(Reply::new().with(Content::Text("a".into())).with(Content::Text("b".into())))
    }
}

fn call(tool: &str, input: &str) -> std::result::Result<Vec<Content>, (String, String)> {
    let blob = Blob { media_type: "text/plain".into(), data: vec![1] };
    PatchbaySkill::call(tool.into(), input.into(), vec![blob]).map_err(|failure| (failure.kind, failure.message))
}

#[test]
fn tool_description_comes_from_doc_comment_and_type() {
    let tools = PatchbaySkill::tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["greet", "count", "denied", "broken"]);
    let extra: Vec<_> = tools[1].extra.iter().map(|pair| (pair.name.as_str(), pair.value.as_str())).collect();
    assert_eq!((extra, tools[0].extra.len()), (vec![("read-only", "true"), ("kind", "other")], 0));
    assert_eq!(tools[0].description, "Greets a person by name.\n\nPolitely.");
    let schema: Value = serde_json::from_str(&tools[0].input_schema).unwrap();
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["name"], json!({"type": "string", "description": "Name of the person to greet."}));
    let times = &schema["properties"]["times"];
    assert_eq!((times.get("format"), times.get("default")), (None, None), "{times}");
    for word in ["$schema", "title", "description", "$ref"] {
        assert_eq!(schema.get(word), None, "{word}");
    }
    assert!(!tools[1].input_schema.contains("must not appear"), "{}", tools[1].input_schema);
}

#[test]
fn results_and_failures_have_the_form_of_the_contract() {
    let text = |call: std::result::Result<Vec<Content>, _>| match &call.unwrap()[..] {
        [Content::Text(text) | Content::Json(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(call("greet", r#"{"name": "Ada", "times": 2}"#)), "Hello, Ada! Hello, Ada!");
    assert_eq!(text(call("greet", r#"{"name": "Ada", "times": 2.0}"#)), "Hello, Ada! Hello, Ada!");
    assert_eq!(text(call("count", "{}")), "1");
    let failure = |kind: &str, message: &str| (kind.to_owned(), message.to_owned());
    assert_eq!(call("greet", r#"{"name": ""}"#).unwrap_err(), failure("no-name", "the name is empty"));
    assert_eq!(call("greet", "{}").unwrap_err().0, "invalid-input");
    assert_eq!(call("greet", r#"{"name": "a", "x": 1}"#).unwrap_err().0, "invalid-input");
    let fraction = call("greet", r#"{"name": "a", "times": 2.5}"#).unwrap_err().1;
    assert_eq!(fraction, "invalid type: floating point `2.5`, expected u8 at line 1 column 26");
    assert_eq!(call("denied", "{}").unwrap_err(), failure("denied", "not granted"));
    assert_eq!(call("broken", "{}").unwrap_err(), failure("failed", "invalid digit found in string"));
    assert_eq!(call("Greet", "{}").unwrap_err(), failure("unknown-tool", "this skill has no tool 'Greet'"));
}
