//! The files of skills: in the snapshot, in the session, and in components.

use std::fs;

use patchbay_tests::{
    binary::Patchbay,
    guest::{Guest, contract, module_of},
};

/// Returns the lines of `/help NAME` about files.
fn files_in(help: &str) -> Vec<&str> {
    help.lines().skip_while(|line| !line.starts_with("- `files`")).take_while(|line| line.contains('(')).collect()
}

fn with_files(patchbay: &Patchbay) {
    patchbay.skill("guide", "summary: Guides", "Read references/a.md.");
    patchbay.write("home/config/skills/guide/references/a.md", "one\n");
    patchbay.write("home/config/skills/guide/assets/b.bin", vec![0; 1_500]);
}

const LISTED: [&str; 3] = ["- `files`: 2 (2 KB)", "  - assets/b.bin (2 KB)", "  - references/a.md (4 bytes)"];

#[test]
fn help_lists_files_after_the_folder_is_gone() {
    let patchbay = Patchbay::new();
    with_files(&patchbay);
    assert_eq!(files_in(&patchbay.line("/help guide")), LISTED);
    let session = patchbay.last_session();
    fs::remove_dir_all(patchbay.home().join("config/skills/guide")).unwrap();
    let resumed = patchbay.run(&["exec", "--session", &session, "/help guide"]);
    assert_eq!(files_in(&resumed.out), LISTED);
    let reloaded = patchbay.run(&["exec", "--session", &session, "/reload_skills", "/help guide"]);
    assert!(reloaded.out.contains("\n- guide\n") && reloaded.errors().contains("not found"), "{}", reloaded.err);
}

#[test]
fn reload_reports_changed_files() {
    let patchbay = Patchbay::new();
    with_files(&patchbay);
    patchbay.line("/skills");
    let session = patchbay.last_session();
    let reload = || patchbay.answers_in(&["--session", &session], &["/reload_skills"])[0].data().clone();
    assert_eq!(reload()["changed"], serde_json::json!([]));
    patchbay.write("home/config/skills/guide/references/a.md", "two\n");
    patchbay.write("home/config/skills/guide/new.md", "");
    let data = reload();
    assert_eq!(data["changed"], serde_json::json!(["guide"]));
    assert_eq!(data["changed_files"], serde_json::json!({"guide": ["new.md (new)", "references/a.md"]}));
    for n in 0..20 {
        patchbay.write(&format!("home/config/skills/guide/more/{n}.md"), "");
    }
    let data = reload();
    let changed = data["changed_files"]["guide"].as_array().unwrap();
    assert_eq!((changed.len(), &changed[19]), (20, &serde_json::json!("more/9.md (new)")));
}

#[test]
fn files_are_collected_with_their_last_session() {
    let patchbay = Patchbay::new();
    with_files(&patchbay);
    patchbay.line("/skills");
    let packs = || fs::read_dir(patchbay.home().join("data/skill-files")).unwrap().count();
    let (session, before) = (patchbay.last_session(), packs());
    fs::remove_dir_all(patchbay.home().join("config/skills/guide")).unwrap();
    patchbay.line("/skills");
    assert!(patchbay.run(&["sessions", "gc"]).out.starts_with("Deleted 0 snapshots and 0 components"));
    assert_eq!(packs(), before);
    patchbay.run(&["sessions", "rm", &session]);
    let collected = patchbay.run(&["sessions", "gc"]).out;
    assert!(collected.contains("1 snapshot, 0 components and the files of 1 skill"), "{collected}");
    assert_eq!(packs(), before - 1);
}

#[test]
fn plugin_build_embeds_the_files() {
    let patchbay = Patchbay::new();
    patchbay.write("guide/SKILL.md", "---\nsummary: Guides\n---\nDo.\n");
    patchbay.write("guide/references/a.md", "one\n");
    patchbay.write("guide/assets/b.bin", vec![0; 1_500]);
    patchbay.write("guide/src/lib.rs", "not a file of the skill");
    patchbay.write("guide/package.json", "{}");
    patchbay.write("guide/data/table.csv", "1,2\n");
    patchbay.write("guide/notes.txt", "");
    let module = module_of(&contract(), &Guest::default().wat(), "patchbay:skill/skill-plugin");
    patchbay.write("module.wasm", module);
    let at = |path: &str| patchbay.folder().join(path).to_str().unwrap().to_owned();
    let built = patchbay.run(&["plugin", "build", &at("guide"), "--wasm", &at("module.wasm")]);
    assert_eq!(built.code, Some(0), "{}", built.err);
    let embedded = "\nembedded beside SKILL.md: 4 files, 1508 bytes: 'assets/', 'data/', 'notes.txt', 'references/'\n";
    assert!(built.out.contains(embedded), "{}", built.out);
    let note = "\nnote: not embedded because they are sources of the component: 'package.json', 'src'\n";
    assert!(built.out.contains(note), "{}", built.out);
    patchbay.write("home/config/skills/guide.wasm", fs::read(at("guide/guide.wasm")).unwrap());
    let files = [
        "- `files`: 4 (2 KB)",
        "  - assets/b.bin (2 KB)",
        "  - data/table.csv (4 bytes)",
        "  - notes.txt (0 bytes)",
        "  - references/a.md (4 bytes)",
    ];
    assert_eq!(files_in(&patchbay.line("/help guide")), files);
}

#[test]
fn damaged_files_are_stored_again_by_a_reload() {
    let patchbay = Patchbay::new();
    with_files(&patchbay);
    patchbay.line("/skills");
    let session = patchbay.last_session();
    for pack in fs::read_dir(patchbay.home().join("data/skill-files")).unwrap() {
        fs::write(pack.unwrap().path(), "damaged").unwrap();
    }
    let missing = "'guide' was stored without its files. Run /reload_skills to read them.";
    let run = |line: &str| patchbay.run(&["exec", "--session", &session, line]).out;
    assert!(run("/help guide").contains(missing));
    run("/reload_skills");
    assert_eq!(files_in(&run("/help guide")), LISTED);
}

#[test]
fn model_reads_files_of_the_snapshot() {
    let patchbay = Patchbay::quick();
    with_files(&patchbay);
    patchbay.write("home/config/skills/guide/assets/dot.png", b"\x89PNG\r\n\x1a\n");
    patchbay.line("/skills");
    let session = patchbay.last_session();
    fs::remove_dir_all(patchbay.home().join("config/skills/guide")).unwrap();
    let file = |path: &str| format!("call skill_file {{\"skill\": \"guide\", {path}}}");
    let lines = [
        "call use_skill {\"name\": \"guide\", \"input\": \"\"}".to_owned(),
        file("\"path\": \"references/a.md\", \"limit\": 2"),
        file("\"path\": \"./references/a.md\""),
        file("\"path\": \".\""),
        file("\"path\": \"SKILL.md\""),
        file("\"path\": \"assets/dot.png\""),
        "show context".to_owned(),
        file("\"path\": \"assets/b.bin\""),
        file("\"path\": \"../SKILL.md\""),
        "call skill_file {\"skill\": \"nowhere\", \"path\": \".\"}".to_owned(),
    ];
    let answers = patchbay.answers_in(&["--session", &session], &lines.each_ref().map(String::as_str));
    let expected: [&[&str]; 10] = [
        &["Read references/a.md.", "- references/a.md (4 bytes)"],
        &["\"text\":\"on\"", "\"next_offset\":2"],
        &["\"path\":\"references/a.md\""],
        &["assets/b.bin (2 KB)"],
        &["summary: Guides"],
        &["\"media_type\":\"image/png\""],
        &[],
        &["skill_file_binary"],
        &["skill_file_not_found"],
        &["skill_not_found"],
    ];
    for ((line, words), answer) in lines.iter().zip(expected).zip(&answers) {
        assert!(words.iter().all(|words| answer.message().contains(words)), "{line}: {}", answer.message());
    }
    // The previous call returned the image itself.
    let context = answers[6].message();
    let results = context.lines().rfind(|line| line.contains("result(call_6, skill_file, ")).unwrap();
    assert!(results.contains("image/png(8)"), "{context}");
}

const LIST: &str = "Files of this skill, for the tool skill_file:\n- assets/b.bin (2 KB)\n- references/a.md (4 bytes)";

#[test]
fn persons_command_lists_the_files_for_the_model() {
    let patchbay = Patchbay::quick();
    with_files(&patchbay);
    let people = "disable-model-invocation: true";
    patchbay.skill("people", people, "Read a.md.");
    patchbay.write("home/config/skills/people/a.md", "one");
    let answers = patchbay.answers(&["/skill guide", "/skill guide now", "/skill people"]);
    assert_eq!(answers[0].rows()[0], ("skill", &*format!("Read references/a.md.\n\n{LIST}")));
    let with_input = format!("Read references/a.md.\n\nARGUMENTS: now\n\n{LIST}");
    assert_eq!(answers[1].rows()[0], ("skill", &*with_input));
    let people = "Read a.md.\n\nThe files of this skill are only for the user: you cannot read them.";
    assert_eq!(answers[2].rows()[0], ("skill", people));
}

#[test]
fn skill_over_its_limits_says_so_everywhere() {
    let patchbay = Patchbay::quick();
    patchbay.skill("guide", "summary: Guides", "Read big.bin.");
    patchbay.write("home/config/skills/guide/big.bin", vec![0; (8 << 20) + 1]);
    let problem = "'big.bin' is larger than 8 MiB; the skill's files cannot be read.";
    let left_out = format!("The files of this skill are left out. {problem}");
    let answers = patchbay.answers(&[
        "/help guide",
        "call use_skill {\"name\": \"guide\", \"input\": \"\"}",
        "call skill_file {\"skill\": \"guide\", \"path\": \"big.bin\"}",
        "call skill_file {\"skill\": \"guide\", \"path\": \".\"}",
        "/skill guide",
    ]);
    let help = answers[0].message();
    assert!(help.ends_with(&format!("\n- `files`: left out. {problem}")), "{help}");
    assert!(answers[1].message().contains(&left_out), "{}", answers[1].message());
    assert_eq!(answers[4].rows()[0], ("skill", &*format!("Read big.bin.\n\n{left_out}")));
    for answer in &answers[2..4] {
        let message = answer.message();
        assert!(message.contains("skill_files_limited"), "{message}");
        assert!(message.contains(&format!("the files of skill 'guide' are left out. {problem}")), "{message}");
    }
}

/// Returns a component whose tool returns the skill's file `references/a.md`, or the error's message.
fn reader() -> Vec<u8> {
    let call = r#"
        (call $read (i32.const 4096) (i32.const 15) (i64.const 0) (i32.const 65536) (i32.const 256))
        (i32.store8 (i32.const 0) (i32.const 0))
        (i32.store (i32.const 4) (i32.const 64))
        (i32.store (i32.const 8) (i32.const 1))
        (i32.store8 (i32.const 64) (i32.const 0))
        (if (i32.load8_u (i32.const 256))
          (then
            (i32.store (i32.const 68) (i32.load (i32.const 268)))
            (i32.store (i32.const 72) (i32.load (i32.const 272))))
          (else
            (i32.store (i32.const 68) (i32.load (i32.const 260)))
            (i32.store (i32.const 72) (i32.load (i32.const 264)))))
        (i32.const 0)"#;
    let more = r#"
        (import "patchbay:host/skill-files@0.1.0" "read" (func $read (param i32 i32 i64 i32 i32)))
        (data (i32.const 4096) "references/a.md")"#;
    // While the host asks the component for its tools, the component must not be able to read the file.
    let before_tools = "
        (call $read (i32.const 4096) (i32.const 15) (i64.const 0) (i32.const 65536) (i32.const 256))
        (if (i32.eqz (i32.load8_u (i32.const 256))) (then unreachable))";
    let guest = Guest { before_tools: before_tools.to_owned(), ..Guest::calling(call).with(more) };
    guest.importing("skill-files")
}

#[test]
fn component_reads_its_own_files() {
    let patchbay = Patchbay::new();
    let keys = "invocation_mode: tool_dispatch\ncommand: guide\ncommand_tool: run";
    patchbay.skill("guide", keys, "");
    patchbay.write("home/config/skills/guide/guide.wasm", reader());
    patchbay.write("home/config/skills/guide/references/a.md", "one\n");
    assert_eq!(patchbay.line("/guide {}"), "one");
    let session = patchbay.last_session();
    patchbay.write("home/config/skills/guide/references/a.md", "two\n");
    let run = |lines: &[&str]| patchbay.run(&[&["exec", "--session", &session], lines].concat()).out;
    assert_eq!(run(&["/guide {}"]), "one\n", "the snapshot has the first contents");
    assert!(run(&["/reload_skills", "/guide {}"]).ends_with("two\n"));
    fs::remove_file(patchbay.home().join("config/skills/guide/references/a.md")).unwrap();
    assert!(run(&["/reload_skills", "/guide {}"]).ends_with("a file 'references/a.md' is not in the skill\n"));
}
