//! Measures the cost of a conversation: the requests of 30 turns to each API that caches prompts, priced by that API's rules,
//! compared with the lowest cost that these rules allow.

use std::{
    collections::HashSet,
    fs,
    hash::{DefaultHasher, Hasher as _},
    path::Path,
    sync::Mutex,
};

use patchbay_tests::{
    format::{ANTHROPIC, CHAT, Format, OPENAI},
    server::{Server, body},
};
use serde_json::Value;

use crate::report::Report;

const TURNS: usize = 30;
/// Every turn of this number starts with a tool call, and therefore has two requests.
const CALLS_EVERY: usize = 3;
/// The turn that begins with twelve calls at once.
const WIDE_TURN: usize = 10;
/// Every turn of this number is answered with thinking.
const THINKS_EVERY: usize = 5;
const BYTES_OF_A_TOKEN: f64 = 4.0;

pub fn measure(report: &mut Report) {
    report.section(
        "The cost of a conversation",
        &format!(
            "The binary with its bundled skills, {TURNS} user messages, a tool call in every third turn, twelve parallel \
             calls in one turn, thinking in every fifth, and a summary at the end. A server on this machine answers from recordings and keeps the requests. Each request is priced \
             as the API counts it: what an earlier request has written to the cache is read at the price for that, the rest \
             is written to the cache or sent uncached. *Least*: each request begins with the whole one before it and reads as much of it \
             as the API can, writes the rest, and the last one writes nothing. A token is taken as four bytes of JSON. \
             Prices are those of the bundled tables (`plugins/providers/*/models.json`), in thousands of input tokens."
        ),
    );
    let (mut messages, mut responses) = (ANTHROPIC, OPENAI);
    messages.model = "claude-sonnet-5-5/low";
    responses.model = "gpt-6-luna/low";
    let rows = [
        ("Messages", messages, "anthropic/claude-sonnet-5-5", Cache::Points),
        ("Responses", responses, "openai/gpt-6-luna", Cache::Automatic),
        ("Chat Completions", CHAT, "openai/gpt-6-luna", Cache::Automatic),
    ];
    let rows = rows.map(|(name, format, priced_as, cache)| {
        let requests = conversation(&format);
        let prices = Prices::of(priced_as);
        let sent: f64 = requests.iter().flatten().map(|block| block.tokens).sum();
        let (paid, least) = (cache.price(&requests, &prices), least(&cache, &requests, &prices));
        eprintln!("{name}: {} requests", requests.len());
        let thousands = |tokens: f64| format!("{:.1}", tokens / 1000.0);
        vec![
            format!("{name} ({})", priced_as.split('/').next_back().unwrap_or_default()),
            requests.len().to_string(),
            thousands(sent),
            thousands(paid),
            thousands(least),
            format!("{:.2}", paid / least),
        ]
    });
    report.table(&["", "requests", "without a cache", "Patchbay", "least", "Patchbay / least"], &rows);
}

/// A part of a request, in the order in which the API caches: tools, system, messages.
struct Block {
    hash: u64,
    tokens: f64,
    is_point: bool,
}

/// Runs the conversation and returns its requests.
fn conversation(format: &Format) -> Vec<Vec<Block>> {
    let prose =
        "The committee met on Tuesday and found that nothing in the report had changed since spring. ".repeat(7);
    let answered = Mutex::new(0);
    let mut script = Vec::new();
    for turn in 0..TURNS {
        if turn % CALLS_EVERY == 0 {
            script.push(format.answer(format.call));
        }
        if turn == WIDE_TURN {
            script.push(format.answer(format.wide_call));
        }
        script.push(match turn % THINKS_EVERY == 0 {
            true => format.answer(format.thinking),
            false => format.answer_with(&[&prose]),
        });
    }
    // The summary.
    script.push(format.answer_with(&[&prose]));
    let expected = script.len();
    let server = Server::new(move |_| {
        let mut answered = answered.lock().unwrap();
        *answered += 1;
        script[*answered - 1].clone()
    });
    let patchbay = format.home(&server, "");
    let mut lines = vec![format!("/model {}", format.model)];
    lines.extend((0..TURNS).map(|turn| format!("Question {turn}: what does paragraph {turn} say of the committee?")));
    lines.push("/compact".to_owned());
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let ran = patchbay.exec(&lines);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), expected);
    requests.iter().map(|request| blocks(request)).collect()
}

fn blocks(request: &str) -> Vec<Block> {
    let body: Value = serde_json::from_str(body(request)).unwrap();
    let list = |key: &str| body[key].as_array().cloned().unwrap_or_default();
    let mut blocks: Vec<Block> = list("tools").into_iter().map(block).collect();
    blocks.extend(body["instructions"].as_str().map(|text| block(text.into())));
    blocks.extend(list("system").into_iter().map(block));
    for message in list("messages").into_iter().chain(list("input")) {
        match (&message["content"], body["system"].is_array()) {
            // Cache points are in the blocks of Messages. Other APIs cache by tokens, for which
            // whole messages are precise enough.
            (Value::Array(content), true) => blocks.extend(content.iter().cloned().map(block)),
            _ => blocks.push(block(message)),
        }
    }
    blocks
}

fn block(mut value: Value) -> Block {
    let is_point = value.as_object_mut().is_some_and(|object| object.remove("cache_control").is_some());
    let text = value.to_string();
    Block { hash: hash(&text), tokens: text.len() as f64 / BYTES_OF_A_TOKEN, is_point }
}

fn hash(value: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Token prices, relative to the price of an input token.
struct Prices {
    read: f64,
    write: f64,
}

impl Prices {
    fn of(model: &str) -> Self {
        let (provider, id) = model.split_once('/').unwrap();
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../plugins/providers/{provider}/models.json"));
        let table: Value = serde_json::from_str(&fs::read_to_string(table).unwrap()).unwrap();
        let model = table["models"].as_array().unwrap().iter().find(|model| model["id"] == id).unwrap();
        let price = |kind: &str| Some(model["prices"][kind].as_str()?.parse::<f64>().unwrap());
        let input = price("input").unwrap();
        Self {
            read: price("cache-read").unwrap() / input,
            write: price("cache-write").map_or(1.0, |write| write / input),
        }
    }
}

enum Cache {
    /// Caches up to marked blocks. A mark finds a cache entry at most 20 blocks before it (2026-11-23, platform.claude.com, "Prompt
    /// caching").
    Points,
    /// Caches the beginning, in steps of 128 tokens from 1,024 on (2026-11-23, platform.openai.com, "Prompt caching").
    Automatic,
}

impl Cache {
    /// Returns how many of the first `tokens`, which were sent before, can be read from the cache.
    fn readable(&self, tokens: f64) -> f64 {
        match self {
            Self::Points => tokens,
            Self::Automatic if tokens < 1024.0 => 0.0,
            Self::Automatic => tokens - tokens % 128.0,
        }
    }

    /// Returns what `requests` cost, in tokens of input.
    fn price(&self, requests: &[Vec<Block>], prices: &Prices) -> f64 {
        let mut written = HashSet::new();
        let mut cost = 0.0;
        for (index, request) in requests.iter().enumerate() {
            let total: f64 = request.iter().map(|block| block.tokens).sum();
            let (read, write) = match self {
                Self::Points => points(request, &mut written),
                Self::Automatic => {
                    let read = self.readable(common(request, &requests[..index]));
                    (read, total - read)
                }
            };
            cost += read * prices.read + write * prices.write + (total - read - write);
        }
        cost
    }
}

/// Returns the tokens that a request with marked blocks reads and writes.
fn points(request: &[Block], written: &mut HashSet<u64>) -> (f64, f64) {
    const LOOKS_BACK: usize = 20;
    let (mut hashes, mut sums) = (Vec::new(), Vec::new());
    for block in request {
        hashes.push(hash((hashes.last().copied().unwrap_or(0), block.hash)));
        sums.push(sums.last().copied().unwrap_or(0.0) + block.tokens);
    }
    let marked: Vec<usize> = (0..request.len()).filter(|index| request[*index].is_point).collect();
    let found = marked.iter().rev().find_map(|point| {
        (point.saturating_sub(LOOKS_BACK)..=*point).rev().find(|index| written.contains(&hashes[*index]))
    });
    let read = found.map_or(0.0, |index| sums[index]);
    let end = marked.last().map_or(0.0, |index| sums[*index]);
    written.extend(marked.iter().map(|index| hashes[*index]));
    (read, (end - read).max(0.0))
}

/// Returns the number of tokens in the longest prefix that `request` shares with one of `earlier`.
fn common(request: &[Block], earlier: &[Vec<Block>]) -> f64 {
    let with = |other: &Vec<Block>| -> f64 {
        let same = request.iter().zip(other).take_while(|(a, b)| a.hash == b.hash);
        same.map(|(block, _)| block.tokens).sum()
    };
    earlier.iter().map(with).fold(0.0, f64::max)
}

/// Returns the cost if each request began with the whole request before it.
fn least(cache: &Cache, requests: &[Vec<Block>], prices: &Prices) -> f64 {
    let totals = requests.iter().map(|request| request.iter().map(|block| block.tokens).sum::<f64>());
    let (mut cost, mut before) = (0.0_f64, 0.0_f64);
    for (index, total) in totals.enumerate() {
        let read = cache.readable(before.min(total));
        let is_last = index + 1 == requests.len();
        cost += read * prices.read + (total - read) * if is_last { 1.0 } else { prices.write };
        before = total;
    }
    cost
}
