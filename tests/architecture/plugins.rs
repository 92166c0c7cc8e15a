//! Checks that builds of the bundled components are reproducible: the bytes do not depend on the folder of the sources.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::repository;

/// The compiler of a bundled plugin runs on the build machine, so only reviewed packages may be installed. `python3` is replaced
/// with a program that records its arguments and prints the same report as pip.
#[test]
#[cfg(unix)]
fn zig_is_installed_by_its_hashes_only() {
    let requirements = fs::read_to_string(repository("plugins/wasm-cc-requirements.txt")).unwrap();
    let hashes: BTreeSet<&str> =
        requirements.split("--hash=sha256:").skip(1).map(|rest| rest.trim_end_matches(['\\', ' ', '\n'])).collect();
    assert!(hashes.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())));
    assert_eq!(hashes.len(), 4, "Linux and macOS, x86_64 and aarch64");
    let folder = tempfile::tempdir().unwrap();
    let tree = r#"
        mkdir plugins bin
        cp "$1/wasm-cc" "$1/wasm-cc-requirements.txt" plugins
        cat >pip <<END
#!/bin/sh
echo "\$*" >$PWD/arguments
cat $PWD/answer >&2
exit 1
END
        cat >bin/python3 <<END
#!/bin/sh
test "\$1" = -c && exit
mkdir -p "\$3/bin" && cp $PWD/pip "\$3/bin/python"
END
        printf '#!/bin/sh\n' >bin/clang
        chmod +x pip bin/python3 bin/clang
    "#;
    let shell = |script: &str, argument: &Path| {
        let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(argument).current_dir(folder.path()).env("PATH", path);
        command.output().unwrap()
    };
    assert!(shell(tree, &repository("plugins")).status.success());
    for (answer, problem) in [
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "the SHA-256 of the download"),
        ("ERROR: No matching distribution found", "could not be installed from PyPI"),
    ] {
        fs::write(folder.path().join("answer"), answer).unwrap();
        let ran = shell("sh \"$1\" --setup", &folder.path().join("plugins/wasm-cc"));
        let said = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success() && said.contains(answer) && said.contains(problem), "{said}");
        assert_eq!(fs::read_dir(folder.path().join("target/tools")).unwrap().count(), 0, "nothing is left");
    }
    let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
    assert!(arguments.contains("--require-hashes") && arguments.contains("--only-binary :all:"), "{arguments}");
}

/// Cargo identifies a crate outside of the workspace by its absolute path, which changes the bytes that rustc writes.
#[test]
fn bundled_plugins_depend_on_no_crate_outside_of_their_workspace() {
    let mut looked_at = 0;
    for folder in ["skills", "providers", "."] {
        for entry in fs::read_dir(repository("plugins").join(folder)).unwrap() {
            let package = Path::new(folder).join(entry.unwrap().file_name());
            let Ok(text) = fs::read_to_string(repository("plugins").join(&package).join("Cargo.toml")) else {
                continue;
            };
            let manifest: toml::Table = text.parse().unwrap();
            let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else { continue };
            for path in dependencies.values().filter_map(|dependency| dependency.get("path")?.as_str()) {
                let mut place = PathBuf::new();
                for part in package.join(path).components() {
                    match part {
                        Component::ParentDir => assert!(place.pop(), "{} depends on {path}", package.display()),
                        Component::CurDir => {}
                        part => place.push(part),
                    }
                }
                assert!(repository("plugins").join(&place).join("Cargo.toml").exists(), "{}", place.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 13, "{looked_at}");
}
