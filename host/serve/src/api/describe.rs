//! The table of routes as an OpenAPI 3.1 document, and as `docs/api.md`.

use std::fmt::Write as _;

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    call::ErrorBody,
    table::{ApiRoute, ROUTES, RouteRight},
};

const SCHEMAS: &str = "#/components/schemas";

/// Returns the OpenAPI document.
pub fn open_api() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = SCHEMAS.trim_start_matches('#').into());
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let operation = operation(route, &mut generator);
        paths.entry(route.path).or_insert_with(|| json!({}))[route.method.to_ascii_lowercase()] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Patchbay", "version": "1", "description": "Sessions of `patchbay serve`. See docs/serve.md."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

fn operation(route: &ApiRoute, generator: &mut SchemaGenerator) -> Value {
    let parameter = |name: &str, place: &str, description: &str, is_required: bool| {
        let schema = json!({"type": "string"});
        json!({"name": name, "in": place, "required": is_required, "description": description, "schema": schema})
    };
    let mut parameters: Vec<Value> = variables(route.path).map(|name| parameter(name, "path", "", true)).collect();
    parameters.extend(route.query.iter().map(|(name, meaning)| parameter(name, "query", meaning, false)));
    parameters.extend(route.headers.iter().map(|(name, meaning)| parameter(name, "header", meaning, false)));
    let error = json!({"application/json": {"schema": generator.subschema_for::<ErrorBody>()}});
    let reply = json!({route.media_type: {"schema": (route.reply)(generator)}});
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            (route.status.to_string()): {"description": "success", "content": reply},
            "default": {"description": "an error, with a code and a message", "content": error},
        },
    });
    if let Some(body) = route.body {
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": body(generator)}}});
    }
    operation
}

/// Returns the names of the variable segments of a path.
fn variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Returns the routes as Markdown, for `docs/api.md`.
pub fn markdown() -> String {
    let document = open_api();
    let mut text = String::new();
    for route in ROUTES {
        let _ = write!(text, "### `{} {}`\n\n{}.", route.method, route.path, route.summary);
        match route.needs {
            RouteRight::Nothing => {}
            RouteRight::Lines => text += " The token needs the right `lines`.",
            RouteRight::Answers => text += " The token needs the right `answers`.",
        }
        let _ = writeln!(text, " Status {}, `{}`.\n", route.status, route.media_type);
        for (kind, parameters) in [("query", route.query), ("header", route.headers)] {
            for (name, meaning) in parameters {
                let _ = writeln!(text, "- {kind} `{name}`: {meaning}");
            }
        }
        let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
        let sent = &operation["requestBody"]["content"]["application/json"]["schema"];
        let reply = &operation["responses"][route.status.to_string()]["content"][route.media_type]["schema"];
        for (what, schema) in [("body", sent), ("response", reply)] {
            if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/components/schemas/")) {
                let _ = writeln!(text, "- {what}: [`{name}`](#{})", name.to_ascii_lowercase());
            }
        }
        text.push('\n');
    }
    text += "## Types\n";
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        let _ =
            write!(text, "\n### `{name}`\n\n{}\n\n| member | type | meaning |\n| --- | --- | --- |\n", text_of(schema));
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            let _ = writeln!(text, "| `{member}` | {} | {} |", type_of(schema), text_of(schema));
        }
    }
    text
}

fn text_of(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return format!("[`{name}`](#{})", name.to_ascii_lowercase());
    }
    if let Some(kinds) = schema["anyOf"].as_array() {
        return kinds.iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", type_of(&schema["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_and_type_is_described() {
        let document = open_api();
        let text = document.to_string();
        for route in ROUTES {
            let operation = &document["paths"][route.path][route.method.to_ascii_lowercase()];
            assert_eq!(operation["summary"], route.summary);
            for name in variables(route.path) {
                assert!(operation["parameters"].as_array().unwrap().iter().any(|of| of["name"] == name), "{name}");
            }
        }
        let mut rest = &text[..];
        while let Some(at) = rest.find("#/components/schemas/") {
            rest = &rest[at + "#/components/schemas/".len()..];
            let name = &rest[..rest.find('"').unwrap()];
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
        assert!(markdown().contains("### `POST /v1/sessions/{session}/lines`"));
    }
}
