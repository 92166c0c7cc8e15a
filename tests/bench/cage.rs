//! Measures `true` in the cage against `true` alone.

use std::{path::Path, process::Command, time::Instant};

use patchbay_cage::{
    CageFolders, CageProgram, CageSettings, Order, RunningProgram, Support, UserFolders, closed_environment,
};
use patchbay_tests::binary;
use tokio::runtime::Runtime;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

const RUNS: usize = 100;

pub fn measure(report: &mut Report) {
    report.section(
        "A program in the cage",
        "`true`, started in the cage that `terminal__run` uses, until all of its processes are gone. The same program alone is \
         measured alternately. Milliseconds.",
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
    let (mut alone, mut caged) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        assert!(Command::new("/bin/true").output().unwrap().status.success());
        alone.push(nanoseconds(start));
        let start = Instant::now();
        let end = runtime.block_on(async { RunningProgram::start(&child, &order).unwrap().ended().await });
        caged.push(nanoseconds(start));
        assert_eq!(end.exit_code, Some(0), "{end:?}");
    }
    report.table(
        &["", "p50", "p99"],
        &[ms_row("`/bin/true`", &Samples::new(alone)), ms_row("`/bin/true` in the cage", &Samples::new(caged))],
    );
}
