//! What a model sees of many skills and tools, and how it finds the rest.

use std::sync::Mutex;

use patchbay_tests::{
    answers::{Answer, json_lines},
    binary::Patchbay,
    format::{CHAT, FORMATS, Format, chat_calls},
    guest::Guest,
    server::Server,
};
use serde_json::{Value, json};

use crate::provider_servers::body;

/// A home whose model answers from a script. Each answer is a list of calls, or null for the text `Done.`
struct Stage {
    server: Server,
    patchbay: Patchbay,
}

impl Stage {
    /// `context` contains the lines of the table `[context]`.
    fn new(context: &str, script: Vec<Value>) -> Self {
        let answers: Vec<Vec<u8>> = script
            .iter()
            .map(|calls| if calls.is_null() { CHAT.answer_with(&["Done."]) } else { chat_calls(calls) })
            .collect();
        let answers = Mutex::new(answers.into_iter());
        let server = Server::new(move |_| answers.lock().unwrap().next().unwrap_or_default());
        let patchbay = CHAT.home(&server, &config(9_000, context));
        Self { server, patchbay }
    }

    fn set_window(&self, tokens: u32) {
        let config = format!("{}{}", CHAT.table(&self.server), config(tokens, ""));
        self.patchbay.write("home/config/config.toml", config);
    }

    /// Adds a skill in the file `path`, whose tools echo their input.
    fn tools(&self, path: &str, tools: &[(String, &str)]) {
        let schema = r#"{"type":"object","properties":{"to":{"type":"string"}}}"#;
        let tools = tools.iter().map(|(name, about)| (name.clone(), (*about).to_owned(), schema.to_owned())).collect();
        let guest = Guest { tools, ..Guest::default() };
        self.patchbay.write(path, guest.packaged("---\nsummary: Many\n---\n"));
    }

    /// Adds the skill `many` with 48 tools, more than are declared.
    fn many_tools(&self) {
        let mut tools: Vec<(String, &str)> = (0..47).map(|n| (format!("tool_{n:02}"), "Does nothing")).collect();
        tools.push(("launch_rocket".to_owned(), "Starts the flight of a rocket"));
        self.tools("home/config/skills/many.wasm", &tools);
    }

    fn answers(&self, lines: &[&str]) -> Vec<Answer> {
        let model = format!("/model {}", CHAT.model);
        self.patchbay.answers(&[&[model.as_str()], lines].concat()).split_off(1)
    }

    /// Returns the bodies of the requests.
    fn requests(&self) -> Vec<Value> {
        self.server.requests().iter().map(|request| body(request)).collect()
    }
}

fn config(window: u32, context: &str) -> String {
    format!("models = [{{ id = \"local-1\", context_window = {window} }}]\n[context]\n{context}\n")
}

/// Returns the names of the tools that a request declares.
fn declared(request: &Value) -> Vec<&str> {
    request["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// Returns the description of a declared tool.
fn description<'a>(request: &'a Value, name: &str) -> &'a str {
    let tools = request["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["function"]["name"] == name).unwrap();
    tool["function"]["description"].as_str().unwrap()
}

/// Returns the first request of a conversation in a freshly installed home that `change` may modify.
fn first_request(format: &Format, change: impl Fn(&Patchbay)) -> String {
    let server = Server::always(format.answer_with(&["Done."]));
    let patchbay = format.plain_home(&server, "");
    change(&patchbay);
    let ran = patchbay.exec(&[&format!("/model {}", format.model), "Hello."]);
    assert_eq!(ran.code, Some(0), "{}: {ran:?}", format.provider);
    let requests = server.requests();
    let [request] = &requests[..] else { panic!("{}: {} requests", format.provider, requests.len()) };
    patchbay_tests::server::body(request).to_owned()
}

/// Returns the result of the last call in a request.
fn last_result(request: &Value) -> &str {
    let last = request["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["role"], "tool", "{last}");
    last["content"].as_str().unwrap()
}

/// Returns the list of skills in a request.
fn listing(request: &Value) -> String {
    let system = &request["messages"][0]["content"];
    let text = match system.as_str() {
        Some(text) => text.to_owned(),
        None => system.as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect(),
    };
    text[text.find("Skills. When one fits").unwrap()..].to_owned()
}

#[test]
fn first_request_of_a_plain_install_is_under_10_kb() {
    for format in FORMATS {
        let request = first_request(&format, |_| ());
        assert!(request.len() < 10_000, "{}: {} bytes", format.provider, request.len());
    }
}

#[test]
fn first_request_with_300_skills_names_them_all_in_30_kb() {
    let about = "What it is for and when to use it. ".repeat(6);
    for format in FORMATS {
        let request = first_request(&format, |patchbay| {
            for n in 0..300 {
                patchbay.skill(&format!("skill-{n:03}"), &format!("description: \"{}\"", &about[..200]), "Do it.");
            }
        });
        assert!(request.len() < 30_000, "{}: {} bytes", format.provider, request.len());
        for n in 0..300 {
            assert!(request.contains(&format!("skill-{n:03}")), "{}: {n}", format.provider);
        }
        // The first skills keep their whole descriptions.
        assert!(request.contains(&format!("- skill-000: {}", &about[..200])), "{}", format.provider);
    }
}

#[test]
fn list_of_skills_is_bounded_and_the_rest_is_found() {
    let stage = Stage::new("", vec![json!([["find_skills", {"query": "repair bicycles"}]]), Value::Null]);
    for n in 0..200 {
        stage.patchbay.skill(&format!("s{n:03}"), &format!("summary: Number {n} {}", "of many ".repeat(20)), "Go.");
    }
    stage.patchbay.skill("zebra", "summary: Repairs a bicycle", "Go.");
    stage.patchbay.skill("zoo", "summary: Repairs a bicycle\ndisable-model-invocation: true", "Go.");
    stage.answers(&["Repair it."]);
    let requests = stage.requests();
    let listing = listing(&requests[0]);
    assert!(listing.len() <= 4_000 && listing.len() > 3_500, "{}", listing.len());
    let (described, named) = listing.split_once("\nMore skills, described by find_skills: ").unwrap();
    assert!(described.contains(&format!("\n- s000: Number 0 {}", "of many ".repeat(20).trim_end())), "{listing}");
    let named: Vec<&str> = named.split(", ").collect();
    assert!(named.is_sorted() && named.contains(&"zebra") && !named.contains(&"zoo"), "{listing}");
    // The skills above except `zoo`, then `weather` and two bundled skills with instructions.
    assert_eq!(described.lines().count() - 1 + named.len(), 204, "{listing}");
    assert!(!listing.contains("Repairs a bicycle"));
    assert!(declared(&requests[0]).contains(&"find_skills"));
    let found = last_result(&requests[1]);
    assert!(found.contains(r#"{"name":"zebra","summary":"Repairs a bicycle"}"#), "{found}");
    assert!(!found.contains("zoo"), "a skill for people is not found: {found}");
}

/// The tools that a default installation does not declare, each with a task for which a model would search.
const DEFERRED: [(&str, &str); 19] = [
    ("code__run", "run a program that calls many tools"),
    ("files__delete", "delete a file"),
    ("files__find", "find a file by name"),
    ("files__read_many", "read several files at once"),
    ("files__rename", "move or rename a file"),
    ("grep__run", "grep__run"),
    ("json__query", "filter, sort and sum a list of objects"),
    ("json__run", "json__run"),
    ("mail_check", "check my inbox"),
    ("mail_delete", "delete a message"),
    ("mail_filter", "messages from one agent"),
    ("mail_read", "read my mail"),
    ("mail_send", "send a message to another agent"),
    ("notes__add", "remember something for later"),
    ("notes__delete", "delete a note"),
    ("notes__list", "list my notes"),
    ("notes__run", "notes__run"),
    ("notes__search", "search my notes"),
    ("task_list", "plan the steps of my work for the user"),
];

#[test]
fn everyday_tools_are_declared_and_the_others_named() {
    let stage = Stage::new("", vec![Value::Null]);
    stage.answers(&["Hello."]);
    let requests = stage.requests();
    let expected = [
        "calc__eval",
        "call_tool",
        "files__edit",
        "files__list",
        "files__patch",
        "files__read",
        "files__write",
        "find_tools",
        "fork",
        "grep__search",
        "kill",
        "set_agent_model",
        "use_skill",
        "weather__now",
        "web__fetch",
    ];
    assert_eq!(declared(&requests[0]), expected);
    let (_, names) = description(&requests[0], "find_tools").split_once("\nNot declared: ").unwrap();
    let mut names: Vec<&str> = names.trim_end_matches('.').split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, DEFERRED.map(|(name, _)| name));
}

#[test]
fn each_deferred_tool_is_the_first_that_its_task_finds() {
    let searches: Vec<Value> = DEFERRED.iter().map(|(_, task)| json!(["find_tools", {"query": task}])).collect();
    let stage = Stage::new("", vec![Value::from(searches), Value::Null]);
    stage.set_window(1_000_000);
    stage.answers(&["Find all."]);
    let requests = stage.requests();
    let messages = requests[1]["messages"].as_array().unwrap().iter();
    let results: Vec<&Value> = messages.filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), DEFERRED.len());
    for ((name, task), result) in DEFERRED.iter().zip(results) {
        let content = result["content"].as_str().unwrap();
        let result: Value = serde_json::from_str(content).unwrap_or_else(|error| panic!("{error}: {content}"));
        let found = &result["result"]["tools"][0];
        assert_eq!(found["name"], *name, "{task}: {result}");
        assert!(found["input_schema"]["type"] == "object" && found["description"].is_string(), "{found}");
    }
}

/// The user asks for something that no declared tool does.
#[test]
fn model_finds_notes_and_keeps_one() {
    let add = json!({"name": "notes__add", "input": {"text": "Ada likes tea."}});
    let search = json!({"name": "notes__search", "input": {"query": "tea"}});
    let script = vec![
        json!([["find_tools", {"query": "remember something for later"}]]),
        json!([["call_tool", add]]),
        json!([["call_tool", search]]),
        Value::Null,
    ];
    let stage = Stage::new("", script);
    stage.answers(&["Remember that Ada likes tea."]);
    let requests = stage.requests();
    assert!(last_result(&requests[1]).contains(r#""name":"notes__add""#), "{}", last_result(&requests[1]));
    assert_eq!(last_result(&requests[2]), r#"{"tool_success":true,"result":"Note 1 added."}"#);
    assert!(last_result(&requests[3]).contains("Ada likes tea."), "{}", last_result(&requests[3]));
    for request in &requests {
        assert_eq!(request["tools"].to_string(), requests[0]["tools"].to_string());
    }
}

/// The mail tools belong to the host, so no skill names them.
#[test]
fn model_finds_the_mail_tools_and_writes_to_an_agent() {
    let stage = Stage::new(
        "",
        vec![
            json!([["find_tools", {"query": "send a message to another agent"}]]),
            json!([["call_tool", {"name": "mail_send", "input": {"to": "no-one", "message": "Hello."}}]]),
            Value::Null,
        ],
    );
    stage.answers(&["Write to no-one."]);
    let requests = stage.requests();
    assert!(last_result(&requests[1]).contains(r#""name":"mail_send""#), "{}", last_result(&requests[1]));
    let expected = "agent 'no-one' was not found.";
    assert!(last_result(&requests[2]).contains(expected), "{}", last_result(&requests[2]));
}

#[test]
fn tool_that_is_not_declared_is_found_and_called() {
    let call = json!([["call_tool", {"name": "many__launch_rocket", "input": {"to": "the moon"}}]]);
    let script = vec![json!([["find_tools", {"query": "start rockets"}]]), call, Value::Null, Value::Null];
    let stage = Stage::new("", script);
    stage.many_tools();
    let answers = stage.answers(&["Fly.", "Again."]);
    let requests = stage.requests();
    assert_eq!(requests.len(), 4);
    let declared = declared(&requests[0]);
    assert!(declared.contains(&"find_tools") && declared.contains(&"call_tool") && declared.contains(&"calc__eval"));
    assert!(!declared.iter().any(|name| name.starts_with("many__")), "{declared:?}");
    let found = last_result(&requests[1]);
    let expected = r#"{"description":"Starts the flight of a rocket","input_schema":{"properties":{"to":{"type":"string"}},"type":"object"},"name":"many__launch_rocket"}"#;
    assert!(found.contains(expected), "{found}");
    assert_eq!(last_result(&requests[2]), r#"{"tool_success":true,"result":"{\"to\":\"the moon\"}"}"#);
    // In the conversation, the model sees the input that it wrote.
    let messages = requests[2]["messages"].as_array().unwrap();
    let sent = &messages[messages.len() - 2]["tool_calls"][0]["function"];
    assert_eq!(sent["name"], "call_tool");
    let arguments: Value = serde_json::from_str(sent["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"name": "many__launch_rocket", "input": {"to": "the moon"}}));
    // The declarations are the same in every request.
    for request in &requests {
        assert_eq!(request["tools"].to_string(), requests[0]["tools"].to_string());
        assert_eq!(request["messages"][0].to_string(), requests[0]["messages"][0].to_string());
    }
    // Fronts and the journal see the name of the real tool.
    let rows: Vec<&Value> = answers[0].events.iter().filter(|event| event["kind"] == "assistant").collect();
    let part = &rows[1]["data"]["parts"][0];
    assert_eq!((&part["name"], &part["input"]), (&json!("many__launch_rocket"), &json!(r#"{"to":"the moon"}"#)));
    let tools: Vec<&Value> = answers[0].events.iter().filter(|event| event["kind"] == "tool").collect();
    assert_eq!(tools[1]["data"]["name"], "many__launch_rocket");
    let journal = json_lines(&stage.patchbay.run(&["journal", "--json"]).out);
    let called: Vec<_> =
        journal.iter().map(|row| (row["skill"].as_str().unwrap(), row["tool"].as_str().unwrap())).collect();
    assert_eq!(called, [("patchbay", "find_tools"), ("many", "launch_rocket")]);
    assert!(journal[1]["asker"].as_str().unwrap().starts_with("agent:"), "{}", journal[1]);
}

/// The workspace's skills match best, but a repository can write anything into its skills.
#[test]
fn search_returns_eight_results_and_two_of_an_untrusted_workspace() {
    let query = json!({"query": "rocket"});
    let stage = Stage::new("", vec![json!([["find_tools", query], ["find_skills", query]]), Value::Null]);
    let tools = |count: usize, about| (0..count).map(|n| (format!("rocket_{n}"), about)).collect::<Vec<_>>();
    stage.tools("home/config/skills/mine.wasm", &tools(10, "Starts a rocket"));
    stage.tools("workspace/.agents/skills/theirs.wasm", &tools(5, "rocket rocket rocket"));
    for n in 0..10 {
        stage.patchbay.skill(&format!("mine-{n}"), "summary: Starts a rocket", "Go.");
    }
    for n in 0..5 {
        let skill_md = "---\nsummary: rocket rocket rocket\n---\nGo.\n";
        stage.patchbay.write(&format!("workspace/.agents/skills/theirs-{n}/SKILL.md"), skill_md);
    }
    stage.answers(&["Fly."]);
    let requests = stage.requests();
    for (kind, first) in [("tools", "theirs__rocket_0"), ("skills", "theirs-0")] {
        let messages = requests[1]["messages"].as_array().unwrap().iter();
        let results = messages.filter(|message| message["role"] == "tool");
        let results = results.map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap());
        let found: Value = results.map(|result: Value| result["result"][kind].clone()).find(Value::is_array).unwrap();
        let names: Vec<&str> = found.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!((names.len(), names[0]), (8, first), "{names:?}");
        assert_eq!(names.iter().filter(|name| name.starts_with("theirs")).count(), 2, "{names:?}");
    }
}

#[test]
fn call_tool_obeys_the_policy_of_the_tool() {
    let write = json!({"path": "a.txt", "text": "x"});
    let script = vec![
        json!([["files__write", write], ["call_tool", {"name": "files__write", "input": write}]]),
        json!([["call_tool", {"name": "call_tool", "input": {"name": "calc__eval", "input": {}}}]]),
        json!([["call_tool", {"name": "no__tool", "input": {}}], ["call_tool", {"name": "calc__eval"}]]),
        Value::Null,
    ];
    let stage = Stage::new("tools_max = 12", script);
    stage.answers(&["Write."]);
    let requests = stage.requests();
    assert!(!declared(&requests[0]).iter().any(|name| name.starts_with("files__")), "{:?}", declared(&requests[0]));
    let results: Vec<&str> = requests[3]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert!(results[0].contains("skill 'files' may not use 'workspace-write': it is not granted."), "{}", results[0]);
    assert_eq!(results[0], results[1]);
    assert!(results[2].contains("'call_tool' cannot call itself"), "{}", results[2]);
    assert!(results[3].contains("tool 'no__tool' not found in snapshot."), "{}", results[3]);
    assert!(
        results[4].contains("input for 'call_tool' is invalid: \\\"input\\\" is a required property"),
        "{}",
        results[4]
    );
    assert!(!stage.patchbay.workspace().join("a.txt").exists());
    let journal = json_lines(&stage.patchbay.run(&["journal", "--json", "--plugin", "files"]).out);
    let rows: Vec<_> = journal.iter().map(|row| (row["tool"].as_str(), row["outcome"].as_str())).collect();
    assert_eq!(rows, [(Some("write"), Some("denied")); 2]);
}

#[test]
fn use_skill_returns_declarations_that_are_left_out() {
    let stage = Stage::new("", vec![json!([["use_skill", {"name": "pilot", "input": ""}]]), Value::Null]);
    stage.many_tools();
    stage.patchbay.skill("pilot", "summary: Flies\nrequires_tools: [many__launch_rocket, calc__eval]", "Fly.");
    stage.answers(&["Fly."]);
    let requests = stage.requests();
    let result = last_result(&requests[1]);
    assert!(result.contains("Fly.\\n\\nTools for this, to be called with call_tool:\\n"), "{result}");
    assert!(result.contains(r#"\"name\":\"many__launch_rocket\""#), "{result}");
    assert!(!result.contains("calc__eval"), "it is declared: {result}");
}

#[test]
fn persons_command_adds_declarations_that_are_left_out() {
    let stage = Stage::new("", vec![Value::Null]);
    stage.many_tools();
    let keys = "summary: Flies\nrequires_tools: [many__launch_rocket, calc__eval]";
    stage.patchbay.skill("pilot", keys, "Fly.");
    stage.patchbay.skill("walker", "summary: Walks\nrequires_tools: [calc__eval]", "Walk.");
    let answers = stage.answers(&["/skill walker", "/skill pilot now"]);
    assert_eq!(answers[0].rows()[0], ("skill", "Walk."), "its tool is declared");
    let sent = stage.requests()[0]["messages"].as_array().unwrap().last().unwrap().to_string();
    let expected = r"Fly.\n\nARGUMENTS: now\n\nTools for this, to be called with call_tool:\n{";
    assert!(sent.contains(expected) && sent.contains(r#"\"name\":\"many__launch_rocket\""#), "{sent}");
    assert!(!sent.contains("calc__eval"), "it is declared: {sent}");
}

#[test]
fn conversation_keeps_the_window_that_it_began_with() {
    let stage = Stage::new("", vec![Value::Null; 3]);
    for n in 0..200 {
        stage.patchbay.skill(&format!("s{n:03}"), "summary: One of many skills", "Go.");
    }
    stage.answers(&["One."]);
    let session = stage.patchbay.last_session();
    stage.set_window(1_000_000);
    stage.patchbay.answers_in(&["--session", &session], &["Two."]);
    stage.answers(&["Another conversation."]);
    let requests = stage.requests();
    assert_eq!(listing(&requests[0]), listing(&requests[1]));
    assert!(listing(&requests[0]).len() <= 4_000 && listing(&requests[2]).len() > 4_000);
}
