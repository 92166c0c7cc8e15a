//! Questions in the terminal: a call of a skill without the necessary grant asks the user and continues with the answer.

use std::{io::Write as _, process::Stdio, thread, time::Duration};

use patchbay_tests::{
    answers::json_lines,
    binary::{Patchbay, ran},
    calls::SAY,
    documents::checkout,
    guest::Guest,
    terminal::{CTRL_C, CTRL_D, ESC, Terminal, paste},
};

const QUESTION: &str = "Store the key stored of this workspace: 6 bytes?";
const ANSWERS: &str = "1 once  2 this session  3 always here  Esc no  n no, and why  c this whole call  \
                       e exactly this again";
/// Shown in place of the answers while the composer has text.
const DISARMED: &str = "Clear your text to answer (Ctrl+C); Esc no";
const DENIED: &str =
    "Error: skill 'keeper' may not use 'kv': it is not granted. To grant it: patchbay grant add keeper kv";

/// Returns a guest that adds an entry to its store and returns `stored`. It fails if access is denied.
pub(crate) fn keeper() -> Guest {
    Guest::calling(
        "(call $put (i32.const 1) (i32.const 300) (i32.const 6) (i32.const 300) (i32.const 6) (i32.const 0) (i64.const 0) (i32.const 160))
    (if (i32.load8_u (i32.const 160)) (then
      (i32.store8 (i32.const 0) (i32.const 1))
      (i32.store (i32.const 4) (i32.const 300)) (i32.store (i32.const 8) (i32.const 6))
      (i32.store (i32.const 12) (i32.const 300)) (i32.store (i32.const 16) (i32.const 6))
      (return (i32.const 0))))
    (call $say (i32.const 300) (i32.const 6))",
    )
    .with("\n(import \"patchbay:host/kv@0.1.0\" \"put\" (func $put (param i32 i32 i32 i32 i32 i32 i64 i32)))\n")
    .with(SAY)
    .with("\n(data (i32.const 300) \"stored\")\n")
}

fn with_keeper() -> Patchbay {
    let patchbay = Patchbay::new();
    patchbay.add_command("keeper", &keeper(), "capabilities: [{name: kv, reason: keeps your notes}]\n");
    patchbay
}

fn open(patchbay: &Patchbay) -> Terminal {
    let terminal = Terminal::open(patchbay, &[]);
    terminal.wait_for_prompt();
    terminal
}

/// Types a key after the interval in which a question ignores keys.
fn answer(terminal: &Terminal, key: &str) {
    terminal.wait_for_prefix("1 once");
    press_late(terminal, key);
}

/// Types keys once the question on the screen accepts an answer.
fn press_late(terminal: &Terminal, keys: &str) {
    thread::sleep(Duration::from_millis(600));
    terminal.press(keys);
}

fn leave(terminal: Terminal) {
    terminal.press(CTRL_D);
    // Until the last row of the turn is there, the terminal requires the key a second time.
    thread::sleep(Duration::from_millis(300));
    if terminal.lines().iter().any(|line| line.contains("Ctrl+D again")) {
        terminal.press(CTRL_D);
    }
    assert_eq!(terminal.wait_for_exit(), 0);
}

#[test]
fn answered_question_lets_the_call_go_on() {
    let patchbay = with_keeper();
    let terminal = open(&patchbay);
    terminal.press("/keeper\r");
    for line in [
        QUESTION,
        "value: \"stored\"",
        "for keeper__run",
        "the user skill 'keeper' asks for 'kv'",
        "the skill's reason: keeps your notes",
    ] {
        terminal.wait_for_text(line);
    }
    answer(&terminal, "1");
    terminal.wait_for_text("Allowed once: Store the key stored of this workspace: 6 bytes.");
    terminal.wait_for_text("stored");
    // The yes applied to that act only.
    terminal.press("/keeper\r");
    answer(&terminal, "3");
    terminal
        .wait_for_prefix("Allowed in this workspace from now on: 'kv' for the user skill 'keeper'. To take it back:");
    terminal.wait_for_prompt();
    terminal.press("/calc 6 * 7\r");
    terminal.wait_for_text("42");
    let digest = patchbay.answers(&["/help keeper"])[0].data()["digest"].as_str().unwrap().to_owned();
    let workspace = patchbay.workspace().canonicalize().unwrap();
    let listed = format!("keeper user skill in {}: kv {digest}\n", workspace.display());
    assert_eq!(patchbay.run(&["grant", "list"]).out, listed);
    leave(terminal);
    let mut rows = json_lines(&patchbay.run(&["journal", "--json", "--plugin", "keeper"]).out);
    // The act was the same in both cases.
    let shown: Vec<_> = rows.iter_mut().map(|row| row["approvals"][0]["shown"].take()).collect();
    assert!(shown[0].as_str().is_some_and(|digest| digest.starts_with("sha256:")) && shown[0] == shown[1], "{shown:?}");
    let approval = |answer| serde_json::json!([{"capability": "kv", "answer": answer, "by": "person", "shown": null}]);
    assert_eq!(
        rows.iter().map(|row| row["approvals"].clone()).collect::<Vec<_>>(),
        [approval("once"), approval("always")]
    );
    let table = patchbay.run(&["journal", "--plugin", "keeper"]).out;
    assert!(table.contains("kv (once by person)\n") && table.contains("kv (always by person)\n"), "{table}");
    assert_eq!(patchbay.line("/keeper"), "stored");
}

#[test]
fn refused_call_fails_as_without_a_terminal() {
    let patchbay = with_keeper();
    let terminal = open(&patchbay);
    terminal.press("/keeper\r");
    answer(&terminal, ESC);
    terminal.wait_for_text("Not allowed: Store the key stored of this workspace: 6 bytes.");
    terminal.wait_for_text("Error: skill 'keeper' may not use 'kv':");
    terminal.wait_for_text("it is not granted.");
    terminal.wait_for_text("To grant it:");
    // The command is on a line of its own.
    terminal.wait_for_text("patchbay grant add keeper kv");
    // Stopping the turn withdraws the question.
    terminal.press("/keeper\r");
    terminal.wait_for_text(ANSWERS);
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    terminal.wait_for_prompt();
    assert!(!terminal.lines().iter().any(|line| line == ANSWERS), "{:?}", terminal.lines());
    leave(terminal);
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
}

/// While the window has no focus, the bell rings, the desktop shows the question, and the title has a mark.
#[test]
fn waiting_question_calls() {
    let patchbay = with_keeper();
    let terminal = open(&patchbay);
    terminal.press("\x1b[O");
    terminal.press("/keeper\r");
    terminal.wait_for_text(QUESTION);
    let written = terminal.written();
    let told = format!(" asks: {QUESTION}\x1b\\");
    let notified =
        written.split("\x1b]9;Patchbay: ").any(|part| part.split('\n').next().unwrap_or_default().contains(&told));
    assert!(notified && written.contains("\x1b]2;? "), "{written:?}");
    answer(&terminal, ESC);
    terminal.wait_for_prompt();
    leave(terminal);
}

/// A reason that the user adds to a no reaches the model, even for a nested call.
#[test]
fn reason_of_a_no_reaches_the_model() {
    let patchbay = with_keeper();
    patchbay.add_relay("ask", "keeper__run", "{}");
    let terminal = open(&patchbay);
    for call in ["call keeper__run {}", "call ask__run {}"] {
        terminal.press(&format!("{call}\r"));
        answer(&terminal, "n");
        terminal.wait_for_prefix("Why not?");
        terminal.press("keep 1 it in memory\r");
        terminal.wait_for_text("Not allowed: Store the key stored of this workspace: 6 bytes.");
        terminal.wait_for_containing(&format!("{} failed:", &call[5..call.len() - 3]));
        terminal.wait_until_idle();
    }
    leave(terminal);
    let session = patchbay.run(&["sessions"]).out.split_whitespace().next().unwrap().to_owned();
    let shown = patchbay.run(&["sessions", "show", &session, "--json"]).out;
    let results: Vec<_> = json_lines(&shown).into_iter().filter(|row| row["kind"] == "tool").collect();
    for result in &results {
        let read = result["data"]["content"][0]["text"].as_str().unwrap();
        assert!(read.contains("The user said no: keep 1 it in memory"), "{read}");
    }
    assert_eq!(results.len(), 2, "{shown}");
}

#[test]
fn paste_reaches_the_composer_while_a_question_is_open() {
    let patchbay = with_keeper();
    let terminal = open(&patchbay);
    terminal.press("/keeper\r");
    terminal.wait_for_text(ANSWERS);
    terminal.press(&paste("now 1 and 3"));
    terminal.wait_for_text("> now 1 and 3");
    terminal.wait_for_text(DISARMED);
    terminal.press(ESC);
    terminal.wait_for_text("Not allowed: Store the key stored of this workspace: 6 bytes.");
    terminal.wait_for_text("patchbay grant add keeper kv");
    terminal.wait_for_text("> now 1 and 3");
    terminal.press(CTRL_C);
    terminal.wait_for_prompt();
    leave(terminal);
}

/// Text that is typed while a question is open is a draft, and none of its keys is an answer, neither during the interval in which
/// all keys are ignored nor after it. The question can be answered once the draft is gone.
#[test]
fn typed_text_does_not_answer() {
    let patchbay = with_keeper();
    let terminal = open(&patchbay);
    for wait in [0, 600] {
        terminal.press("/keeper\r");
        terminal.wait_for_text(ANSWERS);
        thread::sleep(Duration::from_millis(wait));
        for key in ["t", "y", "3", "n", "1", "v", "2", "c"] {
            terminal.press(key);
            thread::sleep(Duration::from_millis(30));
        }
        terminal.wait_for_text("> ty3n1v2c");
        terminal.wait_for_text(DISARMED);
        thread::sleep(Duration::from_millis(600));
        terminal.press("1");
        terminal.wait_for_text("> ty3n1v2c1");
        terminal.press(CTRL_C);
        answer(&terminal, "n");
        terminal.wait_for_prefix("Why not?");
        terminal.press("\r");
        terminal.wait_for_text("patchbay grant add keeper kv");
        terminal.wait_for_prompt();
    }
    leave(terminal);
    assert_eq!(patchbay.run(&["grant", "list"]).out, "No grants.\n");
}

/// The user answers after the time limit of calls has passed.
#[test]
fn clocks_of_nested_calls_wait_for_the_answer() {
    let patchbay = with_keeper();
    // Long enough for the calls themselves on a busy machine.
    patchbay.write("home/config/config.toml", "[limits]\ntime_ms = 6000\n");
    patchbay.add_relay("ask", "keeper__run", "{}");
    let terminal = open(&patchbay);
    terminal.press("/ask\r");
    terminal.wait_for_text(QUESTION);
    terminal.wait_for_text("for ask__run → keeper__run");
    thread::sleep(Duration::from_secs(7));
    answer(&terminal, "1");
    terminal.wait_for_text("stored");
    leave(terminal);
    let rows = json_lines(&patchbay.run(&["journal", "--json"]).out);
    let outcomes: Vec<_> =
        rows.iter().map(|row| (row["skill"].as_str().unwrap(), row["outcome"].as_str().unwrap())).collect();
    assert_eq!(outcomes, [("keeper", "ok"), ("ask", "ok")]);
}

#[test]
fn scripts_are_denied_without_a_question() {
    let patchbay = with_keeper();
    assert_eq!(patchbay.line("/keeper"), DENIED);
    let mut child = patchbay.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"/keeper\n1\ncall keeper__run {}\n").unwrap();
    let piped = ran(child.wait_with_output().unwrap());
    assert!(piped.err.contains(DENIED) && !piped.out.contains("stored"), "{piped:?}");
    // The command is also complete if the model made the call.
    let failure = "✗ skill 'keeper' may not use 'kv': it is not granted. To grant it:\npatchbay grant add keeper kv\n";
    assert!(piped.err.contains(failure), "{piped:?}");
}

#[test]
fn skills_of_an_untrusted_workspace_never_ask() {
    let patchbay = Patchbay::new();
    let skill_md = "---\ninvocation_mode: tool_dispatch\ncommand: keeper\ncommand_tool: run\ncapabilities: [kv]\n---\n";
    patchbay.write("workspace/.patchbay/skills/keeper.wasm", keeper().packaged(skill_md));
    let terminal = open(&patchbay);
    terminal.press("/keeper\r");
    terminal.wait_for_text("Error: skill 'keeper' may not use 'kv':");
    terminal.wait_for_text("it is not granted.");
    assert_eq!(patchbay.run(&["trust", "add"]).code, Some(0));
    terminal.press("/keeper\r");
    terminal.wait_for_text(QUESTION);
    answer(&terminal, "1");
    terminal.wait_for_text("stored");
    leave(terminal);
}

/// Calls by a model also ask, and a yes for the session is requested only once.
#[test]
fn edits_are_shown_as_a_diff() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay);
    terminal.press("call files__write {\"path\":\"a.txt\",\"text\":\"one\\ntwo\\n\"}\r");
    for line in ["Create a.txt: +2?", "1 + one", "2 + two", "the bundled skill 'files' asks for 'workspace-write'"] {
        terminal.wait_for_text(line);
    }
    answer(&terminal, "2");
    terminal.wait_for_containing("s: Created 'a.txt': 2 lines, 8 bytes.");
    terminal.wait_for_text("+ one");
    terminal.wait_for_text("+ two");
    terminal.wait_for_prompt();
    terminal.press("call files__edit {\"path\":\"a.txt\",\"old\":\"two\\n\",\"new\":\"2\\n\"}\r");
    terminal.wait_for_text("- two");
    terminal.wait_for_text("+ 2");
    terminal.wait_for_prompt();
    leave(terminal);
    assert_eq!(std::fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), "one\n2\n");
}

#[test]
fn bare_help_gets_a_hint_in_the_terminal_only() {
    let patchbay = Patchbay::new();
    let hint = "? lists the keys, /commands the commands.";
    let terminal = open(&patchbay);
    terminal.press("/help\r");
    terminal.wait_for_prefix("Error: /help requires");
    terminal.wait_for_text(hint);
    leave(terminal);
    assert!(!patchbay.line("/help").contains(hint));
}

/// A yes for a folder applies to the files below it until the session ends.
#[test]
fn folder_is_allowed_for_the_session() {
    let patchbay = Patchbay::quick();
    let terminal = open(&patchbay);
    let write = |path: &str| format!("call files__write {{\"path\":\"{path}\",\"text\":\"x\\n\"}}\r");
    terminal.press(&write("src/a.txt"));
    terminal.wait_for_prefix("Create src/a.txt: +1?");
    press_late(&terminal, "f");
    terminal.wait_for_text(
        "Allowed for this session, until you leave it: 'workspace-write' below src/ for the bundled skill 'files'.",
    );
    terminal.press(&write("src/deep/b.txt"));
    terminal.wait_for_prefix("✓ 2  write src/deep/b.txt");
    terminal.press(&write("other.txt"));
    terminal.wait_for_prefix("Create other.txt: +1?");
    terminal.press(CTRL_C);
    terminal.wait_for_prefix("Stopped after ");
    leave(terminal);
    assert!(patchbay.workspace().join("src/deep/b.txt").exists());
    assert!(!patchbay.workspace().join("other.txt").exists());
}

/// A patch of several files is one question, which lists them.
#[test]
fn patch_of_several_files_is_one_question() {
    let patchbay = Patchbay::quick();
    patchbay.write("workspace/x", "a\nb\n");
    patchbay.write("workspace/z", "z\n");
    let terminal = open(&patchbay);
    let patch = r"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/d/y\n@@ -0,0 +1 @@\n+1\n--- a/z\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n";
    terminal.press(&format!("call files__patch {{\"patch\":\"{patch}\"}}\r"));
    terminal.wait_for_prefix("Change 3 files (1 new, 1 deleted): +2 −2?");
    for line in ["Overwrite x: +1 −1", "1 - a", "1 + A", "Delete z: −1", "Create d/y: +1"] {
        terminal.wait_for_text(line);
    }
    answer(&terminal, "1");
    terminal.wait_for_containing("Created 'd/y': 1 line.");
    terminal.press("call files__rename {\"from\":\"x\",\"to\":\"w\"}\r");
    terminal.wait_for_prefix("Change 2 files (1 new, 1 deleted): +2 −2?");
    answer(&terminal, "1");
    terminal.wait_for_containing("Moved 'x' to 'w'");
    leave(terminal);
    let text = |name: &str| std::fs::read_to_string(patchbay.workspace().join(name)).ok();
    assert_eq!(["w", "d/y", "x", "z"].map(text), [Some("A\nb\n".into()), Some("1\n".into()), None, None]);
}

/// What a user with a screen reader does: allow, deny with a reason, leave. Nothing is drawn.
#[test]
fn plain_lines_ask_and_are_answered_by_lines() {
    let patchbay = with_keeper();
    let terminal = Terminal::open(&patchbay, &["--plain"]);
    terminal.wait_for_prefix(">");
    terminal.press("/keeper\r");
    let keys = "Type an answer and Enter: 1 once, 2 this session, 3 always here, n no, n WHY, v all of it, c this whole call, \
                e exactly this again.";
    // The window's width ends within the text.
    let keys = keys[..120].trim_end();
    for line in [QUESTION, "value: \"stored\"", "for keeper__run", "the user skill 'keeper' asks for 'kv'", keys] {
        terminal.wait_for_text(line);
    }
    press_late(&terminal, "1\r");
    terminal.wait_for_text("Allowed once: Store the key stored of this workspace: 6 bytes.");
    terminal.wait_for_text("stored");
    terminal.press("call keeper__run {}\r");
    terminal.wait_until("it asks again", || terminal.all_rows().iter().filter(|row| *row == keys).count() == 2);
    // Not an answer but a line, which runs later.
    press_late(&terminal, "/calc 6 * 7\r");
    terminal.press("n keep it in memory\r");
    terminal.wait_for_text("Not allowed: Store the key stored of this workspace: 6 bytes.");
    terminal.wait_for_containing("The user said no: keep it in memory");
    terminal.wait_for_text("> /calc 6 * 7");
    terminal.wait_for_text("42");
    assert!(!terminal.written().contains("\u{1b}["), "something was drawn");
    terminal.press("/quit\r");
    assert_eq!(terminal.wait_for_exit(), 0);
}

/// The session in section "With a screen reader" of docs/keys.md, line by line.
#[test]
fn session_of_the_guide_for_screen_readers_runs_as_printed() {
    let page = std::fs::read_to_string(checkout().join("docs/keys.md")).unwrap();
    let section = page.split_once("### With a screen reader").unwrap().1;
    let session = section.split("```").nth(1).unwrap().trim();
    let patchbay = Patchbay::quick();
    let terminal = Terminal::open(&patchbay, &["--plain"]);
    terminal.wait_for_prefix(">");
    let mut typed = 0;
    for line in session.lines() {
        match line.strip_prefix("> ") {
            Some(command) => terminal.press(&format!("{command}\r")),
            None if line == "1" || line.starts_with("n ") => {
                terminal.wait_for_containing("Type an answer and Enter");
                press_late(&terminal, &format!("{line}\r"));
            }
            None => {
                terminal.wait_for_containing(line);
                continue;
            }
        }
        typed += 1;
    }
    assert_eq!(typed, 6);
    assert_eq!(std::fs::read_to_string(patchbay.workspace().join("a.txt")).unwrap(), "hello\n");
}
