//! From an empty folder to a provider that works, in each language with a template.

use std::fs;

use patchbay_tests::{
    binary::ran,
    server::{self, Server},
};

use crate::author::{Author, runs_in_all};

/// Creates a provider, builds it, checks it, adds it and uses its model. The server responds with `answer` to a request with the
/// key.
fn provider(language: &str, environment: &str, path: &'static str, answer: &'static str) {
    let author = Author::of(language);
    author.succeed("", &["plugin", "new", "acme", "--lang", language, "--kind", "provider"]);
    author.succeed("acme", &["plugin", "build"]);
    let checked = author.succeed("acme", &["provider", "check", "acme.wasm"]);
    assert!(checked.contains("https://api.example.com/v1"), "{checked}");
    author.succeed("", &["plugin", "add", "acme"]);
    let pending = author.run(&["exec", "/model acme-1"]);
    assert!(pending.err.contains("patchbay provider allow acme"), "{}{}", pending.out, pending.err);

    let server = Server::new(move |request| match request.contains("Bearer acme-key") {
        true => server::page(answer),
        false => server::response("401 Unauthorized", "text/plain", "who are you?"),
    });
    let config = author.home().join("config/config.toml");
    let table = format!("[providers.acme]\norigin = \"http://{}\"\nenv = \"{environment}\"\n", server.host());
    fs::write(config, table).unwrap();
    let lines = ["exec", "--keep-going", "/model acme-1", "Good day"];
    let with_key = |key: &str| ran(author.command("", &lines).env(environment, key).output().unwrap());
    let answered = with_key("acme-key");
    assert!(answered.out.ends_with("Grüß Gott\n"), "{}{}", answered.out, answered.err);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.starts_with(&format!("POST {path}"))), "{requests:?}");
    let refused = with_key("another-key");
    assert_eq!(refused.code, Some(1), "{}", refused.out);
    assert!(refused.err.contains("401"), "{}", refused.err);
}

/// A response in the format of OpenAI's Chat Completions.
const EVENTS: &str = concat!(
    r#"data: {"model":"acme-1","choices":[{"delta":{"content":"Grüß "}}]}"#,
    "\n\n",
    r#"data: {"model":"acme-1","choices":[{"delta":{"content":"Gott"},"finish_reason":"stop"}]}"#,
    "\n\ndata: [DONE]\n\n",
);

#[test]
fn provider_in_rust() {
    if runs_in_all("provider-rust") {
        provider("rust", "ACME_API_KEY", "/say?model=acme-1 ", "Grüß Gott");
    }
}

#[test]
fn provider_in_javascript() {
    if runs_in_all("provider-js") {
        provider("js", "EXAMPLE_API_KEY", "/chat/completions ", EVENTS);
    }
}

#[test]
fn provider_in_typescript() {
    if runs_in_all("provider-ts") {
        provider("ts", "EXAMPLE_API_KEY", "/chat/completions ", EVENTS);
    }
}
