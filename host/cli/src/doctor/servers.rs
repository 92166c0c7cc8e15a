//! Checks that the programs of the MCP servers in `config.toml` exist. None of them is started.

use patchbay_core::text;
use patchbay_egress::find_program;
use serde_json::json;

use super::{DoctorReport, Fact, edit, home::OpenHome};

/// Reports the servers, if there are any.
pub(super) fn check(report: &mut DoctorReport, home: &OpenHome) {
    let mut facts = Vec::new();
    for (name, server) in &home.config.mcp {
        let Some(program) = server.command.as_ref().and_then(|command| command.words().first()) else {
            facts.push(Fact::with(name.as_str(), "over HTTP, not asked", json!({"http": true})));
            continue;
        };
        let found = find_program(program, std::env::var_os("PATH").as_deref());
        let text = match &found {
            Some(file) => format!("program {}, not started", file.display()),
            None => format!("program '{}' not found", text::excerpt(program, 80)),
        };
        facts.push(Fact::with(name.as_str(), text, json!({"program": program, "found": found.is_some()})));
        if found.is_none() {
            let what = format!("The program of MCP server '{name}' was not found in any absolute folder of PATH.");
            report.problem(what, edit(&home.paths.config.join("config.toml")));
        }
    }
    if !facts.is_empty() {
        report.section("MCP servers", facts);
    }
}
