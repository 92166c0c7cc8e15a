//! A thousand forks and kills: the process keeps its size, and the last ones take as long as the first ones.

use std::{
    fs,
    time::{Duration, Instant},
};

use patchbay_tests::{answers::Live, binary::Patchbay};

const FORKS: usize = 1_000;
const PART: usize = 200;

/// Memory of the process in KiB.
fn resident(live: &Live) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", live.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Forks and kills, each time an agent with a turn of its own.
fn forks(live: &mut Live, count: usize) -> Duration {
    let start = Instant::now();
    for number in 0..count {
        let fork = if number % 10 == 0 { "/fork \"hello\"" } else { "/fork" };
        assert_eq!(live.answer(fork).code(), "forked");
        assert_eq!(live.answer("/kill").code(), "killed");
    }
    start.elapsed()
}

#[test]
fn thousand_forks_and_kills_leave_nothing_behind() {
    let patchbay = Patchbay::quick();
    let mut live = patchbay.live(&[]);
    let first = forks(&mut live, PART);
    let before = resident(&live);
    forks(&mut live, FORKS - 2 * PART);
    let last = forks(&mut live, PART);
    let after = resident(&live);
    eprintln!("the first {PART}: {first:?}, the last {PART}: {last:?}; {before} KiB, then {after} KiB");
    assert!(after < before + 30_000, "{before} KiB, then {after} KiB");
    assert!(last < 4 * first + Duration::from_secs(5), "{first:?}, then {last:?}");
    let list = live.message("/agents");
    assert!(list.ends_with("990 more are dead."), "{list}");
    let session = live.session().to_owned();
    assert_eq!(live.wait_for_exit(), Some(0));
    patchbay_tests::tree_check::check(&patchbay.database("patchbay.db"), &session);
}
