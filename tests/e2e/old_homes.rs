//! Homes that builds of named commits left. This build must still understand everything in them. `make.py` beside each home creates
//! it.

use std::{fs, io::Read as _, path::Path, thread, time::Duration};

use patchbay_tests::{
    answers::Answer,
    binary::{self, Patchbay},
    format::CHAT,
    server::Server,
};

/// Creates a home as a build of `commit` left it, whose provider `ollama` is at `server`.
fn home_of(commit: &str, server: &Server) -> Patchbay {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("e2e/fixtures/home-{commit}/home"));
    let patchbay = Patchbay::blank();
    copy(&folder, "home", &patchbay);
    let origin = format!("http://{}/v1", server.host());
    let config = fs::read_to_string(patchbay.home().join("config/config.toml")).unwrap();
    patchbay.write("home/config/config.toml", config.replace("http://127.0.0.1:18737/v1", &origin));
    let database = patchbay.database("patchbay.db");
    database.execute("UPDATE catalogues SET base_url = ? WHERE provider = 'ollama'", [&origin]).unwrap();
    patchbay
}

/// Copies a folder of a fixture to `path` of the home. Files that end in `.gz` are unpacked.
fn copy(folder: &Path, path: &str, patchbay: &Patchbay) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let to = format!("{path}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to, patchbay);
            continue;
        }
        let mut bytes = fs::read(entry.path()).unwrap();
        if to.ends_with(".gz") {
            let packed = std::mem::take(&mut bytes);
            flate2::read::GzDecoder::new(&*packed).read_to_end(&mut bytes).unwrap();
        }
        patchbay.write(to.trim_end_matches(".gz"), bytes);
    }
}

/// Returns the session that has a message with this text.
fn session_with(patchbay: &Patchbay, text: &str) -> String {
    let query = "SELECT session FROM messages WHERE content LIKE ? || '%' LIMIT 1";
    patchbay.query_one(query, [text])
}

fn messages(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(Answer::message).collect()
}

/// `llama-4` was a model of the provider that listed it. Today its prefix belongs to `meta`.
#[test]
fn agents_of_an_old_home_keep_their_provider() {
    let server = Server::always(CHAT.answer_with(&["Still here."]));
    let patchbay = home_of("8737703", &server);
    let notice = "default_model 'llama-4' now belongs to provider 'meta', no longer to 'ollama'. Agents of earlier sessions keep \
                  'ollama'. To keep it for new agents as well: default_model = \"ollama:llama-4\" in config.toml.";
    // A new session is opened before the old ones, and prints the notice.
    let first = patchbay.run(&["exec", "/skills"]);
    assert!(first.err.contains(notice), "{}", first.err);
    let again = patchbay.run(&["exec", "/skills"]);
    assert!(!again.err.contains("default_model"), "{}", again.err);

    // One agent without a model choice, and one with a model override by name.
    for said in ["Hello", "call set_agent_model"] {
        let session = session_with(&patchbay, said);
        let answers = patchbay.answers_in(&["--session", &session], &["And now?", "/agents"]);
        assert_eq!(messages(&answers)[0], "Still here.", "{said}");
        assert!(messages(&answers)[1].contains(" ollama/llama-4/default, "), "{}", messages(&answers)[1]);
    }
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.contains("\"model\":\"llama-4\"")), "{requests:?}");
    assert_eq!(requests.len(), 2);

    // New sessions use the new owner.
    let answers = patchbay.answers(&["/model llama-4", "/model ollama:llama-4", "/model llama-9"]);
    let ended = "⚠ This model was shut down on 2026-07-06. Its successor is muse-spark-1.3";
    let no_key = "⚠ There is no key for meta yet: set MODEL_API_KEY or add it to credentials.json";
    assert_eq!(
        messages(&answers),
        [
            &*format!(
                "✓ Switched to Meta llama-4 (Responses API)\n  {ended}\n  ⚠ 'ollama' lists it too: ollama:llama-4\n  {no_key}\n  \
                 Thinking: off"
            ),
            "✓ Switched to ollama llama-4\n  Thinking: provider default",
            &*format!("✓ Switched to Meta llama-9 (Responses API)\n  {ended}\n  {no_key}\n  Thinking: off"),
        ]
    );
    let unanswered = &patchbay.answers(&["Hello"])[0];
    assert!(unanswered.message().starts_with("No credentials for meta. "), "{}", unanswered.message());
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn agents_of_an_old_home_keep_their_provider_when_their_session_is_the_first() {
    let server = Server::always(CHAT.answer_with(&["Still here."]));
    let patchbay = home_of("8737703", &server);
    let session = session_with(&patchbay, "Hello");
    let ran = patchbay.run(&["exec", "--session", &session, "And now?"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "Still here.\n"));
    assert!(ran.err.contains("default_model 'llama-4' now belongs to provider 'meta'"), "{}", ran.err);
}

#[test]
fn everything_of_an_old_home_is_there() {
    let server = Server::always(CHAT.answer_with(&["Still here."]));
    let patchbay = home_of("8737703", &server);
    // The tree has a root that captures, two living children, a dead one, and mail.
    let tree = session_with(&patchbay, "captured");
    let answers = patchbay.answers_in(&["--session", &tree], &["/agents", "/cancel", "/note list", "/mail-check"]);
    let shown = messages(&answers);
    assert_eq!(shown[0].matches(" held ").count(), 3, "{}", shown[0]);
    assert_eq!(shown[0].matches(" dead,").count(), 1, "{}", shown[0]);
    assert!(shown[0].contains("demo/demo-1/low, 1 unread"), "{}", shown[0]);
    assert_eq!(shown[1], "Capture cancelled.");
    assert!(shown[2].starts_with("1. Old note"), "{}", shown[2]);
    assert!(shown[3].contains("\"summary\":\"done\""), "{}", shown[3]);
    let query = "SELECT count(*) FROM agents WHERE parent_uuid IS NOT NULL AND fork_message_id IN (3, 7, 10)";
    let forks: u32 = patchbay.query_one(query, []);
    assert_eq!(forks, 3);

    // The waiting lines still wait after the interrupted turn.
    let waiting = session_with(&patchbay, "hang on");
    let ran = patchbay.run(&["exec", "--session", &waiting, "Go on."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let stored = patchbay.stored_messages(&waiting);
    let said: Vec<_> = stored.iter().filter(|(_, kind, _)| kind == "user").map(|(.., text)| text.as_str()).collect();
    assert_eq!(said, ["hang on", "Go on."]);
    let query = "SELECT group_concat(content) FROM (SELECT content FROM queued_lines ORDER BY position)";
    let waits: String = patchbay.query_one(query, []);
    assert_eq!(waits, "waiting one,waiting two");

    // The call that was cut off is never run again.
    let cut_off = session_with(&patchbay, "call code__run");
    let history = patchbay.answers_in(&["--session", &cut_off], &["/note list"]);
    assert_eq!(messages(&history)[0].matches("Written before the end").count(), 1, "{}", messages(&history)[0]);
    let rows = patchbay.stored_messages(&cut_off);
    let unknown = "'code__run' was interrupted after it had begun";
    assert!(rows.iter().any(|(_, kind, text)| kind == "tool" && text.contains(unknown)), "{rows:?}");

    assert!(patchbay.run(&["grant", "list"]).out.contains("workspace-write"));
    assert!(patchbay.run(&["trust", "list"]).out.contains("/tmp/patchbay-8737703"));
}

/// Kills the first start of this build in an older build's home, a little later each time, and then checks that nothing is missing.
#[test]
fn upgrade_that_is_killed_loses_nothing() {
    let server = Server::always(CHAT.answer_with(&["Still here."]));
    let sessions = "SELECT group_concat(id) FROM (SELECT id FROM sessions ORDER BY id)";
    let messages = "SELECT count(*) FROM messages";
    let (mut killed, mut upgraded) = (0, 0);
    // On a busy machine the upgrade takes longer.
    for delay in (0..20).chain((30..300).step_by(30)) {
        if delay >= 20 && upgraded > 0 {
            break;
        }
        let patchbay = home_of("8737703", &server);
        let facts = || -> (String, u32) { (patchbay.query_one(sessions, []), patchbay.query_one(messages, [])) };
        let schema = || -> u32 { patchbay.query_one("PRAGMA user_version", []) };
        let (before, old) = (facts(), schema());
        let mut child = patchbay.command(&["sessions", "--all"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay * 10));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        upgraded += u32::from(schema() > old);
        // Migrations keep every row, whichever of them were committed.
        assert_eq!(facts(), before, "after {delay} steps");

        let again = patchbay.run(&["sessions", "--all"]);
        assert_eq!((again.code, &*again.err), (Some(0), ""), "{}", again.out);
        assert_eq!((facts(), schema() > old), (before.clone(), true));
        let copy = patchbay.home().join(format!("data/patchbay.db.schema-{old}"));
        let copy = rusqlite::Connection::open(copy).unwrap();
        let kept: String = copy.query_row(sessions, [], |row| row.get(0)).unwrap();
        assert_eq!(kept, before.0, "the copy has all sessions");
    }
    assert!(killed > 0 && upgraded > 0, "{killed} killed, {upgraded} of them upgraded");
}

/// An upgrade installs another file at the program's path. The running program continues, and compiles with its own code.
#[test]
#[cfg(target_os = "linux")]
fn running_program_survives_its_replacement() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let patchbay = Patchbay::blank();
    let installed = patchbay.workspace().join("patchbay");
    binary::copy(&installed);
    let mut command = std::process::Command::new(&installed);
    command.arg("exec").env("PATCHBAY_HOME", patchbay.home()).current_dir(patchbay.workspace());
    let piped = std::process::Stdio::piped;
    let mut running = command.stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut input = running.stdin.take().unwrap();
    writeln!(input, "/calc 2+1").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "3");
    patchbay.write("workspace/new", "#!/bin/sh\nexit 9\n");
    fs::rename(patchbay.workspace().join("new"), &installed).unwrap();
    // Another component, which is compiled only now.
    writeln!(input, "/json a {{\"a\": 7}}").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "7");
    drop(input);
    assert!(running.wait().unwrap().success());
}
