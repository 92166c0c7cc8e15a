//! Compiled components on disk, which are reused, and checked before each use.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use patchbay_tests::{binary::Patchbay, guest::Guest};
use serde_json::json;

/// Returns the paths of all artefacts, sorted.
fn artefacts(patchbay: &Patchbay) -> Vec<PathBuf> {
    let folder = patchbay.home().join("cache/aot");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

const DAMAGED: &str = "the compiled component on disk is damaged; compiling it again";

/// Creates a home with three compiled bundled components.
fn used() -> Patchbay {
    let patchbay = Patchbay::blank();
    let ran = patchbay.exec(&["/calc 1 + 1", "/json a {\"a\": 1}", "/note list"]);
    assert_eq!((&*ran.out, &*ran.err), ("2\n1\nNo notes.\n", ""));
    assert_eq!(artefacts(&patchbay).len(), 3);
    patchbay
}

#[test]
fn bundled_component_is_compiled_on_first_call() {
    let patchbay = Patchbay::blank();
    assert!(patchbay.line("/skills").contains("calc"));
    assert_eq!(artefacts(&patchbay).len(), 0);
    assert_eq!(patchbay.line("/calc 1 + 1"), "2");
    assert_eq!(artefacts(&patchbay).len(), 1);
}

/// The embedded description of a bundled component equals the component's own.
#[test]
fn embedded_metadata_matches_the_components() {
    let patchbay = Patchbay::blank();
    let dist = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist");
    let mut looked_at = 0;
    let folders = [&dist, &dist.join("providers")].map(|folder| fs::read_dir(folder).unwrap());
    for entry in folders.into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let ran = patchbay.run(&["plugin", "inspect", "--json", path.to_str().unwrap()]);
            let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            let known: serde_json::Value =
                serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
            let asked = if report["provider"].is_null() { "tools" } else { "manifest" };
            let answer = if report["provider"].is_null() { &report["tools"] } else { &report["provider"] };
            assert_eq!(
                known,
                json!({ "digest": report["component"], asked: answer }),
                "{}: the description is outdated; to build it again: rm -r plugins/dist && make plugins",
                path.display()
            );
            looked_at += 1;
        }
    }
    assert!(looked_at >= 10, "make plugins was not run");
}

#[test]
fn component_is_compiled_once() {
    let patchbay = used();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for file in artefacts(&patchbay) {
        fs::File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(patchbay.exec(&["/calc 2 + 2", "/json a {\"a\": 1}", "/note add x"]).out, "4\n1\nNote 1 added.\n");
    for file in artefacts(&patchbay) {
        assert_eq!(file.metadata().unwrap().modified().unwrap(), long_ago, "{} was written again", file.display());
    }
}

#[test]
fn damaged_artefact_is_recompiled_and_logged() {
    let patchbay = used();
    let originals: Vec<_> = artefacts(&patchbay).iter().map(|file| fs::read(file).unwrap()).collect();
    for (file, original) in artefacts(&patchbay).iter().zip(&originals) {
        fs::write(file, &original[..original.len() / 2]).unwrap();
    }
    let ran = patchbay.exec(&["/calc 2 + 2", "/json a {\"a\": 1}", "/note list"]);
    assert_eq!((&*ran.out, &*ran.err), ("4\n1\nNo notes.\n", ""));
    assert_eq!(patchbay.log().matches(DAMAGED).count(), 3, "{}", patchbay.log());
    let again: Vec<_> = artefacts(&patchbay).iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(again == originals, "compiling is not deterministic");
}

/// Swaps two files. The engine wrote both, so it would run them if their digests were not checked.
#[test]
fn forged_artefact_is_not_run() {
    let patchbay = used();
    let files = artefacts(&patchbay);
    let contents: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for (n, file) in files.iter().enumerate() {
        fs::write(file, &contents[(n + 1) % contents.len()]).unwrap();
    }
    let ran = patchbay.exec(&["/calc 2 + 2", "/json a {\"a\": 1}", "/note list"]);
    assert_eq!((&*ran.out, &*ran.err), ("4\n1\nNo notes.\n", ""));
    assert_eq!(patchbay.log().matches(DAMAGED).count(), 3);
}

/// A file that exists before the first compilation has no digest in the database.
#[test]
fn planted_artefact_is_not_run() {
    let (patchbay, other) = (Patchbay::blank(), used());
    for (n, file) in artefacts(&other).iter().enumerate() {
        let wrong = &artefacts(&other)[(n + 1) % 3];
        let name = file.file_name().unwrap().to_str().unwrap();
        patchbay.write(&format!("home/cache/aot/{name}"), fs::read(wrong).unwrap());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        for folder in ["cache", "cache/aot"] {
            fs::set_permissions(patchbay.home().join(folder), fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
    assert_eq!(patchbay.line("/calc 2 + 2"), "4");
    assert_eq!(patchbay.line("/json a {\"a\": 1}"), "1");
}

#[cfg(unix)]
#[test]
fn artefact_folder_with_open_mode_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let patchbay = used();
    fs::set_permissions(patchbay.home().join("cache/aot"), fs::Permissions::from_mode(0o755)).unwrap();
    for file in artefacts(&patchbay) {
        fs::write(file, "untouched").unwrap();
    }
    assert_eq!(patchbay.line("/calc 2 + 2"), "4");
    assert!(patchbay.log().contains("compiled components are not cached"), "{}", patchbay.log());
    for file in artefacts(&patchbay) {
        assert_eq!(fs::read(file).unwrap(), b"untouched");
    }
}

#[test]
fn compiler_over_limits_is_killed_and_leaves_no_artefact() {
    for limit in ["compile_ms = 1", "compile_bytes = 50000000"] {
        let patchbay = Patchbay::blank();
        patchbay.write("home/config/config.toml", format!("[limits]\n{limit}\n"));
        patchbay.write("home/config/skills/echo.wasm", Guest::default().packaged("---\n---\n"));
        let listed = patchbay.line("/skills");
        let (skills, diagnostics) = listed.split_once("\n\nDiagnostics:\n").unwrap();
        assert!(skills.contains("calc") && !skills.contains("echo"), "{limit}: {skills}");
        let words = "[limit_compile] compiling the component took more than";
        assert_eq!(diagnostics.matches(words).count(), 1, "{limit}: {diagnostics}");
        let called = &patchbay.answers(&["/calc 2 + 2"])[0];
        assert_eq!(called.code(), "limit_compile", "{limit}: {}", called.message());
        fs::remove_file(patchbay.home().join("config/config.toml")).unwrap();
        assert_eq!(patchbay.line("/calc 2 + 2"), "4", "the failure was kept");
        assert!(patchbay.line("/skills").contains("\necho"), "the failure was kept");
    }
}

#[test]
fn gc_removes_unreferenced_artefacts() {
    let patchbay = used();
    patchbay.run(&["sessions", "gc"]);
    assert_eq!(artefacts(&patchbay).len(), 3);
    assert_eq!(patchbay.run(&["sessions", "rm", &patchbay.last_session()]).code, Some(0));
    patchbay.run(&["sessions", "gc"]);
    assert_eq!(artefacts(&patchbay).len(), 0);
    assert_eq!(patchbay.line("/calc 2 + 2"), "4");
}

/// If memory runs out, the system kills the compiler, not the host.
#[cfg(target_os = "linux")]
#[test]
fn out_of_memory_kills_the_compiler_first() {
    let patchbay = Patchbay::blank();
    let mut command = patchbay.command(&["compile", "1073741824", "60"]);
    command.env_clear().envs(patchbay_sandbox::COMPILER_ENVIRONMENT);
    let mut compiler = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let score = || fs::read_to_string(format!("/proc/{}/oom_score_adj", compiler.id())).unwrap();
    let start = std::time::Instant::now();
    while score().trim() != "1000" {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", score());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(compiler.stdin.take());
    assert_eq!(compiler.wait().unwrap().code(), Some(1), "empty input is not a component");
}
