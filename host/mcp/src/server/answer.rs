//! Converts tools and results to the types of the protocol.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::{Code, Digest};
use patchbay_sandbox::Content;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, MetaObject, ProtocolVersion, Resource, ResourceContents, Tool,
    ToolAnnotations,
};
use serde_json::{Value, json};
use url::Url;

use super::{OfferedTool, ServedError};

/// The key of the stable code in the `_meta` of a failed result.
const CODE_KEY: &str = "patchbay/code";

/// Returns the declaration of a tool, or `None` if its input cannot be an object. Clients could not call such a tool.
pub(super) fn declaration(tool: OfferedTool) -> Option<Tool> {
    let schema = object_schema(tool.input_schema)?;
    let mut annotations = ToolAnnotations::new().read_only(tool.only_reads).open_world(tool.reaches_network);
    // A tool's effects are only claimed by the skill. All that the host knows for certain is that some tools cannot have any.
    let of_effects =
        if tool.only_reads { (Some(false), Some(true)) } else { (tool.is_destructive, tool.is_idempotent) };
    (annotations.destructive_hint, annotations.idempotent_hint) = of_effects;
    annotations.title.clone_from(&tool.title);
    let mut declared = Tool::new(tool.name, tool.description, schema).with_annotations(annotations);
    declared.title = tool.title;
    Some(declared)
}

/// Returns `schema` with the type `object`. Clients of the TypeScript SDK reject a whole list if one tool's schema has a different
/// type or none.
fn object_schema(schema: Value) -> Option<JsonObject> {
    let Value::Object(mut schema) = schema else { return None };
    let takes_objects = match schema.get("type") {
        None => true,
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        Some(_) => false,
    };
    takes_objects.then(|| {
        schema.insert("type".to_owned(), json!("object"));
        schema
    })
}

/// Returns the result of a call for a client that speaks `version`. Links to files are resolved below `workspace`.
pub(super) fn result(content: Vec<Content>, workspace: &str, version: Option<&ProtocolVersion>) -> CallToolResult {
    let at_least = |first: ProtocolVersion| version.is_some_and(|version| version.as_str() >= first.as_str());
    // Links and structured results began with this revision.
    let is_structured = at_least(ProtocolVersion::V_2025_06_18);
    let structured = match content.as_slice() {
        [Content::Json(value @ Value::Object(_))] if is_structured => Some(value.clone()),
        _ => None,
    };
    let blocks = content.into_iter().map(|content| match content {
        Content::Link { path, media_type } if is_structured => link(workspace, path, media_type),
        other => block(other),
    });
    let mut result = CallToolResult::success(blocks.collect());
    result.structured_content = structured;
    result
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text(text) => ContentBlock::text(text),
        // Compact, because a model reads it.
        Content::Json(value) => ContentBlock::text(value.to_string()),
        Content::Blob { media_type, data } => {
            let text = STANDARD.encode(&data);
            match media_type.split('/').next() {
                Some("image") => ContentBlock::image(text, media_type),
                Some("audio") => ContentBlock::audio(text, media_type),
                _ => {
                    let uri = format!("patchbay:blob/{}", Digest::of(&data));
                    ContentBlock::resource(ResourceContents::blob(text, uri).with_mime_type(media_type))
                }
            }
        }
        other @ (Content::Link { .. } | Content::Other { .. }) => ContentBlock::text(other.to_string()),
    }
}

/// Returns a link to a file of the workspace.
fn link(workspace: &str, path: String, media_type: String) -> ContentBlock {
    match Url::from_file_path(Path::new(workspace).join(&path)) {
        Ok(uri) => ContentBlock::resource_link(Resource::new(uri, path).with_mime_type(media_type)),
        // The path of the workspace is not absolute.
        Err(()) => block(Content::Link { path, media_type }),
    }
}

/// Returns the result of a failed call: a result with `isError`, which the model reads. An unknown tool is an error of
/// the request, as the protocol requires.
pub(super) fn failure(failed: ServedError) -> Result<CallToolResult, ErrorData> {
    let ServedError { code, message } = failed;
    if code == Code::ToolNotFound {
        return Err(ErrorData::invalid_params(message, Some(json!({"code": code}))));
    }
    let mut result = CallToolResult::error(vec![ContentBlock::text(message)]);
    result.meta = Some(MetaObject(JsonObject::from_iter([(CODE_KEY.to_owned(), json!(code))])));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(schema: Value, only_reads: bool) -> OfferedTool {
        OfferedTool {
            name: "calc__eval".to_owned(),
            description: "Evaluates.".to_owned(),
            input_schema: schema,
            only_reads,
            reaches_network: false,
            title: None,
            is_destructive: None,
            is_idempotent: None,
        }
    }

    fn new(content: Vec<Content>) -> Value {
        json!(result(content, "/w", Some(&ProtocolVersion::V_2025_11_25)))
    }

    #[test]
    fn schemas_have_the_type_object() {
        let typed = |schema| declaration(tool(schema, true)).map(|tool| json!(tool.input_schema));
        assert_eq!(typed(json!({})), Some(json!({"type": "object"})));
        assert_eq!(typed(json!({"type": ["null", "object"]})), Some(json!({"type": "object"})));
        let kept = json!({"type": "object", "required": ["a"]});
        assert_eq!(typed(kept.clone()), Some(kept));
        for other in [json!({"type": "string"}), json!({"type": ["null"]}), json!({"type": 1}), json!(true)] {
            assert_eq!(typed(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn annotations_say_what_is_known_of_effects() {
        let of = |only_reads| json!(declaration(tool(json!({}), only_reads)).unwrap().annotations);
        let reading =
            json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false});
        assert_eq!(of(true), reading);
        assert_eq!(of(false), json!({"readOnlyHint": false, "openWorldHint": false}));
        let claims = OfferedTool {
            title: Some("Adds a note".to_owned()),
            is_destructive: Some(false),
            is_idempotent: Some(true),
            ..tool(json!({}), false)
        };
        let declared = json!(declaration(claims).unwrap());
        assert_eq!(declared["title"], "Adds a note");
        let expected = json!({
            "title": "Adds a note", "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true,
            "openWorldHint": false,
        });
        assert_eq!(declared["annotations"], expected);
    }

    #[test]
    fn json_object_is_text_and_structured_content() {
        let value = json!({"sum": 3});
        let expected = json!({
            "resultType": "complete", "content": [{"type": "text", "text": "{\"sum\":3}"}], "structuredContent": value,
            "isError": false,
        });
        assert_eq!(new(vec![Content::Json(value.clone())]), expected);
        let old = json!(result(vec![Content::Json(value.clone())], "/w", Some(&ProtocolVersion::V_2025_03_26)));
        assert_eq!(old.get("structuredContent"), None);
        assert_eq!(new(vec![Content::Json(json!([1]))]).get("structuredContent"), None);
        assert_eq!(new(vec![Content::Text("a".into()), Content::Json(value)]).get("structuredContent"), None);
    }

    #[test]
    fn blobs_and_links_have_blocks_of_their_own() {
        let blob = |media_type: &str| Content::Blob { media_type: media_type.to_owned(), data: b"abc".to_vec() };
        let link = || Content::Link { path: "out/a b.txt".to_owned(), media_type: "text/plain".to_owned() };
        let blocks = new(vec![blob("image/png"), blob("audio/wav"), blob("application/pdf"), link()]);
        let uri = format!("patchbay:blob/{}", Digest::of(b"abc"));
        let expected = json!([
            {"type": "image", "data": "YWJj", "mimeType": "image/png"},
            {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": uri, "mimeType": "application/pdf", "blob": "YWJj"}},
            {"type": "resource_link", "uri": "file:///w/out/a%20b.txt", "name": "out/a b.txt", "mimeType": "text/plain"},
        ]);
        assert_eq!(blocks["content"], expected);
        let old = json!(result(vec![link()], "/w", None));
        assert_eq!(old["content"], json!([{"type": "text", "text": "out/a b.txt (text/plain)"}]));
    }

    #[test]
    fn failed_call_is_a_result_with_its_code() {
        let failed = |code| failure(ServedError { code, message: "no.".to_owned() });
        let result = json!(failed(Code::InvalidInput).unwrap());
        let expected = json!({
            "resultType": "complete", "content": [{"type": "text", "text": "no."}], "isError": true,
            "_meta": {"patchbay/code": "invalid_input"},
        });
        assert_eq!(result, expected);
        let unknown = failed(Code::ToolNotFound).unwrap_err();
        assert_eq!((unknown.code.0, &*unknown.message), (-32602, "no."));
    }
}
