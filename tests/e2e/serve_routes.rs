//! What `patchbay serve` offers apart from sessions: tools for MCP clients, metrics, the partial text of an answer, and a page for
//! each agent.

use std::{
    io::{Read as _, Write as _},
    process::Command,
};

use patchbay_tests::{
    answers::json_lines,
    binary::Patchbay,
    serve::{Serving, talk},
};
use serde_json::{Value, json};

use crate::{
    mcp_http::initialize,
    serve_api::{Reply, WRITE, bearer, follow, get, post, send, session, wait_for},
};

/// Posts an MCP client's message. Returns the response, in which the last event or the body is a message.
fn mcp(serving: &Serving, path: &str, headers: &str, message: &Value) -> Reply {
    let accept = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
    send(serving, "POST", path, &format!("{}{accept}{headers}", bearer(&serving.token)), &message.to_string())
}

/// Returns the message in a response.
fn message(reply: &Reply) -> Value {
    let mut events = reply.body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let last = events.rfind(|data| !data.is_empty()).unwrap_or(&reply.body);
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{} {}", reply.status, reply.body))
}

/// Begins a session, and returns the header with its id.
fn begin(serving: &Serving, path: &str) -> String {
    let begun = mcp(serving, path, "", &initialize("tester"));
    let id = begun.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    format!("Mcp-Session-Id: {}\r\n", id.unwrap_or_else(|| panic!("{} {}", begun.head, begun.body)))
}

fn eval(expression: &str) -> Value {
    let params = json!({"name": "calc__eval", "arguments": {"expression": expression}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[test]
fn mcp_client_elsewhere_calls_tools_in_a_workspace_of_the_server() {
    let patchbay = Patchbay::quick();
    let other = patchbay.folder().join("other");
    std::fs::create_dir(&other).unwrap();
    let folders = json!([patchbay.workspace(), other]);
    patchbay.write("home/config/config.toml", format!("[serve]\nlisten = \"127.0.0.1:0\"\nworkspaces = {folders}\n"));
    let mut serving = Serving::start(&patchbay, "");
    let unnamed = mcp(&serving, "/mcp", "", &eval("1"));
    let told = unnamed.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(
        (unnamed.status, told.contains("/mcp?workspace=NAME") && told.contains("workspace, other")),
        (400, true),
        "{told}"
    );
    let own = begin(&serving, "/mcp?workspace=other");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let listed = message(&mcp(&serving, "/mcp?workspace=other", &own, &list));
    assert!(listed["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "calc__eval"), "{listed}");
    let answer = message(&mcp(&serving, "/mcp?workspace=other", &own, &eval("6*7")));
    assert_eq!(answer["result"]["content"][0]["text"], "42", "{answer}");
    // A session belongs to its workspace.
    assert_eq!(mcp(&serving, "/mcp?workspace=workspace", &own, &list).status, 404);
    let rows = json_lines(&patchbay.run(&["journal", "--json"]).out);
    let (asker, workspace) = (rows[0]["asker"].as_str().unwrap(), rows[0]["workspace"].as_str().unwrap());
    assert_eq!((asker, workspace.ends_with("/other")), ("mcp:first/tester", true), "{workspace}");
    // Streams end with their token.
    let phone = patchbay.run(&["token", "add", "phone"]).out.trim().to_owned();
    let mut stream = serving.connect();
    let token = bearer(&phone);
    let begun = send(
        &serving,
        "POST",
        "/mcp?workspace=other",
        &format!("{token}Accept: application/json, text/event-stream\r\n"),
        &initialize("phone").to_string(),
    );
    let id = begun.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    write!(
        stream,
        "GET /mcp?workspace=other HTTP/1.1\r\nHost: {}\r\n{token}Accept: text/event-stream\r\nMcp-Session-Id: {id}\r\nConnection: close\r\n\r\n",
        serving.address
    )
    .unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    assert_eq!(patchbay.run(&["token", "remove", "phone"]).code, Some(0));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
    // Clients with open sessions do not delay the server's shutdown.
    assert!(Command::new("kill").args(["-TERM", &serving.child.id().to_string()]).status().unwrap().success());
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn client_that_joins_in_mid_answer_gets_the_text_so_far_and_no_piece_twice() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "[providers.demo]\noptions = { delay-ms = \"60\" }\n");
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    let words: Vec<String> = (0..100).map(|word| format!("word{word}")).collect();
    let text = words.join(" ");
    post(&serving, &format!("{path}/lines"), &json!({"text": format!("say {text}")}));
    let events = format!("{path}/events?after=0");
    follow(&serving, &events, "", |_, data| {
        data["event"] == "delta" && data["text"].as_str().unwrap().contains("word9")
    });
    let is_answer = |data: &Value| data["event"] == "message" && data["kind"] == "assistant";
    let seen = follow(&serving, &events, "", |_, data| is_answer(data));
    let at = seen.iter().position(|(name, _, _)| name == "partial").expect("the text so far");
    assert!(seen[..at].iter().any(|(_, id, _)| id.is_some()), "rows come first: {seen:?}");
    let so_far = seen[at].2["text"].as_str().unwrap();
    assert!(so_far.starts_with("word0 ") && so_far.len() < text.len(), "{so_far}");
    let is_piece = |data: &Value| data["event"] == "delta" && data["block"] == "text";
    assert!(seen[..at].iter().all(|(_, _, data)| !is_piece(data)), "{seen:?}");
    let pieces =
        seen[at..].iter().filter(|(_, _, data)| is_piece(data)).map(|(_, _, data)| data["text"].as_str().unwrap());
    let joined: String = std::iter::once(so_far).chain(pieces).collect();
    assert_eq!((joined.trim(), seen.last().unwrap().2["content"].as_str().unwrap().trim()), (&*text, &*text));
    // The page shows it as well.
    post(&serving, &format!("{path}/lines"), &json!({"text": format!("say {text}")}));
    follow(&serving, &format!("{path}/events"), "", |_, data| data["event"] == "delta");
    let page = format!("{}/events?after=0", path.replace("/v1", ""));
    let seen =
        follow(&serving, &page, "", |name, data| name == "partial" || data["ends"] == true && data["id"] == "row-4");
    assert_eq!(seen.last().unwrap().0, "partial", "{seen:?}");
}

#[test]
fn numbers_have_calls_turns_and_tokens_but_no_session() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    let line = |text: &str| post(&serving, &format!("{path}/lines?wait=60"), &json!({"text": text})).json();
    line("call calc__eval {\"expression\": \"1+1\"}");
    line("say Hello.");
    post(&serving, &format!("{path}/lines"), &json!({"text": WRITE}));
    let open = wait_for(&serving, &format!("{path}/questions"), |open| open["questions"][0].is_object());
    let running = serving.raw("GET /metrics HTTP/1.1");
    for number in ["running_turns 1", "questions 1", "busy_sessions 1", "turns_total 2"] {
        assert!(running.contains(&format!("patchbay_{number}\n")), "{number}: {running}");
    }
    let question = &open["questions"][0];
    assert_eq!(question["agent"].as_str().unwrap().len(), 36);
    let offered = question["answers"].to_string();
    assert!(
        offered.contains("\"once\"") && !offered.contains("\"always\""),
        "the token has no right to grants: {offered}"
    );
    let answer = format!("{path}/questions/{}", question["id"]);
    assert_eq!(post(&serving, &answer, &json!({"answer": "no"})).status, 200);
    wait_for(&serving, &path, |state| state["is_running"] == false);
    let numbers = serving.raw("GET /metrics HTTP/1.1");
    for number in
        ["running_turns 0", "turns_total 3", "calls_total{outcome=\"ok\"} 1", "calls_total{outcome=\"denied\"} 1"]
    {
        assert!(numbers.contains(&format!("patchbay_{number}\n")), "{number}: {numbers}");
    }
    let tokens = numbers.lines().find_map(|line| line.strip_prefix("patchbay_tokens_total ")).unwrap();
    assert!(tokens.parse::<u64>().unwrap() > 0, "{numbers}");
    assert!(!numbers.contains(path.rsplit('/').next().unwrap()) && !numbers.contains("workspace"), "{numbers}");
}

#[test]
fn page_shows_one_agent_and_links_to_the_others() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let path = session(&serving);
    let line = |text: &str| post(&serving, &format!("{path}/lines?wait=60"), &json!({"text": text})).json();
    line("say First.");
    let page = path.replace("/v1", "");
    assert!(!get(&serving, &page).body.contains("?agent="), "there is only one");
    line("/fork \"say Child.\"");
    wait_for(&serving, &path, |state| state["is_running"] == false);
    let shows = |body: &str, word: &str| body.contains(&format!("<p>{word}.</p>"));
    let child_page = get(&serving, &page).body;
    let agents: Vec<&str> = child_page.split("?agent=").skip(1).map(|rest| &rest[..36]).collect();
    let [root, child] = agents[..] else { panic!("{child_page}") };
    assert!(
        child_page.contains(&format!("data-agent=\"{child}\"")) && child_page.contains("id=\"line\""),
        "{child_page}"
    );
    assert!(shows(&child_page, "First") && shows(&child_page, "Child"), "{child_page}");
    line("/switch root");
    line("say Root.");
    let root_page = get(&serving, &page).body;
    assert!(shows(&root_page, "First") && shows(&root_page, "Root") && !shows(&root_page, "Child"), "{root_page}");
    let child_page = get(&serving, &format!("{page}?agent={child}")).body;
    assert!(shows(&child_page, "First") && shows(&child_page, "Child") && !shows(&child_page, "Root"), "{child_page}");
    let talk_to = format!("data-line=\"/switch {child}\"");
    assert!(child_page.contains(&talk_to) && !child_page.contains("id=\"line\""), "{child_page}");
    assert_eq!(get(&serving, &format!("{page}?agent={}", "00000000-0000-4000-8000-000000000000")).status, 404);
    // Events of the other agent are not shown, and each state event names the agent in view.
    let events = format!("{page}/events?after=0&agent={child}");
    let last = post(&serving, &format!("{path}/lines?wait=60"), &json!({"text": "say Again."})).json();
    let until = last["after"].as_u64().unwrap() + 2;
    let seen = follow(&serving, &events, "", |name, data| name == "row" && data["id"] == format!("row-{until}"));
    let html: String = seen.iter().filter_map(|(_, _, data)| data["html"].as_str()).collect();
    assert!(
        shows(&html, "First") && shows(&html, "Child") && !shows(&html, "Root") && !shows(&html, "Again"),
        "{html}"
    );
    assert!(seen.iter().filter(|(name, _, _)| name == "state").all(|(_, _, data)| data["view"] == root), "{seen:?}");
    // A client over a WebSocket sees the same view.
    let mut client = talk(serving.socket(), &json!({}));
    let params = json!({"cwd": patchbay.workspace(), "mcpServers": [], "sessionId": path.rsplit('/').next().unwrap()});
    client.call(1, "session/load", params);
    assert!(patchbay_tests::acp::said(&client.take()).contains("Root."));
}
