//! Sessions stored by the first builds, opened by this build.

use std::{collections::BTreeMap, io::Read as _, path::Path};

use patchbay_tests::{answers::json_lines, binary::Patchbay};
use serde_json::{Value, json};

/// Creates a home with a database of the first builds: eleven sessions of two workspaces, six snapshots of format 1, skills whose
/// files were deleted, and a grant for a component alone.
fn old_home() -> Patchbay {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/fixtures/first_format.db.gz");
    let mut database = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_end(&mut database).unwrap();
    let patchbay = Patchbay::blank();
    patchbay.write("home/data/patchbay.db", database);
    patchbay
}

/// Returns the digests and the stored bodies of all snapshots.
fn bodies(patchbay: &Patchbay) -> Vec<(String, String)> {
    let database = patchbay.database("patchbay.db");
    let mut query = database.prepare("SELECT digest, body FROM snapshots ORDER BY digest").unwrap();
    query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn sessions_of_the_first_format_are_opened() {
    let patchbay = old_home();
    let before = bodies(&patchbay);
    assert_eq!(before.len(), 6);
    let sessions = json_lines(&patchbay.run(&["sessions", "--all", "--json"]).out);
    assert_eq!(sessions.len(), 11);
    for session in &sessions {
        let id = session["id"].as_str().unwrap();
        let answers = patchbay.answers_in(&["--session", id], &["/skills", "/help calc", "/skill alpha x", "/go"]);
        assert_eq!(answers[0].code(), "skills_listed", "{id}");
        assert_eq!(answers[1].code(), "skill_help", "{id}");
        // The instructions come from the snapshot; their file is deleted.
        assert_eq!(answers[2].rows()[0], ("skill", "Do alpha with x."), "{id}");
        // An alias that two skills claim is disabled, as before.
        let skills = answers[0].message();
        let code = if skills.contains("[alias_ambiguous] Alias '/go'") { "alias_ambiguous" } else { "skill_added" };
        assert_eq!(answers[3].code(), code, "{id}: {skills}");
    }
    assert_eq!(bodies(&patchbay), before, "what was stored stays as it was");
}

/// Returns the stored component of each skill in the snapshot of a session, by skill name.
fn components(patchbay: &Patchbay, session: &str) -> BTreeMap<String, Value> {
    let database = patchbay.database("patchbay.db");
    let query = "SELECT body FROM snapshots JOIN sessions ON snapshot = digest WHERE id = ?";
    let body: String = database.query_row(query, [session], |row| row.get(0)).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(body.get("format").is_none(), "format 1 has no number");
    let skills = body["skills"].as_object().unwrap();
    skills.iter().map(|(name, skill)| (name.clone(), skill["component"].clone())).collect()
}

/// Digests of format 1 are computed differently from today's, yet only real changes are reported.
#[test]
fn first_reload_of_an_old_session_reports_only_changes() {
    let patchbay = old_home();
    // A session with the user's skills alpha and beta, which both claim `/go`.
    let session = "0200f739-c37a-4f7f-aef8-942caba1b041";
    let old = components(&patchbay, session);
    patchbay
        .write("home/config/skills/alpha/SKILL.md", "---\nsummary: Alpha\ncommand: go\n---\nDo alpha with $INPUT.\n");
    patchbay.write(
        "home/config/skills/beta/SKILL.md",
        "---\nsummary: Beta\ncommand: go\neligibility: {os: [linux, darwin]}\n---\nDo beta.\n",
    );
    patchbay.write("home/config/skills/gamma/SKILL.md", "---\nsummary: Gamma\n---\nDo gamma.\n");
    let answers = patchbay.answers_in(&["--session", session], &["/reload_skills", "/skills", "/reload_skills"]);
    let now = answers[1].data()["skills"].as_array().unwrap();
    // The bundled skills whose component differs from the stored one.
    let mut changed: Vec<&str> = Vec::new();
    for skill in now {
        let name = skill["name"].as_str().unwrap();
        if old.get(name).is_some_and(|component| !component.is_null() && *component != skill["component"]) {
            changed.push(name);
        }
    }
    // The instructions of these two have changed.
    changed.extend(["beta", "plan_compiler"]);
    changed.sort_unstable();
    let diff = answers[0].data();
    assert_eq!((&diff["added"], &diff["removed"]), (&json!(["code", "gamma"]), &json!([])));
    assert_eq!(diff["changed"], json!(changed));
    assert_eq!(diff["diagnostics"], json!([]));
    let count = now.len();
    assert_eq!(answers[2].message(), format!("Reloaded skills for current session. version=4 count={count}"));
}

#[test]
fn files_of_an_old_session_are_missing_until_a_reload() {
    let patchbay = old_home();
    patchbay.write("home/config/skills/alpha/SKILL.md", "---\nsummary: Alpha\n---\nDo alpha.\n");
    patchbay.write("home/config/skills/alpha/a.md", "one");
    let list = "call skill_file {\"skill\": \"alpha\", \"path\": \".\"}";
    let session = "0200f739-c37a-4f7f-aef8-942caba1b041";
    let answers = patchbay.answers_in(&["--session", session], &[list, "/reload_skills", list]);
    let missing = answers[0].message();
    assert!(missing.contains("skill_files_missing"), "{missing}");
    assert!(missing.contains("'alpha' was stored without its files. Run /reload_skills to read them."), "{missing}");
    assert!(answers[2].message().contains("a.md (3 bytes)"), "{}", answers[2].message());
}

#[test]
fn old_grant_is_stale_and_list_names_the_command() {
    let patchbay = old_home();
    let listed = patchbay.run(&["grant", "list"]).out;
    assert!(listed.contains("keep user skill: kv (stale)\n"), "{listed}");
    // A grant needs the skill's files.
    assert_eq!(patchbay.run(&["grant", "list", "--stale"]).out, "");
    let guest = patchbay_tests::guest::Guest::default();
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand_tool: run\ncapabilities: [kv]\n---\n";
    patchbay.write("home/config/skills/keep.wasm", guest.packaged(skill_md));
    let stale = patchbay.run(&["grant", "list", "--stale"]);
    assert_eq!(stale.out, "patchbay grant add keep kv\n");
    assert_eq!(stale.err, "keep: granted before Patchbay checked a skill's other files\n");
    assert!(patchbay.line("/help keep").contains("`capabilities`: kv (stale: granted before Patchbay checked"));
    assert_eq!(patchbay.run(&["grant", "add", "keep", "kv"]).code, Some(0));
    assert_eq!(patchbay.run(&["grant", "list", "--stale"]).out, "");
    assert!(patchbay.line("/help keep").contains("`capabilities`: kv (granted)"));
}

#[test]
fn session_of_a_newer_format_is_rejected() {
    let patchbay = Patchbay::blank();
    patchbay.line("/calc 1");
    let body = r#"{"format":99}"#;
    let digest = patchbay_core::Digest::of(body.as_bytes()).to_string();
    {
        let database = patchbay.database("patchbay.db");
        database.execute("INSERT INTO snapshots (digest, body) VALUES (?, ?)", [&digest, body]).unwrap();
        database.execute("UPDATE sessions SET snapshot = ?", [&digest]).unwrap();
    }
    let ran = patchbay.run(&["exec", "--session", &patchbay.last_session(), "/skills"]);
    assert_eq!(ran.err, "Error: this session was written by a newer Patchbay. [snapshot_newer]\n");
}
