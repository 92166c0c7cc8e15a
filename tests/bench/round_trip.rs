//! The round trip of a tool call within a long turn: from the end of a response to the next complete request.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use patchbay_tests::{
    format::{CHAT, chat_calls},
    server::{Server, body},
};
use serde_json::json;

use crate::report::{Report, Samples, us};

const CALLS: usize = 100;
const TURNS: usize = 5;
/// Number of round trips that are compared, at the beginning and at the end of the turn.
const COMPARED: usize = 20;
const RESULT: usize = 1_000;

pub fn measure(report: &mut Report) {
    report.section(
        "A round trip",
        &format!(
            "A turn in which the model calls `files__read` {CALLS} times, one call in each response; a result has {RESULT} bytes. \
             From the last byte of a response to the last byte of the next request, which has the whole conversation. *A socket*: \
             a client without a host sends the same requests to the same server. The medians of the first and the last \
             {COMPARED} round trips of {TURNS} turns, each in a new session. Microseconds. What grows is the work of a whole body: the \
             messages are built from rows that are in memory, hashed, passed to the adapter, and written as JSON in its sandbox."
        ),
    );
    let (mut first, mut last, mut bytes) = (Vec::new(), Vec::new(), (0, 0));
    let (mut bare_first, mut bare_last) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let (trips, requests) = turn();
        first.extend(&trips[..COMPARED]);
        last.extend(&trips[CALLS - COMPARED..]);
        let bare = bare(&requests);
        bare_first.extend(&bare[1..=COMPARED]);
        bare_last.extend(&bare[CALLS - COMPARED..]);
        bytes = (body(&requests[1]).len(), body(&requests[CALLS]).len());
    }
    let median = |samples: Vec<u64>| Samples::new(samples).percentile(50);
    let [first, last, bare_first, bare_last] = [first, last, bare_first, bare_last].map(median);
    let row = |name: &str, bytes: usize, host: u64, bare: u64| {
        vec![name.to_owned(), bytes.to_string(), us(bare), us(host), us(host.saturating_sub(bare))]
    };
    report.table(
        &["", "bytes of a request", "a socket", "Patchbay", "added"],
        &[row("the first calls", bytes.0, first, bare_first), row("the last calls", bytes.1, last, bare_last)],
    );
}

/// Runs a turn. Returns the duration of each round trip, and all requests.
fn turn() -> (Vec<u64>, Vec<String>) {
    let times: Arc<Mutex<Vec<(Instant, Instant)>>> = Arc::default();
    let kept = Arc::clone(&times);
    let answered = AtomicUsize::new(0);
    let server = Server::new(move |_| {
        let came = Instant::now();
        let answer = match answered.fetch_add(1, Ordering::Relaxed) {
            CALLS => CHAT.answer_with(&["Done."]),
            // A model that repeatedly reads the same file would be stopped.
            number => chat_calls(&json!([["files__read", {"path": format!("{number}.txt")}]])),
        };
        kept.lock().unwrap().push((came, Instant::now()));
        answer
    });
    let patchbay = CHAT.home(&server, "");
    for number in 0..CALLS {
        patchbay.write(&format!("workspace/{number}.txt"), "line of text\n".repeat(RESULT / 13));
    }
    let ran = patchbay.exec(&[&format!("/model {}", CHAT.model), "Read it."]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let times = times.lock().unwrap();
    let trips = times.windows(2).map(|pair| (pair[1].0 - pair[0].1).as_nanos().try_into().unwrap()).collect();
    (trips, server.requests())
}

/// Sends the requests one after another, each after the response to the previous one.
fn bare(requests: &[String]) -> Vec<u64> {
    let came: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let kept = Arc::clone(&came);
    let server = Server::new(move |_| {
        kept.lock().unwrap().push(Instant::now());
        CHAT.answer_with(&["Done."])
    });
    let mut trips = Vec::new();
    for request in requests {
        let start = Instant::now();
        let mut stream = TcpStream::connect(server.host()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        let came = came.lock().unwrap().last().copied().unwrap();
        trips.push(u64::try_from((came - start).as_nanos()).unwrap());
    }
    trips
}
