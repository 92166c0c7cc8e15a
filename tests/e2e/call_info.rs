//! `patchbay:host/call`: information about the running call.

use patchbay_tests::{
    binary::Patchbay,
    guest::{Guest, package},
};

/// A skill that requests the rest of a limit with an unknown name, and fails with the host's error.
fn asking(capabilities: &str) -> Vec<u8> {
    let ask = "
        (call $remaining (i32.const 0) (i32.const 0) (i32.const 512))
        (i32.store8 (i32.const 0) (i32.const 1))
        (i32.store (i32.const 4) (i32.load (i32.const 520))) (i32.store (i32.const 8) (i32.load (i32.const 524)))
        (i32.store (i32.const 12) (i32.load (i32.const 528))) (i32.store (i32.const 16) (i32.load (i32.const 532)))
        (i32.const 0)";
    let import = "\n(import \"patchbay:host/call@0.1.0\" \"remaining\" (func $remaining (param i32 i32 i32)))\n";
    let skill_md = format!("---\ninvocation_mode: tool_dispatch\ncommand: ask\ncommand_tool: run\n{capabilities}---\n");
    package(Guest::calling(ask).with(import).importing("call"), &skill_md)
}

#[test]
fn only_calls_with_a_grant_learn_of_themselves() {
    let patchbay = Patchbay::new();
    patchbay.write("home/config/skills/ask.wasm", asking("capabilities: [kv]\n"));
    let deterministic = "Error: a call with no granted capability other than 'workspace-read' is deterministic, ";
    assert!(patchbay.line("/ask").starts_with(deterministic));
    patchbay.grant("ask", &["kv"]);
    assert_eq!(
        patchbay.line("/ask"),
        "Error: unknown limit ''; use time-ms, host-calls, output-bytes or inference-tokens"
    );
}
