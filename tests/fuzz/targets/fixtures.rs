//! Any bytes as a fixture of a skill and of an adapter, because fixtures may come from strangers.
#![no_main]

use std::{fs, sync::LazyLock};

use futures_util::FutureExt as _;
use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, text};
use patchbay_fixture::{CaseRun, FixtureError, FixtureFolder, PreparedCase};
use tempfile::TempDir;

/// A plugin's folder with one fixture and one body.
static PLUGIN: LazyLock<TempDir> = LazyLock::new(|| {
    let plugin = tempfile::tempdir().expect("a folder");
    FixtureFolder::create(plugin.path()).expect("a folder of fixtures");
    fs::write(plugin.path().join("fixtures/body.bin"), [0, 159, 146, 150]).expect("a body");
    plugin
});

fuzz_target!(|bytes: &[u8]| check(bytes));

fn check(bytes: &[u8]) {
    let folder = FixtureFolder::open(PLUGIN.path()).expect("a folder of fixtures");
    folder.write("a.json", bytes).expect("a fixture");
    match folder.cases("a.json") {
        Ok(cases) => cases.iter().for_each(|case| skill(&folder, case)),
        Err(error) => refused(&error),
    }
    folder.write("a.json", bytes).expect("a fixture");
    match folder.answers("a.json") {
        Ok(cases) => {
            for case in &cases {
                // Expected values that were written are read back, and nothing else changes.
                folder.update_answer(case, &[]).expect("it is written");
                let again = folder.answers("a.json").expect("it is read again");
                assert_eq!(again.len(), cases.len());
                let again = &again[case.index.unwrap_or_default()];
                assert_eq!((again.event_difference(&[]), again.body_sizes()), (None, case.body_sizes()));
            }
        }
        Err(error) => refused(&error),
    }
}

/// Updates the fixture from a call that did not begin. The case then agrees with that result.
fn skill(folder: &FixtureFolder, case: &PreparedCase) {
    assert!(!case.is_unwritten() && case.name().starts_with("fixtures/a.json"));
    let run = CaseRun::new(case);
    let outcome = run.outcome(case, ("denied", "not granted"), case.files_before());
    let actual = outcome.now_or_never().expect("nothing waits").expect("there is no store");
    if folder.update(case, &actual).expect("it is written") {
        let again = folder.cases("a.json").expect("it is read again").swap_remove(case.index.unwrap_or_default());
        assert_eq!(actual.differences(&again), []);
        assert_eq!((&again.tool, &again.input, &again.grants), (&case.tool, &case.input, &case.grants));
    }
}

fn refused(error: &FixtureError) {
    assert!(matches!(error.code(), Code::FixtureInvalid | Code::FixtureNewer | Code::FolderUnusable), "{error}");
    let message = error.to_string();
    assert!(!message.is_empty() && message.chars().count() <= 1_000, "{message}");
    assert_eq!(message, text::clean_line(&message), "it is one clean line");
}
