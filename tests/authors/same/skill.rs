//! The skill `same` in Rust. The other languages do exactly the same.

use patchbay_sdk::{
    Blob, Content, Failure, Link, Reply, Result,
    serde_json::{Value, json},
    skill,
};

/// The largest integer that every language reads from JSON without loss.
const SAFE: i64 = (1 << 53) - 1;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Numbers {
    #[schemars(range(min = -9007199254740991_i64, max = 9007199254740991_i64))]
    a: i64,
    #[schemars(range(min = -9007199254740991_i64, max = 9007199254740991_i64))]
    b: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Digits {
    #[schemars(regex(pattern = "^-?[0-9]{1,19}$"))]
    a: String,
    #[schemars(regex(pattern = "^-?[0-9]{1,19}$"))]
    b: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wrong {
    kind: String,
    message: String,
}

fn too_large() -> Failure {
    Failure::new("overflow", "the sum is too large")
}

skill! {
    /// Returns the text.
    fn echo(input: Text) -> Result<String> {
        Ok(input.text)
    }

    /// Returns the text as a key and a value of JSON.
    fn wrap(input: Text) -> Result<Value> {
        Ok(json!({ "list": [null, true, false, [], {}, "", input.text], "text": { input.text.clone(): "key" } }))
    }

    /// Counts bytes and code points, and hashes the bytes.
    fn measure(input: Text) -> Result<Value> {
        let hash = input.text.bytes().fold(2_166_136_261_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
        Ok(json!({ "bytes": input.text.len(), "hash": hash, "points": input.text.chars().count() }))
    }

    /// Adds two integers.
    fn add(input: Numbers) -> Result<Value> {
        let sum = input.a + input.b;
        if sum.abs() > SAFE { Err(too_large()) } else { Ok(json!({ "sum": sum })) }
    }

    /// Adds two integers of 64 bits that are written as strings.
    fn add64(input: Digits) -> Result<String> {
        let read = |text: &str| text.parse::<i64>().map_err(|_| Failure::new("overflow", format!("{text} has more than 64 bits")));
        let sum = read(&input.a)?.checked_add(read(&input.b)?).ok_or_else(too_large)?;
        Ok(sum.to_string())
    }

    /// Returns one content of each kind.
    fn pieces(input: Text) -> Result<Reply> {
        Ok(Reply::new()
            .with(Content::Text(input.text.clone()))
            .with(Content::Json(json!(input.text).to_string()))
            .with(Content::Blob(Blob { media_type: "text/x-same".to_owned(), data: input.text.clone().into_bytes() }))
            .with(Content::Link(Link { path: "a/b.txt".to_owned(), media_type: "text/plain".to_owned() })))
    }

    /// Fails.
    fn fail(input: Wrong) -> Result<String> {
        Err(Failure::new(input.kind, input.message))
    }
}
