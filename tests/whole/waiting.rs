//! What a person sees who waits for new components; and that nobody else sees it.

use patchbay_tests::{binary::Patchbay, guest::Guest};

use crate::editor::{CTRL_C, CTRL_D, ENTER, Terminal};

/// A skill with so much code that compiling it takes the most patient some time.
fn slow(n: usize) -> Vec<u8> {
    let function = format!(
        "(func (param $a i64) (result i64) (local.get $a){})\n",
        format!(" (i64.const {n}) i64.mul (local.get $a) i64.xor").repeat(12)
    );
    Guest::default().with(&format!("\n{}", function.repeat(12_000))).packaged("---\n---\n")
}

const COMPILING: &str = "Compiling 1 new component… 0/1";

/// A home that has compiled what it brings along.
fn used() -> Patchbay {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.line("/calc 1 + 1"), "2");
    patchbay
}

fn is_compiling(terminal: &Terminal) -> bool {
    terminal.lines().iter().any(|line| line.contains("Compiling"))
}

#[test]
fn the_terminal_says_why_one_waits() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &[]);
    terminal.shows(COMPILING);
    terminal.shows("/commands lists what works, Tab completes, /quit leaves.");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    patchbay.write("home/config/skills/two.wasm", slow(2));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.shows(COMPILING);
    terminal.shows("+ two");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    // Who gives up is not left with the line.
    patchbay.write("home/config/skills/three.wasm", slow(3));
    terminal.press("/reload_skills");
    terminal.press(ENTER);
    terminal.shows(COMPILING);
    terminal.press(CTRL_C);
    terminal.shows("Cancelled.");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    terminal.press("/calc 2 + 3");
    terminal.press(ENTER);
    terminal.shows("5");
    terminal.press(CTRL_D);
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn exec_in_a_terminal_says_why_one_waits() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let terminal = Terminal::open(&patchbay, &["exec", "/calc 2 + 3"]);
    terminal.shows(COMPILING);
    terminal.shows("5");
    assert!(!is_compiling(&terminal), "{:?}", terminal.lines());
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn where_nobody_looks_nothing_is_said() {
    let patchbay = used();
    patchbay.write("home/config/skills/one.wasm", slow(1));
    let ran = patchbay.exec(&["/calc 2 + 3"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "5\n", ""));
}
