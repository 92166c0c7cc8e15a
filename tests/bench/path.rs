//! An empty tool on the path of all tool calls, compared with wasmtime alone.

use std::{future::Future, sync::Arc, time::Instant};

use patchbay_sandbox::Limits;
use patchbay_tests::guest::Guest;
use serde_json::json;

use crate::{
    bare::Bare,
    host::Host,
    nanoseconds,
    report::{Report, Samples, us},
};

/// Number of calls of one kind in a round, and number of rounds. The kinds alternate, which spreads other load on the machine over
/// all of them.
const BURST: usize = 200;
const TURNS: usize = 100;
const AT_ONCE: usize = 64;

pub fn measure(report: &mut Report) {
    report.section(
        "A tool call",
        "A tool that returns its input (`{\"a\":1}`). *Patchbay* calls it on the normal path: look-up in the snapshot, \
         block list, schema check, permits, a fresh instance within all limits, a row of the journal. *wasmtime* is \
         the same component with wasmtime alone, with the same pool, fuel, epochs, limiter and async call. *wasmtime, \
         store* adds the two operations of a call on the store: reading whether the component is blocked, and a row of \
         the journal, which another thread writes. The three are measured alternately. Microseconds a call; *added* is \
         the difference to *wasmtime, store*, *ratio* the factor to *wasmtime*. According to a profiler (2026-11-26), \
         59 % of a call is the engine's work of instantiating and of resetting what was used, 6 % makes and drops what the \
         guest may call, 5 % describes the call for the journal, and 4 % checks whether another process has changed blocks \
         or grants.",
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    let component = Guest::default().component();
    let host = Arc::new(runtime.block_on(Host::new(home.path(), &component)));
    let bare = Bare::new(&component, Limits::default());

    let (mut rows, mut speeds) = (Vec::new(), Vec::new());
    for at_once in [1, AT_ONCE] {
        let (mut floor, mut path, mut database) = (Burst::default(), Burst::default(), Burst::default());
        for turn in 0..=TURNS {
            let bare_again = Arc::clone(&bare);
            let bare = Arc::clone(&bare);
            let bare = runtime.block_on(burst(at_once, move || {
                let bare = Arc::clone(&bare);
                async move { assert_eq!(bare.call("run", "{\"a\":1}").await, "{\"a\":1}") }
            }));
            let calls = Arc::clone(&host);
            let calls = runtime.block_on(burst(at_once, move || {
                let host = Arc::clone(&calls);
                async move { assert_eq!(host.call("probe__run", &json!({"a": 1})).await, "{\"a\":1}") }
            }));
            let asks = (Arc::clone(&bare_again), Arc::clone(&host));
            let asks = runtime.block_on(burst(at_once, move || {
                let (bare, host) = asks.clone();
                async move {
                    assert_eq!(bare.call("run", "{\"a\":1}").await, "{\"a\":1}");
                    host.database(&json!({"a": 1})).await;
                }
            }));
            // The first round is a warm-up.
            if turn > 0 {
                floor.add(bare);
                path.add(calls);
                database.add(asks);
            }
        }
        eprintln!("{at_once} at once: {} calls of each kind", floor.times.len());
        speeds.push(vec![at_once.to_string(), floor.a_second(), database.a_second(), path.a_second()]);
        // Many concurrent calls wait for the journal's writer. Their total rate is the more useful number.
        if at_once > 1 {
            continue;
        }
        let [floor, path, database] = [floor, path, database].map(|burst| Samples::new(burst.times));
        for percent in [50, 90, 99] {
            let [floor, path, database] = [&floor, &path, &database].map(|samples| samples.percentile(percent));
            rows.push(vec![
                format!("p{percent}"),
                us(floor),
                us(database),
                us(path),
                format!("{} ns", path.cast_signed() - database.cast_signed()),
                format!("{:.2}", path as f64 / floor as f64),
            ]);
        }
    }
    report.table(&["", "wasmtime", "wasmtime, store", "Patchbay", "added", "ratio"], &rows);
    report.text_block("Calls a second on all cores:");
    report.table(&["at once", "wasmtime", "wasmtime, store", "Patchbay"], &speeds);
}

/// The duration of each call, and the total duration.
#[derive(Default)]
struct Burst {
    times: Vec<u64>,
    whole: u64,
}

impl Burst {
    fn add(&mut self, other: Burst) {
        self.times.extend(other.times);
        self.whole += other.whole;
    }

    fn a_second(&self) -> String {
        (self.times.len() as u64 * 1_000_000_000 / self.whole.max(1)).to_string()
    }
}

/// Runs `BURST` calls on each of `at_once` tasks, or fewer if there are many tasks.
async fn burst<F: Future<Output = ()> + Send>(at_once: usize, call: impl Fn() -> F + Clone + Send + 'static) -> Burst {
    let each = BURST / at_once.min(8);
    let start = Instant::now();
    let tasks: Vec<_> = (0..at_once)
        .map(|_| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(each);
                for _ in 0..each {
                    let start = Instant::now();
                    call().await;
                    times.push(nanoseconds(start));
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    Burst { times, whole: nanoseconds(start) }
}
