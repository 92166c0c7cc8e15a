//! Measures `true` in the cage against `true` alone.

use std::{
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use patchbay_cage::{
    CageFolders, CageProgram, CageSettings, Cages, Order, RunningProgram, Support, UserFolders, closed_environment,
};
use patchbay_tests::binary;
use tokio::runtime::Runtime;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

const RUNS: usize = 100;
/// How long a process has to become ready, which is less time than a user needs to answer a question.
const READING: Duration = Duration::from_millis(100);

pub fn measure(report: &mut Report) {
    report.section(
        "A program in the cage",
        "`true`, started in the cage that `terminal__run` uses, until all of its processes are gone. Patchbay starts the process that \
         builds the cage while you read the question or type the `!` command, and the next one when the program has ended: *ready* is \
         what you usually wait for. *New* is a program for which there is no such process: it follows another one at once, or the \
         process was not used for five minutes and nothing was asked. The same program alone is measured alternately. Milliseconds.",
    );
    let child = CageProgram { program: binary::path(), arguments: vec!["cage".to_owned()] };
    let home = tempfile::tempdir().unwrap();
    let user = UserFolders::new(home.path(), &std::env::var("PATH").unwrap(), []);
    let folders = CageFolders::new(&CageSettings::default(), user).unwrap();
    let runtime = Runtime::new().unwrap();
    let support = runtime.block_on(Support::probe(&child));
    let workspace = home.path().canonicalize().unwrap();
    let order = Order {
        program: "/bin/true".to_owned(),
        arguments: Vec::new(),
        folder: workspace.clone(),
        environment: closed_environment(&[]),
        fence: Some(folders.fence(support, &workspace, Path::new("/nowhere"))),
    };
    let cages = Cages::new(child.clone());
    let (mut alone, mut new, mut ready) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        assert!(Command::new("/bin/true").output().unwrap().status.success());
        alone.push(nanoseconds(start));
        new.push(run(&runtime, || RunningProgram::start(&child, &order).unwrap()));
        runtime.block_on(async { cages.prepare() });
        thread::sleep(READING);
        ready.push(run(&runtime, || cages.start(&order).unwrap()));
        // The next process starts during this time.
        thread::sleep(READING);
    }
    report.table(
        &["", "p50", "p99"],
        &[
            ms_row("`/bin/true`", &Samples::new(alone)),
            ms_row("`/bin/true` in the cage, ready", &Samples::new(ready)),
            ms_row("`/bin/true` in the cage, new", &Samples::new(new)),
        ],
    );
}

/// Runs a program to its end, and returns the nanoseconds that it took.
fn run(runtime: &Runtime, start: impl FnOnce() -> RunningProgram) -> u64 {
    let began = Instant::now();
    let end = runtime.block_on(async { start().ended().await });
    let took = nanoseconds(began);
    assert_eq!(end.exit_code, Some(0), "{end:?}");
    took
}
