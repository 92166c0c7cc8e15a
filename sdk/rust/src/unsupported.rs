//! Advice on replacing functions of the standard library that a component lacks.

use std::{env::VarError, error::Error, io, panic::Location};

/// Returns advice for a panic inside the standard library. `None` if a missing system is not the cause.
#[cfg_attr(not(all(target_arch = "wasm32", target_os = "unknown")), allow(dead_code))]
pub(crate) fn advice(panic: &str) -> Option<&'static str> {
    // For a panic in the author's code, only its own message is correct.
    let is_of_std = panic.contains("/library/std/src/");
    let has = |words: &str| panic.contains(words);
    if has("time not implemented on this platform") && is_of_std {
        Some(
            "A component has no clock: let the caller pass the time in the tool's input; call::remaining says how much time is left.",
        )
    } else if has("can't sleep") && is_of_std {
        Some(
            "A component has no clock, so it cannot sleep: nothing else happens while a tool runs, so there is nothing to wait for.",
        )
    } else if has("failed to spawn thread") {
        Some(
            "A component has no threads: compute in order, or run other tools side by side with patchbay_sdk::tool_calls.",
        )
    } else {
        None
    }
}

/// Returns the message of an error, with advice if it comes from a missing system.
pub(crate) fn explained(error: &(dyn Error + 'static), at: &Location<'_>) -> String {
    let advice = if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::Unsupported) {
        "a component has no files, sockets or processes of its own: use patchbay_sdk::workspace for the user's files, \
         patchbay_sdk::skill_files for those beside SKILL.md, and patchbay_sdk::http"
    } else if error.is::<VarError>() {
        "a component has no environment: pass the value in the tool's input; for secrets use a credential of patchbay_sdk::http"
    } else {
        return error.to_string();
    };
    format!("{}:{}: {error}; {advice}", at.file(), at.line())
}
