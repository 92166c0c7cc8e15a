//! Components that attack the compiler. It compiles or rejects them; it neither panics nor overflows its stack.

use std::{fs, sync::Arc};

use patchbay_core::{Code, Digest};
use patchbay_sandbox::{Artefacts, Compiler, Sandbox};
use patchbay_tests::guest::{ECHO, Guest};
use wasm_encoder::{Component, ComponentSectionId, RawSection};

use crate::support::{Harness, small_limits};

/// Asserts that loading `bytes` succeeds or is rejected, and that a good component still loads. A compiler panic would be reported
/// as `unavailable`.
async fn assert_host_survives(what: &str, bytes: &[u8]) {
    let harness = Harness::new(small_limits());
    if let Err(failure) = harness.call_bytes(bytes).await {
        assert_ne!(failure.code(), Code::Unavailable, "{what}: {failure}");
    }
    harness.assert_still_works().await;
}

/// On macOS the compiler is the file at the program's path, which an upgrade may replace while the program is running.
#[tokio::test]
async fn compiler_of_another_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("compiler");
    fs::write(&script, "cat >/dev/null; printf 'for another engine'").unwrap();
    let compiler =
        Compiler { program: "/bin/sh".into(), arguments: vec![script.display().to_string()], keeps_functions: false };
    let sandbox = Arc::new(Sandbox::new(small_limits()).with_artefacts(Artefacts::not_kept(compiler)));
    let component = Guest::default().component();
    let failure = sandbox.load(Digest::of(&component), component).await.err().unwrap();
    assert_eq!(failure.code(), Code::Unavailable);
    assert!(failure.to_string().ends_with("restart Patchbay"), "{failure}");
}

#[tokio::test]
async fn deeply_nested_components_do_no_harm() {
    let mut inner = Component::new().finish();
    for _ in 0..2_000 {
        let mut outer = Component::new();
        outer.section(&RawSection { id: ComponentSectionId::Component.into(), data: &inner });
        inner = outer.finish();
    }
    assert_host_survives("alone", &inner).await;
    // Inside a valid skill component.
    let mut skill = Guest::default().component();
    skill.push(ComponentSectionId::Component.into());
    let mut length = inner.len();
    while length >= 0x80 {
        skill.push(length as u8 | 0x80);
        length >>= 7;
    }
    skill.push(length as u8);
    skill.extend(&inner);
    assert_host_survives("in a skill", &skill).await;
}

#[tokio::test]
async fn functions_hard_to_compile_do_no_harm() {
    let blocks = |count: usize| format!("{}{} {ECHO}", "block ".repeat(count), "end ".repeat(count));
    let loops = |count: usize| format!("{}{} {ECHO}", "loop ".repeat(count), "end ".repeat(count));
    let sum = |count: usize| {
        format!("(local.get $tool) {} {} drop {ECHO}", "(local.get $input) ".repeat(count), "i32.add ".repeat(count))
    };
    let chain =
        |count: usize| format!("(local.get $tool) {} drop {ECHO}", "i32.const 3 i32.mul i32.eqz ".repeat(count));
    let table = |count: usize| format!("(block $b (br_table {} $b (local.get $tool))) {ECHO}", "$b ".repeat(count));
    for (what, body) in [
        ("nested blocks", blocks(20_000)),
        ("nested loops", loops(2_000)),
        ("a deep operand stack", sum(5_000)),
        ("a long chain of operations", chain(20_000)),
        ("a branch with many targets", table(50_000)),
    ] {
        assert_host_survives(what, &Guest::calling(&body).component()).await;
    }
    let locals = format!("(func {})", "(local i64)".repeat(49_000));
    assert_host_survives("many locals", &Guest::default().with(&locals).component()).await;
    let functions = "(func (result i32) (i32.const 1))\n".repeat(10_000);
    assert_host_survives("many functions", &Guest::default().with(&functions).component()).await;
    let globals = "(global (mut i64) (i64.const 1))\n".repeat(100_000);
    assert_host_survives("many globals", &Guest::default().with(&globals).component()).await;
}
