//! Keys that a command prints (`key_command`), and keys in one of several environment variables.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use patchbay_tests::{
    binary::Patchbay,
    calls::{completing, fetching},
    format::{CHAT, GOOGLE},
    home::assert_in_no_file,
    server::{Server, page},
};

/// The beginning of every key. It must not occur in anything that is shown or stored.
const SENTINEL: &str = "s3ntinel-key";
/// Appended by `exec` to the error of a message without an answer.
const UNANSWERED: &str =
    "The message has no answer. /retry sends it again, /drop takes it out; otherwise the next message includes it.\n";

/// Writes an executable script into the home's config folder and returns its path. Each run adds a line to `runs`, and `$n` is the
/// number of the run. Another process copies the script, because a file that this process wrote cannot be executed while a process
/// that another test is starting has it open.
fn write_script(patchbay: &Patchbay, name: &str, text: &str) -> PathBuf {
    let script = format!("#!/bin/sh\necho run >> runs; n=$(wc -l < runs)\n{text}\n");
    patchbay.write(&format!("home/config/{name}.new"), script);
    let (new, file) = (patchbay.home().join(format!("config/{name}.new")), patchbay.home().join("config").join(name));
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(Command::new("cp").args([&new, &file]).status().unwrap().success());
    file
}

fn runs(patchbay: &Patchbay) -> usize {
    fs::read_to_string(patchbay.home().join("config/runs")).unwrap_or_default().lines().count()
}

/// Creates a home whose provider `vertex` is at `server` and has the output of a script as its key.
fn home_with_command(server: &Server, script: &str, more: &str) -> Patchbay {
    let patchbay = Patchbay::new();
    let file = write_script(&patchbay, "give-key", script);
    let table = format!(
        "default_model = \"vertex:local-1\"\n[providers.vertex]\nadapter = \"openai-compatible\"\norigin = \
         \"http://{}/v1\"\nkey_command = [\"{}\"]\n{more}",
        server.host(),
        file.display()
    );
    patchbay.write("home/config/config.toml", table);
    patchbay
}

/// Returns a server that accepts only this key and echoes all keys.
fn accepting(key: &'static str) -> Server {
    Server::new(move |request| match request.contains(&format!("authorization: Bearer {key}\r\n")) {
        true => CHAT.answer_with(&["keys: s3ntinel-key-1 s3ntinel-key-2"]),
        false => CHAT.refusal(401, "no such key: s3ntinel-key-1", None),
    })
}

const NUMBERED: &str = "echo s3ntinel-key-$n";

#[test]
fn key_of_a_command_is_sent_and_kept() {
    let server = accepting("s3ntinel-key-1");
    let patchbay = home_with_command(&server, NUMBERED, "");
    let ran = patchbay.exec(&["one", "two", "/providers"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    // The second key was never printed, and is therefore not a secret.
    assert_eq!(ran.out.matches("keys: [secret] s3ntinel-key-2").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("\n  key       by command\n"), "{}", ran.out);
    assert_eq!(runs(&patchbay), 1);
    // Keys are only kept in the process that ran the command.
    let ran = patchbay.exec(&["three"]);
    assert_eq!((ran.code, runs(&patchbay)), (Some(1), 3), "{ran:?}");
}

#[test]
fn rejected_key_is_replaced_by_a_second_run() {
    let server = accepting("s3ntinel-key-2");
    let patchbay = home_with_command(&server, NUMBERED, "");
    let ran = patchbay.exec(&["one", "two"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.matches("keys: [secret] [secret]").count(), 2, "{}", ran.out);
    assert_eq!((runs(&patchbay), server.requests().len()), (2, 3));
    assert!(!ran.err.contains("Retrying"), "{}", ran.err);
    assert_in_no_file(&patchbay.home().join("data"), &[SENTINEL]);
    assert!(!patchbay.log().contains(SENTINEL), "{}", patchbay.log());
}

#[test]
fn key_is_used_until_it_expires() {
    for (end, expected) in [("\\\"expires_in\\\": 3600", 1), ("\\\"expires_at\\\": \\\"2020-01-01T00:00:00Z\\\"", 2)] {
        let server = Server::new(|_| CHAT.answer_with(&["done"]));
        let script = format!("echo \"{{\\\"token\\\": \\\"s3ntinel-key-$n\\\", {end}}}\"");
        let patchbay = home_with_command(&server, &script, "");
        let ran = patchbay.exec(&["one", "two"]);
        assert_eq!((ran.code, runs(&patchbay)), (Some(0), expected), "{end}: {}", ran.err);
        let request = server.requests().pop().unwrap();
        assert!(request.contains(&format!("authorization: Bearer s3ntinel-key-{expected}\r\n")), "{request}");
    }
}

/// The command's error output can contain a secret. Users need it to find the problem; models and guests do not.
#[test]
fn models_and_guests_do_not_learn_the_command() {
    const WORD: &str = "hvs.SENTINEL123456";
    let server = Server::new(|_| CHAT.refusal(401, "no such key", None));
    let patchbay = Patchbay::new();
    let table = |name: &str, script: &str| {
        format!(
            "[providers.{name}]\nadapter = \"openai-compatible\"\norigin = \"http://{}/v1\"\n\
             key_command = [\"/bin/sh\", \"-c\", \"{script} # vault-token={WORD}\"]\n",
            server.host()
        )
    };
    let demo = "[providers.demo]\noptions = { delay-ms = \"0\" }\n";
    let (fails, rejected) = (table("fails", "exit 3"), table("rejected", "echo some-key-12345"));
    patchbay.write("home/config/config.toml", format!("{demo}{fails}{rejected}"));
    let skill_md = "---\nsummary: Asks\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\n\
                    capabilities: [{name: inference}]\n---\n";
    patchbay.write("home/config/skills/asker.wasm", completing("Be helpful", "say Yes.").packaged(skill_md));
    patchbay.grant("asker", &["inference"]);
    for (provider, short) in [
        ("fails", "the key command of 'fails' failed (exit 3)"),
        ("rejected", "rejected: no such key. Check its key command"),
    ] {
        let by_the_model = format!(r#"call set_agent_model {{"agentId": "$self", "model": "{provider}:foo"}}"#);
        let lines = [&*by_the_model, &format!("/model {provider}:foo"), "/ask", "hello"];
        let answers = patchbay.answers(&lines);
        // A model cannot choose the provider by itself, so its call ends before the key is needed.
        for (told, text) in [(&answers[0], "no user can be asked here"), (&answers[2], short)] {
            assert!(told.message().contains(text) && !told.message().contains(WORD), "{}", told.message());
        }
        assert_eq!(answers[2].code(), "tool_failed");
        assert!(answers[3].message().contains(WORD), "{}", answers[3].message());
        let rows = patchbay.stored_messages(&patchbay.last_session());
        assert!(rows.iter().all(|(_, kind, text)| kind != "tool" || !text.contains(WORD)), "{rows:?}");
    }
}

#[test]
fn failed_command_is_named_and_its_output_is_nowhere() {
    let server = accepting("s3ntinel-key-1");
    for (script, why) in [
        ("echo s3ntinel-key-1; echo s3ntinel-key-1 >&2; exit 1", "exit 1"),
        ("echo s3ntinel-key-1; kill -TERM $$", "signal 15"),
        (
            "echo s3ntinel-key-1; echo s3ntinel-key-2",
            "its output is neither a key on one line nor {\"token\": \"…\"} with \"expires_at\" in RFC 3339 or \"expires_in\" in seconds",
        ),
        ("while :; do echo s3ntinel-key-1; done", "more than 65536 bytes of output"),
    ] {
        let patchbay = home_with_command(&server, script, "");
        let command = patchbay.home().join("config/give-key");
        let ran = patchbay.exec(&["hello"]);
        let words = format!(
            "Error: the key command of 'vertex' failed ({why}). Run it yourself to see why: {}\n{UNANSWERED}",
            command.display()
        );
        assert_eq!((ran.code, ran.errors()), (Some(1), words.as_str()));
        let answer = patchbay.answers(&["hello"]).pop().unwrap();
        assert_eq!(answer.code(), "key_command_failed");
        let session = patchbay.last_session();
        let shown = patchbay.run(&["sessions", "show", &session]);
        for text in [&ran.out, &ran.err, &patchbay.log(), &shown.out, &shown.err, &format!("{answer:?}")] {
            assert!(!text.contains(SENTINEL), "{script}: {text}");
        }
        assert_in_no_file(&patchbay.home().join("data"), &[SENTINEL]);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn hanging_command_is_given_up() {
    let server = accepting("s3ntinel-key-1");
    let patchbay = home_with_command(&server, "sleep 600 & sleep 600", "key_command_ms = 500\n");
    let begun = Instant::now();
    let ran = patchbay.exec(&["hello"]);
    let words = "Error: the key command of 'vertex' failed (no key within 500 ms, the limit 'key_command_ms'). Run";
    assert!(ran.err.starts_with(words), "{}", ran.err);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Reports, completion and a refused configuration never run the command.
#[test]
fn command_runs_for_requests_alone() {
    let server = accepting("s3ntinel-key-1");
    let patchbay = home_with_command(&server, NUMBERED, "");
    let list = patchbay.run(&["provider", "list"]);
    assert!(list.out.contains("vertex - ready") && list.out.contains("  key       by command\n"), "{}", list.out);
    let json = patchbay.run(&["provider", "list", "--json"]).out;
    let json = json.lines().find(|line| line.contains("\"vertex\"")).unwrap();
    assert!(json.contains("\"key_command\":true") && json.contains("\"credential\":true"), "{json}");
    let doctor = patchbay.run(&["doctor"]);
    assert!(doctor.out.contains("by command"), "{}", doctor.out);
    let ran = patchbay.exec(&["/providers", "/model vertex:local-2", "/skills"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!((runs(&patchbay), server.requests().len()), (0, 0));
}

#[test]
fn program_is_found_by_absolute_folders_of_path_only() {
    let server = accepting("s3ntinel-key-1");
    let mut patchbay = home_with_command(&server, NUMBERED, "");
    let config = patchbay.home().join("config");
    let text = fs::read_to_string(config.join("config.toml")).unwrap();
    let named = text.replace(&format!("{}/give-key", config.display()), "give-key");
    patchbay.write("home/config/config.toml", &named);
    // The working directory of the command is the config folder; Patchbay's is the workspace.
    fs::copy(config.join("give-key"), patchbay.workspace().join("give-key")).unwrap();
    let system = std::env::var("PATH").unwrap();
    patchbay.set("PATH", &format!(".:{system}"));
    let ran = patchbay.exec(&["hello"]);
    let words = "Error: the key command of 'vertex' failed (no absolute folder in PATH has this program). Run it \
        yourself \
                 to see why: give-key\n";
    assert_eq!((ran.code, ran.errors(), runs(&patchbay)), (Some(1), &*format!("{words}{UNANSWERED}"), 0));
    patchbay.set("PATH", &format!(".:{}:{system}", config.display()));
    assert_eq!((patchbay.exec(&["hello"]).code, runs(&patchbay)), (Some(0), 1));
    for relative in ["./give-key", "config/give-key", "../give-key"] {
        patchbay.write("home/config/config.toml", named.replace("\"give-key\"", &format!("\"{relative}\"")));
        let ran = patchbay.exec(&["hello"]);
        assert!(ran.err.contains("a name without '/', which is looked up in PATH, or an absolute path"), "{}", ran.err);
        assert_eq!((ran.code, runs(&patchbay)), (Some(1), 1));
    }
}

/// A skill's request with a credential from a command. The server rejects the first key.
#[test]
fn credential_of_a_skill_comes_from_a_command() {
    let rejected = AtomicUsize::new(0);
    let server = Server::new(move |request| match request.contains("Bearer s3ntinel-key-2") {
        true => page(&format!("{request}\nearlier: s3ntinel-key-1")),
        false => {
            rejected.fetch_add(1, Ordering::Relaxed);
            b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
        }
    });
    let patchbay = Patchbay::new();
    let (host, origin) = (format!("http:{}", server.host()), format!("http://{}", server.host()));
    let skill_md = format!(
        "---\ninvocation_mode: tool_dispatch\ncommand: get\ncommand_tool: run\ncapabilities: [{{name: '{host}'}}, {{name: \
         'credential:forge'}}]\n---\n"
    );
    let guest = fetching(&origin, Some(("forge", "Authorization", "Bearer ")), SENTINEL);
    patchbay.write("home/config/skills/getter.wasm", guest.packaged(&skill_md));
    let file = write_script(&patchbay, "give-key", NUMBERED);
    let table = |program: &str| format!("[credentials.forge]\norigin = \"{origin}\"\nkey_command = [\"{program}\"]\n");
    patchbay.write("home/config/config.toml", table(file.to_str().unwrap()));
    patchbay.grant("getter", &[&host, "credential:forge"]);
    let answer = patchbay.line("/get");
    assert!(answer.contains("Bearer [secret]") && answer.contains("earlier: [secret]"), "{answer}");
    assert!(!answer.contains(SENTINEL) && !patchbay.log().contains(SENTINEL), "{answer}");
    assert_eq!((runs(&patchbay), server.requests().len()), (2, 2));
    // The skill learns neither the command nor its output; the log has the command.
    let failing = write_script(&patchbay, "fail-key", "echo s3ntinel-key-1; exit 7");
    patchbay.write("home/config/config.toml", table(failing.to_str().unwrap()));
    let answer = patchbay.line("/get");
    assert!(answer.contains("the key command of 'forge' failed (exit 7)"), "{answer}");
    assert!(!answer.contains("fail-key") && patchbay.log().contains("fail-key"), "{answer}");
    assert!(!patchbay.log().contains(SENTINEL));
}

/// AI Studio calls the variable `GEMINI_API_KEY`. Google's SDK reads `GOOGLE_API_KEY` first, then `GEMINI_API_KEY`.
#[test]
fn first_variable_of_a_list_that_is_set_has_the_key() {
    let server = Server::new(|_| GOOGLE.answer("text"));
    let key_of = |patchbay: &Patchbay, lines: &[&str]| {
        let ran = patchbay.exec(lines);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let request = server.requests().pop().unwrap();
        request.split(GOOGLE.header).nth(1).unwrap().split("\r\n").next().unwrap().to_owned()
    };
    let mut patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", GOOGLE.table(&server));
    patchbay.set("GOOGLE_API_KEY", "");
    patchbay.set("GEMINI_API_KEY", "of-gemini-api-key");
    let lines = ["/model gemini-2.5-pro", "hello"];
    assert_eq!(key_of(&patchbay, &lines), "of-gemini-api-key");
    patchbay.set("GOOGLE_API_KEY", "of-google-api-key");
    assert_eq!(key_of(&patchbay, &lines), "of-google-api-key");
    let table = GOOGLE.table(&server) + "env = [\"OWN_GEMINI_KEY\", \"GEMINI_API_KEY\"]\n";
    patchbay.write("home/config/config.toml", table);
    assert_eq!(key_of(&patchbay, &lines), "of-gemini-api-key");
    patchbay.set("OWN_GEMINI_KEY", "of-its-own-variable");
    assert_eq!(key_of(&patchbay, &lines), "of-its-own-variable");
    patchbay.set("OWN_GEMINI_KEY", "");
    patchbay.set("GEMINI_API_KEY", "");
    let shown = patchbay.line("/providers");
    assert!(shown.contains("missing: set OWN_GEMINI_KEY or GEMINI_API_KEY, or add"), "{shown}");
}
