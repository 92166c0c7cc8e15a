//! Any JSON as a tool's input schema, and any JSON as the input. The bytes are the schema, a zero byte, and the input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_schema::{PatternBudget, Rejection, Schema};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let Some(Ok(schema)) = parts.next().map(serde_json::from_slice::<Value>) else { return };
    let input = parts.next().and_then(|input| serde_json::from_slice(input).ok()).unwrap_or(Value::Null);
    // Runs on a smaller stack than a fiber's. The fuzzer's own limits find inputs that need seconds or a gigabyte.
    let check = move || check(&schema, &input);
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(check).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
});

fn check(schema: &Value, input: &Value) {
    match Schema::compile(schema, &mut PatternBudget::default()) {
        Ok(compiled) => {
            let verdict = compiled.check(input);
            assert_eq!(verdict, compiled.check(input), "the verdict is the same each time");
            if let Err(rejection) = verdict {
                let text = rejection.to_string();
                assert!(!text.is_empty() && text.len() < 8_000, "{text}");
                assert!(!matches!(&rejection, Rejection::Invalid { problem, .. } if problem.is_empty()));
            }
            // A schema of data can also be applied to its own text.
            drop(compiled.check(schema));
        }
        Err(error) => {
            let sentence = error.of_tool("x");
            assert!(sentence.chars().count() < 400, "{sentence}");
            assert_eq!(sentence, text::clean_line(&sentence), "a diagnostic is one clean line");
        }
    }
}
