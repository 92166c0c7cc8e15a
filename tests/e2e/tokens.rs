//! Tokens for clients of `patchbay serve`: shown once, stored as a digest.

use std::{fs, path::Path};

use patchbay_tests::{answers::json_lines, binary::Patchbay};
use serde_json::json;

/// Returns the files below `folder` that contain `needle`.
fn files_with(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else if fs::read(&path).unwrap().windows(needle.len()).any(|bytes| bytes == needle.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn tokens_are_shown_once_and_stored_nowhere() {
    let mut patchbay = Patchbay::blank();
    patchbay.set("PATCHBAY_LOG", "trace");
    let added = patchbay.run(&["token", "add", "laptop", "--expires", "90d", "--may", "lines,answers,grants"]);
    let token = added.out.trim_end();
    assert_eq!((added.code, token.len(), token.get(..3)), (Some(0), 67, Some("pb_")), "{}", added.err);
    assert_eq!(added.err, "Token 'laptop' (lines,answers,grants). Store it now: it is not shown again.\n");
    let again = patchbay.run(&["token", "add", "laptop"]);
    let taken = "Error: token 'laptop' already exists. To remove it: patchbay token remove laptop [invalid_args]\n";
    assert_eq!((again.code, &*again.out, &*again.err), (Some(1), "", taken));

    let listed = patchbay.run(&["token", "list"]);
    assert!(listed.out.starts_with("laptop  lines,answers,grants  expires 2"), "{}", listed.out);
    let row = &json_lines(&patchbay.run(&["token", "list", "--json"]).out)[0];
    assert_eq!((&row["name"], &row["expired"], &row["used_at"]), (&json!("laptop"), &json!(false), &json!(null)));
    for secret in [token, &token[3..]] {
        assert_eq!(files_with(patchbay.folder(), secret), <[&str; 0]>::default());
    }

    let removed = patchbay.run(&["token", "remove", "laptop"]);
    assert_eq!(removed.out, "Removed token 'laptop'. Connections of its clients are closed.\n");
    let missing = patchbay.run(&["token", "remove", "laptop"]);
    assert_eq!(missing.err, "Error: token 'laptop' not found. To list tokens: patchbay token list [token_not_found]\n");
    assert_eq!(patchbay.run(&["token", "list"]).out, "No tokens. To create one: patchbay token add NAME\n");
}

#[test]
fn wrong_rights_and_times_are_refused() {
    let patchbay = Patchbay::blank();
    for (option, value, error) in [
        ("--may", "lines,all", "unknown right 'all': use none, or a comma-separated list of lines, answers and grants"),
        ("--may", "", "unknown right ''"),
        ("--expires", "90", "'90' is not an age"),
    ] {
        let ran = patchbay.run(&["token", "add", "x", option, value]);
        assert_eq!(ran.code, Some(2));
        assert!(ran.err.contains(error), "{}", ran.err);
    }
}
