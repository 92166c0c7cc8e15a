//! Any bytes as a SKILL.md.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, Name, text};
use patchbay_skill::{Manifest, Problem};
use serde_json::{Value, json};

static NAME: LazyLock<Name> = LazyLock::new(|| "calc".parse().expect("a name"));

fuzz_target!(|bytes: &[u8]| {
    // As in a folder; a file that is no UTF-8 is refused before.
    let Ok(skill_md) = std::str::from_utf8(bytes) else { return };
    let read = Manifest::read(skill_md, &NAME);
    assert_eq!(read, Manifest::read(skill_md, &NAME), "it reads the same each time");
    match read {
        Ok(manifest) => accepted(&manifest, skill_md),
        Err(problem) => refused(&problem),
    }
});

fn refused(problem: &Problem) {
    let Problem { code, message } = problem;
    assert!(matches!(code, Code::MalformedFrontmatter | Code::InvalidName | Code::InvalidCommandAlias), "{problem:?}");
    assert!(!message.is_empty() && message.chars().count() <= 500, "{message:?}");
    assert_eq!(*message, text::clean_line(message), "a diagnostic is one clean line");
}

fn accepted(manifest: &Manifest, skill_md: &str) {
    let eligibility = &manifest.eligibility;
    let optional = [&manifest.version, &manifest.input_hint, &manifest.command_tool].into_iter().flatten();
    let reasons = manifest.capabilities.iter().filter_map(|asked| asked.reason.as_ref());
    let lists = [&manifest.requires_tools, &eligibility.os, &eligibility.env, &eligibility.binaries];
    let lines: Vec<&String> =
        lists.into_iter().flatten().chain(optional).chain(reasons).chain([&manifest.summary]).collect();
    for line in &lines {
        assert!(line.chars().count() <= 501, "{line:?}");
        assert_eq!(**line, text::clean_line(line), "what lists show is one clean line");
    }
    assert_eq!(manifest.instructions, text::clean(&manifest.instructions), "instructions are clean");
    assert!(manifest.instructions.len() <= skill_md.len());
    // Anchors may repeat what is written once, within the parser's budget.
    assert!(lines.len() <= 100 + 100 * skill_md.len(), "{} lines from {} bytes", lines.len(), skill_md.len());

    let kept = serde_json::to_string(manifest).expect("a manifest is kept as JSON");
    assert_eq!(serde_json::from_str::<Manifest>(&kept).ok().as_ref(), Some(manifest), "kept and read, it is the same");
    let written = written(manifest);
    match Manifest::read(&written, &NAME) {
        Ok(again) => assert_eq!(again, *manifest, "written out, it reads the same: {written:?}"),
        Err(problem) => panic!("written out, it is refused: {problem}: {written:?}"),
    }
}

/// The manifest as a SKILL.md. JSON is YAML, once what YAML cannot print is escaped.
fn written(manifest: &Manifest) -> String {
    let capabilities: Vec<Value> = manifest
        .capabilities
        .iter()
        .map(|asked| {
            json!({
                "name": asked.capability.to_string(),
                "reason": asked.reason,
                "optional": asked.optional,
            })
        })
        .collect();
    let keys = json!({
        "summary": manifest.summary,
        "version": manifest.version,
        "invocation_mode": manifest.invocation_mode.as_str(),
        "command": manifest.command,
        "input_hint": manifest.input_hint,
        "command_tool": manifest.command_tool,
        "requires_tools": manifest.requires_tools,
        "eligibility": manifest.eligibility,
        "capabilities": capabilities,
    });
    format!("---\n{keys}\n---\n{}", manifest.instructions)
}
