//! Checks the parts of documents that are generated from the source, and references within documents. `make docs` regenerates these
//! parts, and also `docs/config.md`, which the binary's own tests check.

use std::{env, fmt::Write as _, fs, path::PathBuf};

use patchbay_core::Code;

use crate::repository;

/// Asserts that a document has this text, or writes it if `UPDATE_DOCS` is set.
pub fn assert_document(path: &str, expected: &str) {
    let file = repository(path);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, expected).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "{path} is not what the source says; run: make docs");
}

/// Asserts that the generated part `name` of a document has this text, or writes it if `UPDATE_DOCS` is set. Two comments, which
/// Markdown does not show, enclose the part; the rest of the document is written by hand.
pub fn assert_generated(path: &str, name: &str, expected: &str) {
    let document = fs::read_to_string(repository(path)).unwrap();
    let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->");
    let parts = document.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) = parts.unwrap_or_else(|| panic!("{path} has no part {begin}"));
    assert_document(path, &format!("{head}{begin}\n{}\n\n{end}{tail}", expected.trim()));
}

#[test]
fn codes() {
    let mut text = String::new();
    let mut section = "";
    for (of, code, meaning) in Code::TABLE {
        if *of != section {
            section = of;
            write!(text, "\n## {section}\n\n| code | meaning |\n| --- | --- |\n").unwrap();
        }
        writeln!(text, "| `{code}` | {meaning} |").unwrap();
    }
    assert_generated("docs/codes.md", "codes", &text);
}

#[test]
fn commands() {
    let mut text = String::from("| command | what it does |\n| --- | --- |\n");
    for spec in patchbay_session::specs() {
        // A bar ends a cell of the table even within code.
        writeln!(text, "| `{}` | {} |", spec.usage().replace('|', r"\|"), spec.summary).unwrap();
    }
    assert_generated("docs/commands.md", "commands", &text);
}

/// Every path that docs/architecture.md names exists.
#[test]
fn paths_in_the_architecture_document_exist() {
    let text = fs::read_to_string(repository("docs/architecture.md")).unwrap();
    let roots = ["host/", "tests/", "plugins/", "wit/", "docs/"];
    let named = text.split('`').skip(1).step_by(2).filter(|code| roots.iter().any(|root| code.starts_with(root)));
    let paths: Vec<&str> = named.collect();
    assert!(paths.len() > 40, "the paths are not found: {paths:?}");
    for path in paths {
        let path = path.split('#').next().unwrap_or(path);
        assert!(repository(path).exists(), "docs/architecture.md names {path}, which is not there");
    }
}

/// Returns the paths of all documents, sorted.
fn documents() -> Vec<PathBuf> {
    let folders = ["docs", "docs/decisions"].map(|folder| fs::read_dir(repository(folder)).unwrap());
    let documents = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut documents: Vec<_> = documents.filter(|path| path.is_file()).collect();
    documents.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md", "wit/README.md"].map(repository));
    documents.sort();
    documents
}

/// Each row of a table has as many cells as its head. An unescaped bar ends a cell, even within code.
#[test]
fn rows_of_tables_have_the_cells_of_their_head() {
    let (mut rows, mut wrong) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let mut head = None;
        for (number, line) in text.lines().enumerate() {
            let bars = line.replace(r"\|", "").matches('|').count();
            let expected = *head.get_or_insert(bars);
            if !line.starts_with('|') {
                head = None;
            } else if bars == expected {
                rows += 1;
            } else {
                wrong.push(format!("{}:{}", document.display(), number + 1));
            }
        }
    }
    assert!(rows > 1000, "the tables are not found: {rows}");
    assert!(
        wrong.is_empty(),
        "these rows have more or fewer cells than their head (a bar in a cell is `\\|`):\n{}",
        wrong.join("\n")
    );
}

/// Every relative link between documents leads to a file, and to a heading if it names one.
#[test]
fn links_between_documents_lead_somewhere() {
    let (mut links, mut broken) = (0, Vec::new());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links_of(&text) {
            links += 1;
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            let is_there = match fs::read_to_string(&target) {
                Ok(text) => heading.is_empty() || anchors_of(&text).iter().any(|anchor| anchor == heading),
                Err(_) => heading.is_empty() && target.exists(),
            };
            if !is_there {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(links > 150, "the links are not found: {links}");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

/// Returns the targets of the Markdown links in `text`, without URLs.
fn links_of(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.contains(char::is_whitespace)).collect()
}

/// Returns the anchors that Markdown gives to headings: lower case, spaces as `-`, without punctuation.
fn anchors_of(text: &str) -> Vec<String> {
    let mut in_code = false;
    let headings = text.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
        let anchor: String = heading.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect();
        let same = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if same == 0 { anchor } else { format!("{anchor}-{same}") });
    }
    anchors
}

/// The test example in docs/skills-rust.md equals the example in the documentation of the SDK's module `testing`, which runs as a
/// doctest.
#[test]
fn example_of_tests_in_the_author_guide_is_tested() {
    let guide = fs::read_to_string(repository("docs/skills-rust.md")).unwrap();
    let module = fs::read_to_string(repository("sdk/rust/src/testing.rs")).unwrap();
    let header: String = module
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .fold(String::new(), |text, line| text + line.strip_prefix(' ').unwrap_or(line) + "\n");
    let (_, rest) = header.split_once("\n```\n").unwrap();
    let (example, _) = rest.split_once("\n```\n").unwrap();
    assert!(guide.contains(&format!("```rust\n{example}\n```")), "docs/skills-rust.md must contain:\n{example}");
}

/// For every control, docs/security.md names tests that exist.
#[test]
fn tests_named_in_the_security_document_exist() {
    let text = fs::read_to_string(repository("docs/security.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains(" | ")).collect();
    let mut named = 0;
    let heads = ["| asset |", "| place |", "| --- |"];
    for row in rows.iter().filter(|row| !heads.iter().any(|head| row.starts_with(head))) {
        let tests: Vec<_> = row.split('`').filter(|code| code.contains(".rs#")).collect();
        assert!(!tests.is_empty(), "docs/security.md names no test for: {row}");
        for (file, function) in tests.iter().filter_map(|test| test.split_once('#')) {
            let source = fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            let (before, _) = source
                .split_once(&format!("fn {function}("))
                .unwrap_or_else(|| panic!("docs/security.md names {file}#{function}, which is not there"));
            // One of the lines above has the attribute: `#[test]`, also within `proptest!`, or `#[tokio::test]`.
            let attribute =
                before.lines().rev().take(4).any(|line| line.contains("#[test]") || line.contains("::test"));
            assert!(attribute, "{file}#{function} is no test");
            named += 1;
        }
    }
    assert!(named > 60, "the tables are not found: {named} tests");
}

/// `agent.json`, the entry for the ACP registry, has this version and license, names only platforms that the registry knows, and
/// starts the front for editors.
#[test]
fn registry_entry_is_of_this_version() {
    let entry: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(repository("agent.json")).unwrap()).unwrap();
    let manifest: toml::Table = fs::read_to_string(repository("Cargo.toml")).unwrap().parse().unwrap();
    let package = &manifest["workspace"]["package"];
    assert_eq!(entry["version"].as_str(), package["version"].as_str());
    assert_eq!((entry["id"].as_str(), entry["license"].as_str()), (Some("patchbay"), package["license"].as_str()));
    let targets = entry["distribution"]["binary"].as_object().unwrap();
    let systems =
        ["darwin", "linux", "windows"].map(|system| ["aarch64", "x86_64"].map(|machine| format!("{system}-{machine}")));
    assert!(!targets.is_empty());
    for (target, of) in targets {
        assert!(systems.as_flattened().contains(target), "{target}");
        // This matches how `dist/archive.py` names the archive and its only folder.
        let name = format!("patchbay-{}-{target}", package["version"].as_str().unwrap());
        assert_eq!((&of["cmd"], &of["args"]), (&format!("./{name}/patchbay").into(), &serde_json::json!(["acp"])));
        assert!(of["archive"].as_str().unwrap().ends_with(&format!("/{name}.tar.gz")));
    }
}
