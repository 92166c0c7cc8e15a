//! The SKILL.md keys that come from agentskills.io and Claude Code, and the folders in which such skills are found.

use std::fs;

use patchbay_tests::{binary::Patchbay, guest::Guest};

#[test]
fn help_shows_keys_of_other_hosts() {
    let patchbay = Patchbay::new();
    let keys = "description: Packs\nwhen_to_use: When files are many.\nlicense: MIT\ncompatibility: Needs tar\n\
                allowed-tools: Bash(tar c:*), Read\nhooks: {PreToolUse: []}\nmodel: opus";
    patchbay.skill("packer", keys, "Pack $ARGUMENTS.");
    let help = patchbay.line("/help packer");
    assert!(help.contains("- `summary`: Packs When files are many.\n"), "{help}");
    let expected = "- `license`: MIT\n- `compatibility`: Needs tar\n- `allowed_tools`: Bash(tar c:*), Read\n- `not used \
                    here`: hooks, model";
    assert!(help.ends_with(expected), "{help}");
    assert!(help.contains("- `capabilities`: (none)\n"), "allowed-tools grants nothing: {help}");
}

#[test]
fn skill_for_people_is_hidden_from_models() {
    let patchbay = Patchbay::quick();
    let keys = "disable-model-invocation: true\ncommand: deploy\nsummary: Deploys it";
    patchbay.skill("deploy", keys, "say Deployed to $0.");
    patchbay.write("home/config/skills/deploy/deploy.wasm", Guest::default().component());
    patchbay.skill("other", "summary: Another", "");
    let answers = patchbay.answers(&[
        "/deploy production",
        "call use_skill {\"name\": \"deploy\", \"input\": \"x\"}",
        "call skill_file {\"skill\": \"deploy\", \"path\": \".\"}",
        "call deploy__run {}",
        "show context",
        "/help deploy",
    ]);
    assert_eq!(answers[0].message(), "Deployed to production.");
    // If no skill has files that models may read, the tool `skill_file` is not offered.
    for (answer, code) in [(1, "skill_not_for_models"), (2, "tool_not_found"), (3, "skill_not_for_models")] {
        assert!(answers[answer].message().contains(code), "{}", answers[answer].message());
    }
    let tools = answers[4].message().lines().find(|line| line.starts_with("tools: ")).unwrap();
    assert!(tools.contains("use_skill") && !tools.contains("deploy"), "{tools}");
    assert!(answers[5].message().ends_with("- `disable_model_invocation`: true"), "{}", answers[5].message());
}

/// Even a program that a model wrote can neither call nor find the tools of a skill that only users may invoke. A user's program
/// can.
#[test]
fn skill_for_people_is_hidden_from_programs_of_models() {
    let patchbay = Patchbay::quick();
    patchbay.skill("deploy", "disable-model-invocation: true\nsummary: Deploys it", "");
    patchbay.write("home/config/skills/deploy/deploy.wasm", Guest::default().component());
    let call = "await tools.deploy.run({to: 'production'})";
    let caught = format!("try {{ {call} }} catch (error) {{ error.kind + ': ' + error.message }}");
    let find = "'found: ' + (await tools.find()).includes('tools.deploy: run')";
    let program = |program: &str| format!("call code__run {}", serde_json::json!({ "code": program }));
    let answers = patchbay.answers(&[
        &program(call),
        &program(&caught),
        &program(find),
        &format!("/code {call}"),
        &format!("/code {find}"),
    ]);
    let refused = "skill 'deploy' can only be invoked by a user.";
    assert!(answers[0].message().contains(&format!("ToolError: {refused}")), "{}", answers[0].message());
    assert!(answers[1].message().contains(&format!("denied: {refused}")), "{}", answers[1].message());
    assert!(answers[2].message().contains("found: false"), "{}", answers[2].message());
    assert!(answers[3].message().contains("production"), "{}", answers[3].message());
    assert_eq!(answers[4].message(), "found: true");
}

#[test]
fn skill_for_models_is_not_in_menus() {
    const USE: &str = "call use_skill {\"name\": \"quiet\", \"input\": \"x\"}";
    let patchbay = Patchbay::quick();
    patchbay.skill("quiet", "user-invocable: false\ncommand: quiet\nsummary: Works quietly", "say Quiet.");
    let answers = patchbay.answers(&["/commands", "/quiet now", "/skill quiet now", USE]);
    assert!(!answers[0].message().contains("/quiet"), "{}", answers[0].message());
    assert_eq!(answers[1].code(), "unknown_command");
    assert_eq!(answers[2].code(), "answered");
    assert!(answers[3].message().contains("say Quiet."), "{}", answers[3].message());
}

/// A key of a SKILL.md never grants or runs anything, whichever root the skill is in.
#[test]
fn nothing_in_a_skill_md_grants_or_runs() {
    let patchbay = Patchbay::quick();
    let touched = patchbay.folder().join("touched");
    let skill_md = format!(
        "---\nallowed-tools: files__write\ncommand: NAME\nhooks: {{Stop: touch {touched}}}\nshell: bash\n---\n\
         say $INPUT !`touch {touched}`\n```!\ntouch {touched}\n```\n",
        touched = touched.display()
    );
    let extra = patchbay.folder().join("extra");
    patchbay.write("home/config/config.toml", format!("skill_roots = [\"{}\"]\n", extra.display()));
    for (folder, name) in [
        ("home/config/skills", "mine"),
        ("extra", "theirs"),
        ("workspace/.patchbay/skills", "ours"),
        ("workspace/.agents/skills", "agency"),
        ("workspace/.claude/skills", "claude"),
    ] {
        patchbay.write(&format!("{folder}/{name}/SKILL.md"), skill_md.replace("NAME", name));
    }
    let write = "call files__write {\"path\": \"x.txt\", \"text\": \"x\"}";
    let lines =
        ["/mine now", write, "/theirs now", write, "/ours now", write, "/agency now", write, "/claude now", write];
    let answers = patchbay.answers(&lines);
    assert_eq!(answers.len(), lines.len());
    for (name, answers) in lines.chunks(2).map(|lines| lines[0]).zip(answers.chunks(2)) {
        assert!(answers[0].message().contains("!`touch "), "{name}: {}", answers[0].message());
        assert!(!answers[1].message().contains("tool_success\":true"), "{name}: {}", answers[1].message());
    }
    assert!(!touched.exists());
    assert!(!patchbay.workspace().join("x.txt").exists());
}

/// Returns the source that `/help` shows.
fn source(help: &str) -> &str {
    help.lines().find_map(|line| line.strip_prefix("- `source`: ")).unwrap_or(help)
}

#[test]
fn extra_roots_rank_below_bundled_in_their_order() {
    let patchbay = Patchbay::new();
    let write = |root: &str, name: &str, summary: &str| {
        patchbay.write(&format!("{root}/{name}/SKILL.md"), format!("---\nsummary: {summary}\n---\n"));
    };
    write("one", "a", "one");
    write("two", "a", "two");
    write("one", "calc", "not the calculator");
    write("one", "b", "one");
    write("home/config/skills", "b", "mine");
    assert_eq!(patchbay.answers(&["/help a"])[0].code(), "skill_not_found", "none unless set");
    let roots = ["one", "two", "missing"].map(|root| format!("\"{}\"", patchbay.folder().join(root).display()));
    patchbay.write("home/config/config.toml", format!("skill_roots = [{}]\n", roots.join(", ")));
    let answers = patchbay.answers(&["/skills", "/help a", "/help calc"]);
    let listed = answers[0].message();
    assert!(listed.contains("a - two") && listed.contains("b - mine"), "{listed}");
    assert_eq!((source(answers[1].message()), source(answers[2].message())), ("extra", "bundled"));
    for line in [
        "- a [name_shadowed] The extra skill 'a' already has this name.",
        "- b [name_shadowed] The user skill 'b' already has this name.",
        "- calc [name_shadowed] The bundled skill 'calc' already has this name.",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
}

#[test]
fn linked_folder_counts_once_as_its_lowest_root() {
    let patchbay = Patchbay::new();
    patchbay.write("agents/a/SKILL.md", "---\nsummary: Linked\n---\n");
    fs::create_dir_all(patchbay.folder().join("claude")).unwrap();
    std::os::unix::fs::symlink("../agents/a", patchbay.folder().join("claude/a")).unwrap();
    let roots = ["agents", "claude"].map(|root| format!("\"{}\"", patchbay.folder().join(root).display()));
    patchbay.write("home/config/config.toml", format!("skill_roots = [{}]\n", roots.join(", ")));
    let listed = patchbay.line("/skills");
    assert!(listed.contains("a - Linked") && !listed.contains("Diagnostics:"), "{listed}");
}

#[test]
fn workspace_roots_are_untrusted_alike() {
    let patchbay = Patchbay::new();
    let write = |root: &str, name: &str| {
        patchbay.write(&format!("workspace/{root}/{name}/SKILL.md"), format!("---\nsummary: {root}\n---\n"));
    };
    for root in [".claude/skills", ".agents/skills", ".patchbay/skills"] {
        write(root, "all");
        write(root, "calc");
    }
    write(".claude/skills", "two");
    write(".agents/skills", "two");
    let answers = patchbay.answers(&["/skills", "/help two"]);
    let listed = answers[0].message();
    assert!(listed.contains("all - .patchbay/skills") && listed.contains("two - .agents/skills"), "{listed}");
    assert!(listed.contains("- calc [untrusted_shadow]"), "{listed}");
    assert_eq!(source(answers[1].message()), "workspace-agents");
    let workspace = patchbay.workspace();
    patchbay.run(&["trust", "add", workspace.to_str().unwrap()]);
    assert_eq!(source(&patchbay.line("/help calc")), "workspace");
}

#[test]
fn grants_of_an_extra_root_belong_to_its_path() {
    let patchbay = Patchbay::new();
    let skill = "---\ncapabilities: [kv]\n---\n";
    for root in ["one", "two"] {
        patchbay.write(&format!("{root}/keeper/SKILL.md"), skill);
        patchbay.write(&format!("{root}/keeper/k.wasm"), Guest::default().component());
    }
    let at = |root: &str| patchbay.folder().join(root).canonicalize().unwrap().display().to_string();
    let set = |root: &str| patchbay.write("home/config/config.toml", format!("skill_roots = [\"{}\"]\n", at(root)));
    set("one");
    let granted = patchbay.run(&["grant", "add", "--root", "extra", "--workspace", &at("one"), "keeper", "kv"]);
    assert_eq!(granted.code, Some(0), "{}", granted.err);
    assert!(patchbay.line("/help keeper").contains("kv (granted)"));
    set("two");
    assert!(patchbay.line("/help keeper").contains("kv (not granted)"));
}

#[test]
fn relative_skill_root_is_refused() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/config.toml", "skill_roots = [\"skills\"]\n");
    let refused = patchbay.line("/skills");
    assert!(refused.contains("skill_roots: 'skills' is not an absolute path; begin it with '/' or '~/'"), "{refused}");
}
