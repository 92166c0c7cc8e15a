//! Writes a file whose old contents are kept for `/undo`, and compares that with a plain write.

use std::time::Instant;

use patchbay_core::{AgentId, CallId, Digest};
use patchbay_sandbox::{Limits, Sandbox};
use patchbay_store::{NewSnapshot, Store};
use patchbay_tests::services;
use patchbay_workspace::Workspace;

use crate::{
    nanoseconds,
    report::{Report, Samples, ms_row},
};

const WRITES: usize = 200;
const LINES: usize = 500;

pub fn measure(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (home, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(home.path()).unwrap();
    let tools = services::tools(home.path(), &store, Sandbox::new(Limits::default()));
    let workspace = Workspace::open(folder.path()).unwrap();
    let path = folder.path().canonicalize().unwrap();
    let reverter = runtime.block_on(async {
        let kept = NewSnapshot::empty(Digest::of(b""), String::new(), store.retain_components().unwrap());
        let hold = services::session_with(&store, kept).await;
        let call = CallId::random();
        tools.file_reverter(&hold, AgentId::random(), call, &[], path.to_str().unwrap(), None).await.unwrap()
    });
    let (mut alone, mut with_kept) = (Vec::new(), Vec::new());
    for number in 0..WRITES {
        // The contents differ each time, because equal contents are only kept once.
        let text = format!("line of text number {number}\n").repeat(LINES).into_bytes();
        let start = Instant::now();
        workspace.write("alone.txt", &text).unwrap();
        alone.push(nanoseconds(start));
        let now = runtime.block_on(reverter.now("kept.txt")).unwrap().map(|now| now.file.digest);
        let start = Instant::now();
        runtime.block_on(reverter.restore("kept.txt", now, Some((text, None)))).unwrap();
        with_kept.push(nanoseconds(start));
    }
    report.section(
        "A write that can be taken back",
        &format!(
            "{WRITES} writes of {} KB over a file, alone and after its contents were kept: a content by digest and a row, both \
             written before the file is. Alternately. Milliseconds.",
            LINES * 24 / 1_000
        ),
    );
    let rows = [("the write alone", alone), ("with the contents before it", with_kept)];
    report.table(&["", "p50", "p99"], &rows.map(|(name, times)| ms_row(name, &Samples::new(times))));
}
