//! Tests of whole searches with a workspace in memory.

use patchbay_sdk::testing::{Host, Reaction};

use super::*;
use crate::line;

fn searched(host: &Host, input: Search) -> Result<String, (String, String)> {
    let answer = Query::of_tool(&input).and_then(|query| host.run(|| run(&query)));
    answer.map_err(|failure| (failure.kind().to_owned(), failure.message().to_owned()))
}

fn pattern(pattern: &str) -> Search {
    Search { pattern: pattern.to_owned(), ..Search::default() }
}

fn found(host: &Host, input: Search) -> String {
    searched(host, input).expect("an answer")
}

fn typed(host: &Host, line: &str) -> String {
    let query = line::read(line).and_then(|typed| Query::of_person(&typed));
    query.and_then(|query| host.run(|| run(&query))).unwrap_or_else(|failure| failure.to_string())
}

/// Returns a workspace with these files.
fn with<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Host {
    files.iter().fold(Host::new(), |host, (path, text)| host.with_file(path, text))
}

fn small() -> Host {
    with(&[("README.md", "# Fox\n\nA fox.\n"), ("src/a.rs", "fn fox() {}\n"), ("src/b/c.rs", "// none\n")])
}

#[test]
fn matches_are_sorted_and_numbered() {
    assert_eq!(found(&small(), pattern("fox")), "README.md:3:A fox.\nsrc/a.rs:1:fn fox() {}");
    let any = Search { ignore_case: true, ..pattern("FOX") };
    assert_eq!(found(&small(), any), "README.md:1:# Fox\nREADME.md:3:A fox.\nsrc/a.rs:1:fn fox() {}");
    let fixed = Search { fixed: true, ..pattern("x() {") };
    assert_eq!(found(&small(), fixed), "src/a.rs:1:fn fox() {}");
    let context = Search { context: 1, ..pattern("A fox") };
    assert_eq!(found(&small(), context), "README.md-2-\nREADME.md:3:A fox.");
}

#[test]
fn search_without_match_succeeds() {
    assert_eq!(found(&small(), pattern("wolf")), "No matches in 3 files.");
    let one = Search { glob: Some("README.md".to_owned()), ..pattern("wolf") };
    assert_eq!(found(&small(), one), "No matches in 1 file.");
    assert_eq!(found(&Host::new(), pattern("wolf")), "There are no files.");
}

#[test]
fn short_globs_match_in_any_folder() {
    let glob = |glob: &str| found(&small(), Search { glob: Some(glob.to_owned()), ..pattern("n") });
    let both = "src/a.rs:1:fn fox() {}\nsrc/b/c.rs:1:// none";
    for same in ["*.rs", "src", "src/", "./src", "**/*.rs", "src/**/*"] {
        assert_eq!(glob(same), both, "{same}");
    }
    for same in ["c.rs", "src/b/c.rs", "src/b", "./src/b/"] {
        assert_eq!(glob(same), "src/b/c.rs:1:// none", "{same}");
    }
    for all in [".", "./", ""] {
        assert_eq!(glob(all), both, "{all}");
    }
    assert_eq!(glob("*.py"), "No files match '*.py'.");
    assert_eq!(typed(&small(), "fn fox"), "No files match 'fox'. A pattern with spaces must be in quotes.");
}

#[test]
fn skipped_files_are_named() {
    let late = [&b"x".repeat(PROBE)[..], b"\n\0fox\n"].concat();
    let files = small().with_file("image.png", b"fox\0fox").with_file("late", late);
    let files = files.with_file("log", b"fox\n".repeat(MAX_FILE as usize / 4 + 1));
    let files = (0..5).fold(files, |files, number| files.with_file(&format!("secret{number}"), "fox"));
    let files = files.on_call(|call| match call.target.starts_with("secret") {
        true => Reaction::Fail("denied"),
        false => Reaction::Proceed,
    });
    let passed = "Files passed over: 1 binary, 1 over 8388608 bytes (log), 5 that cannot be read (secret0, secret1, secret2, …).";
    assert_eq!(
        found(&files, pattern("fox")),
        format!("README.md:3:A fox.\nlate:2:\0fox\nsrc/a.rs:1:fn fox() {{}}\n[{passed}]")
    );
    assert_eq!(found(&files, pattern("wolf")), format!("No matches in 4 files.\n[{passed}]"));
}

#[test]
fn denials_and_limits_of_the_host_are_passed_on() {
    for kind in ["denied", "unavailable"] {
        let files = small().on_call(move |_| Reaction::Fail(kind));
        assert_eq!(searched(&files, pattern("x")), Err((kind.to_owned(), format!("simulated {kind}"))));
        assert_eq!(files.calls().len(), 1);
    }
    let files = small().on_call(|call| match call.target.as_str() {
        "src/a.rs" => Reaction::Fail("quota"),
        _ => Reaction::Proceed,
    });
    assert_eq!(searched(&files, pattern("x")).expect_err("a failure").0, "quota");
}

#[test]
fn lines_over_the_limit_are_announced() {
    let files = with(&[("a", "x\nx\nx\n"), ("b", "x\n")]);
    let most = |max| found(&files, Search { max: Some(max), ..pattern("x") });
    assert_eq!(most(4), "a:1:x\na:2:x\na:3:x\nb:1:x");
    let more = "Narrow pattern or glob, or raise max (up to 1000).]";
    assert_eq!(most(3), format!("a:1:x\na:2:x\na:3:x\n[There are more matches than these 3. {more}"));
    assert_eq!(most(2), format!("a:1:x\na:2:x\n[There are more matches than these 2. {more}"));
    let many = with(&[("a", "x\n".repeat(2_000))]);
    assert!(found(&many, pattern("x")).ends_with(&format!("a:100:x\n[There are more matches than these 100. {more}")));
    let note = "a:100:x\n[There are more matches than these 100. Narrow the pattern, or add a glob.]";
    assert!(typed(&many, "x").ends_with(note));
    let long = with(&[("a", format!("{}\n", "x".repeat(250)).repeat(2_000))]);
    let shown = found(&long, Search { max: Some(1_000), ..pattern("x") });
    let note = shown.lines().last().expect("a note");
    assert!(note.starts_with("[There are more matches than these 2") && note.contains("(65536 bytes)"), "{note}");
    assert!(shown.len() < MAX_BYTES + 1_000);
}

#[test]
fn inputs_out_of_range_are_refused() {
    let refused = |input| searched(&small(), input).expect_err("a refusal");
    for max in [0, 1_001] {
        let refusal = refused(Search { max: Some(max), ..pattern("x") });
        assert_eq!(refusal, ("invalid-input".into(), format!("'max' must be from 1 to 1000; this is {max}")));
    }
    assert_eq!(refused(Search { context: 21, ..pattern("x") }).1, "'context' must be at most 20; this is 21");
    assert!(typed(&small(), "-C 99 x").contains("this is 99"));
    assert_eq!(refused(pattern("(")).0, "invalid-input");
}

#[test]
fn search_stops_at_the_file_limit_and_can_continue() {
    let names: Vec<String> = (0..MAX_FILES + 10).map(|number| format!("{number:05}")).collect();
    let files = with(&names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>()).with_folder("00003");
    let first = found(&files, pattern("y"));
    let calls = files.calls().len();
    assert!(calls < MAX_FILES + 10, "{calls}");
    assert_eq!(
        first,
        "No matches in 4000 files.\n[Stopped after 4000 files and 4000 bytes, at '03999'. To go on: search with after '03999'; or \
         narrow the glob.]"
    );
    let rest = found(&files, Search { after: Some("03999".to_owned()), ..pattern("y") });
    assert_eq!(rest, "No matches in 10 files.");
    let none = found(&files, Search { after: Some("9".to_owned()), ..pattern("y") });
    assert_eq!(none, "There are no files after '9'.");
}

#[test]
fn search_stops_at_the_byte_limit() {
    let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let big = "y\n".repeat(MAX_FILE as usize / 2);
    let files = with(&names.iter().map(|name| (name.as_str(), &big)).collect::<Vec<_>>());
    let answer = found(&files, pattern("x"));
    let reads = files.calls().into_iter().filter(|call| call.function == "workspace.read").count();
    assert_eq!(reads as u64 * u64::from(RANGE), MAX_SCAN);
    assert!(answer.contains("[Stopped after 3 files and 25165824 bytes, at '2'."), "{answer}");
    assert!(typed(&files, "x").contains("To search the rest, give a glob for it."));
    // A file that would exceed the limit is left for the next call; one that is passed over anyway does not count.
    let files = files.with_file("1", "y\n").with_file("2", "y".repeat(MAX_FILE as usize + 1));
    let answer = found(&files, pattern("x"));
    assert!(
        answer.contains("[Stopped after 3 files and 16777218 bytes, at '3'.") && answer.contains("(2)"),
        "{answer}"
    );
}

#[test]
fn use_of_ascii_word_boundaries_is_reported() {
    let files = with(&[("a", "été\n".repeat(100_000))]);
    let answer = found(&files, pattern(r"t\b"));
    let (shown, note) = answer.split_once("\n[There was so much text beside ASCII that \\b took ").expect("a note");
    assert!(shown.starts_with("a:52429:été\n"), "{shown}");
    assert!(note.ends_with("Narrow the glob to be exact.]"), "{note}");
}
