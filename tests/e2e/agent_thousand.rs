//! A thousand forks and kills. The process does not grow, and the last forks cost as much as the first.

use std::fs;

use patchbay_tests::{
    answers::Live,
    binary::{Patchbay, resident_kib},
};

const FORKS: usize = 1_000;
const PART: usize = 200;
/// Five seconds of processor time in ticks. Linux counts a hundred per second.
const SLACK: u64 = 500;

/// The processor time of the process, in ticks. Unlike wall time, it does not depend on the load of the machine.
fn processor_time(live: &Live) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", live.pid())).unwrap();
    // The process name is in parentheses; the fields after it include user time and system time.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Forks and kills an agent `count` times, each with a turn of its own. Returns the processor time in ticks.
fn forks(live: &mut Live, count: usize) -> u64 {
    let start = processor_time(live);
    for number in 0..count {
        let fork = if number % 10 == 0 { "/fork \"hello\"" } else { "/fork" };
        assert_eq!(live.answer(fork).code(), "forked");
        assert_eq!(live.answer("/kill").code(), "killed");
    }
    processor_time(live) - start
}

#[test]
fn thousand_forks_and_kills_leave_nothing_behind() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    let first = forks(&mut live, PART);
    let before = resident_kib(live.pid());
    forks(&mut live, FORKS - 2 * PART);
    let last = forks(&mut live, PART);
    let after = resident_kib(live.pid());
    eprintln!("the first {PART}: {first} ticks, the last {PART}: {last} ticks; {before} KiB, then {after} KiB");
    assert!(after < before + 30_000, "{before} KiB, then {after} KiB");
    assert!(last < 4 * first + SLACK, "{first} ticks, then {last} ticks");
    let list = live.message("/agents");
    assert!(list.ends_with("990 more are dead."), "{list}");
    let session = live.session().to_owned();
    assert_eq!(live.wait_for_exit(), Some(0));
    patchbay_tests::tree_check::check(&patchbay.database("patchbay.db"), &session);
}
