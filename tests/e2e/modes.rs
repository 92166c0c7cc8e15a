//! The modes of a session: the user sets them, they apply from the next effect on, and a resumed session asks again.

use patchbay_tests::{
    answers::json_lines,
    binary::Patchbay,
    terminal::{CTRL_D, ESC, Terminal},
};

const PLAN: &str = "the session is in plan mode, so ";

fn open(patchbay: &Patchbay, arguments: &[&str]) -> Terminal {
    let terminal = Terminal::open(patchbay, arguments);
    terminal.wait_for_prompt();
    terminal
}

/// Grants do not help any caller: a user's command, a model, or a program that a model wrote.
#[test]
fn plan_changes_nothing() {
    let patchbay = Patchbay::quick();
    for capability in ["workspace-write", "workspace-delete"] {
        assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", capability]).code, Some(0));
    }
    patchbay.write("workspace/kept.txt", "kept\n");
    let program = r#"call code__run {"code":"return await tools.files.delete({path: 'kept.txt'})"}"#;
    let lines = [
        "/mode plan",
        r#"call files__write {"path":"made.txt","text":"x"}"#,
        r#"call files__delete {"path":"kept.txt"}"#,
        program,
        "/note add milk",
        r#"call files__read {"path":"kept.txt"}"#,
        "/mode ask",
        r#"call files__write {"path":"made.txt","text":"x"}"#,
    ];
    let ran = patchbay.run(&[&["exec", "--keep-going"][..], &lines].concat());
    let shown = format!("{}{}", ran.out, ran.err);
    assert!(ran.out.starts_with("Mode: plan. Nothing is changed"), "{shown}");
    for action in ["writing files", "deleting files", "changing stored keys"] {
        assert!(shown.contains(&format!("{PLAN}{action} is denied")), "{action}: {shown}");
    }
    assert!(ran.out.contains("kept"), "reading is not denied: {shown}");
    assert!(
        patchbay.workspace().join("kept.txt").exists() && patchbay.workspace().join("made.txt").exists(),
        "{shown}"
    );
    assert_eq!(patchbay.line("/note list"), "No notes.");
    assert!(patchbay.line("/mode fast").contains("unknown mode 'fast'; use ask, edits or plan."));
    // The skill with this alias is still there.
    assert!(patchbay.line("/help plan_compiler").contains("/plan"));
}

#[test]
fn edits_write_without_a_question_and_all_else_asks() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay, &[]);
    // Shift+Tab.
    terminal.press("\x1b[Z");
    terminal.wait_for_prefix("Mode: edits. Tools write files in this workspace without asking.");
    terminal.press("call files__write {\"path\":\"a.txt\",\"text\":\"one\\n\"}\r");
    terminal.wait_for_containing("Created 'a.txt'");
    terminal.wait_for_prefix("edits · ");
    terminal.wait_until_idle();
    let mut failed = 0;
    for (call, question) in [
        ("call files__write {\"path\":\"Makefile\",\"text\":\"all:\\n\"}", "Create Makefile: +1?"),
        ("call files__write {\"path\":\"run.sh\",\"text\":\"x\\n\"}", "Create run.sh: +1?"),
        ("call files__delete {\"path\":\"a.txt\"}", "Delete a.txt: −1?"),
        ("/note add milk", ""),
    ] {
        terminal.press(&format!("{call}\r"));
        if question.is_empty() {
            terminal.wait_for_containing("Note 1 added.");
        } else {
            terminal.wait_for_text(question);
            terminal.wait_for_prefix("1 once");
            std::thread::sleep(std::time::Duration::from_millis(600));
            terminal.press(ESC);
            failed += 1;
            terminal.wait_until("the model was told", || {
                terminal.all_rows().iter().filter(|row| row.contains(" failed: {")).count() == failed
            });
        }
        terminal.wait_until_idle();
    }
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait_for_exit(), 0);
    assert!(patchbay.workspace().join("a.txt").exists() && !patchbay.workspace().join("Makefile").exists());
    let rows = json_lines(&patchbay.run(&["journal", "--json", "--plugin", "files"]).out);
    let written = rows.iter().find(|row| row["tool"] == "write" && row["outcome"] == "ok").unwrap();
    let approval = serde_json::json!([{"capability": "workspace-write", "answer": "edits", "by": "person"}]);
    assert_eq!(written["approvals"], approval);
    // A resumed session asks again.
    let terminal = open(&patchbay, &["--continue"]);
    terminal.press("call files__write {\"path\":\"b.txt\",\"text\":\"x\\n\"}\r");
    terminal.wait_for_text("Create b.txt: +1?");
}
