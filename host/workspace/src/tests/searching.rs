//! Searches of the whole workspace: order, globs, context, positions, limits, and the rules of walks.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use super::{Fixture, kind};
use crate::{
    EditorTexts, FileError, NameQuery, NameResults, SearchBounds, SearchHalt, SearchPosition, SearchStop, TextQuery,
    TextResults, limits,
};

fn query(pattern: &str) -> TextQuery {
    TextQuery { max_line_bytes: 300, ..TextQuery::for_test(pattern) }
}

fn named(globs: &[&str]) -> NameQuery {
    NameQuery {
        globs: owned(globs),
        ignores_case: false,
        directories: false,
        after: None,
        max_entries: limits::SEARCH_ENTRIES,
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn bounds() -> SearchBounds {
    let until = Instant::now() + Duration::from_secs(60);
    SearchBounds { until, bytes: usize::MAX, halt: SearchHalt::default() }
}

fn after(path: &str, line: Option<u64>) -> Option<SearchPosition> {
    Some(SearchPosition { path: path.to_owned(), line })
}

/// Returns lines in grep's format: `path:number:text` for a match, `path-number-text` for a context line.
fn shown(results: &TextResults) -> Vec<String> {
    let files = results.files.iter();
    let lines = files.flat_map(|file| file.lines.iter().map(move |line| (&file.path, line)));
    let shown = lines.map(|(path, line)| {
        let mark = if line.matched.is_some() { ':' } else { '-' };
        format!("{path}{mark}{}{mark}{}", line.number, line.text)
    });
    shown.collect()
}

fn paths(results: &NameResults) -> Vec<&str> {
    results.entries.iter().map(|entry| entry.path.as_str()).collect()
}

impl Fixture {
    fn search(&self, query: &TextQuery) -> Result<TextResults, FileError> {
        self.workspace.search(query, &EditorTexts::new(), &bounds())
    }

    /// Returns the lines of a search, which must not stop early.
    fn found(&self, query: &TextQuery) -> Vec<String> {
        let results = self.search(query).unwrap();
        assert_eq!((results.stopped, &results.next), (None, &None));
        shown(&results)
    }

    fn find(&self, query: &NameQuery) -> Result<NameResults, FileError> {
        self.workspace.find(query, &bounds())
    }
}

#[test]
fn matches_are_sorted_by_path_and_line() {
    let fixture = Fixture::new();
    for path in ["b/c", "a/c", "a-b", "a/c-d/e", "B", "é"] {
        fixture.file(path, "fox\nwolf\na fox");
    }
    let results = fixture.search(&query("fox")).unwrap();
    let expected: Vec<String> = ["B", "a-b", "a/c", "a/c-d/e", "b/c", "é"]
        .iter()
        .flat_map(|path| [format!("{path}:1:fox"), format!("{path}:3:a fox")])
        .collect();
    assert_eq!(shown(&results), expected);
    assert_eq!((results.searched, results.bytes), (6, 6 * 14));
    let line = &results.files[0].lines[1];
    assert_eq!((line.start, line.size, line.matched.clone()), (0, 5, Some(2..5)));
}

#[test]
fn options_are_used() {
    let fixture = Fixture::new();
    fixture.file("a.rs", "Fox (a)\nfox\n");
    fixture.file("b/a.md", "FOX\n");
    assert_eq!(fixture.found(&query("fox")), ["a.rs:2:fox"]);
    let any_case = TextQuery { ignores_case: true, ..query("FOX$") };
    assert_eq!(fixture.found(&any_case), ["a.rs:2:fox", "b/a.md:1:FOX"]);
    assert_eq!(fixture.found(&TextQuery { globs: owned(&["b/**"]), ..any_case.clone() }), ["b/a.md:1:FOX"]);
    assert_eq!(fixture.found(&TextQuery { globs: owned(&["**/*.md", "*.rs"]), ..any_case.clone() }).len(), 2);
    assert_eq!(fixture.found(&TextQuery { globs: owned(&["!b"]), ..any_case }), ["a.rs:2:fox"]);
    assert_eq!(fixture.found(&TextQuery { is_fixed: true, ..query("x (a") }), ["a.rs:1:Fox (a)"]);
}

#[test]
fn context_lines_surround_matches_once() {
    let fixture = Fixture::new();
    fixture.file("a", "1\n2\nx3\n4\n5\n6\n7\n8\nx9\n");
    fixture.file("b", "x\r\ny\r\n");
    let found = |context| fixture.found(&TextQuery { context, ..query("x") });
    assert_eq!(found(0), ["a:3:x3", "a:9:x9", "b:1:x"]);
    assert_eq!(found(1), ["a-2-2", "a:3:x3", "a-4-4", "a-8-8", "a:9:x9", "b:1:x", "b-2-y"]);
    assert_eq!(found(3).len(), 11);
}

/// Every way to divide a result gives the same lines as the whole.
#[test]
fn parts_add_up_to_the_whole() {
    let fixture = Fixture::new();
    for file in 0..40 {
        let lines = (0..file % 7).map(|line| format!("{}{line}\n", if line % 3 == 0 { "fox" } else { "-" }));
        fixture.file(&format!("d{}/f{file:02}", file % 3), &lines.collect::<String>());
    }
    for context in [0, 1, 2] {
        let whole = fixture.found(&TextQuery { context, ..query("fox") });
        assert!(whole.len() > 40);
        for max_lines in [1, 2, 3, 7, 1_000] {
            let (mut parts, mut after) = (Vec::new(), None);
            loop {
                let part = fixture.search(&TextQuery { context, max_lines, after, ..query("fox") }).unwrap();
                let matches = part.files.iter().flat_map(|file| &file.lines).filter(|line| line.matched.is_some());
                assert!(matches.count() <= max_lines as usize);
                parts.extend(shown(&part));
                assert_eq!(part.stopped, part.next.is_some().then_some(SearchStop::Lines));
                after = part.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(parts, whole, "{context} {max_lines}");
        }
    }
}

#[test]
fn search_begins_behind_any_position() {
    let fixture = Fixture::new();
    for path in ["a", "b/c", "d"] {
        fixture.file(path, "x\nx\n");
    }
    let found = |path, line| fixture.found(&TextQuery { after: after(path, line), ..query("x") });
    assert_eq!(found("a", None), ["b/c:1:x", "b/c:2:x", "d:1:x", "d:2:x"]);
    assert_eq!(found("b/c", Some(1)), ["b/c:2:x", "d:1:x", "d:2:x"]);
    assert_eq!(found("b/c", Some(9)), ["d:1:x", "d:2:x"]);
    assert_eq!(found("c", Some(1)), ["d:1:x", "d:2:x"]);
    assert_eq!(found("e", None), [""; 0]);
}

#[test]
fn results_are_limited_in_bytes() {
    let fixture = Fixture::new();
    let line = format!("{}\n", "x".repeat(1_000));
    for file in 0..8 {
        fixture.file(&file.to_string(), &line.repeat(400));
    }
    let wide = TextQuery { max_line_bytes: limits::SEARCH_LINE_BYTES, ..query("x") };
    let results = fixture.search(&wide).unwrap();
    assert_eq!(results.stopped, Some(SearchStop::Bytes));
    let bytes: usize = results.files.iter().flat_map(|file| &file.lines).map(|line| line.text.len()).sum();
    assert!(bytes <= limits::SEARCH_RESULT_BYTES && bytes > limits::SEARCH_RESULT_BYTES * 9 / 10, "{bytes}");
    // The result ends in the third file, and the next search continues there.
    let next = results.next.unwrap();
    assert_eq!(next.path, results.files.last().unwrap().path);
    let rest = fixture.search(&TextQuery { after: Some(next.clone()), ..wide.clone() }).unwrap();
    assert_eq!((&rest.files[0].path, rest.files[0].lines[0].number), (&next.path, next.line.unwrap() + 1));
    // One line is always returned.
    let tight = SearchBounds { bytes: 0, ..bounds() };
    let results = fixture.workspace.search(&wide, &EditorTexts::new(), &tight).unwrap();
    assert_eq!((shown(&results).len(), results.next), (1, after("0", Some(1))));
}

#[test]
fn numbers_and_patterns_are_checked() {
    let fixture = Fixture::new();
    fixture.file("a", "x");
    for refused in [
        TextQuery { context: 21, ..query("x") },
        TextQuery { max_lines: 0, ..query("x") },
        TextQuery { max_lines: 10_001, ..query("x") },
        TextQuery { max_line_bytes: 0, ..query("x") },
        TextQuery { globs: owned(&["["]), ..query("x") },
        TextQuery { globs: vec!["a".to_owned(); 33], ..query("x") },
        query("("),
        query(""),
    ] {
        assert_eq!(kind(fixture.search(&refused)), "invalid", "{refused:?}");
    }
    let error = fixture.find(&NameQuery { max_entries: 0, ..named(&[]) }).unwrap_err();
    assert_eq!(error.to_string(), "'max-entries' must be from 1 to 10000, not 0");
}

#[test]
fn binary_and_large_files_are_skipped_and_counted() {
    let fixture = Fixture::new();
    fs::write(fixture.root.join("image"), b"fox\0fox").unwrap();
    let late = [&b"x".repeat(limits::BINARY_PROBE)[..], b"\n\0fox\n"].concat();
    fs::write(fixture.root.join("late"), late).unwrap();
    fs::write(fixture.root.join("log"), b"fox\n".repeat(limits::SEARCHED_FILE_BYTES as usize / 4 + 1)).unwrap();
    let results = fixture.search(&query("fox")).unwrap();
    assert_eq!(shown(&results), ["late:2:\0fox"]);
    let skipped: Vec<_> = results.skipped.iter().map(|it| (it.reason, it.count, it.paths.join(" "))).collect();
    assert_eq!(skipped, [("binary", 1, "image".to_owned()), ("too-large", 1, "log".to_owned())]);
    for number in 0..20 {
        fs::write(fixture.root.join(format!("more{number:02}")), b"\0").unwrap();
    }
    let results = fixture.search(&query("fox")).unwrap();
    assert_eq!((results.skipped[0].count, results.skipped[0].paths.len()), (21, limits::SKIPPED_PATHS));
}

#[test]
fn unreadable_files_are_skipped() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    fixture.file("a", "fox");
    fixture.file("b", "fox");
    fs::set_permissions(fixture.root.join("a"), fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads every file.
    if fs::read(fixture.root.join("a")).is_err() {
        let results = fixture.search(&query("fox")).unwrap();
        assert_eq!((shown(&results), results.skipped[0].reason), (owned(&["b:1:fox"]), "unreadable"));
    }
}

#[test]
fn only_what_a_walk_lists_is_searched() {
    let mut fixture = Fixture::new();
    fixture.file(".gitignore", "/target/\n*.log\n");
    for path in ["a", "target/b", "c.log", ".git/config", "sub/.git/x", "own/secret", ".hidden"] {
        fixture.file(path, "fox");
    }
    fixture.link("a", "link");
    fixture.link("../outside/secret", "out");
    fixture.link("/etc/passwd", "absolute");
    fixture.link("own/secret", "into-own");
    fixture.link(".git/config", "into-git");
    fixture.link("sub", "folder");
    fixture.link("loop", "loop");
    fixture.protecting(&["own"]);
    assert_eq!(fixture.found(&query("fox|sentinel|root")), [".hidden:1:fox", "a:1:fox", "link:1:fox"]);
    let listed = fixture.find(&named(&[])).unwrap();
    assert_eq!(paths(&listed), [".gitignore", ".hidden", "a", "link"]);
    fixture.assert_outside_is_untouched();
}

#[test]
fn closed_workspace_is_not_searched() {
    let mut fixture = Fixture::new();
    fixture.file("a", "fox");
    fixture.protecting(&["."]);
    assert_eq!(kind(fixture.search(&query("fox"))), "denied");
    assert_eq!(kind(fixture.find(&named(&[]))), "denied");
}

#[test]
fn unsaved_texts_replace_files() {
    let fixture = Fixture::new();
    for path in ["a", "b", "c"] {
        fixture.file(path, "saved\n");
    }
    let texts = EditorTexts::from([
        ("a".to_owned(), Some(b"not saved\nsaved twice\n".as_slice().into())),
        ("c".to_owned(), None),
        // Not part of the workspace.
        ("d".to_owned(), Some(b"saved".as_slice().into())),
    ]);
    let results = fixture.workspace.search(&query("saved$"), &texts, &bounds()).unwrap();
    assert_eq!(shown(&results), ["a:1:not saved", "b:1:saved"]);
    assert_eq!((results.skipped[0].reason, &results.skipped[0].paths), ("unreadable", &owned(&["c"])));
}

#[test]
fn names_are_found_in_the_whole_tree() {
    let fixture = Fixture::new();
    for path in ["README.md", "docs/readme.txt", "docs/a/ReadMe", "src/lib.rs", "target/x"] {
        fixture.file(path, "12");
    }
    fixture.file(".gitignore", "/target/\n");
    let readme = NameQuery { ignores_case: true, ..named(&["**/readme*"]) };
    let results = fixture.find(&readme).unwrap();
    assert_eq!(paths(&results), ["README.md", "docs/a/ReadMe", "docs/readme.txt"]);
    assert_eq!((results.entries[0].size, results.stopped, results.next), (2, None, None));
    let results = fixture.find(&NameQuery { max_entries: 2, ..readme.clone() }).unwrap();
    assert_eq!((results.stopped, results.next.as_deref()), (Some(SearchStop::Entries), Some("docs/a/ReadMe")));
    let rest = fixture.find(&NameQuery { after: results.next, max_entries: 1, ..readme }).unwrap();
    assert_eq!((paths(&rest), rest.stopped), (vec!["docs/readme.txt"], None));
    let all = fixture.find(&NameQuery { directories: true, ..named(&["!**/*.md"]) }).unwrap();
    let expected = [".gitignore", "docs", "docs/a", "docs/a/ReadMe", "docs/readme.txt", "src", "src/lib.rs"];
    assert_eq!(paths(&all), expected);
    let tight = SearchBounds { bytes: 1, ..bounds() };
    let results = fixture.workspace.find(&named(&[]), &tight).unwrap();
    assert_eq!((results.stopped, results.next.as_deref()), (Some(SearchStop::Bytes), Some(".gitignore")));
}

#[test]
fn limit_of_the_walk_returns_what_is_before_it() {
    let fixture = Fixture::new();
    fixture.file("a", "fox");
    fixture.file(&format!("{}/too/deep", vec!["d"; limits::DEPTH].join("/")), "fox");
    fixture.file("e", "fox");
    let results = fixture.search(&query("fox")).unwrap();
    assert_eq!((shown(&results), results.stopped), (owned(&["a:1:fox"]), Some(SearchStop::Files)));
    assert_eq!(results.next, after("a", None));
    // A search that begins there cannot continue, which is an error.
    let error = fixture.search(&TextQuery { after: results.next, ..query("fox") }).unwrap_err();
    assert_eq!(error.kind(), "too-large");
    let around = TextQuery { globs: owned(&["!d"]), ..query("fox") };
    assert_eq!(fixture.found(&around), ["a:1:fox", "e:1:fox"]);
}

#[test]
fn time_ends_a_search() {
    let fixture = Fixture::new();
    fixture.file("a", "fox");
    let late = SearchBounds { until: Instant::now(), ..bounds() };
    let searched = fixture.workspace.search(&query("fox"), &EditorTexts::new(), &late);
    assert_eq!(kind(searched), "timeout");
    assert_eq!(kind(fixture.workspace.find(&named(&[]), &late)), "timeout");
}

/// A search with a slow pattern over much text ends soon after it is halted.
#[test]
fn halted_search_ends_soon() {
    let fixture = Fixture::new();
    let text = "straße zum größten Nebenfluß, an der Mündung 0101101\n".repeat(100_000);
    for number in 0..6 {
        fixture.file(&number.to_string(), &text);
    }
    let bounds = bounds();
    let halt = bounds.halt.clone();
    thread::scope(|scope| {
        scope.spawn(|| fixture.workspace.search(&query(r"\b\w+ung\b.*x"), &EditorTexts::new(), &bounds));
        thread::sleep(Duration::from_millis(50));
        halt.halt();
    });
    assert!(bounds.until > Instant::now() + Duration::from_secs(40), "it took far more than a moment");
}

/// One call finds twenty files among thousands, with the same result each time.
#[test]
fn all_hits_of_a_large_tree_are_found() {
    let fixture = Fixture::new();
    for number in 0..5_000 {
        let text = if number % 250 == 7 { "a needle\n" } else { "hay\n" };
        fixture.file(&format!("d{}/s{}/f{number}", number % 41, number % 13), text);
    }
    let results = fixture.search(&query("needle")).unwrap();
    assert_eq!((results.files.len(), results.searched, results.stopped), (20, 5_000, None));
    for _ in 0..5 {
        assert_eq!(fixture.search(&query("needle")).unwrap(), results);
        let part = fixture.search(&TextQuery { max_lines: 7, ..query("needle") }).unwrap();
        assert_eq!((&part.files[..], part.stopped), (&results.files[..7], Some(SearchStop::Lines)));
    }
    assert_eq!(fixture.find(&named(&["**/f*7"])).unwrap().entries.len(), 500);
}

#[test]
fn searches_stay_inside_while_a_file_becomes_a_link() {
    let fixture = Fixture::new();
    fixture.file("file", "inside");
    let file = fixture.root.join("file");
    thread::scope(|scope| {
        let swapped = scope.spawn(|| {
            for _ in 0..300 {
                let _ = fs::remove_file(&file);
                let _ = std::os::unix::fs::symlink("../outside/secret", &file);
                let _ = fs::remove_file(&file);
                let _ = fs::write(&file, "inside");
            }
        });
        while !swapped.is_finished() {
            assert_eq!(fixture.search(&query("sentinel")).unwrap().files, []);
        }
    });
    fixture.assert_outside_is_untouched();
}
