//! Recorded calls: off by default, free of credentials, and usable as fixtures that pass in the sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, Ran},
    calls::{Credential, fetching},
    home::assert_in_no_file,
    server::{Server, page},
};
use serde_json::{Value, json};

use crate::journal::journal_rows;

const CANARY: &str = "tr0ub4dor+&3/sentinel=";

fn record(patchbay: &Patchbay) {
    patchbay.write("home/config/config.toml", "[sessions]\nrecord = true\n\n[limits]\ncompile_ms = 900000\n");
}

/// Installs a skill with the component `wasm` whose manifest requests `capabilities`, and grants them.
fn install(patchbay: &Patchbay, name: &str, wasm: &Path, capabilities: &[&str]) {
    let asked: Vec<String> = capabilities.iter().map(|capability| format!("{{name: '{capability}'}}")).collect();
    let skill_md = format!("---\nname: {name}\ncapabilities: [{}]\n---\n", asked.join(", "));
    let component =
        fs::read(wasm).unwrap_or_else(|error| panic!("{}: {error}; run: make plugins guests", wasm.display()));
    let component = if name == "web" { asking_for(component, capabilities[0]) } else { component };
    for folder in ["home/config/skills", "workspace/plugins"] {
        patchbay.write(&format!("{folder}/{name}/SKILL.md"), &skill_md);
        patchbay.write(&format!("{folder}/{name}/{name}.wasm"), &component);
    }
    patchbay.grant(name, capabilities);
}

/// Returns the component of `web` with a manifest that requests a loopback server instead of any public host.
fn asking_for(mut component: Vec<u8>, capability: &str) -> Vec<u8> {
    let asked = b"http:*\n    reason: fetches the pages that are asked for";
    let at = component.windows(asked.len()).position(|window| window == asked).expect("the manifest of web");
    let written = format!("{capability}\n    reason: ");
    let padded = format!("{written}{}", "x".repeat(asked.len() - written.len()));
    component[at..at + asked.len()].copy_from_slice(padded.as_bytes());
    component
}

fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/dist/{name}.wasm"))
}

fn guest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("guests/dist/{name}.wasm"))
}

/// Turns the recorded calls of the skill `name` into fixtures in its folder in `workspace/plugins`. Returns their paths.
fn fixtures(patchbay: &Patchbay, name: &str) -> Vec<PathBuf> {
    let out = patchbay.workspace().join(format!("plugins/{name}/fixtures"));
    for row in journal_rows(patchbay, &["--plugin", name]) {
        let made = patchbay.run(&["journal", "fixture", &row["id"].to_string(), "--out", out.to_str().unwrap()]);
        assert_eq!((made.code, &*made.err), (Some(0), ""), "{made:?}");
    }
    let mut paths: Vec<_> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths
}

fn test(patchbay: &Patchbay, name: &str) -> Ran {
    patchbay.run(&["plugin", "test", &format!("plugins/{name}")])
}

/// Changes one byte of an answer in the fixture.
fn change_answer(fixture: &Path) {
    let mut case: Value = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    let places = ["body", "value", "bytes", "result/0/text", "files/0/lines/0/text", "entries/0/path"];
    let changed = case["host"].as_array_mut().unwrap().iter_mut().rev().any(|call| {
        places.iter().any(|place| match call.pointer_mut(&format!("/gives/{place}")) {
            Some(Value::String(text)) if !text.is_empty() => {
                let last = text.rfind(|letter: char| letter.is_ascii_alphanumeric()).unwrap();
                text.replace_range(last..=last, if &text[last..=last] == "7" { "8" } else { "7" });
                true
            }
            _ => false,
        })
    });
    assert!(changed, "{case}");
    fs::write(fixture, case.to_string()).unwrap();
}

/// Writes a fixture with several copies of the cases in `made`.
fn many(patchbay: &Patchbay, name: &str, made: &[PathBuf]) {
    let read = |path: &PathBuf| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap();
    let cases: Vec<Value> = made.iter().flat_map(|path| vec![read(path); runs()]).collect();
    patchbay.write(&format!("workspace/plugins/{name}/fixtures/many.json"), json!(cases).to_string());
}

/// How many additional times each fixture is run.
fn runs() -> usize {
    std::env::var("PATCHBAY_FIXTURE_RUNS").map_or(3, |runs| runs.parse().expect("a number"))
}

#[test]
fn recorded_calls_become_fixtures_that_pass_and_notice_one_changed_byte() {
    let server = Server::always(page("<title>Page</title><h1>Heading 1</h1>text 2"));
    let http = format!("http:{}", server.host());
    let patchbay = Patchbay::new();
    record(&patchbay);
    for number in 0..3 {
        patchbay.write(&format!("workspace/src/{number}.txt"), format!("one\nneedle {number}\n"));
    }
    let calls = [
        ("web", bundled("web"), &[&*http][..], json!({"url": format!("http://{}/a", server.host())}), "fetch"),
        ("files", bundled("files"), &["workspace-read"], json!({"path": "src/1.txt"}), "read"),
        ("grep", bundled("grep"), &["workspace-read"], json!({"pattern": "needle"}), "search"),
        ("notes", bundled("notes"), &["kv"], json!({"text": "buy milk"}), "add"),
        ("notes", bundled("notes"), &["kv"], json!({}), "list"),
        ("code", bundled("code"), &["tools"], json!({"code": "await tools.calc.eval({expression: '6 * 7'})"}), "run"),
        ("javascript", guest("javascript"), &["kv"], json!({"key": "k", "value": "text 1"}), "store"),
        ("python", guest("python"), &["kv"], json!({"key": "k", "value": "text 1"}), "store"),
    ];
    let mut names: Vec<&str> = Vec::new();
    for (name, wasm, capabilities, ..) in &calls {
        if !names.contains(name) {
            install(&patchbay, name, wasm, capabilities);
            names.push(name);
        }
    }
    let lines: Vec<String> =
        calls.iter().map(|(name, _, _, input, tool)| format!("/tool {name}__{tool} {input}")).collect();
    for answer in patchbay.answers(&lines.iter().map(String::as_str).collect::<Vec<_>>()) {
        assert_eq!(answer.code(), "tool_result", "{answer:?}");
    }
    drop(server);
    for name in names {
        let made = fixtures(&patchbay, name);
        assert_eq!(made.len(), if name == "notes" { 2 } else { 1 }, "{name}");
        many(&patchbay, name, &made);
        let ran = test(&patchbay, name);
        let passed = format!("\n{} passed, 0 failed;", made.len() * (runs() + 1));
        assert!(ran.code == Some(0) && ran.out.contains(&passed), "{name}: {ran:?}");
        fs::remove_file(made[0].with_file_name("many.json")).unwrap();
        let listed = made.iter().find(|path| path.to_string_lossy().contains("list-")).unwrap_or(&made[0]);
        change_answer(listed);
        let ran = test(&patchbay, name);
        assert!(ran.code == Some(1) && ran.out.contains("FAILED"), "{name}: {ran:?}");
    }
    // The nested call has a row and a recording of its own.
    assert!(journal_rows(&patchbay, &["--plugin", "calc"])[0]["parent"].is_string());
    let out = patchbay.workspace().join("all");
    let all = patchbay.run(&["sessions", "fixtures", &patchbay.last_session(), "--out", out.to_str().unwrap()]);
    assert_eq!((all.code, &*all.err), (Some(0), ""));
    assert_eq!(all.out.matches("\nWrote ").count() + usize::from(all.out.starts_with("Wrote ")), 9, "{}", all.out);
}

#[test]
fn credentials_are_in_no_recording() {
    let patchbay = Patchbay::new();
    record(&patchbay);
    let secret: Vec<(String, String)> = [
        CANARY.to_owned(),
        CANARY.replace('+', "%2B").replace('&', "%26").replace('/', "%2F").replace('=', "%3D"),
        "dHIwdWI0ZG9yKyYzL3NlbnRpbmVsPQ==".to_owned(),
        CANARY.bytes().map(|byte| format!("{byte:02x}")).collect(),
    ]
    .into_iter()
    .enumerate()
    .map(|(number, spelled)| (format!("getter{number}"), spelled))
    .collect();
    // The server's response contains the key, and egress removes it.
    let spellings: Vec<String> = secret.iter().map(|(_, spelled)| spelled.clone()).collect();
    let server = Server::new(move |request| {
        let number: usize = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        page(&format!("before {} after", spellings[number]))
    });
    patchbay.write("home/config/credentials.json", json!({"shop": {"api_key": CANARY}}).to_string());
    let table = format!("\n[credentials.shop]\norigin = \"http://{}\"\nheader = \"authorization\"\n", server.host());
    let config = format!("[sessions]\nrecord = true\n{table}");
    patchbay.write("home/config/config.toml", config);
    let http = format!("http:{}", server.host());
    for (number, (name, _)) in secret.iter().enumerate() {
        let skill_md = format!(
            "---\ncapabilities: [{{name: '{http}'}}, {{name: 'credential:shop'}}, {{name: workspace-read}}]\n---\n"
        );
        let credential: Credential<'_> = ("shop", "authorization", "Bearer ");
        let component = fetching(&format!("http://{}/{number}", server.host()), Some(credential), CANARY);
        patchbay.write(&format!("home/config/skills/{name}.wasm"), component.packaged(&skill_md));
        patchbay.grant(name, &[&http, "credential:shop"]);
    }
    let lines: Vec<String> = secret.iter().map(|(name, _)| format!("/tool {name}__run {{}}")).collect();
    for answer in patchbay.answers(&lines.iter().map(String::as_str).collect::<Vec<_>>()) {
        assert_eq!(answer.code(), "tool_result", "{answer:?}");
    }
    assert!(server.requests().iter().all(|request| request.contains(CANARY)), "the server received no key");
    let session = patchbay.last_session();
    let out = patchbay.workspace().join("fixtures");
    let made = patchbay.run(&["sessions", "fixtures", &session, "--out", out.to_str().unwrap()]);
    assert_eq!((made.code, &*made.err), (Some(0), ""), "{made:?}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), secret.len());
    fs::remove_file(patchbay.home().join("config/credentials.json")).unwrap();
    for (_, spelled) in &secret {
        assert_in_no_file(patchbay.folder(), &[spelled]);
    }
}

/// A workspace file may contain a key. A recording does not store it, even if two reads return one half each.
#[test]
fn recordings_with_a_key_of_the_home_are_not_kept() {
    let patchbay = Patchbay::new();
    record(&patchbay);
    patchbay.write("home/config/credentials.json", json!({"shop": {"api_key": CANARY}}).to_string());
    install(&patchbay, "files", &bundled("files"), &["workspace-read"]);
    let (one, two) = CANARY.split_at(9);
    for (name, text) in [("whole.txt", CANARY), ("one.txt", one), ("two.txt", two), ("plain.txt", "nothing")] {
        patchbay.write(&format!("workspace/{name}"), text);
    }
    let calls =
        [json!({"paths": ["whole.txt"]}), json!({"paths": ["one.txt", "two.txt"]}), json!({"paths": ["plain.txt"]})];
    let lines = calls.map(|input| format!("/tool files__read_many {input}"));
    for answer in patchbay.answers(&lines.each_ref().map(String::as_str)) {
        assert_eq!(answer.code(), "tool_result", "{answer:?}");
    }
    let fixture = |number: &str| patchbay.run(&["journal", "fixture", number]);
    for number in ["1", "2"] {
        let ran = fixture(number);
        let words = "its recording was left out: it contained a credential of this home.";
        assert!(ran.code == Some(1) && ran.err.contains(words), "{ran:?}");
    }
    let plain = fixture("3");
    assert_eq!((plain.code, &*plain.err), (Some(0), "Note: nothing was written. To write it: add --out DIR\n"));
    assert_eq!(plain.out, "Call 3: files__read_many, ok\n  files: plain.txt\n");
    let recordings = "SELECT group_concat(recording) || coalesce(group_concat(content), '') FROM recorded_calls LEFT JOIN recorded_contents";
    let all: String = patchbay.database("patchbay.db").query_row(recordings, [], |row| row.get(0)).unwrap();
    assert!(!all.contains(one) && !all.contains(two), "{all}");
}

#[test]
fn what_looks_like_a_secret_is_refused_until_it_is_redacted() {
    let patchbay = Patchbay::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    patchbay.exec(&["/calc 1"]);
    patchbay.run(&["exec", "--record", &format!("/note add token {token}")]);
    let out = patchbay.workspace().join("fixtures");
    let make = |arguments: &[&str]| {
        patchbay.run(&[&["journal", "fixture", "2", "--out", out.to_str().unwrap()], arguments].concat())
    };
    let refused = make(&[]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("contains what looks like a GitHub token; "), "{refused:?}");
    assert!(refused.err.contains("To replace a text: --redact TEXT") && !refused.err.contains(&token), "{refused:?}");
    assert!(!out.exists());
    let made = make(&["--redact", &token]);
    assert_eq!((made.code, &*made.err), (Some(0), ""), "{made:?}");
    assert_in_no_file(&out, &[&token]);
    // Without `--record`, nothing is recorded.
    let off = patchbay.run(&["journal", "fixture", "1"]);
    assert!(off.code == Some(1) && off.err.contains("call 1 (calc__eval): it was not recorded. Calls are"), "{off:?}");
    // A call of a host tool does not run a component.
    patchbay.run(&["exec", "--record", "call find_skills {\"query\": \"a\"}"]);
    let internal = patchbay.run(&["journal", "fixture", "3", "--out", out.to_str().unwrap()]);
    let words =
        "call 3 (patchbay__find_skills): it is a tool of the host or of an MCP server, which runs outside the sandbox";
    assert!(internal.code == Some(1) && internal.err.contains(words), "{internal:?}");
    let none = patchbay.run(&["journal", "fixture", "77"]);
    assert!(none.code == Some(1) && none.err.contains("the journal has no call '77'"), "{none:?}");
}

#[test]
fn recording_is_off_by_default_shown_when_on_and_removed_with_the_session() {
    let patchbay = Patchbay::new();
    let usage = |options: &[&str]| patchbay.answers_in(options, &["/calc 1 + 1", "/usage"])[1].message().to_owned();
    assert!(!usage(&[]).contains("Recording"));
    let rows = || -> i64 {
        let count = "SELECT count(*) FROM recorded_calls";
        patchbay.database("patchbay.db").query_row(count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(rows(), 0);
    assert!(!patchbay.run(&["doctor", "--offline"]).out.contains("recording of calls"));
    let shown = usage(&["--record"]);
    assert!(shown.ends_with("\nRecording of calls is on: 1 call, 1 KiB of 64 MiB"), "{shown}");
    assert_eq!(rows(), 1);
    let sessions = patchbay.run(&["sessions"]).out;
    assert!(sessions.contains("(1 call recorded)"), "{sessions}");
    let listed = json_lines(&patchbay.run(&["sessions", "--json"]).out);
    let recorded: Vec<_> = listed.iter().filter(|session| session["recorded_calls"] == json!(1)).collect();
    assert_eq!((listed.len(), recorded.len()), (2, 1), "{listed:?}");
    record(&patchbay);
    let doctor = patchbay.run(&["doctor"]).out;
    assert!(doctor.contains("recording of calls"), "{doctor}");
    assert_eq!(patchbay.run(&["sessions", "rm", recorded[0]["id"].as_str().unwrap()]).code, Some(0));
    assert_eq!(rows(), 0);
}
