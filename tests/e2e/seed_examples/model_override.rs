//! Seed 003: the tool `set_agent_model`.

use patchbay_tests::{answers::Live, binary::Patchbay, format::CHAT, server::Server};
use serde_json::{Value, json};

use super::Table;

pub(super) const LINES: &[u16] =
    &[6, 7, 8, 35, 36, 37, 46, 51, 52, 53, 55, 65, 66, 67, 68, 80, 81, 90, 92, 93, 101, 102, 103, 109, 110, 111, 114];

/// Calls the tool in the session and returns the result for the model.
fn set(live: &mut Live, agent: &str, model: &str) -> String {
    let input = json!({"agentId": agent, "model": model});
    let answer = live.answer(&format!("call set_agent_model {input}"));
    let rows = answer.rows();
    let result = rows.iter().rev().find(|(kind, _)| *kind == "tool").map(|(_, text)| *text).unwrap_or_default();
    serde_json::from_str(result).unwrap_or_else(|_| result.to_owned())
}

/// Returns an agent's stored override, and the model that it uses.
fn stored(patchbay: &Patchbay, live: &mut Live, agent: &str) -> (Value, String) {
    let database = patchbay.database("patchbay.db");
    let query = "SELECT model_override FROM agents WHERE uuid = ?";
    let json: Option<String> = database.query_row(query, [agent], |row| row.get(0)).unwrap();
    let stored = json.map_or(Value::Null, |json| serde_json::from_str(&json).unwrap());
    (stored, model(live, agent))
}

fn model(live: &mut Live, agent: &str) -> String {
    let agents = live.answer("/agents").data()["agents"].clone();
    let shown = agents.as_array().unwrap().iter().find(|shown| shown["agent"] == agent).unwrap();
    shown["model"].as_str().unwrap().to_owned()
}

pub(super) fn run(table: &mut Table) {
    let answer = CHAT.answer_with(&["ok"]);
    let refusal = CHAT.refusal(500, "The model is broken.", None);
    let server =
        Server::new(move |request| if request.contains("broken-1") { refusal.clone() } else { answer.clone() });
    let patchbay = CHAT.home(&server, "[providers.demo]\noptions = { delay-ms = \"0\" }\n");
    let mut live = patchbay.live(&[]);
    let root = live.answer("/agents").data()["agents"][0]["agent"].as_str().unwrap().to_owned();
    table.equal(
        &[6],
        "all agents use normal (reconciliation 12)",
        model(&mut live, &root),
        "demo/demo-1/default".to_owned(),
    );

    for (line, selector, name) in [(101, "small", "demo-small"), (103, "big", "demo-big"), (102, "normal", "demo-1")] {
        let expected = format!("Model set to \"{selector}\" selector for agent {root}.");
        table.equal(&[7, 55, 66, line], selector, set(&mut live, &root, selector), expected);
        let expected = (json!({"type": "selector", "value": selector}), format!("demo/{name}/default"));
        table.equal(&[35, 51, 80, 90], "{ type: \"selector\"; value }", stored(&patchbay, &mut live, &root), expected);
    }
    // An unknown selector is a model name (reconciliation 9).
    let failed = set(&mut live, &root, "large");
    table.has(&[101, 102, 103], "large", &failed, &["Model validation failed for \"large\": Unknown model: large"]);

    // The name belongs to another provider. Moving to it requires a question, and no user is there to answer.
    let moved = set(&mut live, &root, CHAT.model);
    assert!(moved.contains("no user can be asked here"), "{moved}");
    let forked = live.answer(&format!("/fork --model {}", CHAT.model));
    let child = forked.data()["child_uuid"].as_str().unwrap().to_owned();
    live.answer("/switch root");
    let expected = format!("Model set to \"{}\" for agent {child}.", CHAT.model);
    table.equal(&[7, 36, 55], "a direct model name", set(&mut live, &child, CHAT.model), expected);
    let expected = (json!({"type": "model", "value": CHAT.model}), "openai-compatible/local-1/default".to_owned());
    table.equal(&[51, 81, 92], "{ type: \"model\"; value }", stored(&patchbay, &mut live, &child), expected);
    live.answer(&format!("/switch {child}"));
    live.answer("hello");
    let requests = server.requests();
    let body: Value = serde_json::from_str(requests[0].split_once("\r\n\r\n").unwrap().1).unwrap();
    let messages = json!([{"role": "system", "content": "Reply with 'ok'."}, {"role": "user", "content": "hi"}]);
    table.equal(
        &[52, 67, 109, 110, 111],
        "the micro inference call",
        (&body["messages"], &body["model"], body.get("tools")),
        (&messages, &json!("local-1"), None),
    );
    // The tool as the model sees it.
    let shown: Value = serde_json::from_str(requests[1].split_once("\r\n\r\n").unwrap().1).unwrap();
    let tool = shown["tools"].as_array().unwrap().iter().find(|tool| tool["function"]["name"] == "set_agent_model");
    let parameters = tool.map(|tool| tool["function"]["parameters"].clone()).unwrap_or_default();
    let types = ["agentId", "model"].map(|name| parameters["properties"][name]["type"].clone());
    table.equal(
        &[51],
        "{ agentId: string, model: \"small\" | \"normal\" | \"big\" | string }",
        (types, &parameters["required"]),
        ([json!("string"), json!("string")], &json!(["agentId", "model"])),
    );
    live.answer(&format!("/model {}", CHAT.model));
    let expected = (Value::Null, "openai-compatible/local-1/default".to_owned());
    table.equal(&[37, 93], "null", stored(&patchbay, &mut live, &child), expected.clone());
    live.answer("/switch root");

    let failed = set(&mut live, &child, "openai-compatible:broken-1");
    table.has(
        &[114],
        "the call throws",
        &failed,
        &["Model validation failed for \"openai-compatible:broken-1\": ", "The model is broken"],
    );
    table.equal(&[114], "it does not store the override", stored(&patchbay, &mut live, &child), expected);
    let missing = set(&mut live, "00000000", "big");
    table.has(&[46], "false if agent not found", &missing, &["agent '00000000' was not found."]);

    // Which agents see the tool.
    let shows =
        |context: &str| context.lines().any(|line| line.starts_with("tools: ") && line.contains("set_agent_model"));
    table.equal(&[8, 53, 65], "foreground agents see the tool", shows(&live.message("show context")), true);
    set(&mut live, &root, "big");
    let session = live.session().to_owned();
    assert_eq!(live.wait_for_exit(), Some(0));

    let child = &patchbay.answers_in(&["--session", &session], &["call fork {\"prompt\": \"show context\"}"]);
    let database = patchbay.database("patchbay.db");
    let query = "SELECT m.content FROM messages m JOIN agents a ON a.uuid = m.agent \
                 WHERE m.session = ? AND m.kind = 'assistant' AND a.ordinal = 2";
    let context: String =
        database.query_row(query, [&session], |row| row.get(0)).unwrap_or_else(|_| format!("{child:?}"));
    table.equal(
        &[8, 53, 65],
        "background agents do not",
        (context.contains("tools: "), shows(&context)),
        (true, false),
    );
    let again = &patchbay.answers_in(&["--session", &session], &["show context", "/agents"]);
    table.has(&[68], "the override persists", again[0].message(), &["model: demo-big\n"]);
}
