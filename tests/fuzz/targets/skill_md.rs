//! Any bytes as a SKILL.md.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, Name, text};
use patchbay_skill::{Instructions, Manifest, ParsedSkillMd, Problem};
use serde_json::{Value, json};

static NAME: LazyLock<Name> = LazyLock::new(|| "calc".parse().expect("a name"));

fuzz_target!(|bytes: &[u8]| {
    // The same check as for a folder; a file that is not UTF-8 is refused earlier.
    let Ok(skill_md) = std::str::from_utf8(bytes) else { return };
    let read = Manifest::parse(skill_md, &NAME);
    assert_eq!(read, Manifest::parse(skill_md, &NAME), "it reads the same each time");
    match read {
        Ok(read) => {
            accepted(&read, skill_md);
            if !read.mended.is_empty() {
                mended(&read, skill_md);
            }
        }
        Err(problem) => refused(&problem),
    }
});

fn refused(problem: &Problem) {
    let Problem { code, message } = problem;
    assert!(matches!(code, Code::MalformedFrontmatter | Code::InvalidName | Code::InvalidCommandAlias), "{problem:?}");
    assert!(!message.is_empty() && message.chars().count() <= 500, "{message:?}");
    assert_eq!(*message, text::clean_line(message), "a diagnostic is one clean line");
}

/// A repaired manifest has the same requests and requirements as the text without the repaired lines.
fn mended(read: &ParsedSkillMd, skill_md: &str) {
    let mut lines: Vec<&str> = skill_md.split_inclusive('\n').collect();
    for note in read.mended.iter().rev() {
        assert_eq!(note.code, Code::FrontmatterMended);
        assert_eq!(note.message, text::clean_line(&note.message));
        let line = note.message.strip_prefix("Line ").and_then(|rest| rest.split_once(':'));
        let line: usize = line.expect("a line").0.parse().expect("a number");
        lines.remove(line - 1);
    }
    let without = Manifest::parse(&lines.concat(), &NAME).expect("the other lines can be read");
    assert!(without.mended.is_empty());
    assert_eq!(read.manifest.eligibility, without.manifest.eligibility, "{skill_md:?}");
    assert_eq!(read.manifest.capabilities, without.manifest.capabilities, "{skill_md:?}");
    assert_eq!(read.manifest.command_tool, without.manifest.command_tool, "{skill_md:?}");
}

fn accepted(read: &ParsedSkillMd, skill_md: &str) {
    let manifest = &read.manifest;
    let eligibility = &manifest.eligibility;
    let optional =
        [&manifest.version, &manifest.input_hint, &manifest.command_tool, &manifest.license, &manifest.compatibility];
    let optional = optional.into_iter().flatten();
    let reasons = manifest.capabilities.iter().filter_map(|asked| asked.reason.as_ref());
    let lists = [&manifest.requires_tools, &eligibility.os, &eligibility.env, &eligibility.binaries];
    let lines: Vec<&String> =
        lists.into_iter().flatten().chain(optional).chain(reasons).chain(&manifest.allowed_tools).collect();
    for line in &lines {
        assert!(line.chars().count() <= 501, "{line:?}");
    }
    assert!(manifest.summary.chars().count() <= 1_025, "{:?}", manifest.summary);
    assert!(manifest.unused.iter().all(|key| key.chars().count() <= 41), "{:?}", manifest.unused);
    assert!(manifest.allowed_tools.len() <= 100 && manifest.unused.len() <= 20);
    for line in lines.iter().copied().chain(&manifest.unused).chain([&manifest.summary]) {
        assert_eq!(*line, text::clean_line(line), "what lists show is one clean line");
    }
    assert_eq!(read.instructions, text::clean(&read.instructions), "instructions are clean");
    assert!(read.instructions.len() <= skill_md.len());
    assert_eq!(manifest.instructions, Instructions::of(&read.instructions));
    // Anchors may repeat content, within the parser's budget.
    assert!(lines.len() <= 100 + 100 * skill_md.len(), "{} lines from {} bytes", lines.len(), skill_md.len());

    let kept = serde_json::to_string(manifest).expect("a manifest is kept as JSON");
    assert_eq!(serde_json::from_str::<Manifest>(&kept).ok().as_ref(), Some(manifest), "kept and read, it is the same");
    let written = written(read);
    match Manifest::parse(&written, &NAME) {
        Ok(again) => {
            // Several of these names may have been cut to the same name, or to one that parses differently.
            let (allowed_tools, unused) = (manifest.allowed_tools.clone(), manifest.unused.clone());
            let again = Manifest { allowed_tools, unused, ..again.manifest };
            assert_eq!(again, *manifest, "written out, it reads the same: {written:?}");
        }
        Err(problem) => panic!("written out, it is refused: {problem}: {written:?}"),
    }
}

/// Returns the manifest as a SKILL.md. JSON is YAML if the characters that YAML cannot contain are escaped.
fn written(read: &ParsedSkillMd) -> String {
    let manifest = &read.manifest;
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
        // May be longer than `summary`.
        "description": manifest.summary,
        "version": manifest.version,
        "invocation_mode": manifest.invocation_mode.as_str(),
        "command": manifest.command,
        "input_hint": manifest.input_hint,
        "command_tool": manifest.command_tool,
        "requires_tools": manifest.requires_tools,
        "eligibility": manifest.eligibility,
        "capabilities": capabilities,
        "license": manifest.license,
        "compatibility": manifest.compatibility,
        "disable-model-invocation": !manifest.audience.models,
        "user-invocable": manifest.audience.menus,
    });
    format!("---\n{keys}\n---\n{}", read.instructions)
}
