//! The operator's secrets: where they are read from, and that errors about them never contain them.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use patchbay_tests::{binary::Patchbay, calls::fetching, server::Server};

const SENTINEL: &str = "s3ntinel-of-the-file";

/// Creates a home with a skill that sends the credential `forge` to `server`; it is configured and granted.
fn home_with_getter(server: &Server) -> Patchbay {
    let patchbay = Patchbay::new();
    let host = format!("http:{}", server.host());
    let origin = format!("http://{}", server.host());
    let skill_md = format!(
        "---\ninvocation_mode: tool_dispatch\ncommand: get\ncommand_tool: run\ncapabilities: [{{name: '{host}'}}, {{name: \
         'credential:forge'}}]\n---\n"
    );
    let guest = fetching(&origin, Some(("forge", "Authorization", "Bearer ")), SENTINEL);
    patchbay.write("home/config/skills/getter.wasm", guest.packaged(&skill_md));
    patchbay.write("home/config/config.toml", format!("[credentials.forge]\norigin = \"{origin}\"\n"));
    patchbay.grant("getter", &[&host, "credential:forge"]);
    patchbay
}

/// Writes `credentials.json` with this mode.
fn write_credentials(patchbay: &Patchbay, text: &str, mode: u32) {
    patchbay.write("home/config/credentials.json", text);
    let file = patchbay.home().join("config/credentials.json");
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn secret_from_file_is_sent_in_the_request() {
    let server = Server::echo();
    let patchbay = home_with_getter(&server);
    for key in ["token", "api_key"] {
        write_credentials(&patchbay, &format!("{{\"forge\": {{\"{key}\": \"{SENTINEL}\"}}}}"), 0o600);
        let answer = patchbay.line("/get");
        assert!(answer.contains("Bearer [secret]"), "{answer}");
    }
    assert_eq!(server.requests().len(), 2);
    assert!(server.requests().iter().all(|request| request.contains(&format!("Bearer {SENTINEL}"))));
    assert!(!patchbay.log().contains("other users can read") && !patchbay.log().contains(SENTINEL));
}

#[test]
fn malformed_credentials_error_names_position_not_content() {
    let server = Server::echo();
    let patchbay = home_with_getter(&server);
    for (text, words) in [
        (format!("{{\n  \"forge\": \"{SENTINEL}\"\n}}"), "credentials.json: the entry 'forge' has no key; write "),
        (format!("{{\"forge\": {{\"token\": {SENTINEL}}}}}"), "credentials.json, line 1, column "),
    ] {
        write_credentials(&patchbay, &text, 0o600);
        let said = patchbay.line("/get");
        assert!(said.contains(words) && !said.contains(SENTINEL), "{said}");
        // The skill receives the error too, but not the path of the file.
        assert!(!said.contains("/config/"), "{said}");
    }
    assert!(!patchbay.log().contains(SENTINEL));
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn secret_in_config_toml_is_rejected_and_not_shown() {
    let patchbay = Patchbay::new();
    let table = format!("[credentials.forge]\norigin = \"https://forge.example\"\ntoken = \"{SENTINEL}\"\n");
    patchbay.write("home/config/config.toml", table);
    let ran = patchbay.run(&["exec", "/skills"]);
    assert_eq!((ran.code, &*ran.out), (Some(1), ""));
    assert!(ran.err.contains("config.toml: line ") && ran.err.ends_with(" [config_invalid]\n"), "{}", ran.err);
    assert!(!ran.err.contains(SENTINEL), "{}", ran.err);
}

/// The binary accepts the examples of docs/config.md.
#[test]
fn documented_credential_tables_are_accepted() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md")).unwrap();
    let examples: Vec<_> = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let patchbay = Patchbay::new();
        patchbay.write("home/config/config.toml", example);
        let ran = patchbay.run(&["exec", "/calc 1"]);
        assert_eq!((ran.code, &*ran.out), (Some(0), "1\n"), "{}", ran.err);
    }
}
