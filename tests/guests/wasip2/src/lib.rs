//! The guest in Rust for `wasm32-wasip2`: the standard library as anyone uses it, over WASI 0.2.

mod fetch;
mod flood;
mod surroundings;

use std::time::{Duration, Instant};

use patchbay_sdk::{Failure, Result, kv, skill};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The input of [`store`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Where.
    key: String,
    /// What.
    value: String,
}

/// The input of [`surroundings`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// The input of [`fetch`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// What is asked for, by GET.
    url: String,
}

/// The input of [`sleep`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Milliseconds.
    ms: u64,
}

/// The input of [`flood`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// Of what.
    of: String,
    /// How many of it.
    count: u64,
}

skill! {
    /// Puts a value into the store of the user, and reads it back.
    pub fn store(input: Pair) -> Result<String> {
        kv::put(kv::Scope::User, &input.key, input.value.as_bytes(), None)?;
        let entry = kv::get(kv::Scope::User, &input.key)?;
        let entry = entry.ok_or_else(|| Failure::new("failed", "what was put is not there"))?;
        Ok(String::from_utf8(entry.value)?)
    }

    /// Tells what is seen of the world. Each is a value, or an object with the text of an `error`.
    pub fn surroundings(_input: Nothing) -> Result<Value> {
        Ok(surroundings::look())
    }

    /// Asks for a URL by `wasi:http`; the status stands on the first line, the body follows.
    pub fn fetch(input: Address) -> Result<String> {
        fetch::get(&input.url)
    }

    /// Sleeps, and tells how long that was.
    pub fn sleep(input: Pause) -> Result<Value> {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(input.ms));
        Ok(json!({ "elapsed_ms": start.elapsed().as_millis() }))
    }

    /// Wants too much of something.
    pub fn flood(input: Flood) -> Result<String> {
        flood::of(&input.of, input.count)
    }
}
