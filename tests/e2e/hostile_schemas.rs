//! An untrusted workspace with skills whose schemas would exhaust a validator that has no limits.

use std::{
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use patchbay_tests::{binary::Patchbay, guest::Guest, schemas::hostile};

/// The time limit of a command: far above the usual second, and far below the time that a hostile schema could take.
const SLACK: Duration = Duration::from_secs(60);
/// The memory limit in MiB. Most of it is for the binary itself, which is large in debug builds.
const MEMORY: u64 = 200;

/// Writes a skill of the workspace with the command `/NAME`, which calls its tool.
fn add_workspace_skill(patchbay: &Patchbay, name: &str, schema: &str) {
    let mut guest = Guest { pages: 4, ..Guest::default() };
    guest.tools[0].2 = schema.to_owned();
    let skill_md = format!("---\ninvocation_mode: tool_dispatch\ncommand: {name}\ncommand_tool: run\n---\n");
    patchbay.write(&format!("workspace/.patchbay/skills/{name}.wasm"), guest.packaged(&skill_md));
}

/// Runs lines and asserts that they end in time and within the memory limit. Returns standard output and standard error together.
fn exec(patchbay: &Patchbay, lines: &[&str]) -> String {
    let mut arguments = vec!["exec", "--keep-going"];
    arguments.extend(lines);
    let mut child = patchbay
        .command(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(memory_peak(child.id()).unwrap_or_default());
        if start.elapsed() > SLACK {
            child.kill().unwrap();
            panic!("{lines:?} did not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(peak < MEMORY, "{lines:?} took {peak} MiB");
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Returns the peak memory of a process in MiB, if `/proc` exists.
fn memory_peak(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

#[test]
fn hostile_workspace_schemas_disable_only_their_own_skills() {
    let patchbay = Patchbay::quick();
    let hostile = hostile();
    for (name, schema, _) in &hostile {
        add_workspace_skill(&patchbay, name, &schema.to_string());
    }
    add_workspace_skill(&patchbay, "good", r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);

    let listed = exec(&patchbay, &["/skills"]);
    for (name, _, refusal) in &hostile {
        match refusal {
            Some(words) => {
                let diagnostic = format!("- {name} [invalid_component] The schema of tool 'run' {words}");
                assert!(listed.contains(&diagnostic), "{diagnostic}\n{listed}");
            }
            None => assert!(listed.lines().any(|line| line == *name), "{name}\n{listed}"),
        }
    }
    let reloaded = exec(&patchbay, &["/reload_skills", "/good {\"n\":1}", "/calc 6*7"]);
    assert!(reloaded.contains("{\"n\":1}\n42"), "{reloaded}");

    // A command and a model's tool call for each skill, including rejected ones.
    let commands: Vec<_> = hostile.iter().map(|(name, ..)| format!("/{name}")).collect();
    let answers = exec(&patchbay, &commands.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(answers.contains("unknown command '/any_of_unevaluated'"), "{answers}");
    let deep = format!("{}{{}}{}", "{\"x\":".repeat(100), "}".repeat(100));
    let long = format!("{{\"x\":\"{}!\"}}", "a".repeat(20_000));
    for line in [
        "call chain_unevaluated__run {}".to_owned(),
        format!("call tree__run {deep}"),
        format!("/tree {deep}"),
        format!("/backtracking {long}"),
        "call good__run {\"n\":2}".to_owned(),
    ] {
        exec(&patchbay, &[&line]);
    }
    let tree = exec(&patchbay, &[&format!("/tree {deep}")]);
    assert!(tree.contains("nested too deep"), "{tree}");
}
