//! What `patchbay serve` refuses: every route and method without a working token, with a foreign `Host`, and with ids that are
//! unknown or belong to another user. Both kinds of ids are refused with the same bytes.

use std::{io::Write as _, path::Path};

use patchbay_tests::{
    acp::prompt,
    binary::{Patchbay, resident_kib},
    serve::{Serving, closed},
};
use serde_json::{Value, json};

use crate::{
    mcp_http::initialize,
    serve_api::{bearer, get, post, send, session},
};

/// An id that does not exist.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// The routes outside of the table of `/v1`.
const OTHER_ROUTES: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/usage"),
    ("GET", "/sessions/{session}"),
    ("GET", "/sessions/{session}/events"),
    ("GET", "/acp"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/v1/openapi.json"),
    ("GET", "/nowhere"),
];

/// Creates a session in a folder that is not served, and returns its id.
fn foreign_session(patchbay: &Patchbay, folder: &Path) -> String {
    patchbay.run(&["exec", "--workspace", folder.to_str().unwrap(), "call files__read {\"path\": \"key\"}"]);
    let all = patchbay.run(&["sessions", "--all", "--json"]).out;
    let first: Value = serde_json::from_str(all.lines().next().unwrap()).unwrap();
    first["id"].as_str().unwrap().to_owned()
}

/// Returns a response without its `date` header.
fn without_date(answer: &str) -> String {
    answer.lines().filter(|line| !line.starts_with("date:")).collect()
}

/// Makes a token, and returns it.
fn token(patchbay: &Patchbay, arguments: &[&str]) -> String {
    patchbay.run(&[&["token", "add"], arguments].concat()).out.trim().to_owned()
}

#[test]
fn each_route_refuses_every_token_that_does_not_work_with_the_same_bytes() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let expired = token(&patchbay, &["expired", "--expires", "1h"]);
    let update = "UPDATE client_tokens SET expires_at = created_at - 1 WHERE name = 'expired'";
    assert_eq!(patchbay.database("patchbay.db").execute(update, []).unwrap(), 1);
    let removed = token(&patchbay, &["removed"]);
    assert_eq!(patchbay.run(&["token", "remove", "removed"]).code, Some(0));
    let good = format!("Authorization: Bearer {}", serving.token);
    let credentials = [
        String::new(),
        "Authorization: Bearer pb_0".to_owned(),
        format!("Authorization: Bearer {expired}"),
        format!("Authorization: Bearer {removed}"),
        format!("Authorization: Basic {}", serving.token),
        format!("{good}\r\n{good}"),
        "Cookie: patchbay=0".to_owned(),
    ];
    let session = session(&serving);
    let session = session.rsplit('/').next().unwrap();
    let document = get(&serving, "/v1/openapi.json").json();
    let table = document["paths"].as_object().unwrap().iter();
    let table =
        table.flat_map(|(path, operations)| operations.as_object().unwrap().keys().map(move |method| (method, path)));
    let table = table.map(|(method, path)| (method.to_ascii_uppercase(), path.clone()));
    let others = OTHER_ROUTES.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
    let routes: Vec<_> = table.chain(others).collect();
    assert!(routes.len() >= OTHER_ROUTES.len() + 12, "{routes:?}");
    let refused = serving.raw("GET /nowhere HTTP/1.1");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let misdirected = serving.raw_to("GET /nowhere HTTP/1.1", "evil.example");
    assert!(misdirected.starts_with("HTTP/1.1 421"), "{misdirected}");
    for (method, path) in routes {
        let path = path.replace("{session}", session).replace("{question}", "1").replace("{digest}", "x");
        for credential in &credentials {
            let head = format!("{method} {path} HTTP/1.1\r\n{credential}");
            let answer = serving.raw(head.trim_end());
            assert_eq!(without_date(&answer), without_date(&refused), "{method} {path} {credential}");
        }
        for credential in ["", &good] {
            let head = format!("{method} {path} HTTP/1.1\r\n{credential}");
            let answer = serving.raw_to(head.trim_end(), "evil.example");
            assert_eq!(without_date(&answer), without_date(&misdirected), "{method} {path} {credential}");
        }
        let elsewhere = serving.raw(&format!("{method} {path} HTTP/1.1\r\n{good}\r\nOrigin: http://evil.example"));
        assert!(elsewhere.starts_with("HTTP/1.1 403"), "{method} {path}: {elsewhere}");
    }
}

#[test]
fn each_route_refuses_bad_input_in_one_way() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let reader = token(&patchbay, &["reader", "--may", "none"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().to_str().unwrap();
    let hidden = &foreign_session(&patchbay, elsewhere.path());

    let document = get(&serving, "/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 10, "{paths:?}");
    for (template, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let method = method.to_ascii_uppercase();
            let filled = |session: &str| {
                let path = template.replace("{session}", session).replace("{question}", "1");
                path.replace("{digest}", &format!("sha256:{}", "0".repeat(64)))
            };
            let unknown = filled(UNKNOWN);
            let sends = operation["requestBody"].is_object();
            let body = match template.rsplit('/').next().unwrap() {
                "lines" => r#"{"text": "say no"}"#,
                "{question}" => r#"{"answer": "once"}"#,
                _ => "{}",
            };
            if template.contains("{session}") {
                // An unknown id, text that is not an id, and an id in a folder that is not served all get the same reply.
                let replies = [&unknown, &filled("x"), &filled(hidden)]
                    .map(|path| send(&serving, &method, path, &bearer(&serving.token), if sends { body } else { "" }));
                for reply in &replies {
                    assert_eq!((reply.status, &reply.body), (404, &replies[0].body), "{method} {template}");
                }
                assert_eq!(replies[0].json()["error"]["code"], "not_found");
            }
            if sends {
                for bad in ["", "{", "[]", r#"{"unknown": 1}"#] {
                    let reply = send(&serving, &method, &unknown, &bearer(&serving.token), bad);
                    assert_eq!(
                        (reply.status, &reply.json()["error"]["code"]),
                        (400, &json!("invalid_args")),
                        "{template} {bad}"
                    );
                }
                let untyped = format!("Authorization: Bearer {}\r\n", serving.token);
                assert_eq!(send(&serving, &method, &unknown, &untyped, body).status, 415, "{template}");
                let forbidden = send(&serving, &method, &unknown, &bearer(&reader), body);
                assert_eq!((forbidden.status, &forbidden.json()["error"]["code"]), (403, &json!("token_right")));
            }
            let query = send(&serving, &method, &format!("{unknown}?no=1"), &bearer(&serving.token), body);
            assert_eq!(
                (query.status, query.json()["error"]["code"].as_str()),
                (400, Some("invalid_args")),
                "{template}"
            );
        }
    }
    for page in ["/sessions/{}", "/sessions/{}?agent=x", "/sessions/{}/events"] {
        let replies = [hidden, UNKNOWN, "x"].map(|id| get(&serving, &page.replace("{}", id)));
        for reply in &replies {
            assert_eq!((reply.status, &reply.body), (404, &replies[0].body), "{page}");
        }
    }
    let foreign = post(&serving, "/v1/sessions", &json!({"workspace": outside}));
    assert_eq!((foreign.status, &foreign.json()["error"]["code"]), (400, &json!("folder_unusable")));
    // Lists and rows do not show it either.
    let own = session(&serving);
    let read = json!({"text": "call files__read {\"path\": \"key\"}"});
    assert_eq!(post(&serving, &format!("{own}/lines?wait=60"), &read).status, 202);
    assert!(patchbay.run(&["journal", "--json"]).out.contains(hidden));
    for rows in ["/v1/sessions", "/v1/usage", "/v1/journal?limit=1"] {
        let shown = get(&serving, rows).body;
        assert!(shown.contains(own.rsplit('/').next().unwrap()) && !shown.contains(hidden), "{rows}: {shown}");
    }
}

#[test]
fn each_method_refuses_foreign_and_unknown_sessions_with_the_same_bytes() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let elsewhere = tempfile::tempdir().unwrap();
    let hidden = foreign_session(&patchbay, elsewhere.path());
    let mut client = serving.client(&json!({}));
    let opening = json!({"cwd": patchbay.workspace(), "mcpServers": []});
    let methods = [
        ("session/load", opening.clone()),
        ("session/resume", opening),
        ("session/prompt", prompt("", "say no")),
        ("session/set_config_option", json!({"configId": "model", "value": "demo-1"})),
        ("session/set_mode", json!({"modeId": "ask"})),
        ("session/close", json!({})),
        ("session/delete", json!({})),
    ];
    for (method, params) in methods {
        let [foreign, unknown] = [&*hidden, UNKNOWN].map(|id| {
            client.notify("session/cancel", json!({"sessionId": id}));
            let mut params = params.clone();
            params["sessionId"] = json!(id);
            client.call(1, method, params).to_string().replace(id, "ID")
        });
        assert_eq!(foreign, unknown, "{method}");
        assert!(method == "session/delete" || foreign.contains("\"error\""), "{method}: {foreign}");
    }
    let [foreign, missing] = [elsewhere.path().to_owned(), patchbay.folder().join("nowhere")].map(|cwd| {
        let answer = client.call(2, "session/list", json!({"cwd": cwd})).to_string();
        answer.replace(&*cwd.to_string_lossy(), "CWD")
    });
    assert_eq!(foreign, missing);
    assert!(patchbay.run(&["sessions", "--all", "--json"]).out.contains(&hidden));
}

#[test]
fn mcp_session_of_another_token_is_unknown() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let elsewhere = tempfile::tempdir().unwrap();
    let [first, second] = [&serving.token, &token(&patchbay, &["second"])].map(|token| {
        format!("{}Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n", bearer(token))
    });
    let initialize = initialize("one").to_string();
    let begun = send(&serving, "POST", "/mcp", &first, &initialize);
    let id = begun
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap_or_else(|| panic!("{}", begun.head));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for (method, body) in [("POST", &*list), ("GET", ""), ("DELETE", "")] {
        let [foreign, unknown] = [id, UNKNOWN].map(|id| {
            let headers = format!("{second}Mcp-Session-Id: {id}\r\n");
            let reply = send(&serving, method, "/mcp", &headers, body);
            (reply.status, reply.body)
        });
        assert_eq!((foreign.0, &foreign), (404, &unknown), "{method}");
    }
    let own = send(&serving, "POST", "/mcp", &format!("{first}Mcp-Session-Id: {id}\r\n"), &list);
    assert_eq!(own.status, 200, "{}", own.body);
    let [foreign, missing] = [elsewhere.path().to_owned(), patchbay.folder().join("nowhere")].map(|folder| {
        let folder = folder.to_str().unwrap().to_owned();
        let reply = send(&serving, "POST", &format!("/mcp?workspace={folder}"), &first, &initialize);
        (reply.status, reply.body.replace(&folder, "FOLDER"))
    });
    assert_eq!((foreign.0, &foreign), (400, &missing));
    let reader = bearer(&token(&patchbay, &["reader", "--may", "answers"]));
    let refused = send(&serving, "POST", "/mcp", &reader, &initialize);
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("token_right")));
}

/// A fragmented message that never ends is closed at the message limit, and other clients do not notice.
#[test]
fn message_without_an_end_is_closed_at_its_limit() {
    let patchbay = Patchbay::quick();
    let serving = Serving::start(&patchbay, "");
    let mut client = serving.client(&json!({}));
    let session = client.session(&patchbay, 1);
    let mut endless = serving.socket();
    let before = resident_kib(serving.child.id());
    let fragment = |first: u8| {
        let length = (1_u64 << 20).to_be_bytes();
        [&[first, 0xff][..], &length, &[0; 4], &[b' '; 1 << 20]].concat()
    };
    let mut stream = endless.get_ref();
    let mut sent = stream.write_all(&fragment(0x01)).is_ok();
    for number in 0..70 {
        sent = sent && stream.write_all(&fragment(0x00)).is_ok();
        if number == 32 {
            assert_eq!(client.prompt(2, &session, "say Still here."), "end_turn");
        }
    }
    // The close frame may be lost if it was sent before the last fragments were read.
    assert!(matches!(closed(&mut endless), Some(1009) | None));
    assert_eq!(client.prompt(3, &session, "say And now."), "end_turn");
    let grown = resident_kib(serving.child.id()).saturating_sub(before);
    assert!(grown < 160 << 10, "{grown} KiB");
}
