//! Many concurrent answers in a separate process, whose memory can then be measured.

use std::{
    env,
    path::Path,
    process::{self, Command},
    sync::Arc,
    time::Instant,
};

use patchbay_core::{Retrying, completion::StreamEvent};
use patchbay_provider::Sink;
use patchbay_session::Host;
use patchbay_tests::binary::{peak_kib, resident_kib};

use super::{
    MODEL,
    host::{host, session, turn},
    parts::request,
    recording::Recording,
    server,
};
use crate::nanoseconds;

/// The first argument of the separate process, which identifies it.
pub const ARGUMENT: &str = "answers-at-once";

/// The measurements of one run.
pub struct Took {
    /// From just before the first request to the last answer, in nanoseconds.
    pub time: u64,
    /// Memory just before the first request, in KiB.
    pub before: u64,
    /// Peak memory of the process, in KiB.
    pub peak: u64,
}

/// Runs `sessions` concurrent answers in one host, whose home is `home`. With 0, runs one exchange without a session, and drops
/// its answer.
pub fn run(home: &Path, recording: &Arc<Recording>, sessions: usize) -> Took {
    let at_once = sessions.max(1);
    let origin = server::eager(Arc::clone(recording), at_once);
    let output = Command::new(env::current_exe().unwrap())
        .arg(ARGUMENT)
        .arg(home)
        .args([origin, sessions.to_string(), recording.text.len().to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let numbers = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [time, before, peak] = numbers[..] else { panic!("three numbers") };
    Took { time, before, peak }
}

/// Does the work of the separate process, which has the arguments `HOME ORIGIN SESSIONS BYTES`; BYTES is the expected length
/// of each answer.
pub fn process(arguments: &[String]) {
    let [home, origin, count, bytes] = arguments else { panic!("four arguments") };
    let (home, bytes): (&Path, usize) = (home.as_ref(), bytes.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = host(home, origin);
        let mut sessions = Vec::new();
        for _ in 0..count.parse().unwrap() {
            sessions.push(session(&host, home).await);
        }
        let before = resident_kib(process::id());
        let start = Instant::now();
        if sessions.is_empty() {
            assert_eq!(tokio::spawn(exchange(Arc::clone(&host))).await.unwrap(), bytes);
        }
        let turns = sessions.into_iter().map(|session| tokio::spawn(async move { turn(&session, || {}).await.len() }));
        for turn in turns.collect::<Vec<_>>() {
            assert_eq!(turn.await.unwrap(), bytes);
        }
        println!("{} {before} {}", nanoseconds(start), peak_kib(process::id()));
    });
}

/// Runs an exchange without a session. Drops the text and returns its length in bytes.
async fn exchange(host: Arc<Host>) -> usize {
    struct Count(usize);
    impl Sink for Count {
        fn event(&mut self, event: StreamEvent) {
            if let StreamEvent::BlockDelta { text, .. } = event {
                self.0 += text.len();
            }
        }

        fn retrying(&mut self, retrying: &Retrying) {
            panic!("{retrying}");
        }
    }
    let mut count = Count(0);
    let choice = host.providers().resolve(MODEL).await.unwrap();
    host.providers().complete(&choice, request(), &mut count).await.unwrap();
    count.0
}
