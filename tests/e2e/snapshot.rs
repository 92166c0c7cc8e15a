//! A session's snapshot: only `/reload_skills` changes it, and it keeps working without the files that it was built from.

use std::fs;

use patchbay_tests::{binary::Patchbay, guest::Guest};
use serde_json::json;

/// Returns a skill in one file whose alias `/echo` returns its input.
fn echo_skill() -> Vec<u8> {
    Guest::default()
        .packaged("---\nsummary: Echoes\ninvocation_mode: tool_dispatch\ncommand: echo\ncommand_tool: run\n---\n")
}

fn workspace_skill(patchbay: &Patchbay, name: &str, frontmatter: &str) {
    patchbay.write(&format!("workspace/.patchbay/skills/{name}/SKILL.md"), format!("---\n{frontmatter}\n---\n"));
}

#[test]
fn files_change_nothing_until_reload_skills_reports_them() {
    let patchbay = Patchbay::new();
    patchbay.skill("goes", "summary: Goes", "");
    patchbay.skill("turns", "summary: Before", "Old words.");
    patchbay.skill("stays", "summary: Stays", "");
    let mut live = patchbay.live(&[]);
    let before = live.message("/skills");

    patchbay.skill("comes", "summary: Comes", "");
    patchbay.write("home/config/skills/echo.wasm", echo_skill());
    patchbay.skill("turns", "summary: After", "New words.");
    fs::remove_dir_all(patchbay.home().join("config/skills/goes")).unwrap();
    assert_eq!(live.message("/skills"), before);
    assert_eq!(live.answer("/skill turns").rows()[0], ("skill", "Old words."));
    assert_eq!(live.answer("/skill goes").code(), "skill_added");
    assert_eq!(live.message("/skill comes"), "Error: skill 'comes' not found in snapshot.");
    assert_eq!(live.message("/echo {}"), "Error: unknown command '/echo'.");

    let answer = live.answer("/reload_skills");
    assert_eq!(answer.code(), "skills_reloaded");
    assert_eq!(
        answer.message(),
        "Reloaded skills for current session. version=2 count=12\n+ comes\n+ echo\n- goes\n~ turns"
    );
    let data = answer.data();
    assert_eq!((&data["version"], &data["count"]), (&json!(2), &json!(12)));
    assert_eq!(data["added"], json!(["comes", "echo"]));
    assert_eq!((&data["removed"], &data["changed"]), (&json!(["goes"]), &json!(["turns"])));
    assert_eq!(live.answer("/skill turns").rows()[0], ("skill", "New words."));
    assert_eq!(live.message("/skill goes"), "Error: skill 'goes' not found in snapshot.");
    assert_eq!(live.message("/echo {\"a\":1}"), "{\"a\":1}");
    assert_eq!(live.wait_for_exit(), Some(1), "some lines failed");
}

#[test]
fn replaced_component_is_reported_as_changed_skill() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/echo.wasm", echo_skill());
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("/echo {}"), "{}");
    let mut other = Guest::default();
    other.tools[0].1 = "Echoes, as it did".into();
    let skill_md = "---\nsummary: Echoes\ninvocation_mode: tool_dispatch\ncommand: echo\ncommand_tool: run\n---\n";
    patchbay.write("home/config/skills/echo.wasm", other.packaged(skill_md));
    assert_eq!(live.message("/reload_skills"), "Reloaded skills for current session. version=2 count=9\n~ echo");
}

#[test]
fn reload_without_changes_increments_version_and_keeps_digest() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&[]);
    let first = live.answer("/skills").data()["digest"].clone();
    for version in 2..5 {
        let answer = live.answer("/reload_skills");
        assert_eq!(answer.message(), format!("Reloaded skills for current session. version={version} count=8"));
        assert_eq!(answer.data()["digest"], first);
    }
    let answer = live.answer("/skills");
    assert_eq!((&answer.data()["version"], &answer.data()["digest"]), (&json!(4), &first));
}

#[test]
fn reload_skills_keeps_persona_and_conversation() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/agents/pirate/SOUL.md", "Arr.");
    let mut live = patchbay.live(&[]);
    live.message("/agent pirate");
    live.message("hello");
    let session = live.session().to_owned();
    let before = (persona(&patchbay, &session), patchbay.stored_messages(&session));
    patchbay.write("home/config/agents/pirate/SOUL.md", "Arr, changed.");
    patchbay.skill("comes", "", "");
    live.message("/reload_skills");
    let (mut after, report) = (patchbay.stored_messages(&session), "/reload_skills".to_owned());
    assert_eq!(after.pop().map(|(_, kind, text)| (kind, text)), Some(("command".to_owned(), report)));
    assert_eq!((persona(&patchbay, &session), after), before);
}

/// Returns the stored persona of the session.
fn persona(patchbay: &Patchbay, session: &str) -> String {
    let database = patchbay.database("patchbay.db");
    database.query_row("SELECT persona FROM sessions WHERE id = ?", [session], |row| row.get(0)).unwrap()
}

#[test]
fn resumed_session_keeps_skills_whose_files_are_deleted() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/echo.wasm", echo_skill());
    patchbay.skill("guide", "summary: Guides", "Mind the $INPUT.");
    workspace_skill(&patchbay, "local", "summary: Of the workspace");
    let mut live = patchbay.live(&[]);
    let session = live.session().to_owned();
    let before = live.answer("/skills");
    let help = live.message("/help echo");
    live.wait_for_exit();
    fs::remove_dir_all(patchbay.home().join("config/skills")).unwrap();
    fs::remove_dir_all(patchbay.workspace().join(".patchbay")).unwrap();

    let mut live = patchbay.live(&["--session", &session]);
    assert_eq!(live.session(), session);
    let after = live.answer("/skills");
    assert_eq!((after.message(), after.data()), (before.message(), before.data()));
    assert_eq!(live.message("/help echo"), help);
    assert_eq!(live.message("/echo {\"still\":true}"), "{\"still\":true}");
    assert_eq!(live.answer("/skill guide gap").rows()[0], ("skill", "Mind the gap."));
    assert_eq!(
        live.message("/reload_skills"),
        "Reloaded skills for current session. version=2 count=8\n- echo\n- guide\n- local"
    );
}

#[test]
fn resumed_session_works_after_its_workspace_is_deleted() {
    let patchbay = Patchbay::new();
    let mut live = patchbay.live(&["--workspace", "."]);
    live.message("/calc 1");
    let session = live.session().to_owned();
    live.wait_for_exit();
    fs::rename(patchbay.workspace(), patchbay.folder().join("elsewhere")).unwrap();
    fs::create_dir(patchbay.folder().join("here")).unwrap();
    let mut command = patchbay.command(&["exec", "--session", &session, "/calc 2", "/agent default"]);
    let ran = patchbay_tests::binary::ran(command.current_dir(patchbay.folder().join("here")).output().unwrap());
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "2\nActive agent set to 'default'.\n", ""));
}

#[test]
fn sessions_are_isolated_from_each_other() {
    let patchbay = Patchbay::new();
    let (mut one, mut two) = (patchbay.live(&[]), patchbay.live(&[]));
    let before = two.answer("/skills");
    patchbay.skill("comes", "", "");
    assert_eq!(one.message("/reload_skills"), "Reloaded skills for current session. version=2 count=9\n+ comes");
    let after = two.answer("/skills");
    assert_eq!((after.message(), after.data()), (before.message(), before.data()));
    assert_eq!(two.message("/reload_skills"), "Reloaded skills for current session. version=2 count=9\n+ comes");
}

#[test]
fn user_skill_overrides_a_bundled_one() {
    let patchbay = Patchbay::new();
    patchbay.skill("calc", "summary: Mine", "Count on your fingers.");
    let answers = patchbay.answers(&["/skills", "/help calc", "/calc 1"]);
    assert!(answers[0].message().starts_with("calc - Mine\n"), "{}", answers[0].message());
    assert!(answers[1].message().contains("\n- `source`: user\n"));
    // The alias of the bundled skill is gone as well, so `/calc` names the user's skill.
    assert_eq!(answers[2].rows()[0], ("skill", "Count on your fingers.\n\nARGUMENTS: 1"));
}

#[test]
fn workspace_skill_overrides_others_only_when_trusted() {
    let patchbay = Patchbay::new();
    patchbay.skill("guide", "summary: Mine", "");
    workspace_skill(&patchbay, "guide", "summary: Of the workspace");
    workspace_skill(&patchbay, "local", "summary: Local");
    workspace_skill(&patchbay, "sums", "command: calc");
    let mut live = patchbay.live(&[]);
    let untrusted = "\
calc - Exact arithmetic on big numbers and units
code - Run JavaScript that calls tools
files - The workspace's files: read, list, write, edit
grep - Search the workspace's files with regular expressions
guide - Mine
json - Query and reshape JSON with JMESPath
local - Local
notes - Notes that stay: add, list, search, delete
plan_compiler - Turns a goal into a checked plan
web - Web pages as readable text

Diagnostics:
- guide [untrusted_shadow] The workspace is not trusted, so its 'guide' does not replace the user one. To trust it: patchbay trust add DIR
- sums [untrusted_shadow] The workspace is not trusted, so its skill does not take the alias '/calc'. To trust it: patchbay trust add DIR";
    assert_eq!(live.message("/skills"), untrusted);
    assert_eq!(live.message("/calc 1 + 1"), "2");

    let trusted = patchbay.run(&["trust", "add"]);
    let workspace = patchbay.workspace().canonicalize().unwrap();
    let words = format!("{} is trusted. Run /reload_skills in open sessions.\n", workspace.display());
    assert_eq!((trusted.code, trusted.out), (Some(0), words));
    assert_eq!(live.message("/skills"), untrusted, "trust does not change a snapshot");
    // The workspace skill has the alias now; the bundled skill remains.
    let shadowed = "calc [alias_shadowed] Alias '/calc' belongs to the workspace skill 'sums'.";
    assert_eq!(
        live.message("/reload_skills"),
        format!("Reloaded skills for current session. version=2 count=11\n+ sums\n~ guide\n! {shadowed}")
    );
    assert_eq!(
        live.message("/skills"),
        "\
calc - Exact arithmetic on big numbers and units
code - Run JavaScript that calls tools
files - The workspace's files: read, list, write, edit
grep - Search the workspace's files with regular expressions
guide - Of the workspace
json - Query and reshape JSON with JMESPath
local - Local
notes - Notes that stay: add, list, search, delete
plan_compiler - Turns a goal into a checked plan
sums
web - Web pages as readable text

Diagnostics:
- calc [alias_shadowed] Alias '/calc' belongs to the workspace skill 'sums'."
    );
    assert!(live.message("/help guide").contains("\n- `source`: workspace\n"));

    assert_eq!(patchbay.run(&["trust", "remove"]).code, Some(0));
    let (_, kept_out) = untrusted.split_once("Diagnostics:\n").unwrap();
    let kept_out: Vec<_> = kept_out.lines().map(|line| line.replacen("- ", "\n! ", 1)).collect();
    assert_eq!(
        live.message("/reload_skills"),
        format!("Reloaded skills for current session. version=3 count=10\n- sums\n~ guide{}", kept_out.concat())
    );
    assert_eq!(live.message("/skills"), untrusted);
}

#[test]
fn trust_is_listed_and_revoked() {
    let patchbay = Patchbay::new();
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    assert_eq!(patchbay.run(&["trust", "list"]).out, "No workspace is trusted.\n");
    patchbay.run(&["trust", "add", "."]);
    let again = patchbay.run(&["trust", "add", &workspace]).out;
    assert_eq!(again, format!("{workspace} is already trusted. Run /reload_skills in open sessions.\n"));
    assert_eq!(patchbay.run(&["trust", "list"]).out, format!("{workspace}\n"));
    let removed = patchbay.run(&["trust", "remove"]);
    assert_eq!(removed.out, format!("{workspace} is no longer trusted. Run /reload_skills in open sessions.\n"));
    let again = patchbay.run(&["trust", "remove"]);
    assert_eq!((again.code, again.err), (Some(1), format!("Error: {workspace} was not trusted. [trust_not_found]\n")));
}

#[cfg(unix)]
#[test]
fn workspace_skill_linked_from_outside_is_not_read() {
    let patchbay = Patchbay::new();
    patchbay.write("home/secret/SKILL.md", "---\nsummary: Secret\n---\n");
    patchbay.write("workspace/.patchbay/skills/sly/NOTES.md", "");
    let skills = patchbay.workspace().join(".patchbay/skills");
    std::os::unix::fs::symlink(patchbay.home().join("secret"), skills.join("away")).unwrap();
    std::os::unix::fs::symlink(patchbay.home().join("secret/SKILL.md"), skills.join("sly/SKILL.md")).unwrap();
    let listed = patchbay.line("/skills");
    let (skills, diagnostics) = listed.split_once("\n\nDiagnostics:\n").unwrap();
    assert_eq!(skills.lines().count(), 8, "{skills}");
    assert!(!listed.contains("Secret"), "{listed}");
    let names: Vec<_> = diagnostics.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(names, ["away", "sly"]);
}

#[cfg(unix)]
#[test]
fn linked_skills_folder_of_a_workspace_is_reported_and_skipped() {
    let patchbay = Patchbay::new();
    patchbay.write("home/secret/skills/sly/SKILL.md", "---\nsummary: Secret\n---\n");
    std::os::unix::fs::symlink(patchbay.home().join("secret"), patchbay.workspace().join(".patchbay")).unwrap();
    let listed = patchbay.line("/skills");
    let (_, diagnostics) = listed.split_once("\n\nDiagnostics:\n").unwrap();
    assert!(
        diagnostics.starts_with("- .patchbay/skills [folder_unusable] The workspace's skills folder cannot be read: ")
    );
    assert!(!listed.contains("Secret"), "{listed}");
}

#[test]
fn reload_reports_rejected_skills() {
    let patchbay = Patchbay::new();
    patchbay.skill("works", "summary: Works", "Work.");
    let mut live = patchbay.live(&[]);
    patchbay.skill("works", "eligibility: [", "Work.");
    patchbay.skill("taken", "command: fork", "Fork.");
    patchbay.skill("mended", "description: Use when: asked", "Mend.");
    let answer = live.answer("/reload_skills");
    let lines: Vec<_> = answer.message().lines().skip(1).map(|line| line.split(". ").next().unwrap()).collect();
    assert_eq!(
        lines[..3],
        ["+ mended", "- works", "! mended [frontmatter_mended] Line 2: 'description' was read as if it were quoted."]
    );
    assert_eq!(lines[3], "! taken [command_alias_collision] Alias '/fork' is a built-in command; skill excluded.");
    assert!(lines[4].starts_with("! works [malformed_frontmatter] Line "), "{lines:?}");
    assert_eq!(answer.data()["diagnostics"].as_array().unwrap().len(), 3);
    // A skill that was reported once is not reported again.
    assert_eq!(live.message("/reload_skills").lines().count(), 1);
    assert_eq!(live.message("/skills").lines().filter(|line| line.contains('[')).count(), 3);
}

/// One file of 250 KB with 4,500 links, which git stores as one blob. Reading stops at the limits of an untrusted workspace.
#[cfg(target_os = "linux")]
#[test]
fn links_to_one_file_are_read_up_to_the_limit() {
    let patchbay = Patchbay::new();
    let text = format!("---\nsummary: Large\n---\n{}", "words ".repeat(42_000));
    patchbay.write("workspace/.patchbay/skills/s0000/SKILL.md", &text);
    let skills = patchbay.workspace().join(".patchbay/skills");
    for n in 1..4_500 {
        let folder = skills.join(format!("s{n:04}"));
        fs::create_dir(&folder).unwrap();
        fs::hard_link(skills.join("s0000/SKILL.md"), folder.join("SKILL.md")).unwrap();
    }
    let mut live = patchbay.live(&[]);
    let answer = live.answer("/skills");
    let diagnostics = answer.data()["diagnostics"].as_array().unwrap();
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    assert_eq!(diagnostics[0]["name"], "s0008");
    assert_eq!(
        diagnostics[0]["message"],
        "The workspace skills exceed the limit of 2 MiB (limits.root.skill_md_bytes)."
    );
    assert_eq!(live.message("/calc 1 + 1"), "2");
    let status = fs::read_to_string(format!("/proc/{}/status", live.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 200 << 10, "{kilobytes} kB");
    // All snapshots share the text, which is stored once.
    live.wait_for_exit();
    let size = fs::metadata(patchbay.home().join("data/patchbay.db")).unwrap().len();
    assert!(size < 4 << 20, "{size} bytes");
}
