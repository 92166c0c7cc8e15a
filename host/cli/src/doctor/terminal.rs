//! Facts about the terminal that decide how the front draws, and about the cage for programs.

use std::{
    env,
    io::{self, IsTerminal as _},
};

use patchbay_cage::{Isolation, Support};
use patchbay_core::text;
use serde_json::json;

use super::report::{DoctorReport, Fact};
use crate::terminal::cage_program;

/// Length limit of a shown variable, in characters.
const SHOWN: usize = 80;

/// Reports which parts of the cage for programs this machine supports.
pub(super) async fn check_cage(report: &mut DoctorReport) {
    let Ok(child) = cage_program() else { return };
    let support = Support::probe(&child).await;
    let namespaces = match support.isolation {
        Isolation::None => "none",
        Isolation::Mounts => "files",
        Isolation::Processes => "files and processes",
    };
    let landlock = match support.landlock {
        0 => "none".to_owned(),
        version => format!("version {version}"),
    };
    let fenced = match &support.gaps()[..] {
        [] => "yes".to_owned(),
        gaps => format!("partial: programs {}", gaps.join(", ")),
    };
    let facts = vec![
        Fact::new("fenced", fenced),
        Fact::with("Landlock", landlock, json!({"version": support.landlock})),
        Fact::new("namespaces", namespaces),
        Fact::new("seccomp", if support.seccomp { "yes" } else { "no" }),
    ];
    report.section("Cage for programs", facts);
}

pub(super) fn check(report: &mut DoctorReport) {
    let term = variable("TERM");
    let terminals = [
        ("standard input", io::stdin().is_terminal()),
        ("standard output", io::stdout().is_terminal()),
        ("standard error", io::stderr().is_terminal()),
    ];
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
    let is_plain = term.as_deref().is_none_or(|term| term == "dumb");
    let is_utf8 = locale.as_deref().is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    });
    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    let mut facts: Vec<Fact> = terminals
        .iter()
        .map(|(name, is)| Fact::with(name, if *is { "a terminal" } else { "not a terminal" }, json!({"terminal": is})))
        .collect();
    facts.extend([
        Fact::new("TERM", shown(&term)),
        Fact::new("colours", colours(term.as_deref())),
        Fact::new("locale", shown(&locale)),
        Fact::new(
            "editor",
            ["VISUAL", "EDITOR"].into_iter().find_map(variable).unwrap_or_else(|| "not set".to_owned()),
        ),
    ]);
    report.section("Terminal", facts);
    let [(_, input), (_, output), _] = terminals;
    if input && output {
        if is_plain {
            report.advise("TERM is not set or 'dumb': line editing is unavailable.", "export TERM=xterm-256color");
        }
        if !is_utf8 {
            report.advise("The locale is not UTF-8: some characters may be shown wrongly.", "export LANG=C.UTF-8");
        }
    }
}

fn colours(term: Option<&str>) -> &'static str {
    if variable("NO_COLOR").is_some() {
        return "off, because NO_COLOR is set";
    }
    let is_full = variable("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit");
    match term {
        None | Some("dumb") => "none",
        Some(_) if is_full => "16 million",
        Some(term) if term.contains("256") => "256",
        Some(_) => "16",
    }
}

/// Returns a variable that is set and not empty, cleaned and shortened.
fn variable(name: &str) -> Option<String> {
    let value = env::var_os(name).filter(|value| !value.is_empty())?;
    Some(text::excerpt(&value.to_string_lossy(), SHOWN))
}
