//! Runs the examples of the documents. Only hosts, paths and placeholders are replaced, and `--yes` is added where a question would
//! be asked.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use patchbay_core::Digest;
use patchbay_tests::{
    adapter::Adapter,
    binary::Patchbay,
    documents::{block, blocks, checkout},
    guest::Guest,
    server::{self, Server},
};
use serde_json::{Value, json};

use crate::plugin;

/// Builds the plugin `name`. Its sources are already written; its Cargo.toml is in `document`.
fn build(patchbay: &Patchbay, document: &str, name: &str) {
    let manifest = block(document, "toml", "[package]").replace("../patchbay", checkout().to_str().unwrap());
    patchbay.write(&format!("{name}/Cargo.toml"), manifest);
    // It has the same dependencies as the bundled plugins, which are already fetched.
    fs::copy(checkout().join("plugins/Cargo.lock"), patchbay.folder().join(name).join("Cargo.lock")).unwrap();
    let built = plugin::build(patchbay, &patchbay.folder().join(name));
    assert_eq!(built.code, Some(0), "{}{}", built.out, built.err);
}

/// The complete skill of the page about Rust, in a new project: it asks a server for the weather, and falls back to the last
/// weather that it knew.
#[test]
fn complete_skill_of_the_rust_page_works() {
    let page = "docs/skills-rust.md";
    let patchbay = Patchbay::new();
    let is_down = Arc::new(AtomicBool::new(false));
    let server = Server::new({
        let is_down = is_down.clone();
        move |request| match (is_down.load(Ordering::Relaxed), request.starts_with("GET /rome.json ")) {
            (true, _) => server::response("503 Service Unavailable", "text/plain", ""),
            (false, true) => server::page(r#"{"sky": "clear", "celsius": 21.5}"#),
            (false, false) => server::response("404 Not Found", "text/plain", ""),
        }
    });
    let created = patchbay.run(&["plugin", "new", "weather", "--lang", "rust"]);
    assert_eq!(created.code, Some(0), "{}", created.err);
    let folder = patchbay.workspace().join("weather");
    let example =
        |language: &str, beginning: &str| block(page, language, beginning).replace("localhost:8080", &server.host());
    patchbay.write("workspace/weather/SKILL.md", example("markdown", "---\nname: weather"));
    patchbay.write("workspace/weather/src/lib.rs", example("rust", "//! The current weather"));
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let added = format!("[dependencies]\n{}", example("toml", "serde_json"));
    patchbay.write("workspace/weather/Cargo.toml", manifest.replace("[dependencies]\n", &added));
    fs::copy(checkout().join("plugins/Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let built = plugin::build(&patchbay, &folder);
    assert_eq!(built.code, Some(0), "{}{}", built.out, built.err);

    let http = format!("http:{}", server.host());
    let grant = ["grant", "add", "--package", "weather", "weather", &http, "kv"];
    for command in [&["plugin", "add", "weather", "--yes"][..], &grant] {
        let ran = patchbay.run(command);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    assert_eq!(patchbay.line("/weather rome"), "rome: clear, 21.5 \u{b0}C");
    assert_eq!(patchbay.line("/weather oslo"), "Error: the service knows no city 'oslo'");
    is_down.store(true, Ordering::Relaxed);
    assert_eq!(patchbay.line("/weather rome"), "rome, last known: clear, 21.5 \u{b0}C");
    assert_eq!(patchbay.line("/weather oslo"), "Error: the weather service does not respond: try again later");
}

/// The adapter of the guide needs consent, receives it through its table, and then answers in a conversation.
#[test]
fn adapter_of_the_provider_guide_works() {
    let patchbay = Patchbay::new();
    patchbay.write("plain/src/lib.rs", block("docs/providers-authors.md", "rust", "use patchbay_provider_sdk"));
    build(&patchbay, "docs/providers-authors.md", "plain");
    fs::create_dir_all(patchbay.home().join("config/providers")).unwrap();
    fs::copy(patchbay.folder().join("plain/plain.wasm"), patchbay.home().join("config/providers/plain.wasm")).unwrap();
    let pending = &patchbay.answers(&["/model plain-1"])[0];
    assert_eq!(pending.code(), "provider_pending", "{}", pending.message());
    let server = Server::new(|request| match request.contains("Good day") {
        true => server::page("Gr\u{fc}\u{df} Gott"),
        false => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec(),
    });
    let table = block("docs/providers-authors.md", "toml", "[providers.plain]");
    patchbay.write("home/config/config.toml", table.replace("localhost:8080", &server.host()));
    let answers = patchbay.answers(&["/model plain-1", "Good evening", "Good day"]);
    assert_eq!(answers[0].message(), "\u{2713} Switched to Plain plain-1\n  Thinking: off");
    assert_eq!(answers[1].code(), "provider_not_found", "{}", answers[1].message());
    assert_eq!(answers[2].message(), "Gr\u{fc}\u{df} Gott");
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.starts_with("POST /say?model=plain-1 ")), "{requests:?}");
}

/// The tables of the guide are accepted and define usable providers.
#[test]
fn tables_of_the_provider_guide_are_correct() {
    let pages = ["docs/providers.md", "docs/providers-services.md", "docs/providers-authors.md"].map(blocks);
    let tables: Vec<_> = pages.into_iter().flatten().filter(|(of, _)| of == "toml").collect();
    let tables: Vec<_> = tables.iter().map(|(_, text)| text).filter(|text| !text.starts_with("[package]")).collect();
    assert!(tables.len() > 5);
    for table in tables {
        let patchbay = Patchbay::new();
        patchbay.write("home/config/config.toml", table);
        let answer = &patchbay.answers(&["/providers"])[0];
        let providers = answer.data()["providers"].as_array().unwrap_or_else(|| panic!("{table}: {answer:?}"));
        for name in table.lines().filter_map(|line| line.strip_prefix("[providers.")?.strip_suffix(']')) {
            // `[providers.plain]` is refused, because its adapter's file is not installed here.
            let there = providers.iter().find(|provider| provider["name"] == name);
            assert!(
                name == "plain"
                    || there.is_some_and(|there| there["state"] == "ready" || there["state"] == "needs key"),
                "{table}: {there:?}"
            );
        }
    }
}

/// The setup of the guide with a loopback server in place of the local model server.
#[test]
fn provider_guide_setup_works_with_a_local_server() {
    let chunk = |delta: Value, end: Value| {
        json!({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "llama3.2:3b",
            "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
    };
    let hello = chunk(json!({"role": "assistant", "content": "Hello from here."}), Value::Null);
    let events = format!("data: {hello}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(json!({}), json!("stop")));
    let server = Server::new(move |_| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        format!("{head}{events}").into_bytes()
    });
    let table = block("docs/providers.md", "toml", "default_model = \"llama3.2:3b\"");
    assert!(table.contains("http://localhost:11434/v1"));
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", table.replace("localhost:11434", &server.host()));
    let answers = patchbay.answers(&["Good day", "/model local:gemma3/low", "Good day"]);
    assert_eq!([answers[0].message(), answers[2].message()], ["Hello from here."; 2]);
    let requests = server.requests();
    assert!(requests[0].starts_with("POST /v1/chat/completions "), "{}", requests[0]);
    assert!(requests[0].contains("\"model\":\"llama3.2:3b\"") && requests[1].contains("\"model\":\"gemma3\""));
    assert!(
        !requests[0].to_lowercase().contains("authorization") && requests[1].contains("\"reasoning_effort\":\"low\"")
    );
}

/// Splits a transcript into its input lines, after `> `, and the output of each.
fn transcript(text: &str) -> (Vec<&str>, Vec<String>) {
    let mut shown = text.lines().skip_while(|line| !line.starts_with("> ")).peekable();
    let (mut lines, mut expected) = (Vec::new(), Vec::new());
    while let Some(line) = shown.next() {
        lines.push(line.strip_prefix("> ").unwrap());
        let mut answer = Vec::new();
        while let Some(line) = shown.next_if(|line| !line.starts_with("> ")) {
            answer.push(line);
        }
        expected.push(answer.join("\n"));
    }
    (lines, expected)
}

/// The transcripts of the README and of the provider guide match the output of their lines.
#[test]
fn documented_transcripts_match_real_output() {
    for (document, beginning) in [
        ("README.md", "$ patchbay\n"),
        ("docs/providers.md", "> /model claude-sonnet-5-5/med\n"),
        ("docs/providers-models.md", "> /model o3-mini/high\n"),
    ] {
        let text = block(document, "", beginning);
        let (lines, expected) = transcript(&text);
        assert!(!lines.is_empty());
        let mut patchbay = Patchbay::new();
        for variable in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
            patchbay.set(variable, "test-key");
        }
        let answers = patchbay.answers(&lines);
        assert_eq!(answers.len(), expected.len(), "{document}");
        for (answer, expected) in answers.iter().zip(&expected) {
            // The id of the session is random.
            let words = |text: &str| text.split("--session ").next().map(str::to_owned);
            assert_eq!(words(answer.message()), words(expected), "{document}");
        }
    }
}

/// Each command line of the guide's table "Choosing a model" selects a model.
#[test]
fn model_lines_of_the_provider_guide_work() {
    let guide = fs::read_to_string(checkout().join("docs/providers.md")).unwrap();
    let lines: Vec<&str> = guide.lines().filter_map(|row| row.strip_prefix("| `/model")?.split('`').next()).collect();
    assert!(lines.len() > 2);
    let lines: Vec<String> = lines.iter().map(|line| format!("/model{line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    for answer in Patchbay::new().answers(&lines) {
        assert_eq!(answer.code(), "model_set", "{answer:?}");
    }
}

/// The placeholders in documented command lines, such as `DIGEST`, with the values that replace them.
type Names = Vec<(&'static str, String)>;

/// Returns a home, with a folder `elsewhere` beside it, in which the shell runs and which has every file that the documented command
/// lines need. Also returns the values of their placeholders.
fn shell_with_examples() -> (Patchbay, Names) {
    let patchbay = Patchbay::quick();
    let keep = Guest::default().packaged("---\nname: keep\ncapabilities: [kv]\n---\n");
    let digest = Digest::of(&keep).to_string();
    patchbay.write("home/config/skills/keep.wasm", &keep);
    // The current folder of the shell.
    patchbay.write("elsewhere/.patchbay/skills/keep.wasm", &keep);
    let mut greet = Guest::default();
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#;
    greet.tools[0] = ("hello".into(), "Greets".into(), schema.into());
    let greet = greet.packaged(&block("docs/skills.md", "", "---\nname: greet"));
    patchbay.write("elsewhere/greet/greet.wasm", &greet);
    let plain = json!({"name": "plain", "model-prefixes": ["plain-"], "models": [],
        "default-base-url": "https://plain.example.com/v1"});
    let plain = Adapter::manifest(&plain).component();
    patchbay.write("elsewhere/plain.wasm", &plain);
    patchbay.write("elsewhere/plain/plain.wasm", &plain);
    // The files that docs/using.md attaches.
    patchbay.write("elsewhere/error.png", b"\x89PNG\r\n\x1a\n");
    patchbay.write("elsewhere/src/main.rs", "fn main() {}\n");
    let team = ["plugin", "add", "../elsewhere/.patchbay/skills/keep.wasm", "--name", "team", "--yes"];
    assert_eq!(patchbay.run(&team).code, Some(0));
    assert_eq!(patchbay.line("/calc 1"), "1");
    let session = patchbay.last_session();
    let agent: String = patchbay
        .database("patchbay.db")
        .query_row("SELECT agent FROM sessions WHERE id = ?", [&session], |row| row.get(0))
        .unwrap();
    let names = [
        ("SKILL", "keep"),
        ("PACKAGE", "team"),
        ("CAPABILITY", "kv"),
        ("DIGEST", &*digest),
        ("ID", &*session),
        ("UUID", &*agent),
    ];
    (patchbay, names.map(|(name, value)| (name, value.to_owned())).into())
}

/// Runs a documented command line in the shell, with the names in capitals filled in.
fn paste(patchbay: &Patchbay, names: &Names, line: &str) {
    let words = line.split(" #").next().unwrap_or_default().split(' ');
    let words = words.map(|word| names.iter().find(|(name, _)| *name == word).map_or(word, |(_, of)| of));
    let mut pasted = words.collect::<Vec<_>>().join(" ");
    if pasted.starts_with("patchbay plugin add") {
        // No terminal can answer the question.
        pasted += " --yes";
    }
    let ran = patchbay.shell("bash", &pasted);
    assert_eq!(ran.code, Some(0), "{pasted}: {ran:?}");
}

/// Every line that starts the binary, in blocks without a language, works when pasted into a shell, with the placeholders filled
/// in. `plugin build` lines are left out, because the tests above build plugins. `tests/authors` tests the pages for authors.
#[test]
fn documented_command_lines_work_in_a_shell() {
    let (patchbay, names) = shell_with_examples();
    let documents = [
        "README.md",
        "docs/using.md",
        "docs/scripts.md",
        "docs/providers.md",
        "docs/providers-models.md",
        "docs/operating.md",
    ]
    .map(blocks);
    let shown: Vec<&String> =
        documents.iter().flatten().filter(|(of, _)| of.is_empty()).map(|(_, text)| text).collect();
    let starts = |line: &&str| line.starts_with("patchbay") || line.contains("| patchbay");
    let lines = shown.iter().flat_map(|text| text.lines()).filter(starts);
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("patchbay plugin build")).collect();
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        paste(&patchbay, &names, line);
    }
}

/// The answers of docs/howto.md: their command lines work in a shell, and the commands that they name exist.
#[test]
fn answers_of_the_howto_page_work() {
    let (patchbay, mut names) = shell_with_examples();
    patchbay.write("elsewhere/linked/SKILL.md", "---\nname: linked\n---\nSay yes.\n");
    let more =
        [("FILE", "greet/greet.wasm"), ("DIR", "linked"), ("NAME", "greet"), ("MODEL", "demo-big"), ("CALL", "2")];
    names.extend(more.map(|(name, value)| (name, value.to_owned())));
    let recorded = patchbay.run(&["exec", "--record", "/calc 1"]);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");

    let page = fs::read_to_string(checkout().join("docs/howto.md")).unwrap();
    let answers = page.lines().filter_map(|line| line.strip_prefix("- **"));
    let code: Vec<&str> = answers.flat_map(|answer| answer.split('`').skip(1).step_by(2)).collect();
    // The first needs a server, and the others serve until they are stopped.
    let not_run = ["patchbay mcp check NAME", "patchbay mcp --http", "patchbay serve"];
    let lines = code.iter().filter(|code| code.starts_with("patchbay") || code.contains("| patchbay"));
    let lines: Vec<&str> = lines.filter(|line| !not_run.contains(line)).copied().collect();
    assert!(lines.len() > 30, "{lines:?}");
    for line in lines {
        paste(&patchbay, &names, line);
    }

    let listed = patchbay.line("/commands");
    let terminal = ["/copy", "/new", "/resume", "/show"];
    let commands = code.iter().filter_map(|code| code.split(' ').next()).filter(|word| word.starts_with('/'));
    let commands: Vec<&str> = commands.filter(|word| !terminal.contains(word)).collect();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let is_listed = listed.lines().any(|line| line.split(' ').next() == Some(command));
        assert!(is_listed, "{command} is not in {listed}");
    }
}
