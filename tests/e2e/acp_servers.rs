//! MCP servers that an ACP client names for its session.

use std::{fs, process::Command};

use patchbay_tests::{
    acp::{Peer, prompt},
    binary::Patchbay,
    mcp::{assert_group_ends, over_http, program, wait_for_group},
};
use serde_json::{Value, json};

/// Calls a tool that hangs, on a server in the mode `hangs`.
const HANG: &str = "call mcp__test__break {}";

/// Returns a server that misbehaves as `mode` says.
fn server(name: &str, mode: &str) -> Value {
    json!({"name": name, "command": "python3", "args": [program(), mode], "env": [{"name": "GIVEN", "value": "1"}]})
}

/// Creates a session with these servers and returns its id.
fn session_with(peer: &mut Peer, patchbay: &Patchbay, id: i64, servers: &[Value]) -> String {
    let answer = peer.call(id, "session/new", json!({"cwd": patchbay.workspace(), "mcpServers": servers}));
    answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

#[test]
fn tools_of_the_clients_servers_are_asked_about() {
    let patchbay = Patchbay::new();
    // The decisions for a server of `config.toml` do not apply to the client's server of the same name.
    let allowed = "[mcp.test]\ncommand = [\"no-such-program\"]\ntools = { \"write.it\" = \"allow\" }\n";
    patchbay.write("home/config/config.toml", allowed);
    let mut peer = Peer::start(&patchbay);
    let answer = peer.call(0, "initialize", json!({"protocolVersion": 1}));
    assert_eq!(answer["result"]["agentCapabilities"]["mcpCapabilities"], json!({"http": true, "sse": false}));
    let session = session_with(&mut peer, &patchbay, 1, &[server("test", "plain")]);
    // If this asked a question, the prompt would not end.
    assert_eq!(peer.prompt(2, &session, "call mcp__test__echo {\"text\": \"hi\"}"), "end_turn");
    peer.request(3, "session/prompt", prompt(&session, "call mcp__test__write_it {\"text\": \"hi\"}"));
    let question = peer.asked("session/request_permission");
    assert_eq!(question["params"]["toolCall"]["title"], "mcp__test__write_it");
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    assert_eq!(peer.prompt(4, &session, "call mcp__test__environment {}"), "end_turn");
    assert!(peer.call(5, "session/close", json!({"sessionId": session}))["result"].is_object());
    let results: Vec<_> =
        patchbay.stored_messages(&session).into_iter().filter(|(_, kind, _)| kind == "tool").collect();
    let texts: Vec<_> = results.iter().map(|(_, _, text)| &**text).collect();
    assert_eq!(texts[..2], ["echo: hi", "write.it: hi"]);
    assert!(texts[2].contains("GIVEN") && texts[2].contains(patchbay.workspace().to_str().unwrap()), "{}", texts[2]);
    // A session that is loaded has the servers that `session/load` names.
    let params = json!({"cwd": patchbay.workspace(), "sessionId": session, "mcpServers": [server("other", "plain")]});
    assert!(peer.call(6, "session/load", params)["result"].is_object());
    assert_eq!(peer.prompt(7, &session, "call mcp__other__echo {\"text\": \"again\"}"), "end_turn");
    let last = patchbay.stored_messages(&session).into_iter().rfind(|(_, kind, _)| kind == "tool").unwrap();
    assert_eq!(last.2, "echo: again");
}

#[test]
fn signals_end_the_clients_servers_with_their_children() {
    let patchbay = Patchbay::quick();
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut peer = Peer::initialized(&patchbay);
        let session = session_with(&mut peer, &patchbay, 1, &[server("test", "hangs")]);
        peer.request(2, "session/prompt", prompt(&session, HANG));
        let group = wait_for_group(&patchbay.workspace());
        let process = peer.child.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        // Its input is still open.
        assert_eq!(peer.wait(), Some(0), "{signal}");
        assert_group_ends(&group);
        fs::remove_file(patchbay.workspace().join("children")).unwrap();
    }
}

#[test]
fn session_that_closes_slowly_does_not_delay_others() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    // On a busy machine the half second may be over before the other requests are answered. The test then tries again.
    for attempt in 1.. {
        let session = session_with(&mut peer, &patchbay, 1, &[server("test", "hangs")]);
        peer.request(2, "session/prompt", prompt(&session, HANG));
        let group = wait_for_group(&patchbay.workspace());
        // This server does not exit by itself and is killed after half a second.
        let requests = [
            (3, "session/close", json!({"sessionId": session})),
            (4, "session/prompt", prompt(&session, "say Late.")),
            (5, "session/list", json!({})),
        ];
        let line = |(id, method, params): (i64, &str, Value)| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let lines: String = requests.map(line).concat();
        peer.send(lines.as_bytes());
        let answers: Vec<Value> = (0..4).map(|_| peer.answer()).collect();
        let answer = |id: i64| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(answer(4)["error"]["code"], -32002);
        assert_eq!(answer(2)["result"]["stopReason"], "cancelled");
        assert_group_ends(&group);
        let ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
        if ids == [4, 5, 2, 3] {
            break;
        }
        assert!(attempt < 5, "{answers:?}");
        fs::remove_file(patchbay.workspace().join("children")).unwrap();
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn servers_and_tools_without_names_of_their_own_are_named_once() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let servers = [server("a", "collides"), server("a__b", "plain"), server("a", "plain")];
    let session = session_with(&mut peer, &patchbay, 1, &servers);
    let said = peer.say(2, &session, text("say One."));
    for words in [
        "1 tool of the MCP server 'a__b' is left out; another server has a tool with this name: mcp__a__b__echo.",
        "The client names the MCP server 'a' twice; the first one is used.",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(peer.say(3, &session, text("say Two.")), "Two.");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn only_secrets_among_headers_are_removed_from_results() {
    let web = over_http("plain");
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let header = |name: &str, value: &str| json!({"name": name, "value": value});
    let headers =
        [header("X-Version", "1"), header("X-Team", "platform tools"), header("Authorization", "Bearer abcdefgh1234")];
    let url = format!("http://{}/mcp", web.host());
    let server = json!({"type": "http", "name": "web", "url": url, "headers": headers});
    let session = session_with(&mut peer, &patchbay, 1, &[server]);
    let said = peer.say(2, &session, text(r#"call mcp__web__echo {"text": "platform tools abcdefgh1234"}"#));
    assert!(said.contains("echo: platform tools [secret]"), "{said}");
    let requests = web.requests();
    for sent in ["x-version: 1", "x-team: platform tools", "authorization: bearer abcdefgh1234"] {
        let has = |request: &String| request.to_ascii_lowercase().contains(&format!("\r\n{sent}\r\n"));
        assert!(requests.len() >= 4 && requests.iter().all(has), "{sent}: {requests:?}");
    }
    assert_eq!(peer.leave(), Some(0));
}

/// Sends a line whose tool requires a question, answers the first question with no, and returns all messages until the line ended.
fn refused(peer: &mut Peer, id: i64, session: &str, line: &str) -> String {
    peer.take();
    peer.request(id, "session/prompt", prompt(session, line));
    let question = peer.asked("session/request_permission");
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "no"}}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn", "{line}");
    Value::from(peer.take()).to_string()
}

#[test]
fn refused_tool_is_not_asked_for_again_by_the_same_program() {
    let patchbay = Patchbay::quick();
    patchbay.add_command("keeper", &crate::asking::keeper(), "capabilities: [kv]\n");
    let mut peer = Peer::initialized(&patchbay);
    let session = session_with(&mut peer, &patchbay, 1, &[server("test", "plain")]);
    let many = "/code let denied = 0; for (let n = 0; n < 50; n++) { try { await tools.mcp.test.write_it({text: `${n}`}) } \
                catch (error) { denied += error.kind === 'denied' ? 1 : 0 } } `denied ${denied}`";
    let seen = refused(&mut peer, 2, &session, many);
    assert!(seen.contains("denied 50") && seen.matches("session/request_permission").count() == 1, "{seen}");
    // Questions that are already open are withdrawn.
    let at_once = "/code (await Promise.allSettled([1, 2, 3].map((n) => tools.mcp.test.write_it({text: `${n}`})))) \
                   .map((call) => call.reason.kind).join()";
    let seen = refused(&mut peer, 3, &session, at_once);
    assert!(seen.contains("denied,denied,denied"), "{seen}");
    // The same applies to a skill's missing grants.
    let skill = "/code let denied = 0; for (let n = 0; n < 3; n++) { try { await tools.keeper.run({}) } \
                 catch (error) { denied += error.kind === 'denied' ? 1 : 0 } } `denied ${denied}`";
    let seen = refused(&mut peer, 4, &session, skill);
    assert!(seen.contains("denied 3") && seen.matches("session/request_permission").count() == 1, "{seen}");
    // Each call by a model is a question of its own.
    for id in [5, 6] {
        let seen = refused(&mut peer, id, &session, r#"call mcp__test__write_it {"text": "hi"}"#);
        assert!(seen.contains("it is not allowed"), "{seen}");
    }
    assert_eq!(peer.leave(), Some(0));
}
