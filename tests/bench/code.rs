//! Programs of the skill `code`: the cost of a run, and a thousand tool calls by one program compared with as many by a model.

use std::{sync::Mutex, time::Instant};

use patchbay_tests::{
    binary::Patchbay,
    format::{CHAT, chat_calls},
    server::{Server, body},
};
use serde_json::{Value, json};

use crate::{
    nanoseconds,
    report::{Report, ms},
};

pub const CALLS: usize = 1_000;
/// How often the empty program runs.
const RUNS: usize = 50;
const BYTES_OF_A_TOKEN: usize = 4;

pub fn measure(report: &mut Report) {
    report.section(
        "Programs that call tools",
        &format!(
            "The bundled skill `code`. *Empty*: the program `1`, from the journal, the median of {RUNS} runs. Then {CALLS} calls of \
             `calc__eval`: by one program, one after the other and eight side by side, and by a model, one call in each answer and \
             50 in each. A server on this machine answers at once in place of the model; a real model adds its own \
             time for each request. A token is taken as four bytes of all requests and answers."
        ),
    );
    let empty = empty();
    report.table(
        &["", "milliseconds", "thousands of fuel", "MiB at the peak"],
        &[vec!["empty program".to_owned(), format!("{:.2}", empty.0), empty.1.to_string(), format!("{:.1}", empty.2)]],
    );
    let together =
        "(await Promise.all(Array.from({length: COUNT}, (_, i) => tools.calc.eval({expression: `${i} + 1`})))).length";
    let rows = [
        ("a program, one after the other", by_program()),
        ("a program, eight side by side", program(together)),
        ("a model, one in each answer", by_model(1)),
        ("a model, 50 in each answer", by_model(50)),
    ];
    let rows = rows.map(|(name, answers)| {
        let (requests, time, bytes) = conversation(answers);
        eprintln!("{name}: {requests} requests");
        let thousands = bytes as f64 / BYTES_OF_A_TOKEN as f64 / 1000.0;
        vec![name.to_owned(), requests.to_string(), ms(time), format!("{thousands:.1}")]
    });
    report.table(&["1,000 calls", "requests", "milliseconds", "thousands of tokens"], &rows);
}

/// Returns the script of a model whose program calls [`CALLS`] tools one after another.
pub fn by_program() -> Vec<Value> {
    program(
        "let n = 0; for (let i = 0; i < COUNT; i++) n += Number(await tools.calc.eval({expression: `${i} + 1`})); n",
    )
}

fn program(code: &str) -> Vec<Value> {
    vec![json!([["code__run", {"code": code.replace("COUNT", &CALLS.to_string())}]])]
}

/// Returns the script of a model that makes [`CALLS`] calls, `each` of them per answer.
pub fn by_model(each: usize) -> Vec<Value> {
    let call = |n: usize| json!(["calc__eval", {"expression": format!("{n} + 1")}]);
    (0..CALLS / each).map(|answer| (0..each).map(|n| call(answer * each + n)).collect()).collect()
}

/// Settings for a turn with that many calls.
pub const LIMITS: &str = "models = [{ id = \"local-1\", context_window = 1000000 }]\n[limits]\nturn_requests = 2000\n";

/// Returns the empty program's median time in milliseconds, thousands of fuel, and peak memory.
fn empty() -> (f64, u64, f64) {
    let patchbay = Patchbay::new();
    assert_eq!(patchbay.exec(&["/code 1"; RUNS]).code, Some(0));
    let rows = patchbay.run(&["journal", "--json"]).out;
    let mut rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["time_us"].as_u64());
    let row = &rows[rows.len() / 2];
    let number = |key: &str| row[key].as_u64().unwrap();
    (number("time_us") as f64 / 1000.0, number("fuel") / 1000, number("peak_memory") as f64 / f64::from(1 << 20))
}

/// Runs one turn in which the model answers with these calls. Returns the number of requests, the time of the turn in nanoseconds,
/// and the bytes of requests and responses.
fn conversation(answers: Vec<Value>) -> (usize, u64, usize) {
    let script: Vec<Vec<u8>> = answers.iter().map(chat_calls).chain([CHAT.answer_with(&["Done."])]).collect();
    let (expected, answered): (usize, usize) = (script.len(), script.iter().map(Vec::len).sum());
    let next = Mutex::new(script.into_iter());
    let server = Server::new(move |_| next.lock().unwrap().next().unwrap_or_default());
    let patchbay = CHAT.home(&server, LIMITS);
    let mut live = patchbay.live(&[]);
    live.answer(&format!("/model {}", CHAT.model));
    // Compiles both skills before the measurement.
    for warming in ["/code 1", "/calc 1"] {
        assert_eq!(live.answer(warming).code(), "tool_result");
    }
    let start = Instant::now();
    let answer = live.answer("Compute it.");
    let time = nanoseconds(start);
    assert_eq!((answer.code(), answer.message()), ("answered", "Done."));
    let requests = server.requests();
    assert_eq!(requests.len(), expected);
    let failed = requests.last().unwrap().matches("\\\"tool_success\\\":false").count();
    assert_eq!(failed, 0, "a call failed");
    let sent: usize = requests.iter().map(|request| body(request).len()).sum();
    (requests.len(), time, sent + answered)
}
