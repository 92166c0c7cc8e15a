//! Content blocks in prompts of `patchbay acp`: which of them reach a command or the model, and which are refused.

use patchbay_tests::{acp::Peer, binary::Patchbay, guest::Guest};
use serde_json::{Value, json};

/// The first bytes of a PNG, in base64.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUg==";
/// The bytes `GIF89a`, encoded as base64.
const GIF: &str = "R0lGODlh";
/// The bytes `%PDF-1.7`, encoded as base64.
const PDF: &str = "JVBERi0xLjc=";
/// The bytes `RIFFxxxxWAVE`, encoded as base64.
const WAV: &str = "UklGRnh4eHhXQVZF";

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image(data: &str) -> Value {
    json!({"type": "image", "data": data, "mimeType": "image/png"})
}

fn audio() -> Value {
    json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"})
}

#[test]
fn blocks_beside_a_command_are_attached_to_its_call() {
    let patchbay = Patchbay::quick();
    patchbay.add_command("attached", &Guest::returning_attachments(), "");
    patchbay.write("workspace/linked.txt", "linked");
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let file = format!("file://{}/linked.txt", patchbay.workspace().canonicalize().unwrap().display());
    let blocks = json!([
        text(" \n"),
        {"type": "resource_link", "name": "site", "uri": "https://example.com/a"},
        {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "embedded"}},
        text("/attached {}"),
        audio(),
        text("later text"),
        {"type": "resource_link", "name": "linked.txt", "uri": file},
        {"type": "resource", "resource": {"uri": "x:y", "blob": "UEsDBAA=", "mimeType": "application/zip"}},
    ]);
    let said = peer.say(2, &session, blocks);
    let lines: Vec<&str> = said.lines().collect();
    let expected = [
        "text/plain",
        "[site](https://example.com/a)",
        "text/plain",
        "embedded",
        "audio/wav",
        "RIFFxxxxWAVE",
        "text/plain",
        "later text",
        "text/plain",
        "linked",
        "application/zip",
    ];
    assert_eq!(lines[..expected.len()], expected, "{said}");
    assert_eq!(peer.leave(), Some(0));
}

fn link(patchbay: &Patchbay, name: &str, media_type: &str) -> Value {
    let uri = format!("file://{}/{name}", patchbay.workspace().canonicalize().unwrap().display());
    json!({"type": "resource_link", "name": name, "uri": uri, "mimeType": media_type})
}

#[test]
fn linked_files_of_any_kind_are_attached_to_a_command() {
    let patchbay = Patchbay::quick();
    patchbay.add_command("attached", &Guest::returning_attachments(), "");
    patchbay.write("workspace/a.zip", b"PK\x03\x04\0");
    patchbay.write("workspace/a.wav", "RIFFxxxxWAVE");
    patchbay.write("workspace/long.txt", "x".repeat(300_000));
    patchbay.write("workspace/.gitignore", "*.log\n");
    patchbay.write("workspace/x.log", "ignored");
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let files = [("a.zip", "application/zip"), ("a.wav", "audio/wav")];
    for (id, (name, media_type)) in (2..).zip(files) {
        let said = peer.say(id, &session, json!([text("/attached {}"), link(&patchbay, name, media_type)]));
        assert_eq!(said.lines().next(), Some(media_type), "{name}");
    }
    // No message may have a text of this length.
    assert_eq!(
        peer.say(9, &session, json!([text("/skill calc 6*7"), link(&patchbay, "long.txt", "text/plain")])),
        "42"
    );
    for (id, (name, expected)) in (10..).zip([
        ("a.zip", "Error: 'a.zip' is neither text, an image nor a PDF."),
        ("x.log", "Error: 'x.log' is ignored by git; copy it first."),
    ]) {
        assert_eq!(peer.say(id, &session, json!([text("look"), link(&patchbay, name, "text/plain")])), expected);
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn capabilities_and_refusals_follow_what_the_model_reads() {
    let patchbay = Patchbay::quick();
    let reads_pdf = "models = [{ id = \"demo-1\", input_media = [\"application/pdf\"] }]\n";
    let pdf = || json!({"type": "resource", "resource": {"uri": "x:b.pdf", "blob": PDF}});
    for (more, images, (refused, media_type), (sent, part)) in [
        ("", true, (pdf(), "application/pdf"), (image(PNG), "image/png(16, image)")),
        (reads_pdf, false, (image(PNG), "image/png"), (pdf(), "application/pdf(8, x:b.pdf)")),
    ] {
        let config = format!("[providers.demo]\noptions = {{ delay-ms = \"0\" }}\n{more}");
        patchbay.write("home/config/config.toml", config);
        let mut peer = Peer::start(&patchbay);
        let answer = peer.call(0, "initialize", json!({"protocolVersion": 1}));
        let expected = json!({"image": images, "audio": true, "embeddedContext": true});
        assert_eq!(answer["result"]["agentCapabilities"]["promptCapabilities"], expected);
        let session = peer.session(&patchbay, 1);
        let said = peer.say(2, &session, json!([text("look"), refused]));
        assert!(said.starts_with(&format!("Error: model 'demo-1' is not known to read {media_type} (")), "{said}");
        let context = peer.say(3, &session, json!([text("show context"), sent]));
        assert!(context.contains("messages: 1\n") && context.contains(part), "{context}");
        assert_eq!(peer.leave(), Some(0));
    }
}

#[test]
fn built_in_command_runs_and_says_what_was_not_used() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let said = peer.say(2, &session, json!([text("/model demo-big"), text("more")]));
    let notice = "/model does not accept attachments; 'text' was not used.";
    assert!(said.starts_with(&format!("{notice}\n\n✓ Switched to Demo demo-big\n")), "{said}");
    assert!(peer.say(3, &session, json!([text("show context")])).contains("model: demo-big\n"));
    let said = peer.say(5, &session, json!([image(PNG), text("/skill"), image(PNG)]));
    assert_eq!(said, "Error: /skill requires a skill name.");
    let many = vec![text("/skill calc 1"); 22];
    assert_eq!(peer.say(4, &session, many), "Error: 21 files are attached; the limit of a line is 20.");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn texts_and_embedded_files_with_their_paths_reach_the_model() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let said = peer.say(3, &session, json!([text("First"), image(PNG), text("/second"), text("third")]));
    assert_eq!(said, "You said: First\n\n/second\n\nthird");
    let workspace = patchbay.workspace().canonicalize().unwrap().display().to_string();
    let resource = |uri: &str| json!({"type": "resource", "resource": {"uri": uri, "text": "text"}});
    let said = peer.say(
        2,
        &session,
        vec![
            resource(&format!("file://{workspace}/src/a%20b.rs")),
            resource(&format!("file://{workspace}/src/c.rs#L10:20")),
            resource("https://example.com/a%20b?c"),
        ],
    );
    let expected = "You said: src/a b.rs:\n\ntext\nsrc/c.rs (L10:20):\n\ntext\nhttps://example.com/a%20b?c:\n\ntext";
    assert_eq!(said, expected);
    assert_eq!(peer.leave(), Some(0));
}

#[cfg(unix)]
#[test]
fn files_are_attached_where_cwd_is_a_symbolic_link() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/src/linked.txt", "linked");
    patchbay.write("workspace/.git/config", "secret");
    let link = patchbay.folder().canonicalize().unwrap().join("link");
    std::os::unix::fs::symlink(patchbay.workspace(), &link).unwrap();
    let mut peer = Peer::initialized(&patchbay);
    let answer = peer.call(1, "session/new", json!({"cwd": link, "mcpServers": []}));
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let block = |path: &str| {
        let uri = format!("file://{}", link.join(path).display());
        json!([{"type": "resource_link", "name": "x", "uri": uri}])
    };
    assert_eq!(peer.say(2, &session, block("src/linked.txt")), "You said: src/linked.txt:\n\nlinked");
    // The workspace's rules apply.
    let refused = peer.say(3, &session, block(".git/config"));
    assert!(refused.starts_with("Error: ") && !refused.contains("secret"), "{refused}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn image_alone_is_a_message_where_the_model_reads_it() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let said = peer.say(2, &session, json!([image(GIF)]));
    assert!(said.starts_with("Error: model 'demo-1' is not known to read image/gif"), "{said}");
    assert!(said.contains("nothing was sent"), "{said}");
    assert_eq!(peer.say(3, &session, json!([image(PNG)])), "You said nothing.");
    let context = peer.say(4, &session, json!([text("show context")]));
    assert!(context.contains("messages: 3\n") && context.contains("image/png(16, image)"), "{context}");
    let history = peer.say(5, &session, json!([text("/history")]));
    assert!(history.contains("> [image: image]\nYou said nothing."), "{history}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn prompts_that_cannot_be_sent_say_why() {
    let patchbay = Patchbay::quick();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, (blocks, expected)) in (2..).zip([
        (json!([]), "Error: the prompt has neither text nor files."),
        (json!([text(" "), text("\n")]), "Error: the prompt has neither text nor files."),
        (json!([text("listen"), audio()]), "Error: audio is for commands; models do not receive it. Nothing was sent."),
        (json!([text("look"), image("no base64!")]), "Error: an attachment is not base64."),
        (json!([{"type": "video"}]), "Error: unknown kind of block: 'video'."),
    ]) {
        assert_eq!(peer.say(id, &session, blocks), expected);
    }
    assert!(peer.say(20, &session, json!([text("show context")])).contains("messages: 1\n"));
    assert_eq!(peer.leave(), Some(0));
}
