//! The binary works without any other files.

use std::{fs, process::Command};

use patchbay_tests::binary;

/// Runs a copy of the binary in `folder`, with `variables` as its complete environment.
fn alone(folder: &std::path::Path, variables: &[(&str, &std::path::Path)], arguments: &[&str]) -> binary::Ran {
    let copy = folder.join("patchbay");
    if !copy.exists() {
        binary::copy(&copy);
    }
    let mut command = Command::new(copy);
    command.args(arguments).current_dir(folder).env_clear().envs(variables.iter().copied());
    binary::ran(command.output().unwrap())
}

#[test]
fn copied_binary_works_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let variables = [("PATCHBAY_HOME", &*home)];
    let lines = ["exec", "/skills", "/calc 6 * 7", "/json a {\"a\": 1}", "/note add stays"];
    let ran = alone(folder.path(), &variables, &lines);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let mut out = ran.out.lines();
    let names: Vec<_> = out.by_ref().take(8).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["calc", "code", "files", "grep", "json", "notes", "plan_compiler", "web"]);
    assert_eq!(out.collect::<Vec<_>>(), ["42", "1", "Note 1 added."]);
    assert_eq!(alone(folder.path(), &variables, &["exec", "/note list"]).out, "1. stays\n");
    let made: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made.len(), 2, "nothing but the copy and its home: {made:?}");
}

#[test]
fn xdg_folders_are_used_without_patchbay_home() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (home, config, data, state) = (path("h"), path("c"), path("d"), path("s"));
    let variables =
        [("HOME", &*home), ("XDG_CONFIG_HOME", &*config), ("XDG_DATA_HOME", &*data), ("XDG_STATE_HOME", &*state)];
    fs::create_dir_all(config.join("patchbay/skills/mine")).unwrap();
    fs::write(config.join("patchbay/skills/mine/SKILL.md"), "---\nsummary: Mine\n---\n").unwrap();
    let ran = alone(folder.path(), &variables, &["exec", "/skills"]);
    assert!(ran.out.contains("\nmine - Mine\n"), "{ran:?}");
    assert!(data.join("patchbay/patchbay.db").is_file() && state.join("patchbay/patchbay.log").is_file());
}

#[cfg(unix)]
#[test]
fn conversation_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let patchbay = patchbay_tests::binary::Patchbay::new();
    patchbay.exec(&["hello"]);
    for folder in ["config", "data", "state"] {
        let mode = patchbay.home().join(folder).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[cfg(unix)]
#[test]
fn closed_output_pipe_is_not_an_error() {
    let patchbay = patchbay_tests::binary::Patchbay::new();
    patchbay.exec(&["/calc 1"]);
    for arguments in [&["sessions", "list"][..], &["grant", "list"], &["trust", "list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = binary::ran(patchbay.command(arguments).stdout(writer).output().unwrap());
        assert_eq!((ran.code, &*ran.err), (Some(0), ""), "{arguments:?}");
    }
}

/// macOS allows a process 256 descriptors unless it asks for more. Child processes inherit the limit.
#[cfg(unix)]
#[test]
fn descriptors_are_raised_at_start() {
    let patchbay = patchbay_tests::binary::Patchbay::new();
    let file = patchbay.folder().join("descriptors");
    let server = format!("[mcp.probe]\ncommand = [\"/bin/sh\", \"-c\", \"ulimit -Sn >{}\"]\n", file.display());
    patchbay.write("home/config/config.toml", server);
    let hard = patchbay.shell("/bin/sh", "ulimit -Hn").out;
    let expected = hard.trim().parse().map_or(4_096, |hard: u64| hard.min(4_096));
    let checked = patchbay.shell("/bin/sh", "ulimit -Sn 128; exec patchbay mcp check probe");
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), expected.to_string());
}
