//! Compatible services: their tables in `docs/providers-services.md`, and their recorded responses. A turn with a call runs through the
//! whole program, and the second request must meet the service's requirements.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, Format, OPENAI, event_stream},
    guest::Guest,
    server::Server,
};

struct Service {
    /// The name of the service's table, and of its recording.
    name: &'static str,
    model: &'static str,
    /// The path to which requests are sent.
    path: &'static str,
    /// The environment variable with the key; `""` for none, `"command"` for a key command.
    key: &'static str,
    /// Strings that the second request, which sends the result of the call, must contain.
    demands: &'static [&'static str],
}

const fn local(name: &'static str, model: &'static str, demands: &'static [&'static str]) -> Service {
    Service { name, model, path: "/v1/chat/completions", key: "", demands }
}

const SERVICES: [Service; 10] = [
    Service {
        name: "openrouter",
        model: "anthropic/claude-opus-5.5",
        path: "/api/v1/chat/completions",
        key: "OPENROUTER_API_KEY",
        demands: &[
            r#""cache_control":{"type":"ephemeral"}"#,
            r#""signature":"EqQBCkYIBxgCKkA9""#,
            r#""text":"The weather is asked.""#,
        ],
    },
    Service {
        name: "deepseek",
        model: "deepseek-v4-pro",
        path: "/chat/completions",
        key: "DEEPSEEK_API_KEY",
        demands: &[r#""reasoning_content":"The weather is asked.""#],
    },
    Service {
        name: "mistral",
        model: "magistral-medium-2509",
        path: "/v1/chat/completions",
        key: "MISTRAL_API_KEY",
        demands: &[r#""tool_call_id":"D681PevKs""#, r#""type":"thinking""#],
    },
    local("ollama", "qwen3:8b", &[r#""reasoning":"The weather is asked.""#]),
    local("vllm", "Qwen/Qwen3-8B", &[r#""reasoning_content":"The weather is asked.""#]),
    local("llama-cpp", "qwen3-8b-q4_k_m.gguf", &[r#""reasoning_content":"The weather is asked.""#]),
    local("lm-studio", "openai/gpt-oss-20b", &[r#""reasoning":"The weather is asked.""#, r#""814890118""#]),
    Service {
        name: "azure",
        model: "my-deployment",
        path: "/openai/v1/responses",
        key: "command",
        demands: &[r#""type":"function_call_output""#, r#""model":"my-deployment""#],
    },
    Service {
        name: "bedrock",
        model: "openai.gpt-oss-120b-1:0",
        path: "/openai/v1/chat/completions",
        key: "AWS_BEARER_TOKEN_BEDROCK",
        demands: &[r#""tool_call_id":"chatcmpl-tool-9f1b2c""#],
    },
    Service {
        name: "vertex",
        model: "google/gemini-3.1-pro",
        path: "/v1/projects/PROJECT/locations/global/endpoints/openapi/chat/completions",
        key: "command",
        demands: &[r#""extra_content":{"google":{"thought_signature":"CiIBjz1rX4Rw"}}"#],
    },
];

const KEY: &str = "s3rvice-key-of-the-test";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The page with the tables.
fn page() -> String {
    fs::read_to_string(repository().join("docs/providers-services.md")).unwrap()
}

/// The blocks of `config.toml` on the page, by the name of their provider.
fn tables() -> Vec<(String, String)> {
    let page = page();
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let named = |block: String| {
        let name = block.split("[providers.").nth(1).expect("a provider").split(']').next().unwrap().to_owned();
        (name, block)
    };
    blocks.map(named).collect()
}

fn table(name: &str) -> String {
    tables().into_iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("no table of {name}")).1
}

fn answer(service: &Service) -> Vec<u8> {
    let folder = if service.name == "azure" { "responses" } else { "chat" };
    let file = repository().join(format!("plugins/codecs/recordings/services/{folder}/{}.sse", service.name));
    event_stream(&fs::read(file).unwrap())
}

#[test]
fn each_service_has_a_table_and_a_line() {
    let known: BTreeSet<&str> = SERVICES.iter().map(|service| service.name).collect();
    let tables = tables();
    assert_eq!(tables.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), known);
    assert_eq!(tables.len(), known.len());
    let page = page();
    for service in &SERVICES {
        assert!(page.contains(&format!("\n| `{}` | ", service.name)), "no line of {}", service.name);
    }
}

/// All tables together, exactly as they are written.
#[test]
fn tables_of_the_documentation_are_valid_together() {
    let patchbay = Patchbay::new();
    let all: String = tables().into_iter().map(|(_, table)| table + "\n").collect();
    patchbay.write("home/config/config.toml", all);
    let list = patchbay.run(&["provider", "list"]);
    assert_eq!(list.code, Some(0), "{}", list.err);
    for Service { name, key, .. } in &SERVICES {
        let state = if key.is_empty() || *key == "command" { "ready" } else { "needs key" };
        assert!(list.out.contains(&format!("{name} - {state} (")), "{name}: {}", list.out);
    }
}

#[test]
fn turn_with_a_call_works_with_every_service() {
    for service in &SERVICES {
        let Service { name, model, path, key, demands } = service;
        let format: Format = if *name == "azure" { OPENAI } else { CHAT };
        let (call, done) = (answer(service), format.answer_with(&["It is sunny."]));
        let server = Server::new(move |request| {
            let has_result = request.contains(r#""role":"tool""#) || request.contains("function_call_output");
            if has_result { done.clone() } else { call.clone() }
        });
        let mut patchbay = Patchbay::new();
        let weather = Guest {
            tools: vec![("now".into(), "The weather".into(), r#"{"type":"object"}"#.into())],
            ..Guest::default()
        };
        patchbay.write("home/config/skills/weather.wasm", weather.packaged("---\nsummary: Weather\n---\n"));
        let here: Vec<String> = table(name).lines().map(|line| here(line, &server, &patchbay)).collect();
        patchbay.write("home/config/config.toml", here.join("\n"));
        if !key.is_empty() && *key != "command" {
            patchbay.set(key, KEY);
        }
        let ran = patchbay.exec(&[&format!("/model {name}:{model}"), "What is the weather?"]);
        assert!(ran.code == Some(0) && ran.out.contains("It is sunny."), "{name}: {}{}", ran.out, ran.err);
        let requests = server.requests();
        assert_eq!(requests.len(), 2, "{name}: {requests:?}");
        for request in &requests {
            assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{name}: {request}");
            let has_key = request.contains(&format!("authorization: Bearer {KEY}\r\n"));
            assert_eq!(has_key, !key.is_empty(), "{name}: {request}");
        }
        for demand in *demands {
            assert!(requests[1].contains(demand), "{name} needs {demand}: {}", requests[1]);
        }
        // The model wrote the call's input, and the tool's result echoes it.
        assert!(requests[1].contains(r#"{\"city\":"#) && requests[1].contains("Zürich"), "{name}: {}", requests[1]);
    }
}

/// Returns a line of a table with the origin of `server`, and with this test's key command.
fn here(line: &str, server: &Server, patchbay: &Patchbay) -> String {
    if let Some(url) = line.strip_prefix("origin = \"") {
        let rest = url.split_once("://").expect("a URL").1.trim_end_matches('"');
        let path = rest.find('/').map_or("", |at| &rest[at..]);
        return format!("origin = \"http://{}{path}\"", server.host());
    }
    if line.starts_with("key_command = ") {
        let file = patchbay.home().join("config/give-key");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        // A separate program writes the file. If this process wrote it, a program that another test is starting could have it open
        // for writing, and it could not be executed.
        let write = "printf '#!/bin/sh\\necho %s\\n' \"$1\" >\"$2\" && chmod 755 \"$2\"";
        let written = Command::new("sh").args(["-c", write, "sh", KEY]).arg(&file).status().unwrap();
        assert!(written.success(), "{written}");
        return format!("key_command = [\"{}\"]", file.display());
    }
    line.to_owned()
}
