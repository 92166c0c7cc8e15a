//! `patchbay backup`: a copy of the home that is complete although a session is writing, and that works as a home.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use patchbay_tests::binary::{Patchbay, ran};

use crate::packages::agent_plugin;

const SECRET: &str = "sk-sentinel-0123456789";

#[test]
fn backup_of_a_session_that_writes_resumes_it() {
    let mut patchbay = Patchbay::quick();
    patchbay.write("home/config/credentials.json", format!(r#"{{"openai": {{"api_key": "{SECRET}"}}}}"#));
    patchbay.skill("tea", "summary: Tea", "Make tea.");
    patchbay.write("elsewhere/SKILL.md", "---\nsummary: Elsewhere\n---\nLook elsewhere.\n");
    symlink(patchbay.folder().join("elsewhere"), patchbay.home().join("config/skills/linked")).unwrap();
    patchbay.write("workspace/picture.txt", "attached text");
    agent_plugin(
        &patchbay,
        "workspace/tools",
        "1.0.0",
        &[("skills/hello/SKILL.md", b"---\nname: hello\ndescription: Says hello\n---\nSay hello.\n")],
    );
    assert_eq!(patchbay.run(&["plugin", "add", "tools", "--yes"]).code, Some(0));
    patchbay.write("home/data/package-data/tools/kept", "x");
    patchbay.run(&["token", "add", "laptop"]);
    let attached = patchbay.run(&["exec", "--attach", "picture.txt", "say seen"]);
    assert_eq!(attached.code, Some(0), "{}", attached.err);
    let session = patchbay.last_session();
    let mut live = patchbay.live(&["--session", &session]);
    live.message("say before");

    let folder = patchbay.folder().join("copy");
    let mut backup = patchbay.command(&["backup", folder.to_str().unwrap()]).spawn().unwrap();
    let mut during = 0;
    while backup.try_wait().unwrap().is_none() {
        live.message(&format!("say during {during}"));
        during += 1;
    }
    let made = ran(backup.wait_with_output().unwrap());
    assert_eq!((made.code, &*made.err), (Some(0), ""), "{}", made.out);
    assert!(
        made.out.starts_with("Backed up 1 session, ")
            && made.out.contains(" files, 1 package and the configuration to "),
        "{}",
        made.out
    );
    live.message("say after");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_link(folder.join("config/skills/linked")).unwrap(), patchbay.folder().join("elsewhere"));
    assert!(!folder.join("config/credentials.json").exists());

    // The original session is still open; the copy is another home.
    patchbay.set("PATCHBAY_HOME", folder.to_str().unwrap());
    let doctor = patchbay.run(&["doctor"]);
    assert_eq!((doctor.code, &*doctor.err), (Some(0), ""), "{}", doctor.out);
    assert_eq!(patchbay.run(&["token", "list", "--json"]).out, "");
    let resumed = patchbay.run(&["exec", "--session", &session, "say resumed", "/skills"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert!(resumed.out.contains("resumed") && resumed.out.contains("tea"), "{}", resumed.out);
    assert!(patchbay.run(&["exec", "/skills"]).out.contains("hello"), "the package is in the copy");
    assert_eq!(patchbay.run(&["plugin", "verify"]).code, Some(0));
    assert_eq!(fs::read(folder.join("data/package-data/tools/kept")).unwrap(), b"x");
    let shown = patchbay.run(&["sessions", "show", &session]).out;
    assert!(shown.contains("seen") && shown.contains("before") && !shown.contains("after"), "{shown}");
}

#[test]
fn backup_goes_into_an_empty_folder_outside_of_the_home() {
    let patchbay = Patchbay::blank();
    patchbay.write("full/file", "mine");
    for (folder, why) in [
        ("full", "it is not empty. Choose a new folder."),
        ("home/data/copy", "it is inside the home that is being backed up. Choose a folder outside it."),
    ] {
        let folder = patchbay.folder().join(folder);
        let refused = patchbay.run(&["backup", folder.to_str().unwrap()]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.err.contains(why) && refused.err.contains("[folder_unusable]"), "{}", refused.err);
    }
    assert_eq!(fs::read_dir(patchbay.folder().join("full")).unwrap().count(), 1);
}
