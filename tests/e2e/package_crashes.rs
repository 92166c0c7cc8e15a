//! `kill -9` in `plugin add` and `plugin update`: either the old version or the new one works, and nothing in between remains.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use patchbay_tests::{binary::Patchbay, guest::Guest};

use crate::plugin_add::{packages, plugin};

/// How often the process is killed. `PACKAGE_CRASHES=200` is the long run.
fn crashes() -> u32 {
    std::env::var("PACKAGE_CRASHES").ok().and_then(|number| number.parse().ok()).unwrap_or(20)
}

fn greeter(version: u32) -> Vec<u8> {
    let skill_md = format!(
        "---\nversion: {version}.0.0\ninvocation_mode: tool_dispatch\ncommand: hi\ncommand_tool: run\ncapabilities: [kv, clock]\n---\n"
    );
    Guest::answering(&version.to_string()).packaged(&skill_md)
}

/// Runs a command and kills it after `delay`.
fn killed(patchbay: &Patchbay, arguments: &[&str], delay: Duration) {
    let mut child = patchbay.command(arguments).spawn().unwrap();
    thread::sleep(delay);
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn killed_commands_leave_one_version_whole() {
    let patchbay = Patchbay::new();
    patchbay.write("workspace/greet.wasm", greeter(1));
    let start = Instant::now();
    assert_eq!(plugin(&patchbay, &["add", "greet.wasm", "--yes"]).code, Some(0));
    let span = start.elapsed();
    assert_eq!(patchbay.run(&["grant", "add", "--package", "greet", "greet", "kv", "clock"]).code, Some(0));
    let (mut version, mut killed_before, mut killed_after) = (1, 0, 0);
    for crash in 0..crashes() {
        // Kills are spread over the whole time that the command takes, and a bit more.
        let delay = span.mul_f64(f64::from(crash % 20) / 16.0);
        if crash % 4 == 3 {
            // The package was removed, and is added again.
            assert_eq!(plugin(&patchbay, &["remove", "greet"]).code, Some(0));
            killed(&patchbay, &["plugin", "add", "greet.wasm", "--yes"], delay);
            let is_there = patchbay.home().join("config/packages.lock").exists()
                && fs::read_to_string(patchbay.home().join("config/packages.lock")).unwrap().contains("greet");
            let answer = patchbay.line("/hi");
            assert_eq!(answer == version.to_string(), is_there, "{crash}: {answer}");
            if !is_there {
                assert_eq!(plugin(&patchbay, &["add", "greet.wasm", "--yes"]).code, Some(0));
            }
            assert_eq!(patchbay.run(&["grant", "add", "--package", "greet", "greet", "kv", "clock"]).code, Some(0));
        } else {
            let new = version + 1;
            patchbay.write("workspace/greet.wasm", greeter(new));
            let update = ["plugin", "update", "--yes", "--to", &format!("{new}.0.0")];
            killed(&patchbay, &update, delay);
            let answer: u32 = patchbay.line("/hi").parse().unwrap();
            assert!(answer == version || answer == new, "{crash}: {answer}");
            *(if answer == new { &mut killed_after } else { &mut killed_before }) += 1;
            // The next command completes or discards the interrupted work, including grants and leftover copies.
            assert_eq!(plugin(&patchbay, &["update", "--check"]).code, Some(0));
            version = answer;
            patchbay.write("workspace/greet.wasm", greeter(version));
        }
        let verified = plugin(&patchbay, &["verify"]);
        assert_eq!(verified.code, Some(0), "{crash}: {verified:?}");
        let listed = plugin(&patchbay, &["list"]).out;
        assert!(listed.contains("  asks for: kv (granted), clock (granted)\n"), "{crash}: {listed}");
        assert_eq!(packages(&patchbay), ["greet"]);
        let versions = fs::read_dir(patchbay.home().join("data/packages/greet")).unwrap().count();
        assert_eq!(versions, 1, "{crash}");
    }
    eprintln!("killed before the update counted: {killed_before}, after: {killed_after}");
}
