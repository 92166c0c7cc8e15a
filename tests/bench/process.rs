//! Measures `patchbay exec /skills` from start to end.

use std::{process::Command, time::Instant};

use patchbay_tests::binary::Patchbay;

use crate::report::{Report, Samples, ms};

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
    let first = u64::try_from(first.elapsed().as_nanos()).unwrap();
    let calc = time(&mut patchbay.command(&["exec", "/calc 1"]));
    let (mut nothing, mut skills) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        nothing.push(time(&mut Command::new("/bin/true")));
        skills.push(time(&mut patchbay.command(&["exec", "/skills"])));
    }
    let (nothing, skills) = (Samples::new(nothing), Samples::new(skills));
    let row =
        |name: &str, samples: &Samples| vec![name.to_owned(), ms(samples.percentile(50)), ms(samples.percentile(99))];
    report.table(
        &["", "p50", "p99"],
        &[
            row("`/bin/true`", &nothing),
            row("`patchbay exec /skills`", &skills),
            vec!["the first `patchbay exec /skills` in a new home".to_owned(), ms(first), String::new()],
            vec!["the first `patchbay exec '/calc 1'` there, which compiles it".to_owned(), ms(calc), String::new()],
        ],
    );
}

fn time(command: &mut Command) -> u64 {
    let start = Instant::now();
    assert!(command.output().unwrap().status.success());
    u64::try_from(start.elapsed().as_nanos()).unwrap()
}
