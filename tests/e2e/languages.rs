//! Guests in several languages, built by their own toolchains: they load, and find WASI denied and virtual.

use std::{fs, path::PathBuf, sync::OnceLock};

use patchbay_tests::{
    answers::Answer,
    binary::Patchbay,
    server::{Server, page},
};
use serde_json::{Value, json};

/// The guests. All of them import WASI. `make test-authors` tests the output of `plugin build`, which does not.
const GUESTS: [&str; 3] = ["javascript", "python", "wasip2"];

/// Returns the component of a guest.
fn component(guest: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("guests/dist/{guest}.wasm"));
    fs::read(&path).unwrap_or_else(|error| panic!("guests/dist/{guest}.wasm: {error}; run: make guests"))
}

/// Installs a guest as the user's skill `name`.
fn add_guest(patchbay: &Patchbay, name: &str, guest: &str, capabilities: &[&str]) {
    let asked: Vec<String> = capabilities.iter().map(|capability| format!("{{name: '{capability}'}}")).collect();
    let skill_md = format!("---\nsummary: A guest\ncapabilities: [{}]\n---\n", asked.join(", "));
    patchbay.write(&format!("home/config/skills/{name}/SKILL.md"), skill_md);
    patchbay.write(&format!("home/config/skills/{name}/skill.wasm"), component(guest));
}

/// Returns one home with all guests for all tests, which compiles them only once. Tests must not change it.
fn shared_home() -> &'static Patchbay {
    static HOME: OnceLock<Patchbay> = OnceLock::new();
    HOME.get_or_init(|| {
        let patchbay = Patchbay::new();
        // The guests' runtimes are large, and the machine may be busy.
        patchbay.write("home/config/config.toml", "[limits]\ncompile_ms = 900000\n");
        // This comes before the guests are added, because each `grant` reads all skills, and the Python guest has 18 MB.
        for guest in GUESTS {
            patchbay.add_relay(&format!("look-{guest}"), &format!("{guest}__surroundings"), &json!({}).to_string());
            let entry = json!({"key": "k", "value": "v"}).to_string();
            patchbay.add_relay(&format!("store-{guest}"), &format!("{guest}__store"), &entry);
        }
        for guest in GUESTS {
            add_guest(&patchbay, guest, guest, &["kv"]);
        }
        // Compiles all components.
        assert_eq!(patchbay.answers(&["/skills"])[0].code(), "skills_listed");
        patchbay
    })
}

/// Returns each guest's result of a command, all from one process.
fn answers(command: &str) -> Vec<(&'static str, Answer)> {
    let lines = GUESTS.map(|guest| format!("/{command}-{guest}"));
    let answers = shared_home().answers(&lines.each_ref().map(String::as_str));
    assert_eq!(answers.len(), lines.len());
    GUESTS.into_iter().zip(answers).collect()
}

#[test]
fn guests_receive_host_denials() {
    for (guest, answer) in answers("store") {
        let command = format!("patchbay grant add {guest} kv");
        let expected = format!("Error: skill '{guest}' may not use 'kv': it is not granted. To grant it: {command}");
        assert_eq!((answer.message(), answer.data()["kind"].as_str()), (&*expected, Some("denied")));
    }
}

/// Returns whether a value shows that access was denied: null, an empty list or an error. A language may lack the interface.
fn is_denied(found: &Value) -> bool {
    found.is_null() || found["error"].is_string() || found.as_array().is_some_and(Vec::is_empty)
}

#[test]
fn wasi_grants_nothing_by_default() {
    for (guest, answer) in answers("look") {
        assert_eq!(answer.code(), "tool_result", "{guest}: {}", answer.message());
        let seen: Value = serde_json::from_str(answer.message()).unwrap();
        for empty in ["environment", "arguments"] {
            let found = &seen[empty];
            assert!(is_denied(found), "{guest} {empty}: {found}");
        }
        for shut in ["list", "open", "connect", "listen", "resolve", "create"] {
            let found = &seen[shut];
            assert!(is_denied(found), "{guest} {shut}: {found}");
        }
        let stdin = &seen["stdin"];
        assert!(stdin.is_null() || *stdin == json!("") || stdin["error"].is_string(), "{guest} stdin: {stdin}");
    }
    // Their output is in the operator's log, with the name of the skill.
    let log = fs::read_to_string(shared_home().home().join("state/patchbay.log")).unwrap();
    assert!(log.contains("a line to stdout") && log.contains("a line to stderr"), "{log}");
}

#[test]
fn clocks_and_randomness_are_deterministic() {
    for ((guest, first), (_, second)) in answers("look").into_iter().zip(answers("look")) {
        assert_eq!((first.code(), first.message()), ("tool_result", second.message()), "{guest}");
        let seen: Value = serde_json::from_str(first.message()).unwrap();
        // The guest continues.
        for clock in ["wall_ns", "monotonic_ns"].map(|clock| &seen[clock]).iter().filter(|clock| !clock.is_null()) {
            assert!(clock[0].as_i64() < clock[1].as_i64(), "{guest}: {clock}");
        }
        let random = &seen["random"];
        assert!(random.is_null() || random[0] != random[1], "{guest}: {random}");
    }
}

/// Creates a home with only the Rust guest, which requests `capabilities`.
fn rust(capabilities: &[&str]) -> Patchbay {
    let patchbay = Patchbay::new();
    add_guest(&patchbay, "guest", "wasip2", capabilities);
    patchbay
}

#[test]
fn real_clocks_and_randomness_need_a_grant() {
    let patchbay = rust(&["clock", "random"]);
    patchbay.add_relay("look", "guest__surroundings", &json!({}).to_string());
    patchbay.add_relay("nap", "guest__sleep", &json!({"ms": 600_000}).to_string());
    patchbay.add_relay("blink", "guest__sleep", &json!({"ms": 30}).to_string());
    let look = |field: &str| {
        let answer = &patchbay.answers(&["/look"])[0];
        serde_json::from_str::<Value>(answer.message()).unwrap()[field].clone()
    };
    let year_2021 = 1_609_459_200_000_000_000_u64;
    assert_eq!(look("random"), look("random"));
    assert!(look("wall_ns")[0].as_u64() < Some(year_2021));
    // Ten minutes of virtual time pass in no time.
    let nap = patchbay.line("/nap");
    assert!(nap.contains("600001") || nap.contains("600000") || nap.contains("600002"), "{nap}");

    patchbay.grant("guest", &["random"]);
    assert_ne!(look("random"), look("random"));
    assert!(look("wall_ns")[0].as_u64() < Some(year_2021), "the clock came with randomness");
    patchbay.grant("guest", &["clock"]);
    assert!(look("wall_ns")[0].as_u64() > Some(year_2021));
    let blink: Value = serde_json::from_str(&patchbay.line("/blink")).unwrap();
    assert!(blink["elapsed_ms"].as_u64() >= Some(30), "{blink}");
    let journal = patchbay.run(&["journal", "--plugin", "guest", "--json"]).out;
    let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(last["grants"], json!(["clock", "random"]));
}

#[test]
fn wasi_http_is_checked_like_every_request() {
    let server = Server::new(|request| page(&format!("seen: {}", request.lines().next().unwrap_or_default())));
    let capability = format!("http:{}", server.host());
    let patchbay = rust(&[&capability]);
    patchbay.add_relay(
        "get",
        "guest__fetch",
        &json!({"url": format!("http://{}/page?q=1", server.host())}).to_string(),
    );
    patchbay.add_relay("metadata", "guest__fetch", &json!({"url": "http://169.254.169.254/latest"}).to_string());
    let denied = patchbay.line("/get");
    assert!(denied.contains(&format!("patchbay grant add guest {capability}")), "{denied}");
    assert_eq!(server.requests().len(), 0);
    patchbay.grant("guest", &[&capability]);
    assert_eq!(patchbay.line("/get"), "200\nseen: GET /page?q=1 HTTP/1.1");
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].to_ascii_lowercase().matches("\r\nhost: ").count(), 1, "{}", requests[0]);
    assert!(patchbay.line("/metadata").contains("its SKILL.md does not ask for it"));
}

/// A runtime writes the cause to standard error and then traps, which yields only a message of the engine.
#[test]
fn last_output_of_a_language_runtime_is_shown() {
    let patchbay = Patchbay::new();
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand: wrong\ncommand_tool: run\n---\n";
    patchbay.write("home/config/skills/wrong/SKILL.md", skill_md);
    patchbay.write("home/config/skills/wrong/skill.wasm", component("javascript-wrong"));
    let said = patchbay.line("/wrong {}");
    let words = "Error: tool 'wrong__run' was stopped: the component trapped: wasm trap: wasm `unreachable` instruction \
                 executed.\n  printed: ";
    assert!(said.starts_with(words) && said.contains("\n  printed: expected array\n"), "{said}");
}
