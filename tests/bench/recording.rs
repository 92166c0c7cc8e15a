//! Turns with and without the recording of calls, alternately.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, chat_calls},
    server::Server,
};

use crate::{
    code::{CALLS, LIMITS, by_model, by_program},
    nanoseconds,
    report::{Report, Samples, ms},
};

const CHUNKS: usize = 10_000;
const ROUNDS: usize = 7;

pub fn measure(report: &mut Report) {
    report.section(
        "Recording of calls",
        &format!(
            "One turn in a new session, {ROUNDS} times without `--record`, with it, and without it again; the medians. *Noise* is the \
             second figure without recording against the first, *cost* the figure with recording against the mean of the two. The \
             {CALLS} calls of a program are made one after the other, those of a model 50 in each answer. Milliseconds and percent."
        ),
    );
    let rows = [
        ("10,000 chunks of an answer", Vec::new(), vec!["word "; CHUNKS]),
        ("1,000 calls by a program", by_program(), vec!["Done."]),
        ("1,000 calls by a model", by_model(50), vec!["Done."]),
    ];
    let rows = rows.map(|(name, calls, end)| {
        let script = calls.iter().map(chat_calls).chain([CHAT.answer_with(&end)]).collect();
        let [off, on, again] = turns(script);
        let mean = u64::midpoint(off, again);
        eprintln!("{name}: {ROUNDS} rounds");
        vec![name.to_owned(), ms(off), ms(on), percent(again, off), percent(on, mean)]
    });
    report.table(&["", "off", "on", "noise", "cost"], &rows);
}

/// Returns the median times of a turn in nanoseconds, answered with `script`: without recording, with it, and without it again.
fn turns(script: Vec<Vec<u8>>) -> [u64; 3] {
    let next = AtomicUsize::new(0);
    let server = Server::new(move |_| script[next.fetch_add(1, Ordering::Relaxed) % script.len()].clone());
    let patchbay = CHAT.home(&server, LIMITS);
    // Compiles the components.
    turn(&patchbay, &[]);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (times, options) in times.iter_mut().zip([&[][..], &["--record"], &[]]) {
            times.push(turn(&patchbay, options));
        }
    }
    times.map(|times| Samples::new(times).percentile(50))
}

fn turn(patchbay: &Patchbay, options: &[&str]) -> u64 {
    let mut live = patchbay.live(options);
    live.answer(&format!("/model {}", CHAT.model));
    for warming in ["/code 1", "/calc 1"] {
        assert_eq!(live.answer(warming).code(), "tool_result");
    }
    let start = Instant::now();
    let answer = live.answer("Compute it.");
    let time = nanoseconds(start);
    assert_eq!(answer.code(), "answered");
    time
}

/// Returns how much longer `time` is than `other`, in percent, such as `+1.2`.
fn percent(time: u64, other: u64) -> String {
    format!("{:+.1}", (time as f64 / other as f64 - 1.0) * 100.0)
}
