//! Any input in the instructions of any skill: the length of the result is bounded, and computed before the result is built.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_skill::{ArgumentsError, INPUT_BYTES, INSTRUCTIONS_BYTES, with_arguments};

// The first line is the input, the rest is the instructions. Both are repeated, because a short text never reaches a limit.
fuzz_target!(|repeated: (u8, u8, &str)| {
    let (input_times, template_times, text) = repeated;
    let (input, template) = text.split_once('\n').unwrap_or(("", text));
    let (input, template) = (input.repeat(input_times.into()), template.repeat(template_times.into()));
    let made = with_arguments(&template, &input);
    assert_eq!(made, with_arguments(&template, &input), "it is the same each time");
    match made {
        Ok(made) => {
            assert!(made.len() <= INSTRUCTIONS_BYTES);
            if !template.contains('$') {
                assert!(made.starts_with(&template) && made.ends_with(&input));
            }
        }
        Err(ArgumentsError::Input { bytes }) => assert!(bytes == input.len() && bytes > INPUT_BYTES),
        Err(error @ ArgumentsError::Instructions { bytes, placeholders }) => {
            // Each placeholder has at least two characters, and inserts at most the whole input.
            assert!(bytes > INSTRUCTIONS_BYTES && placeholders <= template.len() / 2, "{error}");
            assert!(bytes <= template.len() + placeholders.max(1) * input.len() + "\n\nARGUMENTS: ".len(), "{error}");
            assert!(error.to_string().len() < 300);
        }
    }
});
