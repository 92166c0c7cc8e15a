//! Blocks: a blocked component stops running immediately, whatever its grants.

use std::fs;

use patchbay_core::Digest;
use patchbay_tests::{answers::json_lines, binary::Patchbay, guest::Guest};

const SKILL_MD: &str = "---\ninvocation_mode: tool_dispatch\ncommand: echo\ncommand_tool: run\n---\n";
const ECHO: &str = "home/config/skills/echo.wasm";

/// Creates a home with the skill `echo`. Returns its component's digest as well.
fn echoing() -> (Patchbay, String) {
    let patchbay = Patchbay::new();
    patchbay.write(ECHO, Guest::default().packaged(SKILL_MD));
    let help = &patchbay.answers(&["/help echo"])[0];
    let digest = help.data()["component"].as_str().unwrap().to_owned();
    (patchbay, digest)
}

/// Runs the binary, asserts success, and returns its output.
fn said(patchbay: &Patchbay, arguments: &[&str]) -> String {
    let ran = patchbay.run(arguments);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{arguments:?}");
    ran.out
}

#[test]
fn block_and_unblock_apply_immediately_to_a_running_session() {
    let (patchbay, digest) = echoing();
    let mut live = patchbay.live(&[]);
    assert_eq!(live.message("/echo {}"), "{}");
    said(&patchbay, &["plugin", "block", &digest]);
    let blocked = live.answer("/echo {}");
    assert_eq!(blocked.code(), "blocked");
    let command = format!("patchbay plugin unblock {digest}");
    let words = format!("Error: component {digest} of skill 'echo' is blocked. To unblock it: {command}");
    assert_eq!(blocked.message(), words);
    assert_eq!(live.message("/calc 1"), "1", "others run on");
    // The message names the command, which is run exactly as printed.
    let (_, command) = blocked.message().split_once("To unblock it: patchbay ").unwrap();
    said(&patchbay, &command.split(' ').collect::<Vec<_>>());
    assert_eq!(live.message("/echo {}"), "{}");
    let journal = json_lines(&said(&patchbay, &["journal", "--plugin", "echo", "--json"]));
    let outcomes: Vec<_> = journal.iter().map(|row| row["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ok", "blocked", "ok"]);
    assert_eq!((&journal[1]["component"], &journal[1]["fuel"]), (&digest.into(), &0.into()));
}

#[test]
fn block_applies_to_the_component_not_the_skill_name() {
    let (patchbay, digest) = echoing();
    said(&patchbay, &["plugin", "block", &digest]);
    // Another skill with the same bytes, in another root.
    patchbay.write("workspace/.patchbay/skills/echo.wasm", Guest::default().packaged(SKILL_MD));
    fs::remove_file(patchbay.folder().join(ECHO)).unwrap();
    assert_eq!(patchbay.answers(&["/skill echo {}"])[0].code(), "blocked");
    // The same skill with other bytes.
    let mut other = Guest::default();
    other.tools[0].1 = "Echoes as well".into();
    patchbay.write("workspace/.patchbay/skills/echo.wasm", other.packaged(SKILL_MD));
    assert_eq!(patchbay.line("/skill echo {}"), "{}");
}

#[test]
fn blocked_skill_digest_blocks_the_whole_skill() {
    let (patchbay, component) = echoing();
    patchbay.skill("plan", "summary: Plans", "Plan it.");
    for (skill, line) in [("echo", "/echo {}"), ("plan", "/skill plan")] {
        let digest = patchbay.answers(&[&format!("/help {skill}")])[0].data()["digest"].as_str().unwrap().to_owned();
        assert_ne!(digest, component);
        said(&patchbay, &["plugin", "block", digest.strip_prefix("sha256:").unwrap().get(..12).unwrap()]);
        let blocked = &patchbay.answers(&[line])[0];
        // The command is last, so it can be pasted.
        let words = format!(
            "skill '{skill}' with the digest {digest} is blocked. To unblock it: patchbay plugin unblock {digest}"
        );
        assert_eq!((blocked.code(), blocked.message()), ("blocked", &*format!("Error: {words}")));
        said(&patchbay, &["plugin", "unblock", &digest]);
    }
    assert_eq!(patchbay.line("/echo {}"), "{}");
}

#[test]
fn bundled_components_can_be_blocked() {
    let patchbay = Patchbay::new();
    let digest = patchbay.answers(&["/help calc"])[0].data()["component"].as_str().unwrap().to_owned();
    said(&patchbay, &["plugin", "block", &digest]);
    assert_eq!(patchbay.answers(&["/calc 1"])[0].code(), "blocked");
}

#[test]
fn repeated_block_and_unblock_report_no_change() {
    let (patchbay, digest) = echoing();
    let plugin = |word: &str| said(&patchbay, &["plugin", word, &digest]);
    assert_eq!(said(&patchbay, &["plugin", "blocked"]), "No component is blocked.\n");
    assert_eq!(plugin("unblock"), format!("{digest} was not blocked.\n"));
    let blocked = format!("{digest} is blocked. To unblock it: patchbay plugin unblock {digest}\n");
    assert_eq!(plugin("block"), blocked);
    assert_eq!(plugin("block"), format!("{digest} is blocked already.\n"));
    let list = said(&patchbay, &["plugin", "blocked"]);
    assert!(list.starts_with(&format!("{digest}  since 20")) && list.lines().count() == 1, "{list}");
    assert_eq!(plugin("unblock"), format!("{digest} is no longer blocked.\n"));
    assert_eq!(said(&patchbay, &["plugin", "blocked"]), "No component is blocked.\n");
}

#[test]
fn block_accepts_full_digests_and_known_digest_prefixes() {
    let (patchbay, digest) = echoing();
    let hex = digest.strip_prefix("sha256:").unwrap();
    for name in [hex, &hex[..8], &hex[..63], &format!("sha256:{}", &hex[..8]), &hex[..8].to_uppercase()] {
        assert!(said(&patchbay, &["plugin", "block", name]).starts_with(&format!("{digest} is blocked.")));
        assert_eq!(said(&patchbay, &["plugin", "unblock", name]), format!("{digest} is no longer blocked.\n"));
    }
    let refused = |name: &str| {
        let ran = patchbay.run(&["plugin", "block", name]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{name}");
        assert!(ran.err.ends_with(" [invalid_args]\n"), "{}", ran.err);
        ran.err
    };
    let long = format!("{hex}0");
    for name in [&hex[..7], "", "echo", "sha256:", "md5:00000000", "zzzzzzzz", &long, &format!("sha256:sha256:{hex}")] {
        let words = refused(name);
        assert!(words.starts_with(&format!("Error: '{name}' is not a digest: ")), "{words}");
    }
    let unseen = refused("0000000000");
    assert!(unseen.starts_with("Error: no component seen here begins with '0000000000'"), "{unseen}");
    assert_eq!(said(&patchbay, &["plugin", "blocked"]), "No component is blocked.\n");
    // A second component whose digest has the same prefix.
    let alike = format!("sha256:{}{}", &hex[..8], "0".repeat(56));
    said(&patchbay, &["plugin", "block", &alike]);
    let several = refused(&hex[..8]);
    assert!(several.contains("matches several components: ") && several.contains(&alike), "{several}");
}

#[test]
fn component_blocked_in_advance_is_never_described() {
    let patchbay = Patchbay::new();
    // Describing it would fail with a trap.
    let trap = Guest { before_tools: "unreachable".into(), ..Guest::default() };
    let (trap, echo) = (trap.packaged(SKILL_MD), Guest::default().packaged(SKILL_MD));
    for component in [&trap, &echo] {
        let digest = Digest::of(component).to_string();
        let words = format!(
            "{digest} is blocked. It was not seen here yet, and will not run if it appears. To unblock it: patchbay \
             plugin unblock {digest}\n"
        );
        assert_eq!(said(&patchbay, &["plugin", "block", &digest]), words);
        patchbay.write(ECHO, component);
        let skills = &patchbay.answers(&["/skills"])[0];
        let words = format!(
            "The component is blocked, so its tools are unknown. To unblock it: patchbay plugin unblock {digest}"
        );
        let diagnostic = &skills.data()["diagnostics"][0];
        assert_eq!((&diagnostic["code"], &diagnostic["message"]), (&"blocked".into(), &words.into()));
    }
    let mut live = patchbay.live(&[]);
    assert_eq!(live.answer("/skill echo {}").code(), "skill_not_found");
    said(&patchbay, &["plugin", "unblock", &Digest::of(&echo).to_string()]);
    live.message("/reload_skills");
    assert_eq!(live.message("/echo {}"), "{}");
}

#[test]
fn block_remains_after_the_component_is_removed() {
    let (patchbay, digest) = echoing();
    said(&patchbay, &["plugin", "block", &digest]);
    // The component is unreferenced and collected, but the block remains.
    let file = patchbay.folder().join(ECHO);
    let component = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    let session = patchbay.last_session();
    let kept = patchbay.home().join(format!("data/components/{}.wasm", digest.strip_prefix("sha256:").unwrap()));
    assert!(kept.exists());
    said(&patchbay, &["sessions", "rm", &session]);
    said(&patchbay, &["sessions", "gc"]);
    assert!(!kept.exists());
    assert!(said(&patchbay, &["plugin", "blocked"]).starts_with(&digest));
    patchbay.write(ECHO, &component);
    assert_eq!(patchbay.answers(&["/skill echo {}"])[0].code(), "blocked");
}

/// Blocks also apply to adapters. This one has already answered in the conversation.
#[test]
fn blocked_adapter_fails_the_next_message() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    let providers = live.answer("/providers").data()["providers"].clone();
    let demo = providers.as_array().unwrap().iter().find(|provider| provider["name"] == "demo").unwrap();
    let digest = demo["digest"].as_str().unwrap();
    assert_eq!(live.message("one"), "You said: one");
    said(&patchbay, &["plugin", "block", digest]);
    let command = format!("patchbay plugin unblock {digest}");
    let words = format!("Error: component {digest} of provider 'demo' is blocked. To unblock it: {command}");
    for line in ["two", "/model demo-1", "/model demo-big/low"] {
        let answer = live.answer(line);
        assert_eq!((answer.code(), answer.message()), ("blocked", &*words), "{line}");
    }
    assert!(live.message("/providers").contains("demo - refused"));
    assert_eq!(live.answer("/model gpt-4o").code(), "model_set", "others may be asked");
    said(&patchbay, &["plugin", "unblock", digest]);
    assert_eq!(live.answer("/model demo-1").code(), "model_set");
    // The unanswered message is sent again.
    assert_eq!(live.message("three"), "You said: two\nthree");
}

/// A blocked file is not described.
#[test]
fn blocked_adapter_file_is_never_described() {
    let patchbay = Patchbay::new();
    let component = patchbay_tests::adapter::Adapter::default().component();
    let digest = Digest::of(&component).to_string();
    said(&patchbay, &["plugin", "block", &digest]);
    patchbay.write("home/config/providers/other.wasm", component);
    let providers = patchbay.line("/providers");
    assert!(providers.contains("other - refused (none, other.wasm)"), "{providers}");
    assert!(providers.contains(&format!("patchbay plugin unblock {digest}")), "{providers}");
}
