//! Personas: read when they are selected, and stored with the session.

use std::fs;

use patchbay_tests::binary::Patchbay;
use serde_json::{Value, json};

/// Returns the stored persona of a session.
fn stored(patchbay: &Patchbay, session: &str) -> Value {
    let database = patchbay.database("patchbay.db");
    let json: String =
        database.query_row("SELECT persona FROM sessions WHERE id = ?", [session], |row| row.get(0)).unwrap();
    serde_json::from_str(&json).unwrap()
}

#[test]
fn personas_are_bundled_linked_and_of_the_workspace() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/.patchbay/agents/local/IDENTITY.md", "Local.");
    patchbay.write("elsewhere/SOUL.md", "Arr.");
    fs::create_dir_all(patchbay.home().join("config/agents")).unwrap();
    std::os::unix::fs::symlink(patchbay.folder().join("elsewhere"), patchbay.home().join("config/agents/pirate"))
        .unwrap();
    let mut live = patchbay.live(&[]);
    assert_eq!(stored(&patchbay, live.session())["name"], "default");
    let answer = live.answer("/agent default");
    assert_eq!((answer.code(), answer.message()), ("agent_set", "Active agent set to 'default'."));
    assert_eq!(answer.data(), &json!({"name": "default", "files": ["SOUL.md"], "skipped": []}));
    let local = live.answer("/agent local");
    assert_eq!(local.data(), &json!({"name": "local", "files": ["IDENTITY.md"], "skipped": []}));
    assert_eq!(live.message("/agent pirate"), "Active agent set to 'pirate'.");
}

#[test]
fn persona_files_are_loaded_in_order() {
    let patchbay = Patchbay::new();
    for file in ["AGENTS.md", "IDENTITY.md", "OTHER.md", "SOUL.md", "USER.md"] {
        patchbay.write(&format!("home/config/agents/pirate/{file}"), format!("{file} of the pirate\n"));
    }
    patchbay.write("workspace/AGENTS.md", "Of the workspace.\n");
    let mut live = patchbay.live(&[]);
    let answer = live.answer("/agent pirate");
    assert_eq!(answer.message(), "Active agent set to 'pirate'.");
    let files = ["SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md", "AGENTS.md of the workspace"];
    assert_eq!(answer.data()["files"], json!(files));
    let persona = stored(&patchbay, live.session());
    assert_eq!(persona["files"][0]["text"], "SOUL.md of the pirate");
    assert_eq!(persona["files"][4]["text"], "Of the workspace.");
}

#[test]
fn claude_md_is_read_where_there_is_no_agents_md() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/CLAUDE.md", "Of CLAUDE.md.\n");
    let mut live = patchbay.live(&[]);
    assert_eq!(live.answer("/agent default").data()["files"], json!(["SOUL.md", "CLAUDE.md of the workspace"]));
    assert_eq!(stored(&patchbay, live.session())["files"][1]["text"], "Of CLAUDE.md.");
    patchbay.write("workspace/AGENTS.md", "Of AGENTS.md.\n");
    assert_eq!(live.answer("/agent default").data()["files"], json!(["SOUL.md", "AGENTS.md of the workspace"]));
    // An unusable AGENTS.md is named, and nothing replaces it.
    patchbay.write("workspace/AGENTS.md", vec![b'x'; (256 << 10) + 1]);
    let answer = live.answer("/agent default");
    assert_eq!(answer.data()["files"], json!(["SOUL.md"]));
    assert_eq!(answer.data()["skipped"], json!(["AGENTS.md of the workspace is not used: over 262144 bytes"]));
}

#[test]
fn empty_folder_is_not_a_persona() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/agents/blank/NOTES.md", "Nothing that counts.");
    patchbay.write("home/config/agents/default/NOTES.md", "Nothing that counts.");
    let answers = patchbay.answers(&["/agent blank", "/agent default"]);
    assert_eq!(answers[0].code(), "persona_not_found");
    let words = "Error: agent 'blank' is empty: its folder has none of SOUL.md, IDENTITY.md, USER.md, AGENTS.md.";
    assert_eq!(answers[0].message(), words);
    // The bundled persona is used, because a session must have one.
    assert_eq!(answers[1].data()["files"], json!(["SOUL.md"]));
}

#[test]
fn untrusted_workspace_persona_overrides_no_other() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/agents/pirate/SOUL.md", "Mine.");
    patchbay.write("workspace/.patchbay/agents/pirate/USER.md", "Theirs.");
    patchbay.write("workspace/.patchbay/agents/default/USER.md", "Theirs.");
    let files = |answers: &[patchbay_tests::answers::Answer]| -> Vec<Value> {
        answers.iter().map(|answer| answer.data()["files"].clone()).collect()
    };
    let lines = ["/agent pirate", "/agent default"];
    assert_eq!(files(&patchbay.answers(&lines)), [json!(["SOUL.md"]), json!(["SOUL.md"])]);
    patchbay.run(&["trust", "add"]);
    assert_eq!(files(&patchbay.answers(&lines)), [json!(["USER.md"]), json!(["USER.md"])]);
}

#[test]
fn session_keeps_its_persona_unchanged() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/agents/pirate/SOUL.md", "Arr.");
    let mut live = patchbay.live(&[]);
    live.message("/agent pirate");
    let session = live.session().to_owned();
    let before = stored(&patchbay, &session);
    assert_eq!((&before["name"], &before["files"]), (&json!("pirate"), &json!([{"name": "SOUL.md", "text": "Arr."}])));
    // The facts that agents get at the start are stored with each persona.
    assert!(before["surroundings"]["facts"].as_str().unwrap().contains("workspace: "), "{before}");
    live.wait_for_exit();
    fs::remove_dir_all(patchbay.home().join("config/agents")).unwrap();
    let mut live = patchbay.live(&["--session", &session]);
    live.message("hello");
    assert_eq!(live.message("/agent pirate"), "Error: agent 'pirate' was not found.");
    assert_eq!(stored(&patchbay, &session), before, "a failed switch changes nothing");
}

#[test]
fn switching_persona_keeps_snapshot_and_conversation() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/agents/pirate/SOUL.md", "Arr.");
    let mut live = patchbay.live(&[]);
    live.message("hello");
    let before = live.answer("/skills");
    patchbay.skill("comes", "", "");
    let answer = live.answer("/agent pirate");
    assert_eq!(answer.rows(), [("command", "/agent pirate")]);
    assert_eq!(live.answer("/skills").data(), before.data());
}

#[cfg(unix)]
#[test]
fn persona_links_out_of_a_workspace_are_not_followed() {
    use std::os::unix::fs::symlink;
    let patchbay = Patchbay::new();
    patchbay.write("home/secret/SOUL.md", "Secret.");
    patchbay.write("workspace/.patchbay/agents/sly/NOTES.md", "");
    let agents = patchbay.workspace().join(".patchbay/agents");
    symlink(patchbay.home().join("secret"), agents.join("away")).unwrap();
    symlink(patchbay.home().join("secret/SOUL.md"), agents.join("sly/SOUL.md")).unwrap();
    let answers = patchbay.answers(&["/agent away", "/agent sly"]);
    assert_eq!([answers[0].code(), answers[1].code()], ["persona_unreadable"; 2]);
    assert!(
        answers[0].message().starts_with("Error: agent 'away' cannot be read: its folder: "),
        "{}",
        answers[0].message()
    );
    assert!(
        answers[1].message().starts_with("Error: agent 'sly' cannot be read: SOUL.md: "),
        "{}",
        answers[1].message()
    );
    assert!(!stored(&patchbay, &patchbay.last_session()).to_string().contains("Secret"));
}

#[test]
fn agents_md_over_the_limit_is_left_out() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/AGENTS.md", "x".repeat((256 << 10) + 1));
    let ran = patchbay.exec(&["/calc 1"]);
    let note = "Note: AGENTS.md of the workspace is not used: over 262144 bytes\n";
    assert_eq!((&*ran.out, ran.errors()), ("1\n", note));
}

#[test]
fn invalid_agents_md_does_not_prevent_a_session() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/AGENTS.md/trap", "");
    let ran = patchbay.exec(&["/calc 1", "/agent default"]);
    assert_eq!((ran.code, &*ran.out), (Some(0), "1\nActive agent set to 'default'.\n"));
    assert_eq!(ran.err, "Note: AGENTS.md of the workspace is not used: not a regular file\n");
    let answer = patchbay.answers(&["/agent default"]).remove(0);
    assert_eq!(answer.data()["files"], serde_json::json!(["SOUL.md"]));
}
