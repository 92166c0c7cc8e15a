//! Skills that declare several file changes. One answer covers exactly these changes.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use patchbay_core::Code;
use patchbay_tests::{
    calls::SAY,
    guest::{self, Guest, data},
};
use patchbay_tools::{Approval, Approvals, Approver, PersonAnswer, Question};

use crate::{approvals::Host, support::failure};

/// Addresses of the guest's strings.
const STRINGS: [(u32, &str); 5] = [(3000, "done"), (3010, "one"), (3020, "two"), (3030, "other"), (3040, "more")];
/// The address of the guest's list of changes, and where results are written.
const LIST: u32 = 3100;
const RESULT: u32 = 2048;

fn at(text: &str) -> [u32; 2] {
    let (at, text) = STRINGS.iter().find(|(_, known)| *known == text).unwrap();
    [*at, u32::try_from(text.len()).unwrap()]
}

/// Returns a skill that declares `changes` and then makes `writes`. Both are paths with new contents, or `None` to delete the file.
fn skill(changes: &[(&str, Option<&str>)], writes: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (path, contents) in changes {
        let contents = contents.map(at);
        let [contents_at, length] = contents.unwrap_or_default();
        let [path_at, path_length] = at(path);
        // A record: path, an optional list of bytes, an empty list.
        for word in [path_at, path_length, u32::from(contents.is_some()), contents_at, length, 8, 0] {
            list.extend(word.to_le_bytes());
        }
    }
    let mut steps =
        vec![format!("(call $declare (i32.const {LIST}) (i32.const {}) (i32.const {RESULT}))", changes.len())];
    steps.extend(writes.iter().map(|(path, contents)| {
        let [path_at, length] = at(path);
        let path = format!("(i32.const {path_at}) (i32.const {length})");
        match contents.map(at) {
            Some([at, size]) => {
                format!("(call $write {path} (i32.const {at}) (i32.const {size}) (i32.const {RESULT}))")
            }
            None => format!("(call $delete {path} (i32.const {RESULT}))"),
        }
    }));
    let failed = format!("(if (i32.load8_u (i32.const {RESULT})) (then (return {})))", failure((3000, 4), (3000, 4)));
    let body: String = steps.iter().map(|step| format!("{step} {failed} ")).collect();
    let strings: String = STRINGS.iter().map(|(at, text)| data(*at, text.as_bytes())).collect();
    let imports = "\n(import \"patchbay:host/workspace-changes@0.1.0\" \"declare\" (func $declare (param i32 i32 i32)))\
                   \n(import \"patchbay:host/workspace-write@0.1.0\" \"write\" (func $write (param i32 i32 i32 i32 i32)))\
                   \n(import \"patchbay:host/workspace-write@0.1.0\" \"delete\" (func $delete (param i32 i32 i32)))\n";
    let guest = Guest::calling(&format!("{body} (call $say (i32.const 3000) (i32.const 4))"));
    let guest = guest.with(imports).with(SAY).with(&strings).with(&data(LIST, &list));
    let component = guest.importing("workspace-changes");
    guest::package(component, "---\ncapabilities: [{name: workspace-write}, {name: workspace-delete}]\n---\n")
}

/// Answers lists of changes with yes once, and everything else with no. If wanted, changes the file `one` during the first
/// question.
struct ListReader {
    meddles: Option<std::path::PathBuf>,
    asked: Mutex<Vec<String>>,
}

impl Approver for ListReader {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        let mut asked = self.asked.lock().unwrap();
        if let Some(file) = self.meddles.as_ref().filter(|_| asked.is_empty()) {
            std::fs::write(file, "changed meanwhile").unwrap();
        }
        let title = question.subject.title();
        let is_list = title.starts_with("Change ");
        asked.push(title);
        Box::pin(async move { if is_list { Approval::Once } else { Approval::No }.into() })
    }
}

impl ListReader {
    /// Runs the skill, and returns its result and the questions.
    async fn runs(host: &Host, meddles: bool) -> (Result<(), Code>, Vec<String>) {
        let meddles = meddles.then(|| host.workspace.join("one"));
        let person = Arc::new(Self { meddles, asked: Mutex::default() });
        let result = host.call(Some(&Approvals::new(Arc::clone(&person) as _))).await;
        (result.map(drop).map_err(|error| error.code()), std::mem::take(&mut *person.asked.lock().unwrap()))
    }
}

const BOTH: [(&str, Option<&str>); 3] = [("one", Some("done")), ("two", Some("done")), ("other", None)];

async fn host(writes: &[(&str, Option<&str>)]) -> Host {
    let host = Host::with([("keeper", skill(&BOTH, writes))]).await;
    std::fs::write(host.workspace.join("two"), "before").unwrap();
    std::fs::write(host.workspace.join("other"), "other").unwrap();
    host
}

fn files(host: &Host) -> [Option<String>; 3] {
    ["one", "two", "other"].map(|name| std::fs::read_to_string(host.workspace.join(name)).ok())
}

const LISTED: &str = "Change 3 files (1 new, 1 deleted): +2 −2?";

#[tokio::test]
async fn one_answer_is_for_all_declared_changes() {
    let host = host(&BOTH).await;
    assert_eq!(ListReader::runs(&host, false).await, (Ok(()), vec![LISTED.to_owned()]));
    assert_eq!(files(&host), [Some("done".into()), Some("done".into()), None]);
    // Each change was allowed once, so the same call asks again.
    std::fs::write(host.workspace.join("other"), "other").unwrap();
    let (_, asked) = ListReader::runs(&host, false).await;
    assert_eq!(asked, ["Change 3 files (1 deleted): −1?"]);
}

#[tokio::test]
async fn what_was_not_declared_is_asked_about() {
    for (writes, asked) in [
        (&[("one", Some("more"))][..], "Create one: +1?"),
        (&[("one", None)], ""),
        (&[("more", Some("done"))], "Create more: +1?"),
        (&[("two", None)], "Delete two: −1?"),
        (&[("two", Some("done")), ("two", Some("more"))], "Overwrite two: +1 −1?"),
        (&[("other", None), ("other", Some("done"))], "Create other: +1?"),
    ] {
        let host = host(writes).await;
        let (result, questions) = ListReader::runs(&host, false).await;
        let expected: Vec<&str> = [LISTED, asked].into_iter().filter(|question| !question.is_empty()).collect();
        assert_eq!(questions, expected, "{writes:?}");
        assert!(result.is_err(), "{writes:?}");
    }
}

/// A declared change may be reverted, as in a patch that fails later. Any other change is not the one that was shown.
#[tokio::test]
async fn declared_change_is_reverted_without_a_question() {
    let host = host(&[("one", Some("done")), ("one", None), ("other", None), ("other", Some("other"))]).await;
    assert_eq!(ListReader::runs(&host, false).await, (Ok(()), vec![LISTED.to_owned()]));
    assert_eq!(files(&host), [None, Some("before".into()), Some("other".into())]);
}

#[tokio::test]
async fn list_is_shown_again_if_a_file_changed_meanwhile() {
    let host = host(&BOTH).await;
    let (result, questions) = ListReader::runs(&host, true).await;
    assert_eq!(
        (result, &*questions),
        (Ok(()), &[LISTED.to_owned(), "Change 3 files (1 deleted): +2 −3?".to_owned()][..])
    );
}

#[tokio::test]
async fn refused_list_changes_nothing() {
    let host = host(&BOTH).await;
    assert_eq!(host.call(None).await.unwrap_err().code(), Code::Denied);
    assert_eq!(files(&host), [None, Some("before".into()), Some("other".into())]);
    // The user is not asked about changes that would fail anyway.
    std::fs::remove_file(host.workspace.join("other")).unwrap();
    assert_eq!(ListReader::runs(&host, false).await, (Err(Code::ToolFailed), Vec::new()));
}

#[tokio::test]
async fn list_is_bounded_and_names_each_file_once() {
    for changes in [vec![("one", None); 2], vec![("one", None); 201]] {
        let host = Host::with([("keeper", skill(&changes, &[]))]).await;
        assert_eq!(ListReader::runs(&host, false).await, (Err(Code::ToolFailed), Vec::new()));
    }
}

/// All files of a list are read before the question, while the call's time limit is not running.
#[tokio::test]
async fn files_of_a_list_are_bounded_together() {
    let host = host(&BOTH).await;
    for name in ["two", "other"] {
        std::fs::File::create(host.workspace.join(name)).unwrap().set_len(33 << 20).unwrap();
    }
    assert_eq!(ListReader::runs(&host, false).await, (Err(Code::ToolFailed), Vec::new()));
    std::fs::write(host.workspace.join("two"), "before").unwrap();
    assert_eq!(ListReader::runs(&host, false).await.0, Ok(()));
}
