//! Sub-agents that a model forks together: how long it takes to gather their results, and how many requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use patchbay_tests::{
    format::{CHAT, chat_calls},
    server::{Server, Step, body},
};
use serde_json::{Value, json};

use crate::{
    nanoseconds,
    report::{Report, Samples, ms},
};

const CHILDREN: usize = 8;
/// How long a child's model takes to answer, in milliseconds.
const ANSWER_MS: u64 = 1_000;
const RUNS: usize = 5;

pub fn measure(report: &mut Report) {
    let (mut times, mut requests, mut most) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let run = gather();
        times.push(run.time);
        requests.push(run.requests as u64);
        most.push(run.most as u64);
    }
    let median = |values| Samples::new(values).percentile(50);
    report.section(
        "Sub-agents",
        &format!(
            "A turn in a process of its own, in which the model forks {CHILDREN} children at once. The model answers a child after \
             {ANSWER_MS} ms, and the parent immediately. Medians of {RUNS} runs: the time until the process ends, which \
             includes at least one child's answer; the number of requests; the highest number of concurrent requests of children."
        ),
    );
    report.table(
        &["", "milliseconds", "requests", "at once"],
        &[vec![
            format!("{CHILDREN} children"),
            ms(median(times)),
            median(requests).to_string(),
            median(most).to_string(),
        ]],
    );
}

struct Gathered {
    time: u64,
    requests: usize,
    most: usize,
}

fn gather() -> Gathered {
    let (started, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, seen) = (Arc::clone(&started), Arc::clone(&most));
    let server = Server::scripted(move |request| {
        let last = last_message(request).to_string();
        if last.contains("Do part ") {
            // A child's request ends long after the last request of its wave has begun.
            seen.fetch_max(begun.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let begun = Arc::clone(&begun);
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(ANSWER_MS));
                begun.fetch_sub(1, Ordering::SeqCst);
            });
            return vec![Step::Pause(ANSWER_MS), Step::Bytes(CHAT.answer_with(&["My part is done."]))];
        }
        let fork = |number: usize| json!(["fork", {"prompt": format!("Do part {number}.")}]);
        let answer = match last.contains("Fan out") {
            true => chat_calls(&json!((1..=CHILDREN).map(fork).collect::<Vec<_>>())),
            false => CHAT.answer_with(&["All right."]),
        };
        vec![Step::Bytes(answer)]
    });
    let patchbay = CHAT.home(&server, "");
    let model = format!("/model {}", CHAT.model);
    // Compiles the adapter.
    assert_eq!(patchbay.exec(&[&model, "Hello."]).code, Some(0));
    let start = Instant::now();
    let ran = patchbay.exec(&[&model, "Fan out."]);
    let time = nanoseconds(start);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Gathered { time, requests: server.requests().len() - 1, most: most.load(Ordering::SeqCst) }
}

fn last_message(request: &str) -> Value {
    let mut request: Value = serde_json::from_str(body(request)).unwrap();
    request["messages"].as_array_mut().unwrap().pop().unwrap()
}
