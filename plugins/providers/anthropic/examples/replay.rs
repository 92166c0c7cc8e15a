//! Runs the adapter without its sandbox, for `make bench`. Reads the bytes of an answer from standard input, passes
//! them on in chunks, and prints the time for each chunk in nanoseconds. The argument is the size of a chunk in bytes;
//! 0 means one chunk per event.

use std::{
    env,
    io::{self, Read as _, Write as _},
    time::Instant,
};

use patchbay_provider_sdk::{Action, Adapter as _, CompletionRequest, Input, ResponseHead, ToolChoice};
use provider_anthropic::Anthropic;

fn main() -> io::Result<()> {
    let size = env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    io::stdin().read_to_end(&mut body)?;
    // The first run warms up.
    replay(pieces(&body, size));
    let times = replay(pieces(&body, size));
    let mut out = io::BufWriter::new(io::stdout().lock());
    times.iter().try_for_each(|time| writeln!(out, "{time}"))?;
    out.flush()
}

fn pieces(mut body: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while !body.is_empty() {
        let end = body.windows(2).position(|two| two == b"\n\n").map_or(body.len(), |place| place + 2);
        let (piece, rest) = body.split_at(if size == 0 { end } else { size.min(body.len()) });
        pieces.push(piece.to_vec());
        body = rest;
    }
    pieces
}

fn replay(pieces: Vec<Vec<u8>>) -> Vec<u128> {
    let request = CompletionRequest {
        model: "claude-sonnet-4-5".to_owned(),
        system: Vec::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: Vec::new(),
    };
    let (mut adapter, _) = Anthropic::begin(request);
    adapter.resume(Input::ResponseHead(ResponseHead { status: 200, headers: Vec::new() }));
    let (mut times, mut last) = (Vec::with_capacity(pieces.len()), Vec::new());
    for piece in pieces {
        let start = Instant::now();
        last = adapter.resume(Input::BodyChunk(piece));
        times.push(start.elapsed().as_nanos());
    }
    assert!(matches!(last.last(), Some(Action::Finish(_))), "the answer has no end: {last:?}");
    times
}
