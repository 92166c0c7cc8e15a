//! Seed 004: tools for sub-agents, and capturing.

use std::sync::Mutex;

use patchbay_tests::{
    answers::Live,
    binary::Patchbay,
    format::{CHAT, chat_calls},
    server::Server,
};
use serde_json::{Value, json};

use super::{Has, Is, Row, Table, row};
use crate::provider_servers::body;

pub(super) const LINES: &[u16] = &[
    17, 21, 22, 23, 24, 25, 26, 27, 35, 36, 45, 46, 47, 50, 51, 55, 57, 61, 70, 71, 72, 73, 74, 77, 78, 84, 85, 90, 92,
    95, 96,
];

/// The tools, with their lines, commands, and required inputs.
const TOOLS: [(u16, &str, &str, &[&str]); 7] = [
    (21, "fork", "/fork", &["prompt"]),
    (22, "kill", "/kill", &["uuid"]),
    (23, "mail_send", "/mail-send", &["message", "to"]),
    (24, "mail_check", "/mail-check", &[]),
    (25, "mail_read", "/mail-read", &["number"]),
    (26, "mail_delete", "/mail-delete", &["number"]),
    (27, "mail_filter", "/mail-filter", &["from"]),
];

const CAPTURE: &[Row] = &[
    row(&[70], "/capture", Is("capture_started: Capturing. End with /fork or /cancel.")),
    row(&[71], "Enumerate all the *.md files,", Is("captured: Captured (1 line).")),
    row(&[72], "count their words and build", Is("captured: Captured (2 lines).")),
    row(&[73], "a summary table.", Is("captured: Captured (3 lines).")),
    row(
        &[47],
        "a prompt while capturing",
        Is("invalid_args: Error: a prompt cannot be given while capturing; the captured text is the prompt."),
    )
    .typed("/fork \"Go\"")
    .reconciled(&[1]),
    row(&[45, 74], "/fork", Has(&["forked: Forked child ", "(demo/demo-1/default)"])),
];

const CANCEL: &[Row] = &[
    row(&[78], "/cancel", Is("switched: Switched to ROOT.")).typed("/switch ROOT"),
    row(&[35], "/capture", Is("capture_started: Capturing. End with /fork or /cancel.")),
    row(&[78], "a captured line", Is("captured: Captured (1 line).")).typed("Not sent"),
    row(&[36, 78], "/cancel", Is("capture_cancelled: Capture cancelled.")),
    row(&[46], "/fork", Has(&["forked: Forked child ", "(demo/demo-1/default)"])),
];

pub(super) fn run(table: &mut Table) {
    signatures(table);
    let patchbay = Patchbay::quick();
    commands(&patchbay, table);
    tools(table);
}

/// The tools that a model sees, and the commands that a user can type. The mail tools are deferred: the list of tools does not
/// declare them, and `find_tools` returns their schemas.
fn signatures(table: &mut Table) {
    let calls = chat_calls(&json!([["find_tools", {"query": "mail"}]]));
    let answers = Mutex::new(vec![CHAT.answer_with(&["ok"]), calls]);
    let server = Server::new(move |_| answers.lock().unwrap().pop().unwrap_or_default());
    let patchbay = CHAT.home(&server, "");
    let answers = patchbay.answers(&[&format!("/model {}", CHAT.model), "hello", "/commands"]);
    let requests = server.requests();
    let bodies: Vec<Value> = requests.iter().map(|request| body(request)).collect();
    let mut shown: Vec<&Value> = bodies[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]).collect();
    let names: Vec<&str> = shown.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    table.equal(
        &[17],
        "a single alphabetized list",
        (names.is_sorted(), names.contains(&"weather__now")),
        (true, true),
    );
    let found = bodies[1]["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
    let found: Value = serde_json::from_str(found).unwrap();
    shown.extend(found["result"]["tools"].as_array().unwrap());
    for (line, name, command, inputs) in TOOLS {
        let tool = shown.iter().find(|tool| tool["name"] == name);
        let schema = if name.starts_with("mail_") { "input_schema" } else { "parameters" };
        let required = tool.map(|tool| tool[schema]["required"].clone()).unwrap_or_default();
        let mut required: Vec<&str> = required.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        required.sort_unstable();
        table.equal(&[line], name, (tool.is_some(), required), (true, inputs.to_vec()));
        table.has(&[line], command, answers[2].message(), &[&format!("\n{command} ")]);
    }
    for (line, command) in [(35, "capture"), (36, "cancel")] {
        table.equal(&[line], command, names.contains(&command), false);
        table.has(&[line], command, answers[2].message(), &[&format!("\n/{command} ")]);
    }
}

/// The user's commands.
fn commands(patchbay: &Patchbay, table: &mut Table) {
    let mut live = patchbay.live(&[]);
    let root = agents(&mut live)[0]["agent"].as_str().unwrap().to_owned();
    let captured = table.type_all(&mut live, CAPTURE, &[("ROOT", &root)]);
    let child = captured.last().unwrap().data()["child_uuid"].as_str().unwrap_or_default().to_owned();
    let in_view =
        |live: &mut Live| agents(live).iter().find(|agent| agent["in_view"] == true).cloned().unwrap_or_default();
    table.equal(&[45], "the view moves to the child", in_view(&mut live)["agent"].clone(), json!(child));
    let cancelled = table.type_all(&mut live, CANCEL, &[("ROOT", &root)]);
    let idle = cancelled.last().unwrap().data()["child_uuid"].as_str().unwrap_or_default().to_owned();
    let view = in_view(&mut live);
    table.equal(&[46], "an idle child in view", (&view["agent"], &view["state"]), (&json!(idle), &json!("idle")));
    // The user types the task after switching.
    table.equal(&[47], "the task is typed after switching", live.message("hello"), "You said: hello".to_owned());
    let killed = live.message("/kill");
    let expected = (format!("Killed 1 agent: {idle}"), json!(root));
    table.equal(&[55], "/kill", (killed, in_view(&mut live)["agent"].clone()), expected);

    let sent = live.message(&format!("/mail-send {root} \"Hello\""));
    table.equal(&[61], "/mail-send", sent, format!("Mail sent to {root}."));
    let inbox = live.message("/mail-check");
    table.has(&[61], "/mail-check", &inbox, &["Inbox (1 message, ", &format!("from {} (", &root[..8])]);
    let read = live.message("/mail-read 1");
    table.has(&[61], "/mail-read", &read, &[&format!("From: {} (", &root[..8]), "\n\nHello"]);
    let filtered = live.message(&format!("/mail-filter --from {root}"));
    table.has(&[61], "/mail-filter", &filtered, &[&format!("Inbox (1 message from {}, 0 unread):", &root[..8])]);
    table.equal(&[61], "/mail-delete", live.message("/mail-delete 1"), "Message deleted.".to_owned());

    let session = live.session().to_owned();
    live.kill();
    let database = patchbay.database("patchbay.db");
    let texts = |agent: &str, kind: &str| {
        let mut query = database
            .prepare("SELECT content FROM messages WHERE session = ? AND agent = ? AND kind = ? ORDER BY seq")
            .unwrap();
        let rows = query.query_map([&*session, agent, kind], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect::<Vec<_>>()
    };
    let lines = ["Enumerate all the *.md files,", "count their words and build", "a summary table."];
    let kept: Vec<String> = lines.into_iter().chain(["Not sent"]).map(str::to_owned).collect();
    table.equal(&[77, 78], "kind=\"capture\"", texts(&root, "capture"), kept);
    table.equal(&[45, 74], "the captured content is the task", texts(&child, "user"), vec![lines.join("\n")]);
    let is_captured = |text: &String| lines.iter().chain(&["Not sent"]).any(|line| text.contains(line));
    table.equal(&[71, 72, 73], "not sent to the parent's model", texts(&root, "user").iter().any(is_captured), false);
}

/// A model's tools, and the life of a child.
fn tools(table: &mut Table) {
    let patchbay = Patchbay::quick();
    let forked = &patchbay.answers(&[
        "call fork {\"prompt\": \"say $$parent has $$self.\"}",
        "call fork {}",
        "call kill {\"uuid\": \"00000000\"}",
        "/agents",
    ]);
    let session = patchbay.last_session();
    let agents = forked[3].data()["agents"].as_array().unwrap().clone();
    let [root, child] = [0, 1].map(|at| agents[at]["agent"].as_str().unwrap().to_owned());
    let result = format!(r#"fork said: {{"tool_success":true,"result":{{"child_uuid":"{child}"}}}}"#);
    table.has(&[50, 84], "fork(prompt: \"do X\")", forked[0].message(), &[&result]);
    table.equal(&[50], "the view stays", agents[0]["in_view"].clone(), json!(true));
    table.has(
        &[51],
        "`prompt` is required",
        forked[1].message(),
        &["fork failed: ", "\"error_code\":\"invalid_input\""],
    );
    table.has(&[57], "kill fails", forked[2].message(), &["\"tool_success\":false", "agent '00000000' was not found."]);

    let kill = format!("call kill {{\"uuid\": \"{child}\"}}");
    let send = format!("call mail_send {{\"to\": \"{child}\", \"message\": \"do more\"}}");
    let options = ["--session", &*session];
    let later = &patchbay.answers_in(&options, &["/mail-read 1", "/agents", "call mail_check {}", &send]);
    let reported = later[0].message();
    let report = format!(r#"{{"status":"idle","success":true,"summary":"{root} has {child}."}}"#);
    table.has(&[85, 90], "{\"status\": \"idle\", \"success\": true/false, \"summary\": \"...\"}", reported, &[&report]);
    let of_child = &later[1].data()["agents"][1];
    let states = (&of_child["alive"], &of_child["state"]);
    // After a session is resumed, its agents are `held` until the user's first message.
    table.equal(
        &[92],
        "the child sits idle",
        (states.0, states.1 == "idle" || states.1 == "held"),
        (&json!(true), true),
    );
    table.has(&[61], "mail_check", later[2].message(), &["mail_check said: ", "\"messages\":["]);
    let sent = format!(r#"{{"tool_success":true,"result":{{"status":"sent","to":"{child}"}}}}"#);
    table.has(&[96], "mail_send(uuid, \"do more\")", later[3].message(), &[&sent]);
    let killed = &patchbay.answers_in(&options, &[&kill, "/agents"]);
    let result = format!(r#"kill said: {{"tool_success":true,"result":{{"killed":["{child}"]}}}}"#);
    table.has(&[57, 95], "kill(uuid)", killed[0].message(), &[&result]);
    table.equal(&[57], "the view stays", killed[1].data()["agents"][0]["in_view"].clone(), json!(true));
}

fn agents(live: &mut Live) -> Vec<Value> {
    live.answer("/agents").data()["agents"].as_array().unwrap().clone()
}
