//! Measures a model's answer, from a byte on the network to the event at a front.

mod host;
pub mod many;
mod parts;
mod recording;
pub mod server;

use std::{path::Path, sync::Arc, time::Instant};

use tokio::runtime::Runtime;

use self::{many::Took, parts::Sandboxed, recording::Recording, server::Patient};
use crate::{
    nanoseconds,
    report::{Report, Samples, ms, us},
};

const CHUNKS: usize = 10_000;
/// Number of rounds. The kinds alternate, which spreads other load on the machine over all of them.
const TURNS: usize = 3;
const AT_ONCE: usize = 100;
/// The largest piece that an adapter receives in one step.
const PIECE: usize = 16 << 10;
const MODEL: &str = "claude-sonnet-4-5";
/// As long as a real key and with the same characters, because text that could be the beginning of the key is withheld.
const KEY: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4-0123456789abcdefghijklmnopqrstuvwxyz-AA";

pub fn measure(report: &mut Report) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let recording = Arc::new(Recording::new(CHUNKS));
    let home = tempfile::tempdir().unwrap();
    let sandboxed = runtime.block_on(Sandboxed::new());

    report.section(
        "A streamed answer",
        &format!(
            "A recorded answer of the Messages API with {CHUNKS} deltas. A server on this machine sends it, one chunk \
             for each delta, to a session with its store and the bundled adapter. The server sends a chunk after the \
             event of the previous one has reached a front. *Patchbay* is the time from the server's write to the \
             event. The parts are measured alternately with it: a bare socket; the request of egress, which removes \
             the key from the response; the adapter's codec without a sandbox, built as in the component; the \
             component in the sandbox. Microseconds a chunk."
        ),
    );
    one_by_one(report, &runtime, &recording, home.path(), &sandboxed);
    report.text_block(&format!(
        "The same answer, sent as fast as possible. Chunks that have arrived are passed to the adapter together, up to \
         {} KiB, and make one event; the codec and the component get pieces of that size. Milliseconds for the whole \
         answer, and microseconds a chunk.",
        PIECE >> 10
    ));
    all_at_once(report, &runtime, &recording, home.path(), &sandboxed);
    drop(runtime);
    at_once(report, home.path(), &recording);
}

fn one_by_one(report: &mut Report, runtime: &Runtime, recording: &Arc<Recording>, home: &Path, sandboxed: &Sandboxed) {
    let server = Patient::new(Arc::clone(recording));
    let host = host::host(home, &server.origin);
    let egress = parts::way_out();
    let (mut socket, mut way_out, mut codec, mut component, mut whole) = (vec![], vec![], vec![], vec![], vec![]);
    let pieces: Vec<_> = recording.deltas.iter().map(|delta| delta.clone().into_bytes()).collect();
    let seen = || {
        let seen = server.seen.clone();
        move || {
            let _ = seen.send(Instant::now());
        }
    };
    for turn in 0..=TURNS {
        let (origin, recorded) = (server.origin.clone(), Arc::clone(recording));
        spawned(runtime, parts::socket(origin, recorded, seen()));
        let socket_times = server.times.recv().unwrap();
        let (origin, recorded) = (server.origin.clone(), Arc::clone(recording));
        spawned(runtime, parts::egress(egress.clone(), origin, recorded, seen()));
        let way_out_times = server.times.recv().unwrap();
        let codec_times = parts::native(&recording.body(), 0);
        let component_times = runtime.block_on(sandboxed.replay(&recording.begin, &pieces));
        let text = runtime.block_on(async { host::turn(&host::session(&host, home).await, seen()).await });
        assert_eq!(text, recording.text);
        let whole_times = server.times.recv().unwrap();
        // The first round is a warm-up.
        if turn > 0 {
            socket.extend(socket_times);
            way_out.extend(way_out_times);
            codec.extend(codec_times);
            component.extend(component_times);
            whole.extend(whole_times);
        }
    }
    eprintln!("{} chunks one by one", whole.len());
    let rows = [
        ("a socket", socket),
        ("egress", way_out),
        ("the codec, native", codec),
        ("the component", component),
        ("Patchbay", whole),
    ];
    let rows = rows.map(|(name, times)| {
        let times = Samples::new(times);
        let [p50, p90, p99] = [50, 90, 99].map(|percent| us(times.percentile(percent)));
        vec![name.to_owned(), p50, p90, p99]
    });
    report.table(&["", "p50", "p90", "p99"], &rows);
}

/// Runs the reader on a thread of the runtime, as a turn does, and not on the waiting thread.
fn spawned(runtime: &Runtime, work: impl Future<Output = ()> + Send + 'static) {
    runtime.block_on(runtime.spawn(work)).unwrap();
}

fn all_at_once(report: &mut Report, runtime: &Runtime, recording: &Arc<Recording>, home: &Path, sandboxed: &Sandboxed) {
    let origin = server::eager(Arc::clone(recording), 1);
    let host = host::host(home, &origin);
    let egress = parts::way_out();
    let deltas = recording.deltas.concat();
    let pieces: Vec<_> = deltas.as_bytes().chunks(PIECE).map(<[u8]>::to_vec).collect();
    let mut times: [Vec<u64>; 5] = Default::default();
    for turn in 0..=TURNS * 3 {
        let start = Instant::now();
        spawned(runtime, parts::socket(origin.clone(), Arc::clone(recording), || {}));
        let socket = nanoseconds(start);
        let start = Instant::now();
        spawned(runtime, parts::egress(egress.clone(), origin.clone(), Arc::clone(recording), || {}));
        let way_out = nanoseconds(start);
        let codec = parts::native(&recording.body(), PIECE).iter().sum();
        let component = runtime.block_on(sandboxed.replay(&recording.begin, &pieces)).iter().sum();
        let session = runtime.block_on(host::session(&host, home));
        let start = Instant::now();
        let text = runtime.block_on(host::turn(&session, || {}));
        let whole = nanoseconds(start);
        assert_eq!(text, recording.text);
        if turn > 0 {
            for (times, time) in times.iter_mut().zip([socket, way_out, codec, component, whole]) {
                times.push(time);
            }
        }
    }
    let names = ["a socket", "egress", "the codec, native", "the component", "Patchbay"];
    let rows: Vec<_> = names
        .iter()
        .zip(times)
        .map(|(name, times)| {
            let time = Samples::new(times).percentile(50);
            vec![(*name).to_owned(), ms(time), us(time / CHUNKS as u64)]
        })
        .collect();
    report.table(&["", "the whole", "a chunk"], &rows);
}

fn at_once(report: &mut Report, home: &Path, recording: &Arc<Recording>) {
    report.section(
        "Many streamed answers",
        &format!(
            "One process with one host. {AT_ONCE} sessions send a message at the same moment, and the server starts \
             all answers before it continues any. For comparison: one such answer, and one that is ten times as long. \
             Milliseconds from the first line to the last answer; MiB of memory (VmRSS before, VmHWM at the end). *A \
             stream* is the additional memory of each further session. *The exchange alone* is an answer without a \
             session, whose events are dropped. The host then has only a piece of it in memory; the adapter keeps its \
             text, because this API can pause and must then be sent its earlier output. A session also keeps the text. \
             Each time it is stored, every quarter of a second and at the end, it is copied several times for a \
             moment; this is the additional memory of a long answer."
        ),
    );
    let long = Arc::new(Recording::new(CHUNKS * 10));
    let [alone, long_alone] = [recording, &long].map(|recording| many::run(home, recording, 0));
    let [one, long_one] = [recording, &long].map(|recording| many::run(home, recording, 1));
    let hundred = many::run(home, recording, AT_ONCE);
    let mib = |kib: u64| format!("{}.{}", kib >> 10, ((kib & 1023) * 10) >> 10);
    let row =
        |name: String, took: &Took, each: String| vec![name, ms(took.time), mib(took.before), mib(took.peak), each];
    let (of_one, of_all) = (one.peak - one.before, hundred.peak - hundred.before);
    let each = mib(of_all.saturating_sub(of_one) / (AT_ONCE as u64 - 1));
    let sizes = [recording, &long].map(|of| format!("{} chunks, {} KB of text", of.deltas.len(), of.text.len() / 1000));
    report.table(
        &["", "time", "before", "peak", "a stream"],
        &[
            row(format!("the exchange alone: {}", sizes[0]), &alone, String::new()),
            row(format!("the exchange alone: {}", sizes[1]), &long_alone, String::new()),
            row(format!("one session: {}", sizes[0]), &one, String::new()),
            row(format!("one session: {}", sizes[1]), &long_one, String::new()),
            row(format!("{AT_ONCE} sessions: {} each", sizes[0]), &hundred, each),
        ],
    );
}
