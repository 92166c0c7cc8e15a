//! Measures `patchbay exec /skills` from start to end.

use std::{process::Command, time::Instant};

use patchbay_tests::binary::{Patchbay, peak_kib};

use crate::{
    nanoseconds,
    report::{Report, Samples, ms, ms_row},
};

const RUNS: usize = 60;

pub fn measure(report: &mut Report) {
    report.section(
        "A process",
        "`patchbay exec /skills` from start to end, in a home that has been used before. A process that does nothing \
         is measured alternately. Milliseconds.",
    );
    let patchbay = Patchbay::new();
    let first = Instant::now();
    assert_eq!(patchbay.exec(&["/skills"]).code, Some(0));
    let first = nanoseconds(first);
    let calc = time(&mut patchbay.command(&["exec", "/calc 1"]));
    let (mut nothing, mut skills) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        nothing.push(time(&mut Command::new("/bin/true")));
        skills.push(time(&mut patchbay.command(&["exec", "/skills"])));
    }
    let (nothing, skills) = (Samples::new(nothing), Samples::new(skills));
    let peak = peak(&patchbay);
    report.table(
        &["", "p50", "p99"],
        &[
            ms_row("`/bin/true`", &nothing),
            ms_row("`patchbay exec /skills`", &skills),
            vec!["the first `patchbay exec /skills` in a new home".to_owned(), ms(first), String::new()],
            vec!["the first `patchbay exec '/calc 1'` there, which compiles it".to_owned(), ms(calc), String::new()],
        ],
    );
    report.text_block(&format!(
        "The peak memory (VmHWM) of an `exec` that has run `/skills`: {:.1} MiB.",
        peak as f64 / 1024.0
    ));
}

/// Returns the peak memory in KiB of an `exec` that has run `/skills` and waits for its next line.
fn peak(patchbay: &Patchbay) -> u64 {
    let mut live = patchbay.live(&[]);
    live.answer("/skills");
    let peak = peak_kib(live.pid());
    live.wait_for_exit();
    peak
}

fn time(command: &mut Command) -> u64 {
    let start = Instant::now();
    assert!(command.output().unwrap().status.success());
    nanoseconds(start)
}
