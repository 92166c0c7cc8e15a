//! The Rust guest for `wasm32-wasip2`, which uses the standard library over WASI 0.2 as any program does.

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
    /// The key in the user's store.
    key: String,
    /// The value to be stored.
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
    /// The URL that is requested with GET.
    url: String,
}

/// The input of [`sleep`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// How long to sleep, in milliseconds.
    ms: u64,
}

/// The input of [`flood`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// The resource of which there is too much.
    of: String,
    /// How many of that resource are used.
    count: u64,
}

skill! {
    /// Stores a value in the user's store and reads it back.
    pub fn store(input: Pair) -> Result<String> {
        kv::put(kv::Scope::User, &input.key, input.value.as_bytes(), None)?;
        let entry = kv::get(kv::Scope::User, &input.key)?;
        let entry = entry.ok_or_else(|| Failure::new("failed", "what was put is not there"))?;
        Ok(String::from_utf8(entry.value)?)
    }

    /// Reports what the guest can see. Each entry is a value, or an object with the text of an `error`.
    pub fn surroundings(_input: Nothing) -> Result<Value> {
        Ok(surroundings::look())
    }

    /// Requests a URL with `wasi:http`. The status is on the first line, followed by the body.
    pub fn fetch(input: Address) -> Result<String> {
        fetch::get(&input.url)
    }

    /// Sleeps, and reports how long that took.
    pub fn sleep(input: Pause) -> Result<Value> {
        let start = Instant::now();
        std::thread::sleep(Duration::from_millis(input.ms));
        Ok(json!({ "elapsed_ms": start.elapsed().as_millis() }))
    }

    /// Uses too much of a resource.
    pub fn flood(input: Flood) -> Result<String> {
        flood::of(&input.of, input.count)
    }
}
