//! Nothing multiplies: whatever a skill, a workspace or a tool produces from a short input is bounded, in memory and on disk.

use std::fs;

use patchbay_tests::{answers::json_lines, binary::Patchbay};

/// A skill in a cloned repository whose instructions repeat their input 130,000 times.
fn multiplying_skill(patchbay: &Patchbay) {
    let skill_md = format!("---\nname: review\ndescription: Reviews a text.\n---\n{}\n", "$0".repeat(130_000));
    patchbay.write("workspace/.claude/skills/review/SKILL.md", skill_md);
}

fn database_bytes(patchbay: &Patchbay) -> u64 {
    let files = ["patchbay.db", "patchbay.db-wal"].map(|file| patchbay.home().join("data").join(file));
    files.iter().filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum()
}

const TOO_LONG: &str = "the instructions would have 390,000,000 bytes with this input, which SKILL.md repeats 130,000 times; the \
                        limit is 1,048,576 bytes (1 MiB). Use a shorter input, or edit the skill.";

#[test]
fn skill_that_multiplies_its_input_is_refused() {
    let patchbay = Patchbay::quick();
    multiplying_skill(&patchbay);
    let input = "x".repeat(3_000);
    let by_user = format!("/skill review {input}");
    let by_model = format!("call use_skill {{\"name\":\"review\",\"input\":\"{input}\"}}");
    let answers = patchbay.answers(&[&by_user, &by_model, "/skill review yes"]);
    assert_eq!((answers[0].code(), answers[0].message()), ("limit_instructions", &*format!("Error: {TOO_LONG}")));
    assert!(answers[0].rows().iter().all(|(kind, _)| *kind == "command"), "{:?}", answers[0].rows());
    assert!(answers[1].message().contains(TOO_LONG), "{}", answers[1].message());
    assert!(answers[1].message().contains(r#""error_code":"limit_instructions""#), "{}", answers[1].message());
    // A short input works.
    assert_eq!(answers[2].code(), "answered");
    assert!(database_bytes(&patchbay) < 8 << 20, "{}", database_bytes(&patchbay));
}

#[test]
fn input_of_a_skill_has_64_kib() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "summary: Guides", "Go to $INPUT.");
    let long = "x".repeat(65_537);
    let by_model = |input: &str| format!("call use_skill {{\"name\":\"guide\",\"input\":\"{input}\"}}");
    let answers = patchbay.answers(&[
        &format!("/skill guide {long}"),
        &by_model(&long),
        &by_model(&"ä".repeat(40_000)),
        &format!("/skill guide {}", &long[1..]),
    ]);
    let too_long = |bytes: &str| {
        format!(
            "the input has {bytes} bytes; the limit for a skill is 65,536 bytes (64 KiB). Write it to a file and name the file \
             in the input."
        )
    };
    assert_eq!((answers[0].code(), answers[0].message()), ("limit_input", &*format!("Error: {}", too_long("65,537"))));
    // The schema counts characters, while the host counts bytes.
    let by_schema = answers[1].message();
    assert!(by_schema.contains("invalid_input") && by_schema.contains("is longer than 65"), "{by_schema}");
    assert!(answers[2].message().contains(&too_long("80,000")), "{}", answers[2].message());
    assert_eq!(answers[3].code(), "answered");
}

/// Earlier builds stored multiplied texts of skills. Such a session must stay usable.
#[test]
fn oversized_row_of_an_old_database_keeps_the_session_usable() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "summary: Guides", "Go to $INPUT.");
    patchbay.run(&["exec", "/skill guide a", "say first"]);
    let session = patchbay.last_session();
    let update = "UPDATE messages SET content = replace(hex(zeroblob(?)), '0', 'x') WHERE kind = 'skill'";
    // The first text is too long to be read, the second only too long to be sent.
    for (half, sent) in [(50_000_000, "text(53)"), (4_000_000, "text(2097119)")] {
        {
            let database = patchbay.database("patchbay.db");
            assert_eq!(database.execute(update, [half]).unwrap(), 1);
        }
        let list = patchbay.run(&["sessions", "--all"]);
        assert!(list.out.contains("/skill guide"), "{list:?}");
        let shown = patchbay.run(&["sessions", "show", &session]);
        assert!(shown.out.starts_with("> /skill guide") && shown.out.contains("> say first\nfirst"), "{}", shown.err);
        let json = patchbay.run(&["sessions", "show", &session, "--json"]);
        assert!(json_lines(&json.out).len() >= 4, "{}", json.err);
        let said = patchbay.run(&["exec", "--session", &session, "say more", "show context"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.starts_with("more\n") && said.out.contains(sent), "{}", said.out);
    }
}

#[test]
fn listing_skills_of_an_untrusted_workspace_stores_no_files() {
    let patchbay = Patchbay::quick();
    let workspace_files = |round: u8| {
        patchbay.write("workspace/.claude/skills/big/SKILL.md", "---\nname: big\ndescription: Big.\n---\nRead a.md.\n");
        patchbay.write("workspace/.claude/skills/big/a.md", format!("round {round}"));
        for n in 0..4 {
            patchbay.write(&format!("workspace/.claude/skills/big/{n}.bin"), vec![round; 7 << 20]);
        }
    };
    let stored = || -> u64 {
        let packs = fs::read_dir(patchbay.home().join("data/skill-files")).unwrap();
        packs.map(|pack| pack.unwrap().metadata().unwrap().len()).sum()
    };
    workspace_files(0);
    patchbay.line("/skills");
    let before = stored();
    for round in 1..4 {
        workspace_files(round);
        let help = patchbay.line("/help big");
        assert!(help.contains("- `files`: 5 (29.4 MB)"), "{help}");
        assert_eq!(patchbay.line("/calc 1"), "1");
    }
    assert_eq!(stored(), before, "the bundled skills alone");
    // A turn may use the files, so they are kept with the session.
    let read = "call skill_file {\"skill\":\"big\",\"path\":\"a.md\"}";
    let contents = patchbay.line(read);
    assert!(contents.contains("round 3"), "{contents}");
    let session = patchbay.last_session();
    assert!(stored() > before + (28 << 20), "{} of {before}", stored());
    workspace_files(9);
    let again = patchbay.run(&["exec", "--session", &session, read]);
    assert!(again.out.contains("round 3"), "{again:?}");
    // Files that changed before the first turn are not the files that the session listed.
    patchbay.line("/skills");
    let session = patchbay.last_session();
    workspace_files(10);
    let changed = patchbay.run(&["exec", "--session", &session, read]);
    let notice = "Files of skills have changed since they were listed: 'big'. Run /reload_skills to use them.";
    assert!(changed.err.contains(notice) || changed.out.contains(notice), "{changed:?}");
    assert!(changed.out.contains("skill_files_missing"), "{changed:?}");
    let reloaded = patchbay.run(&["exec", "--session", &session, "/reload_skills", read]);
    assert!(reloaded.out.contains("round 10"), "{reloaded:?}");
    let collected = patchbay.run(&["sessions", "gc"]);
    assert_eq!(collected.code, Some(0), "{}", collected.err);
}
