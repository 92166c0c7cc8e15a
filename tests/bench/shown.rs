//! Measures what a model sees of many skills and tools: the size of a request, and the time to find a tool that is left out.

use std::{sync::Arc, time::Instant};

use patchbay_core::Digest;
use patchbay_skill::Snapshot;
use patchbay_tests::{
    format::CHAT,
    guest::Guest,
    server::{Server, body},
};
use patchbay_tools::SearchedTools;
use serde_json::Value;

use crate::{
    host::Host,
    nanoseconds,
    report::{Report, Samples, ms},
};

const TOOLS: usize = 10;
const SEARCHED: usize = 10_000;
const SEARCHES: usize = 200;

pub fn measure(report: &mut Report) {
    report.section(
        "What a model is shown",
        &format!(
            "The first request of a conversation with a model of 200,000 tokens, with the bundled skills and as many more skills \
             with instructions, each with a description of 200 characters, and as many tools, {TOOLS} to a skill. Bytes of the \
             request as it is sent."
        ),
    );
    let rows = [0, 10, 100, 1_000].map(|count| {
        let body = first_request(count);
        let request: Value = serde_json::from_str(&body).unwrap();
        let system = request["messages"][0].to_string().len();
        let tools = request["tools"].as_array().unwrap();
        let declared = tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();
        eprintln!("{count} skills and tools: {} bytes", body.len());
        [count, body.len(), system, declared, tools.len()].map(|number| number.to_string()).to_vec()
    });
    let head = ["skills and tools", "bytes", "of the system context", "of the tools", "tools declared"];
    report.table(&head, &rows);
    let (first, search) = search();
    report.text_block(&format!(
        "`find_tools` over {SEARCHED} tools: {} µs p50, {} µs p99; the first search of a snapshot, which makes the index, takes \
         {} ms.",
        search.percentile(50) / 1_000,
        search.percentile(99) / 1_000,
        ms(first)
    ));
}

/// Returns the body of the first request with `count` skills and as many tools.
fn first_request(count: usize) -> String {
    let server = Server::always(CHAT.answer_with(&["Done."]));
    let patchbay = CHAT.home(&server, "models = [{ id = \"local-1\", context_window = 200000 }]\n");
    for n in 0..count {
        let about = format!("Number {n}: {}", "what it is for and when to use it, ".repeat(6));
        patchbay.skill(&format!("skill{n}"), &format!("description: \"{}\"", &about[..200]), "Do it.");
    }
    for skill in 0..count / TOOLS {
        let tools = (0..TOOLS).map(|n| tool(skill * TOOLS + n)).collect();
        let guest = Guest { tools, ..Guest::default() };
        let skill_md = "---\ndisable-model-invocation: false\nsummary: Tools\n---\n";
        patchbay.write(&format!("home/config/skills/tools{skill}.wasm"), guest.packaged(skill_md));
    }
    let ran = patchbay.exec(&[&format!("/model {}", CHAT.model), "Hello."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    body(&server.requests()[0]).to_owned()
}

/// Words that make up the tools' descriptions.
const WORDS: [&str; 16] = [
    "file", "mail", "calendar", "search", "delete", "create", "update", "list", "issue", "commit", "image", "table",
    "page", "user", "report", "message",
];

/// Returns name, description and schema of a tool.
fn tool(n: usize) -> (String, String, String) {
    let word = |at: usize| WORDS[(n / WORDS.len().pow(at as u32) + at) % WORDS.len()];
    let about = format!("Does a {} of the {} for each {}, and says what came of it.", word(0), word(1), word(2));
    let schema = format!(
        r#"{{"type":"object","properties":{{"{}":{{"type":"string"}},"limit":{{"type":"integer"}}}}}}"#,
        word(1)
    );
    (format!("{}_{n}", word(0)), about, schema)
}

/// Returns the times of the first search and of the others.
fn search() -> (u64, Samples) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let home = tempfile::tempdir().unwrap();
    let guest = Guest { tools: (0..TOOLS).map(tool).collect(), ..Guest::default() };
    let host = runtime.block_on(Host::new(home.path(), &guest.component()));
    let snapshot = many(&host.snapshot);
    assert_eq!(snapshot.skills().map(|skill| skill.tools.len()).sum::<usize>(), SEARCHED);
    let find = |query: &str| {
        let start = Instant::now();
        let found = host.tools.find_tools(SearchedTools { host: &[], snapshot: &snapshot, outside: &[] }, query, 8);
        let time = nanoseconds(start);
        assert_eq!(found.len(), 8);
        time
    };
    let first = find("create a calendar report");
    let query = |n: usize| format!("{} the {} of a {}", WORDS[n % 16], WORDS[(n / 3) % 16], WORDS[(n / 7) % 16]);
    (first, Samples::new((0..SEARCHES).map(|n| find(&query(n))).collect()))
}

/// Returns a snapshot with copies of the only skill in `snapshot`, each with other tools.
fn many(snapshot: &Snapshot) -> Arc<Snapshot> {
    let mut body: Value = serde_json::from_str(snapshot.to_json()).unwrap();
    let (_, skill) = body["skills"].as_object_mut().unwrap().iter_mut().next().unwrap();
    let skill = skill.take();
    let copies = (0..SEARCHED / TOOLS).map(|copy| {
        let mut skill = skill.clone();
        let name = format!("s{copy}");
        skill["name"] = name.as_str().into();
        for (n, spec) in skill["tools"].as_array_mut().unwrap().iter_mut().enumerate() {
            let (name, description, schema) = tool(copy * TOOLS + n);
            spec["name"] = name.into();
            spec["description"] = description.into();
            spec["input_schema"] = serde_json::from_str(&schema).unwrap();
        }
        (name, skill)
    });
    body["skills"] = copies.collect::<serde_json::Map<_, _>>().into();
    let json = body.to_string();
    let digest = Digest::of(json.as_bytes());
    Arc::new(Snapshot::from_json(json, digest, 1).unwrap())
}
