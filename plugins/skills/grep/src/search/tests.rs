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
fn one_call_of_the_host_searches_everything() {
    let host = small();
    assert_eq!(found(&host, pattern("fox")), "README.md:3:A fox.\nsrc/a.rs:1:fn fox() {}");
    assert_eq!(host.calls().len(), 1);
    let any = Search { ignore_case: true, ..pattern("FOX") };
    assert_eq!(found(&host, any), "README.md:1:# Fox\nREADME.md:3:A fox.\nsrc/a.rs:1:fn fox() {}");
    let fixed = Search { fixed: true, ..pattern("x() {") };
    assert_eq!(found(&host, fixed), "src/a.rs:1:fn fox() {}");
    let context = Search { context: 1, ..pattern("A fox") };
    assert_eq!(found(&host, context), "README.md-2-\nREADME.md:3:A fox.");
}

#[test]
fn search_without_match_succeeds() {
    assert_eq!(found(&small(), pattern("wolf")), "No matches in 3 files.");
    let one = Search { glob: Some("README.md".to_owned()), ..pattern("wolf") };
    assert_eq!(found(&small(), one), "No matches in 1 file.");
    assert_eq!(found(&Host::new(), pattern("wolf")), "There are no files.");
    let after = Search { after: Some("z".to_owned()), ..pattern("wolf") };
    assert_eq!(found(&small(), after), "There are no files after 'z'.");
}

#[test]
fn short_globs_match_in_any_folder() {
    let glob = |glob: &str| found(&small(), Search { glob: Some(glob.to_owned()), ..pattern("n") });
    let both = "src/a.rs:1:fn fox() {}\nsrc/b/c.rs:1:// none";
    for same in ["*.rs", "src", "src/", "./src", "**/*.rs", "src/**/*", "!*.md"] {
        assert_eq!(glob(same), both, "{same}");
    }
    for same in ["c.rs", "src/b/c.rs", "src/b", "./src/b/", "!a.rs"] {
        assert_eq!(glob(same), "src/b/c.rs:1:// none", "{same}");
    }
    for all in [".", "./", ""] {
        assert_eq!(glob(all), both, "{all}");
    }
    assert_eq!(glob("*.py"), "No files match '*.py'.");
    assert_eq!(typed(&small(), "fn fox"), "No files match 'fox'. A pattern with spaces must be in quotes.");
}

#[test]
fn skipped_files_are_counted_and_named() {
    let files = small().with_file("image.png", b"fox\0fox");
    let passed = "[Files skipped: 1 binary.]";
    assert_eq!(found(&files, pattern("wolf")), format!("No matches in 3 files.\n{passed}"));
    assert!(found(&files, pattern("fox")).ends_with(&format!("\n{passed}")));
    let skipped = |reason: &str, paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        passed_over(&Skipped { reason: reason.to_owned(), count: paths.len() as u32, paths })
    };
    assert_eq!(skipped("too-large", &["log"]), "1 over 8388608 bytes (log)");
    assert_eq!(skipped("unreadable", &["a", "b", "c", "d"]), "4 that cannot be read (a, b, c, …)");
    assert_eq!(skipped("offline", &["a"]), "1 offline (a)");
}

#[test]
fn errors_of_the_host_are_passed_on() {
    for kind in ["denied", "unavailable", "timeout", "too-large"] {
        let files = small().on_call(move |_| Reaction::Fail(kind));
        assert_eq!(searched(&files, pattern("x")), Err((kind.to_owned(), format!("simulated {kind}"))));
    }
    assert_eq!(searched(&small(), pattern("(")).expect_err("a refusal").0, "invalid-input");
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
    let long = with(&[("a", format!("{}\n", "x".repeat(250)).repeat(900))]);
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
}

#[test]
fn search_that_stops_says_how_to_continue() {
    let results = |stopped: &str| TextResults {
        files: Vec::new(),
        searched: 3,
        bytes: 40,
        skipped: Vec::new(),
        stopped: Some(stopped.to_owned()),
        next: Some(Position { path: "src/b".to_owned(), line: None }),
        extra: Vec::new(),
    };
    let note = "Stopped after 3 files and 40 bytes, at 'src/b'.";
    let tool = Query::of_tool(&pattern("x")).expect("a query");
    for stopped in ["scanned", "files", "time", "some later word"] {
        let expected =
            format!("No matches in 3 files.\n[{note} To continue: search with after 'src/b'; or narrow the glob.]");
        assert_eq!(answer(&tool, &results(stopped)), expected);
    }
    let person = line::read("x").and_then(|typed| Query::of_person(&typed)).expect("a query");
    assert!(answer(&person, &results("time")).contains("To search the rest, use a glob for it."));
}
