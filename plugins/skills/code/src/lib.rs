//! The skill `code`: runs JavaScript that calls the session's tools. Its input is a program, and its result consists of
//! the program's log and the value of its last expression.
//!
//! The program is not trusted, and neither are the tools, their schemas and their answers. QuickJS-NG runs within the limits of
//! the sandbox and has no files, network, clock or timers. The parts:
//!
//! - `engine` has the interpreter, which is started when the component is built; `prelude.js` defines its globals.
//! - `program` runs a program: it evaluates the code, then drives the job queue and the calls of tools until nothing is left.
//! - `tools` records the requests of the program; `host` is the program's interface to the host, which tests replace.
//! - `error` turns exceptions into messages, with line and column.
//! - `declare` writes TypeScript declarations of tools.
//! - `bounded` cuts the output.
#![deny(missing_docs)]

mod bounded;
mod declare;
mod engine;
mod error;
mod host;
mod program;
mod tools;

use std::rc::Rc;

use patchbay_sdk::{Reply, Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The input of [`run`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The program, with top-level await, without imports.
    code: String,
    /// Any JSON value; the program reads it as `input`. Put data here, not into the code.
    #[serde(default)]
    #[schemars(with = "Value")]
    input: Option<Value>,
}

skill! {
    /// Runs a JavaScript program that calls other tools, and returns what it logs with console.log and the value of its last
    /// expression. Use it to make many calls at once, and to filter or combine large results.
    ///
    /// await tools.SKILL.TOOL({...}) calls a tool; Promise.all runs up to eight side by side. A failed call throws an Error with
    /// `kind` and `message`. await tools.find("WORDS") returns TypeScript declarations of the tools that match best, and
    /// await tools.find() the names of all tools. No network, files, clock, timers or modules; about a million steps.
    #[extra("kind" = "execute", "deferred" = "true")]
    fn run(input: Run) -> Result<Reply> {
        let host: Rc<dyn host::Host> = Rc::new(host::Session);
        program::run(&input.code, input.input.as_ref(), &host)
    }
}

#[cfg(test)]
mod tests;
