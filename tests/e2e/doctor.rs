//! `patchbay doctor`: facts, problems with the commands that fix them, exit codes; no secret is shown.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use patchbay_tests::{
    binary::{Patchbay, Ran},
    guest::Guest,
    home::assert_in_no_file,
};
use serde_json::{Value, json};

const KEYS: [&str; 6] =
    ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY", "MODEL_API_KEY"];
const SENTINEL: &str = "sk-doctor-sentinel-0123456789";

/// Creates a Patchbay whose environment does not depend on the machine.
fn patchbay() -> Patchbay {
    let mut patchbay = Patchbay::blank();
    for variable in KEYS.into_iter().chain(["NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE", "VISUAL"]) {
        patchbay.set(variable, "");
    }
    for (variable, value) in [("PATH", "/nonexistent"), ("TERM", "xterm"), ("LANG", "C.UTF-8"), ("EDITOR", "ed")] {
        patchbay.set(variable, value);
    }
    patchbay
}

fn doctor(patchbay: &Patchbay) -> Ran {
    patchbay.run(&["doctor"])
}

/// Asserts that there is one problem, and returns its text and its command.
fn one_problem(patchbay: &Patchbay) -> (String, String) {
    let ran = patchbay.run(&["doctor", "--json"]);
    assert_eq!((ran.code, &*ran.err), (Some(1), ""), "{}", ran.out);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let word = |key: &str| problems[0][key].as_str().unwrap().to_owned();
    (word("what"), word("command"))
}

/// Runs a command of the report in a shell, with the usual PATH.
fn mend(patchbay: &Patchbay, command: &str) {
    let status = Command::new("sh").args(["-c", command]).current_dir(patchbay.workspace()).status().unwrap();
    assert!(status.success(), "{command}");
}

fn assert_well(patchbay: &Patchbay) {
    let ran = doctor(patchbay);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{}", ran.out);
    assert!(ran.out.contains("\n\nAll is well.\n"), "{}", ran.out);
}

#[test]
fn first_report_names_what_is_there() {
    let patchbay = patchbay();
    let ran = doctor(&patchbay);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{}", ran.out);
    let home = patchbay.home().display().to_string();
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    let version = patchbay.run(&["--version"]).out;
    let version = version.trim().strip_prefix("patchbay ").unwrap();
    for part in [
        format!("Installation\n  version: {version}\n  system: {} ", std::env::consts::OS),
        "\n  found on the PATH: no\n\nFolders\n".to_owned(),
        format!(
            "Folders\n  configuration: {home}/config\n  data: {home}/data\n  cache: {home}/cache\n  state: {home}/state\n  \
             log: {home}/state/patchbay.log\n\nSettings\n  config.toml: {home}/config/config.toml, not found; using defaults\n  \
             credentials.json: {home}/config/credentials.json, not there\n\nDatabases\n  patchbay.db: {home}/data/patchbay.db, version "
        ),
        " KiB, intact\n  sessions: 0, 0 of them open\n\nSkills\n".to_owned(),
        format!(
            "Skills\n  workspace: {workspace}, not trusted\n  bundled: calc, code, files, grep, json, notes, plan_compiler, web\n  \
             yours: none\n  of the workspace: none\n  diagnostics: none\n\nProviders\n  anthropic: needs key (anthropic "
        ),
        "\n  demo: ready (demo ".to_owned(),
        "\n\nModels\n  default model: demo:demo-1\n\nKeys\n  anthropic: missing; ANTHROPIC_API_KEY is not set\n"
            .to_owned(),
        "\n\nTerminal\n  standard input: not a terminal\n  standard output: not a terminal\n  standard error: not a \
         terminal\n  TERM: xterm\n  colours: 16\n  locale: C.UTF-8\n  editor: ed\n\nCage for programs\n  fenced: "
            .to_owned(),
        "\n\nAll is well.\n\nAdvice:\n1. No default model".to_owned(),
    ] {
        assert!(ran.out.contains(&part), "{part}\n---\n{}", ran.out);
    }
    assert_eq!(doctor(&patchbay).out, doctor(&patchbay).out, "two runs differ");
}

#[test]
fn missing_certificates_are_named() {
    let mut patchbay = patchbay();
    // A file without certificates, and a folder: of what does not exist, the system's own is used.
    patchbay.set("SSL_CERT_FILE", "/dev/null");
    patchbay.set("SSL_CERT_DIR", "/nonexistent");
    let ran = doctor(&patchbay);
    // Models on this machine need none.
    assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{}", ran.out);
    assert!(ran.out.contains("\n  certificates: none\n"), "{}", ran.out);
    let what = "Install the package ca-certificates, or set SSL_CERT_FILE to a PEM file of certificates.\n   apt-get install ca-certificates\n";
    assert!(ran.out.contains(what), "{}", ran.out);
    patchbay.set("OPENAI_API_KEY", SENTINEL);
    let failed = patchbay.run(&["exec", "--model", "gpt-5.5", "Good day"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.contains("Install the package ca-certificates"), "{}", failed.err);
}

#[test]
fn missing_folder_of_skills_is_named() {
    let patchbay = patchbay();
    let [there, missing] = ["there", "missing"].map(|name| patchbay.home().join(name).display().to_string());
    patchbay.write("home/there/alpha/SKILL.md", "---\nname: alpha\ndescription: First\n---\nDo it.\n");
    patchbay.write("home/config/config.toml", format!("skill_roots = [\"{there}\", \"{missing}\"]\n"));
    let ran = doctor(&patchbay);
    for part in [
        format!("\n  of skill_roots: alpha\n  folders of skill_roots: {there}, {missing}\n"),
        format!("The folder {missing} of skill_roots in config.toml does not exist.\n   mkdir -p {missing}\n"),
    ] {
        assert!(ran.out.contains(&part), "{part}\n---\n{}", ran.out);
    }
}

#[test]
fn report_is_one_json_object() {
    let patchbay = patchbay();
    patchbay.skill("alpha", "summary: First", "Do it.");
    let ran = patchbay.run(&["doctor", "--json"]);
    assert_eq!((ran.code, ran.out.lines().count()), (Some(0), 1));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["ok"], &report["problems"]), (&json!(true), &json!([])));
    let sections = &report["sections"];
    assert_eq!(sections["installation"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(sections["skills"]["yours"], json!(["alpha"]));
    assert_eq!(sections["keys"]["openai"], json!({"variable": "OPENAI_API_KEY", "present": false}));
    assert_eq!(sections["providers"]["demo"]["state"], "ready");
    assert_eq!(sections["databases"]["patchbay.db"]["damage"], json!([]));
    assert_eq!(sections["terminal"]["standard_output"], json!({"terminal": false}));
}

#[test]
fn keys_are_located_and_never_shown() {
    let mut patchbay = patchbay();
    patchbay.set("OPENAI_API_KEY", SENTINEL);
    patchbay.write(
        "home/config/config.toml",
        "default_model = \"gpt-4o\"\n[credentials.github]\norigin = \"https://api.github.com\"\n",
    );
    let credentials = patchbay.home().join("config/credentials.json");
    patchbay.write(
        "home/config/credentials.json",
        json!({"github": {"api_key": format!("{SENTINEL}-x")}, "xai": {"api_key": format!("{SENTINEL}-y")}})
            .to_string(),
    );
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600)).unwrap();
    assert_well(&patchbay);
    let ran = doctor(&patchbay);
    for line in [
        "\n  openai: present in the environment variable OPENAI_API_KEY\n",
        "\n  xai: present in credentials.json\n",
        "\n  credential github: present in credentials.json\n",
    ] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    let json = patchbay.run(&["doctor", "--json"]).out;
    // An unusable key and a broken file are not shown, either.
    patchbay.set("ANTHROPIC_API_KEY", &format!("{SENTINEL} \u{e9}"));
    patchbay.write("home/config/credentials.json", format!("{{\"github\": \"{SENTINEL}\" {SENTINEL}"));
    let broken = doctor(&patchbay);
    assert_eq!(broken.code, Some(1), "{}", broken.out);
    assert!(broken.out.contains("credentials.json, line 1, column "), "{}", broken.out);
    for text in [&ran.out, &ran.err, &json, &broken.out, &broken.err] {
        assert!(!text.contains("sentinel"), "{text}");
    }
    assert_in_no_file(&patchbay.home().join("state"), &[SENTINEL]);
    assert_in_no_file(&patchbay.home().join("data"), &[SENTINEL]);
}

#[test]
fn missing_key_of_the_default_model_is_a_problem() {
    let patchbay = patchbay();
    patchbay.write("home/config/config.toml", "default_model = \"gpt-4o\"\n");
    let (what, command) = one_problem(&patchbay);
    assert_eq!(what, "The default model openai:gpt-4o cannot answer: provider 'openai' has no key.");
    assert_eq!(command, "export OPENAI_API_KEY=KEY");
    let text = doctor(&patchbay);
    let shown = format!("\n\n1 problem:\n1. {what}\n   {command}\n");
    assert!(text.code == Some(1) && text.out.contains(&shown), "{}", text.out);
}

#[test]
fn readable_credentials_are_a_problem() {
    let patchbay = patchbay();
    patchbay.write("home/config/credentials.json", "{}");
    fs::set_permissions(patchbay.home().join("config/credentials.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("Other users may read "), "{what}");
    mend(&patchbay, &command);
    assert_well(&patchbay);
}

#[test]
fn invalid_configuration_is_a_problem() {
    let patchbay = patchbay();
    patchbay.write("home/config/config.toml", "[limits]\nfule = 5\n");
    let (what, command) = one_problem(&patchbay);
    let file = patchbay.home().join("config/config.toml").display().to_string();
    assert!(what.starts_with(&format!("{file}: line 2, column 1: ")) && what.ends_with(" [config_invalid]"), "{what}");
    assert_eq!(command, format!("${{EDITOR:-vi}} {file}"));
    assert!(doctor(&patchbay).out.contains("\nPlugins\n  state: not checked; "));
    // A command that edits like a person.
    mend(&patchbay, &command.replace("${EDITOR:-vi}", "sed -i s/fule/fuel/"));
    patchbay.write("home/config/config.toml", "[limits]\nfuel = 5000000\n");
    assert_well(&patchbay);
}

#[test]
fn unusable_databases_are_problems() {
    let patchbay = patchbay();
    assert_eq!(doctor(&patchbay).code, Some(0));
    patchbay.database("patchbay.db").execute_batch("PRAGMA user_version = 9999").unwrap();
    let (what, command) = one_problem(&patchbay);
    assert!(what.contains("was written by a newer Patchbay (schema 9999"), "{what}");
    assert!(command.starts_with("export PATCHBAY_HOME="), "{command}");
    patchbay.write("home/data/patchbay.db", "this is no database, and long enough to be looked at");
    let (what, command) = one_problem(&patchbay);
    assert!(what.contains("not a database"), "{what}");
    mend(&patchbay, &command);
    assert_well(&patchbay);
    assert!(patchbay.home().join("data/patchbay.db.damaged").is_file(), "the old file is kept");
}

#[test]
fn unusable_folders_are_problems() {
    let patchbay = patchbay();
    patchbay.write("home/data", "a slip of cp");
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("cannot use ") && what.ends_with("[folder_unusable]"), "{what}");
    mend(&patchbay, &command);
    fs::remove_dir_all(patchbay.home().join("config")).unwrap();
    patchbay.write("home/config/skills", "another");
    let (what, command) = one_problem(&patchbay);
    assert!(what.contains("Your skills folder cannot be read"), "{what}");
    mend(&patchbay, &command);
    assert_well(&patchbay);
}

#[test]
fn skills_that_do_not_load_are_problems() {
    let patchbay = patchbay();
    patchbay.skill("for_plan9", "eligibility: {os: [plan9]}", "Elsewhere.");
    patchbay.skill("needy", "eligibility: {env: [PATCHBAY_TEST_MISSING]}", "Needs.");
    patchbay.skill("broken", "summary: [", "Text.");
    let file = patchbay.home().join("config/skills/broken/SKILL.md");
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("Skill 'broken': "), "{what}");
    assert_eq!(command, format!("${{EDITOR:-vi}} {}", file.display()));
    patchbay.skill("broken", "summary: Whole", "Text.");
    patchbay.write("home/config/skills/torn.wasm", "no component");
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("Skill 'torn': "), "{what}");
    assert_eq!(
        command,
        format!("patchbay plugin inspect {}", patchbay.home().join("config/skills/torn.wasm").display())
    );
    fs::remove_file(patchbay.home().join("config/skills/torn.wasm")).unwrap();
    assert_well(&patchbay);
    // A skill of the workspace that is a link out of it is named without its target.
    fs::create_dir_all(patchbay.workspace().join(".patchbay/skills/sly")).unwrap();
    symlink("/etc/passwd", patchbay.workspace().join(".patchbay/skills/sly/SKILL.md")).unwrap();
    let (what, _) = one_problem(&patchbay);
    assert!(what.starts_with("Skill 'sly': ") && !what.contains("root:"), "{what}");
}

#[test]
fn stale_grant_is_a_problem() {
    let patchbay = patchbay();
    let guest = Guest::default();
    patchbay.add_command("keeper", &guest, "capabilities: [{name: kv}]\n");
    patchbay.grant("keeper", &["kv"]);
    assert_well(&patchbay);
    patchbay.add_command("keeper", &guest, "capabilities: [{name: kv}]\nsummary: Changed\n");
    let (what, command) = one_problem(&patchbay);
    assert_eq!(what, "A grant of skill 'keeper' is stale: changed: keeper.wasm");
    assert_eq!(command, "patchbay grant add keeper kv");
    patchbay.grant("keeper", &["kv"]);
    assert_well(&patchbay);
}

#[test]
fn providers_that_do_not_load_are_problems() {
    let patchbay = patchbay();
    patchbay.write("home/config/providers/torn.wasm", "no component");
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("Provider 'torn': "), "{what}");
    let file = patchbay.home().join("config/providers/torn.wasm");
    assert_eq!(command, format!("patchbay provider check {}", file.display()));
    fs::remove_file(file).unwrap();
    assert_well(&patchbay);
    patchbay.write("home/config/config.toml", "[providers.mine]\nadapter = \"nope\"\n");
    let (what, command) = one_problem(&patchbay);
    assert!(what.starts_with("Provider 'mine': "), "{what}");
    assert!(command.ends_with("config.toml"), "{command}");
}
