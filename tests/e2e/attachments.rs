//! Files that the user attaches to messages: which are accepted, how each API receives them, and how they stay in the conversation.

use std::{path::Path, sync::Arc};

use patchbay_core::{Attachment, Code, EventKind, MessageKind};
use patchbay_provider::Settings;
use patchbay_session::{LineInput, NewAttachment, Session};
use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, FORMATS},
    guest::Guest,
    host::host,
    play::{Play, quick_demo, with_local_model},
    server::{Server, Step},
    session_events::{wait_for_answer_start, wait_for_end, wait_for_event},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
const PDF: &[u8] = b"%PDF-1.7\n%%EOF\n";

fn with_files() -> Patchbay {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/a.png", PNG);
    patchbay.write("workspace/docs/b.pdf", PDF);
    patchbay.write("workspace/notes.txt", "One.\r\nTwo.\x1b[2J\n");
    patchbay
}

/// Returns the parts of the first message that `show context` lists, without the agent's introduction and the facts about the
/// session's start.
fn parts(context: &str) -> &str {
    let line = context.lines().find_map(|line| line.strip_prefix("1 user: ")).unwrap_or_else(|| panic!("{context}"));
    line.splitn(3, "), ").nth(2).unwrap()
}

async fn image(session: &Session) -> NewAttachment {
    session.attach_path("a.png").await.unwrap().unwrap()
}

fn with_image(text: &str, image: NewAttachment) -> LineInput {
    LineInput { attachments: vec![image], ..LineInput::from(text) }
}

#[test]
fn exec_sends_attached_files_before_the_text_of_the_first_line() {
    let patchbay = with_files();
    let attach = ["exec", "--attach", "a.png", "--attach", "notes.txt", "", "show context", "show context"];
    let ran = patchbay.run(&attach);
    assert_eq!((ran.code, ran.errors()), (Some(0), ""), "{ran:?}");
    let attached = "Attached: a.png (image/png, 16 bytes), notes.txt (text/plain, 13 bytes).\n";
    let context = ran.out.strip_prefix(attached).unwrap_or_else(|| panic!("{ran:?}"));
    // The text begins with its path, and control characters are removed.
    let head = "notes.txt:\n\nOne.\nTwo.[2J\n";
    assert_eq!(parts(context), format!("image/png(16, a.png), text({}), text(12)", head.len()));
    let (_, second) = context.split_once("messages: 3").unwrap();
    assert!(second.contains("image/png(16, a.png)") && second.contains("3 user: text(12)"), "{second}");
}

#[test]
fn exec_explains_which_files_cannot_be_attached() {
    let patchbay = with_files();
    patchbay.write("workspace/x.bin", b"\xff\xfe\0");
    patchbay.write("workspace/.gitignore", ".env\n");
    patchbay.write("workspace/.env", "SECRET=1\n");
    let refusal = |file: &str| {
        let ran = patchbay.run(&["exec", "--attach", "a.png", "--attach", file, "hello"]);
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{ran:?}");
        ran.err
    };
    assert_eq!(refusal("x.bin"), "Error: 'x.bin' is neither text, an image nor a PDF.\n");
    assert_eq!(refusal("gone.png"), "Error: file 'gone.png' not found.\n");
    let own = patchbay.home().join("config/config.toml").to_string_lossy().into_owned();
    let own_link = patchbay.workspace().join("own");
    assert_eq!(refusal(&own), format!("Error: '{own}' is one of Patchbay's own files, or is in its folders.\n"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(patchbay.home().join("config"), own_link).unwrap();
        let words = "Error: 'own/config.toml' is one of Patchbay's own files, or is in its folders.\n";
        assert_eq!(refusal("own/config.toml"), words);
        for file in ["/dev/zero", "docs"] {
            assert_eq!(refusal(file), format!("Error: '{file}' is not a regular file.\n"));
        }
        let pipe = patchbay.workspace().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        // The host does not wait for a writer.
        assert_eq!(refusal("pipe"), "Error: 'pipe' is not a regular file.\n");
    }
    // Here the user named the file explicitly.
    let ran = patchbay.run(&["exec", "--attach", ".env", "hello"]);
    assert!(ran.out.starts_with("Attached: .env (text/plain, 9 bytes).\n"), "{ran:?}");
    let ran = patchbay.run(&["exec", "--json", "--attach", "x.bin", "hello"]);
    assert!(ran.out.contains(r#""code":"attachment_refused""#), "{ran:?}");
}

#[test]
fn built_in_commands_run_and_say_that_files_were_not_used() {
    let patchbay = with_files();
    let ran = patchbay.run(&["exec", "--attach", "a.png", "/model demo-big"]);
    let notice = "/model does not accept attachments; 'a.png' was not used.\n";
    assert_eq!((ran.code, ran.errors()), (Some(0), notice), "{ran:?}");
    assert!(ran.out.starts_with("✓ Switched to Demo demo-big\n"), "{ran:?}");
    let ran = patchbay.run(&["exec", "--attach", "a.png", "--attach", "notes.txt", "/fork \"What is this?\""]);
    assert_eq!(
        (ran.code, ran.err.contains("/fork does not accept attachments; 2 were not used.\n")),
        (Some(0), true),
        "{ran:?}"
    );
}

#[test]
fn unknown_commands_and_captures_take_no_files() {
    let (patchbay, capturing) = (with_files(), with_files());
    let refusal = |patchbay: &Patchbay, lines: &[&str]| {
        let ran = patchbay.run(&[&["exec", "--attach", "a.png"], lines].concat());
        assert_eq!((ran.code, &*ran.out), (Some(1), ""), "{ran:?}");
        ran.err
    };
    assert_eq!(refusal(&patchbay, &["/nothing"]), "Error: unknown command '/nothing'.\n");
    assert_eq!(capturing.run(&["exec", "/capture"]).code, Some(0));
    let session = capturing.last_session();
    assert_eq!(refusal(&capturing, &["--session", &session, "look"]), "Error: attachments cannot be captured.\n");
    let ran = patchbay.run(&["exec", "--attach", "a.png", ""]);
    assert_eq!((ran.code, &*ran.err), (Some(1), "Error: --attach needs a line with a message.\n"));
}

#[test]
fn command_passes_files_to_its_skill() {
    let patchbay = with_files();
    patchbay.add_command("attached", &Guest::returning_attachments(), "");
    patchbay.skill("guide", "name: guide\ncommand: guide", "Explain: $INPUT");
    let run = |line: &str| patchbay.run(&["exec", "--attach", "notes.txt", line]);
    for line in ["/attached {}", "/skill attached {}"] {
        let ran = run(line);
        assert_eq!(ran.out, "text/plain\nOne.\nTwo.[2J\n", "{ran:?}");
    }
    // Instructions with an input start a turn whose message has the files.
    let ran = run("/guide show context");
    assert!(ran.out.starts_with("Attached: notes.txt (text/plain, 13 bytes).\n"), "{ran:?}");
    for line in ["/guide", "/skill guide"] {
        assert!(
            run(line).err.contains("accepts attached files only together with an input; nothing was run."),
            "{line}"
        );
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn path_of_the_workspace_is_guarded() {
    let patchbay = with_files();
    for path in [".git/config", ".patchbay/agents/x/AGENTS.md", ".env", "out/deep/a.txt", "a@b.c"] {
        patchbay.write(&format!("workspace/{path}"), "text");
    }
    patchbay.write("workspace/.gitignore", ".env\nout/\n");
    patchbay.write("secret.txt", "outside");
    for (target, link) in [("../secret.txt", "link.txt"), (".env", "shown"), ("a.png", "same.png")] {
        std::os::unix::fs::symlink(target, patchbay.workspace().join(link)).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(patchbay.workspace().join("pipe")).status().unwrap().success());
    let session = host(&patchbay, quick_demo()).new_session(&patchbay.workspace()).await.unwrap();
    for path in ["a.png", "./docs/b.pdf", "same.png", "a@b.c"] {
        assert!(session.attach_path(path).await.unwrap().is_some(), "{path}");
    }
    // Anything that is not a file is plain text.
    let folder = patchbay.folder().to_str().unwrap();
    for word in ["types/node", "docs", "example.com", "../secret.txt", folder, "/nowhere/a.txt", "", "a\0b"] {
        assert!(session.attach_path(word).await.unwrap().is_none(), "{word}");
        assert!(!session.names_file(word).await, "{word}");
    }
    // An absolute path may name any file, as `--attach` may.
    let outside = patchbay.folder().join("secret.txt").to_str().unwrap().to_owned();
    assert!(session.attach_path(&outside).await.unwrap().is_some());
    let own = patchbay.home().join("data/patchbay.db").to_str().unwrap().to_owned();
    let refused = session.attach_path(&own).await.unwrap_err();
    assert!(refused.message.contains("Patchbay's own files"), "{refused:?}");
    for path in ["a.png", "./docs/b.pdf", ".env", &outside] {
        assert!(session.names_file(path).await, "{path}");
    }
    let refusal = async |path: &str| {
        let refused = session.attach_path(path).await.unwrap_err();
        assert_eq!(refused.code, Code::AttachmentRefused);
        refused.line().into_owned()
    };
    let ignored = |path: &str| format!("Error: '{path}' is ignored by git; attach it with --attach or copy it first.");
    for path in [".env", "out/deep/a.txt", "shown"] {
        assert_eq!(refusal(path).await, ignored(path));
    }
    assert!(refusal("link.txt").await.contains("leads out of the workspace"));
    assert!(refusal(".git/config").await.contains("git's own directory"));
    assert!(refusal(".patchbay/agents/x/AGENTS.md").await.contains("Patchbay's own files"));
    assert!(refusal("pipe").await.contains("a pipe, a socket or a device"));
    std::fs::File::create(patchbay.workspace().join("huge.png")).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(refusal("huge.png").await, "Error: 'huge.png' is 1,073.7 MB; the limit for an attached file is 10 MiB.");
}

#[test]
fn all_formats_receive_images_and_pdfs() {
    let base64 = |bytes: &[u8]| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    for format in FORMATS {
        let server = Server::scripted(move |_| vec![Step::Bytes(format.answer("text"))]);
        let media = "models = [{ id = \"local-1\", input_media = [\"image/png\", \"application/pdf\"] }]\n";
        let patchbay = format.home(&server, if format.provider == CHAT.provider { media } else { "" });
        patchbay.write("workspace/a.png", PNG);
        patchbay.write("workspace/b.pdf", PDF);
        assert!(patchbay.line(&format!("/model {}", format.model)).starts_with('✓'));
        let session = patchbay.last_session();
        let ran =
            patchbay.run(&["exec", "--session", &session, "--attach", "a.png", "--attach", "b.pdf", "what is this"]);
        let attached = "Attached: a.png (image/png, 16 bytes), b.pdf (application/pdf, 15 bytes).\n";
        assert_eq!(ran.out, format!("{attached}{}\n", format.recorded_text()), "{ran:?}");
        let [request] = &server.requests()[..] else { panic!("{:?}", server.requests()) };
        let found = [&*base64(PNG), &*base64(PDF), "what is this"].map(|text| request.find(text));
        assert!(found.is_sorted() && found.iter().all(Option::is_some), "{found:?}: {request}");
        // A second message sends them again.
        assert_eq!(patchbay.run(&["exec", "--session", &session, "and this"]).code, Some(0));
        assert!(server.requests()[1].contains(&base64(PNG)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn model_that_cannot_read_a_file_is_named_before_anything_is_sent() {
    let server = Server::scripted(|_| vec![Step::Bytes(CHAT.answer("text"))]);
    let patchbay = with_files();
    let session = host(&patchbay, with_local_model(&server, 8_000)).new_session(&patchbay.workspace()).await.unwrap();
    let refused = wait_for_end(session.submit_input(with_image("look", image(&session).await))).await;
    let words = "Error: model 'local-1' is not known to read image/png (a.png); nothing was sent. Choose another \
        model with /model, or set its input_media under models in [providers.local] of config.toml.";
    assert_eq!((refused.code, &*refused.line()), (Code::AttachmentUnreadable, words));
    assert_eq!((server.requests().len(), session.last_seq()), (0, 0));
    // All models can read text files.
    let notes = session.attach_path("notes.txt").await.unwrap().unwrap();
    assert!(wait_for_end(session.submit_input(with_image("look", notes))).await.is_ok());
    assert!(server.requests()[0].contains(r"notes.txt:\n\nOne.\nTwo."), "{:?}", server.requests());
    // Another model is told about a file that it cannot read, and the row stays.
    assert!(wait_for_end(session.submit("/model demo-1")).await.is_ok());
    assert!(wait_for_end(session.submit_input(with_image("look", image(&session).await))).await.is_ok());
    assert!(wait_for_end(session.submit("/model local-1")).await.is_ok());
    assert!(wait_for_end(session.submit("and now?")).await.is_ok());
    let request = server.requests().pop().unwrap();
    assert!(request.contains("[image, not readable by this model: a.png]"), "{request}");
    assert!(wait_for_end(session.submit("/model demo-1")).await.is_ok());
    assert!(wait_for_end(session.submit("show context")).await.message.contains("image/png(16, a.png)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_retried_and_dropped_messages_keep_their_files() {
    let patchbay = with_files();
    let host = host(&patchbay, Settings::default());
    let session = host.new_session(&patchbay.workspace()).await.unwrap();
    let mut events = session.subscribe(1);
    let running = session.submit("repeat 6000 word");
    wait_for_answer_start(&mut events).await;
    // The answer breaks off five times, a millisecond apart.
    let waiting = session.submit_input(with_image("fail server 0 after 1\nlook", image(&session).await));
    let id = waiting.id();
    wait_for_event(&mut events, |kind| matches!(kind, EventKind::LineQueued { line, .. } if *line == id)).await;
    drop((running, waiting));
    session.close().await;
    // The file may change in the meantime.
    patchbay.write("workspace/a.png", "other");
    host.collect().await.unwrap();
    let session = host.resume(session.id()).await.unwrap();
    let mut events = session.subscribe(session.last_seq() + 1);
    assert!(session.release_queue());
    let row = wait_for_event(
        &mut events,
        |kind| matches!(kind, EventKind::Message { kind: MessageKind::User, content, .. } if content.contains("look")),
    );
    let [attached] = &row.await.attachments()[..] else { panic!("no attachment") };
    assert_eq!((&*attached.name, &*attached.media_type, attached.size), ("a.png", "image/png", 16));
    session.wait_idle().await;
    let context = async |session: &Arc<Session>| wait_for_end(session.submit("show context")).await.message;
    assert!(context(&session).await.contains("image/png(16, a.png)"));
    assert!(wait_for_end(session.submit("/retry")).await.code == Code::NothingUnanswered);
    let failing = with_image("fail server never", session.attach_path("docs/b.pdf").await.unwrap().unwrap());
    let refused = wait_for_end(session.submit_input(failing)).await;
    assert_eq!(refused.code, Code::AttachmentUnreadable, "demo reads no PDF: {refused:?}");
    let notes = session.attach_path("notes.txt").await.unwrap().unwrap();
    assert!(!wait_for_end(session.submit_input(with_image("fail server never", notes))).await.is_ok());
    assert_eq!(wait_for_end(session.submit("/drop")).await.code, Code::MessageDropped);
    let after = context(&session).await;
    assert!(after.contains("image/png(16, a.png)") && !after.contains("text(27)"), "{after}");
    session.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_inherit_files_and_recaps_name_them() {
    let play = Play::new().await;
    play.patchbay.write("workspace/a.png", PNG);
    let session = &play.session;
    let input = with_image("say Nice.", image(session).await);
    assert!(wait_for_end(session.submit_input(input)).await.is_ok());
    assert!(play.run("/fork \"show context\"").await.is_ok());
    session.wait_idle().await;
    let answers = play.answers(session.view());
    assert!(answers.last().unwrap().contains("1 user: text("), "{answers:?}");
    assert!(answers.last().unwrap().contains("image/png(16, a.png)"), "{answers:?}");
    assert!(play.run("/switch root").await.is_ok());
    let shown = session.agent_in_view_now().await.unwrap().exchange;
    assert_eq!(shown, ["> say Nice.", "[image: a.png]", "Nice."]);
    let shown = play.run("/history").await.message;
    assert_eq!(shown, "> say Nice.\n[image: a.png]\nNice.");
    let collected = play.host.collect().await.unwrap();
    assert_eq!(collected.attachments, 0);
    let id = session.id().to_string();
    let shown = play.patchbay.run(&["sessions", "show", &id]).out;
    assert!(shown.starts_with("> say Nice.\n[image: a.png]\nNice.\n"), "{shown}");
    session.close().await;
    play.host.remove_session(session.id()).await.unwrap();
    let gc = play.patchbay.run(&["sessions", "gc"]).out;
    assert!(gc.contains("1 attached file"), "{gc}");
    let folder = play.patchbay.home().join("data/attachments");
    assert_eq!(std::fs::read_dir(folder).unwrap().filter(is_content).count(), 0);
}

fn is_content(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| Path::new(&entry.file_name()).extension().is_some_and(|end| end == "bin"))
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_hold_references_only() {
    let play = Play::new().await;
    play.patchbay.write("workspace/a.png", PNG);
    let mut events = play.session.subscribe(1);
    let input = with_image("hello", image(&play.session).await);
    assert_eq!(wait_for_end(play.session.submit_input(input)).await.message, "You said: hello");
    let row = wait_for_event(&mut events, |kind| matches!(kind, EventKind::Message { kind: MessageKind::User, .. }));
    let EventKind::Message { content, data, .. } = row.await else { panic!("no row") };
    assert_eq!((&*content, data.as_ref().map(|data| data.as_object().unwrap().len())), ("hello", Some(1)));
    let [attached] = &Attachment::from_data(data.as_ref())[..] else { panic!("{data:?}") };
    let stored = play.host.store().attachment(&attached.digest).unwrap();
    assert_eq!(stored.as_deref(), Some(PNG));
    // A missing file is named, and the conversation continues.
    let path = format!("data/attachments/{}.bin", attached.digest.to_hex());
    std::fs::remove_file(play.patchbay.home().join(path)).unwrap();
    let context = play.run("show context").await.message;
    assert!(parts(&context).starts_with("text(22), text(5)"), "[image missing: a.png]: {context}");
}
