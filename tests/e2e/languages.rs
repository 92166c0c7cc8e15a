//! Guests in several languages, built by their own toolchains: they load, answer alike, and find WASI denied and virtual.

use std::{fs, path::PathBuf, sync::OnceLock};

use patchbay_tests::{
    answers::Answer,
    binary::Patchbay,
    server::{Server, page},
};
use serde_json::{Value, json};

/// The guests, and whether they use WASI.
const GUESTS: &[(&str, bool)] = &[
    ("c", false),
    ("javascript", false),
    ("javascript-wasi", true),
    ("python", false),
    ("python-wasi", true),
    ("wasip2", true),
];

const TEXT: &str = "Grüße, 世界 🌍\nzwei  Wörter\n\nende";

/// The calls that every guest receives: the name of the command, the tool, its input.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("echo", "echo", json!({"text": TEXT})),
        ("empty", "echo", json!({"text": ""})),
        ("stats", "stats", json!({"text": TEXT})),
        ("fail", "fail", json!({"message": "not today"})),
        ("store", "store", json!({"key": "k", "value": TEXT})),
    ]
}

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

/// Returns one home with all guests for all tests, so that they are compiled once. Tests must not change it.
fn shared_home() -> &'static Patchbay {
    static HOME: OnceLock<Patchbay> = OnceLock::new();
    HOME.get_or_init(|| {
        let patchbay = Patchbay::new();
        // Their runtimes are large, and the machine may be busy.
        patchbay.write("home/config/config.toml", "[limits]\ncompile_ms = 900000\n");
        // Before the guests: each grant reads all the skills that are there, and some guests have 18 MB.
        for (guest, wasi) in GUESTS {
            for (name, tool, input) in calls() {
                patchbay.add_relay(&format!("{name}-{guest}"), &format!("{guest}__{tool}"), &input.to_string());
            }
            if *wasi {
                patchbay.add_relay(&format!("look-{guest}"), &format!("{guest}__surroundings"), &json!({}).to_string());
            }
        }
        for (guest, _) in GUESTS {
            add_guest(&patchbay, guest, guest, &["kv"]);
            if *guest != "c" {
                patchbay.grant(guest, &["kv"]);
            }
        }
        // Compiles all components.
        assert_eq!(patchbay.answers(&["/skills"])[0].code(), "skills_listed");
        patchbay
    })
}

/// Returns the results of calls in each guest, all in one process: for each question, one of each guest.
fn answers_of_guests<const N: usize>(
    questions: [&str; N],
    guests: impl Fn(bool) -> bool,
) -> [Vec<(&'static str, Answer)>; N] {
    let asked: Vec<_> = GUESTS.iter().filter(|(_, wasi)| guests(*wasi)).map(|(guest, _)| *guest).collect();
    let lines = questions.iter().flat_map(|question| asked.iter().map(move |guest| format!("/{question}-{guest}")));
    let lines: Vec<String> = lines.collect();
    let answers = shared_home().answers(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(answers.len(), lines.len());
    let mut answers = answers.into_iter();
    questions.map(|_| asked.iter().copied().zip(answers.by_ref()).collect())
}

#[test]
fn guests_in_all_languages_answer_alike() {
    let [echo, empty, stats, fail] = answers_of_guests(["echo", "empty", "stats", "fail"], |_| true);
    for (answers, expected) in [(echo, TEXT), (empty, "")] {
        for (guest, answer) in answers {
            assert_eq!((answer.code(), answer.message()), ("tool_result", expected), "{guest}");
        }
    }
    for (guest, answer) in stats {
        let stats: Value = serde_json::from_str(answer.message()).unwrap_or_else(|_| panic!("{guest}: {answer:?}"));
        assert_eq!(stats, json!({"bytes": TEXT.len(), "lines": 4, "words": 6}), "{guest}");
    }
    for (guest, answer) in fail {
        let told = (answer.code(), answer.message(), answer.data()["kind"].as_str());
        assert_eq!(told, ("tool_failed", "Error: not today", Some("failed")), "{guest}");
    }
}

#[test]
fn guests_in_all_languages_receive_host_denials() {
    let [store] = answers_of_guests(["store"], |_| true);
    for (guest, answer) in store {
        if guest == "c" {
            let words = "Error: skill 'c' may not use 'kv': it is not granted. To grant it: patchbay grant add c kv";
            assert_eq!((answer.message(), answer.data()["kind"].as_str()), (words, Some("denied")));
        } else {
            assert_eq!((answer.code(), answer.message()), ("tool_result", TEXT), "{guest}");
        }
    }
}

/// Whether a value shows a denied access: nothing, an empty list or an error. A language may lack the interface.
fn is_denied(found: &Value) -> bool {
    found.is_null() || found["error"].is_string() || found.as_array().is_some_and(Vec::is_empty)
}

#[test]
fn wasi_grants_nothing_by_default() {
    let [look] = answers_of_guests(["look"], |wasi| wasi);
    for (guest, answer) in look {
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
    // Their output goes to the operator's log, with the name of the skill.
    let log = fs::read_to_string(shared_home().home().join("state/patchbay.log")).unwrap();
    assert!(log.contains("a line to stdout") && log.contains("a line to stderr"), "{log}");
}

#[test]
fn clocks_and_randomness_are_deterministic() {
    let [[first], [second]] = [(), ()].map(|()| answers_of_guests(["look"], |wasi| wasi));
    for ((guest, first), (_, second)) in first.into_iter().zip(second) {
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
    // Ten minutes of virtual time pass immediately.
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

/// A runtime writes the cause to standard error and then traps with a message of the engine only.
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
