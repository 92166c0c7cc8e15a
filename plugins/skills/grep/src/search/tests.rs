//! Tests of whole searches with a workspace in memory.

use super::*;
use crate::{fake::Fake, line};

fn searched(files: &mut Fake, input: Search) -> Result<String, (String, String)> {
    let answer = Query::of_tool(&input).and_then(|query| run(files, &query));
    answer.map_err(|failure| (failure.kind().to_owned(), failure.message().to_owned()))
}

fn pattern(pattern: &str) -> Search {
    Search { pattern: pattern.to_owned(), ..Search::default() }
}

fn found(files: &Fake, input: Search) -> String {
    searched(&mut files.clone(), input).expect("an answer")
}

fn typed(files: &Fake, line: &str) -> String {
    let query = line::read(line).and_then(|typed| Query::of_person(&typed));
    query.and_then(|query| run(&mut files.clone(), &query)).unwrap_or_else(|failure| failure.to_string())
}

fn small() -> Fake {
    Fake::with(&[("README.md", "# Fox\n\nA fox.\n"), ("src/a.rs", "fn fox() {}\n"), ("src/b/c.rs", "// none\n")])
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
    assert_eq!(found(&Fake::default(), pattern("wolf")), "There are no files.");
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
    let mut files = small();
    files.files.insert("image.png".into(), b"fox\0fox".to_vec());
    files.files.insert("late".into(), [&b"x".repeat(PROBE)[..], b"\n\0fox\n"].concat());
    files.files.insert("log".into(), b"fox\n".repeat(MAX_FILE as usize / 4 + 1));
    for number in 0..5 {
        files.files.insert(format!("secret{number}"), b"fox".to_vec());
        files.faults.insert(format!("secret{number}"), "denied");
    }
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
        let mut files = Fake { refused: Some(kind), ..small() };
        assert_eq!(searched(&mut files, pattern("x")), Err((kind.to_owned(), format!("a fake {kind}"))));
        assert_eq!(files.calls, 1);
    }
    let mut files = small();
    files.faults.insert("src/a.rs".into(), "quota");
    assert_eq!(searched(&mut files, pattern("x")).expect_err("a failure").0, "quota");
}

#[test]
fn lines_over_the_limit_are_announced() {
    let files = Fake::with(&[("a", "x\nx\nx\n"), ("b", "x\n")]);
    let most = |max| found(&files, Search { max: Some(max), ..pattern("x") });
    assert_eq!(most(4), "a:1:x\na:2:x\na:3:x\nb:1:x");
    let more = "Narrow pattern or glob, or raise max (up to 1000).]";
    assert_eq!(most(3), format!("a:1:x\na:2:x\na:3:x\n[There are more matches than these 3. {more}"));
    assert_eq!(most(2), format!("a:1:x\na:2:x\n[There are more matches than these 2. {more}"));
    let many = Fake::with(&[("a", "x\n".repeat(2_000))]);
    assert!(found(&many, pattern("x")).ends_with(&format!("a:100:x\n[There are more matches than these 100. {more}")));
    let note = "a:100:x\n[There are more matches than these 100. Narrow the pattern, or add a glob.]";
    assert!(typed(&many, "x").ends_with(note));
    let long = Fake::with(&[("a", format!("{}\n", "x".repeat(250)).repeat(2_000))]);
    let shown = found(&long, Search { max: Some(1_000), ..pattern("x") });
    let note = shown.lines().last().expect("a note");
    assert!(note.starts_with("[There are more matches than these 2") && note.contains("(65536 bytes)"), "{note}");
    assert!(shown.len() < MAX_BYTES + 1_000);
}

#[test]
fn inputs_out_of_range_are_refused() {
    let refused = |input| searched(&mut small(), input).expect_err("a refusal");
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
    let mut files = Fake::with(&names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>());
    files.files.insert("00003/".into(), Vec::new());
    let mut probe = files.clone();
    let first = searched(&mut probe, pattern("y")).expect("an answer");
    assert!(probe.calls < MAX_FILES + 10, "{}", probe.calls);
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
    let mut files = Fake::with(&names.iter().map(|name| (name.as_str(), &big)).collect::<Vec<_>>());
    let answer = searched(&mut files, pattern("x")).expect("an answer");
    assert_eq!(files.bytes as u64, MAX_SCAN);
    assert!(answer.contains("[Stopped after 3 files and 25165824 bytes, at '2'."), "{answer}");
    assert!(typed(&files, "x").contains("To search the rest, give a glob for it."));
}

#[test]
fn use_of_ascii_word_boundaries_is_reported() {
    let files = Fake::with(&[("a", "été\n".repeat(100_000))]);
    let answer = found(&files, pattern(r"t\b"));
    let (shown, note) = answer.split_once("\n[There was so much text beside ASCII that \\b took ").expect("a note");
    assert!(shown.starts_with("a:52429:été\n"), "{shown}");
    assert!(note.ends_with("Narrow the glob to be exact.]"), "{note}");
}
