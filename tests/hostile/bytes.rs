//! Loading bytes that are not a valid skill component. None of them is executed.

use patchbay_core::Code;
use patchbay_sandbox::Failure;
use patchbay_tests::guest::Guest;

use crate::support::{Harness, small_limits};

fn component(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap()
}

async fn load_error(bytes: &[u8]) -> String {
    let failure = Harness::new(small_limits()).assert_load_fails(bytes).await;
    assert_eq!(failure.code(), Code::InvalidComponent, "{failure}");
    let words = failure.to_string();
    assert!(words.chars().count() <= 500 && !words.contains('\n'), "{words}");
    words
}

#[tokio::test]
async fn bytes_that_are_not_webassembly_are_rejected() {
    let words = "not WebAssembly: it does not begin with the four bytes '\\0asm'";
    for bytes in [&b""[..], b"\0as", b"#!/bin/sh\necho no", b"(component)", b"\x7fELF\x02\x01\x01", &[0; 1000]] {
        assert_eq!(load_error(bytes).await, words);
    }
}

#[tokio::test]
async fn core_module_error_says_how_to_build_a_component() {
    let words = "a core module, not a component; 'patchbay plugin build' turns it into one";
    assert_eq!(load_error(&component("(module)")).await, words);
    assert_eq!(load_error(&component(&Guest::default().wat())).await, words);
}

#[tokio::test]
async fn component_truncated_at_any_byte_is_rejected() {
    let harness = Harness::new(small_limits());
    let whole = Guest::default().component();
    let first_end = end_of_exports(&whole);
    for end in (0..whole.len()).step_by(7) {
        match harness.load(&whole[..end]).await {
            Err(failure) => assert_eq!(failure.code(), Code::InvalidComponent, "at {end}: {failure}"),
            // Only debug names follow the last export, so a component without them is valid.
            Ok(_) => assert!(end >= first_end, "{end} of {} bytes were enough", whole.len()),
        }
    }
    harness.assert_still_works().await;
}

/// Returns the offset at which the exports of a component end.
fn end_of_exports(bytes: &[u8]) -> usize {
    let export = b"patchbay:skill/skill@0.1.0";
    bytes.windows(export.len()).rposition(|window| window == export).unwrap() + export.len()
}

/// A component with a flipped bit works or fails with a typed error, and other components still work.
#[tokio::test]
async fn component_with_a_flipped_byte_does_no_harm() {
    let harness = Harness::new(small_limits());
    let whole = Guest::default().component();
    let step = whole.len() / 200;
    for (turn, at) in (0..whole.len()).step_by(step).enumerate() {
        let mut bytes = whole.clone();
        bytes[at] ^= [0x01, 0x80, 0xff, 0x10][turn % 4];
        // A compiler panic would be reported as `unavailable`.
        if let Err(failure) = harness.call_bytes(&bytes).await {
            assert_ne!(failure.code(), Code::Unavailable, "byte {at}: {failure}");
        }
    }
    harness.assert_still_works().await;
}

#[tokio::test]
async fn component_of_another_world_is_named() {
    let expects = "a skill exports patchbay:skill/skill@0.1.x, but this component exports";
    let declared = ". Declare the tools: in Rust with skill! { … } in src/lib.rs, in JavaScript with `export const skill = \
                    defineSkill({ … })`, in Python with @tool, in C with PATCHBAY_TOOLS(…)";
    assert_eq!(load_error(&component("(component)")).await, format!("{expects} nothing{declared}"));
    let other = r#"(component (instance $i) (export "acme:robot/arm@1.2.0" (instance $i)))"#;
    assert_eq!(load_error(&component(other)).await, format!("{expects} acme:robot/arm@1.2.0{declared}"));
    // The right interface in another version.
    let newer = r#"(component (instance $i) (export "patchbay:skill/skill@0.2.0" (instance $i)))"#;
    assert_eq!(load_error(&component(newer)).await, format!("{expects} patchbay:skill/skill@0.2.0{declared}"));
}

/// Returns a component with the exports of a skill and further content.
fn component_with(more: &str) -> Vec<u8> {
    component(&format!(r#"(component {more} (instance $i) (export "patchbay:skill/skill@0.1.0" (instance $i)))"#))
}

#[tokio::test]
async fn unknown_import_is_named() {
    let foreign = |name: &str| format!("it imports '{name}', which this host does not offer to a skill");
    for name in ["wasi:cli/environment@0.3.0", "wasi:keyvalue/store@0.2.0", "wasi:sockets/tcp", "acme:robot/arm@1.0.0"]
    {
        assert_eq!(load_error(&component_with(&format!("(import \"{name}\" (instance))"))).await, foreign(name));
    }
    assert_eq!(load_error(&component_with("(import \"run\" (func))")).await, foreign("run"));
    assert_eq!(load_error(&component_with("(import \"library\" (core module))")).await, foreign("library"));
    // An unknown interface of the host's package, and an unknown version.
    for name in [
        "patchbay:host/secrets@0.1.0",
        "patchbay:host/secrets@0.1.9",
        "patchbay:host/log@0.2.0",
        "patchbay:host/log@1.0.0",
    ] {
        let import = format!(
            r#"(import "{name}" (instance $s (export "read" (func))))
               (core func $read (canon lower (func $s "read")))
               (core module $m (import "h" "read" (func)))
               (core instance (instantiate $m (with "h" (instance (export "read" (func $read))))))"#
        );
        let words = load_error(&component_with(&import)).await;
        assert!(words.contains(&format!("`{name}`")) || words.contains(&format!("'{name}'")), "{words}");
        let newer = "from a newer contract than this host's (0.1.2); update Patchbay";
        assert_eq!(words.contains(newer), name.ends_with("@0.1.9"), "{words}");
    }
}

#[tokio::test]
async fn known_import_with_another_type_is_rejected() {
    for (import, expected) in [
        // A core module under the name of an interface.
        (r#"(import "patchbay:host/log@0.1.0" (core module))"#, "expected module found instance"),
        (
            r#"(import "patchbay:host/log@0.1.0" (core module $m)) (core instance (instantiate $m))"#,
            "it imports core modules",
        ),
        // An unknown function, and a function with other parameters.
        (r#"(import "patchbay:host/log@0.1.0" (instance (export "erase" (func))))"#, "erase"),
        (r#"(import "patchbay:host/log@0.1.0" (instance (export "write" (func (param "x" u64)))))"#, "write"),
        // A resource handle, which the host would have to manage.
        (r#"(import "patchbay:host/log@0.1.0" (instance (export "file" (type (sub resource)))))"#, "file"),
    ] {
        let words = load_error(&component_with(import)).await;
        assert!(words.contains(expected), "{words}");
    }
}

#[tokio::test]
async fn export_with_another_type_is_rejected() {
    let harness = Harness::new(small_limits());
    let words = load_error(&component_with("")).await;
    assert!(words.contains("tools") || words.contains("call"), "{words}");
    // Functions with the right names and wrong types are detected when the component is instantiated.
    let wrong = component(
        r#"(component
             (core module $m (func (export "f")))
             (core instance $c (instantiate $m))
             (func $f (canon lift (core func $c "f")))
             (instance $i (export "tools" (func $f)) (export "call" (func $f)))
             (export "patchbay:skill/skill@0.1.0" (instance $i)))"#,
    );
    let failure = harness.call_bytes(&wrong).await.unwrap_err();
    assert_eq!(failure.code(), Code::InvalidComponent, "{failure}");
    assert!(failure.to_string().contains("type mismatch"), "{failure}");
    harness.assert_still_works().await;
}

#[tokio::test]
async fn async_abi_is_rejected() {
    let words = load_error(&component(
        r#"(component
             (core module $m
               (func (export "f") (result i32) (i32.const 0))
               (func (export "cb") (param i32 i32 i32) (result i32) (i32.const 0)))
             (core instance $c (instantiate $m))
             (func $f async (canon lift (core func $c "f") async (callback (func $c "cb"))))
             (instance $i (export "tools" (func $f)))
             (export "patchbay:skill/skill@0.1.0" (instance $i)))"#,
    ))
    .await;
    assert!(words.contains("async"), "{words}");
}

/// Names of imports and exports come from the component, so errors must clean them.
#[tokio::test]
async fn names_in_errors_are_cleaned_and_bounded() {
    use wasm_encoder::{ComponentExportKind, ComponentExportSection, ComponentImportSection, ComponentTypeRef};
    let mut imports = ComponentImportSection::new();
    imports.import("\u{1b}[2J\u{202e}evil\nline", ComponentTypeRef::Component(0));
    let mut exports = ComponentExportSection::new();
    exports.export("patchbay:skill/skill@0.1.0", ComponentExportKind::Instance, 0, None);
    let mut component = wasm_encoder::Component::new();
    component.section(&imports).section(&exports);
    assert_eq!(
        load_error(&component.finish()).await,
        "it imports '[2Jevil line', which this host does not offer to a skill"
    );
    let mut exports = ComponentExportSection::new();
    for _ in 0..100 {
        exports.export("\u{9b}31mlong", ComponentExportKind::Instance, 0, None);
    }
    let mut component = wasm_encoder::Component::new();
    component.section(&exports);
    let words = load_error(&component.finish()).await;
    assert!(words.contains("31mlong") && !words.contains('\u{9b}'), "{words}");
}

/// After a rejected load, the same caller can load other bytes.
#[tokio::test]
async fn rejected_component_does_not_affect_others() {
    let harness = Harness::new(small_limits());
    let bytes = Guest::default().component();
    let digest = patchbay_core::Digest::of(&bytes);
    let failure = harness.sandbox.load(digest, b"damaged".to_vec()).await.err().unwrap();
    assert!(matches!(failure, Failure::InvalidComponent(_)));
    let loaded = harness.sandbox.load(digest, bytes).await.unwrap();
    assert_eq!(loaded.digest(), digest);
}
