//! Tests the terminal's screen at each of its moments, in a pseudo-terminal: [`MOMENTS`]. Each moment acts like a user, and
//! compares the window with a file in `screens`, at 40, 80 and 120 columns.
//!
//! - `cargo test --workspace` runs the main moments in a window of 80 columns; `make test-terminal` runs all in all windows.
//! - `TERMINAL_TESTS=NAME` runs one moment in all windows.
//! - `INSTA_UPDATE=always` records the screens again: `make screens`, which also writes docs/terminal.md ([`pictures`]).
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agents;
mod answering;
mod budget;
mod leaving;
mod model;
mod pictures;
mod stage;
mod tools;
mod typing;

use std::{
    env, panic,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use stage::Stage;

/// The widths of the windows.
const WIDTHS: [u16; 3] = [40, 80, 120];
/// The width of the windows of `cargo test --workspace`.
const MAIN_WIDTH: u16 = 80;
/// Number of windows that are open at the same time.
const AT_ONCE: usize = 4;

/// One moment of the terminal.
pub(crate) struct Moment {
    /// The moment's name, with which the name of its screen begins.
    pub(crate) name: &'static str,
    /// Whether `cargo test --workspace` runs it.
    pub(crate) is_main: bool,
    run: fn(&Stage),
}

const fn main_moment(name: &'static str, run: fn(&Stage)) -> Moment {
    Moment { name, is_main: true, run }
}

const fn moment(name: &'static str, run: fn(&Stage)) -> Moment {
    Moment { name, is_main: false, run }
}

const MOMENTS: &[Moment] = &[
    main_moment("start", typing::start),
    main_moment("menu", typing::menu),
    moment("completed", typing::completed),
    moment("models", typing::models),
    moment("arrows", typing::arrows),
    moment("unknown", typing::unknown),
    moment("help", typing::help),
    main_moment("newlines", typing::newlines),
    moment("kitty_keys", typing::kitty_keys),
    moment("files", typing::files),
    main_moment("paste", typing::pasted),
    moment("search", typing::search),
    moment("wide", typing::wide),
    moment("editor", typing::editor),
    moment("redraw", typing::redraw),
    moment("busy", answering::busy),
    moment("thinking", answering::thinking),
    main_moment("draft", answering::draft),
    main_moment("queue", answering::queue),
    main_moment("steered", answering::steered),
    moment("taken_back", answering::taken_back),
    main_moment("held", answering::held),
    moment("send_now", answering::send_now),
    moment("retrying", answering::retrying),
    moment("dropped", answering::dropped),
    moment("copied", answering::copied),
    moment("marks", answering::marks),
    main_moment("markdown", answering::markdown),
    moment("code", answering::code),
    moment("table", answering::table),
    main_moment("stopped", answering::stopped),
    moment("ctrl_c", answering::ctrl_c),
    moment("failed", answering::failed),
    moment("refused", answering::refused),
    moment("configured", answering::configured),
    moment("long_answer", answering::long_answer),
    moment("resize", answering::resize),
    moment("hostile_answer", answering::hostile_answer),
    moment("no_color", answering::no_color),
    moment("tool_running", tools::running),
    main_moment("tool", tools::succeeded),
    moment("tool_failed", tools::failed),
    moment("hostile_tool", tools::hostile),
    moment("question", tools::question),
    moment("diff", tools::diff),
    main_moment("modes", tools::modes),
    #[cfg(target_os = "linux")]
    main_moment("programs", tools::programs),
    moment("fork", agents::fork),
    moment("child_done", agents::child_done),
    main_moment("switch", agents::switch),
    moment("stop_woken", agents::stop_woken),
    moment("capturing", agents::capturing),
    main_moment("kill", agents::kill),
    main_moment("quit", agents::quit),
    moment("other_asks", agents::other_asks),
    main_moment("agents", agents::listed),
    moment("away", agents::away),
    moment("pipe_agents", agents::pipe),
    moment("leave", leaving::leave),
    moment("resume", leaving::resume),
    moment("suspend", leaving::suspend),
    moment("signals", leaving::signals),
    moment("dumb", leaving::dumb),
    moment("pipe", leaving::pipe),
];

/// Returns the moments that the environment selects, each with a width.
fn selected() -> Vec<(&'static Moment, u16)> {
    let all = |moments: Vec<&'static Moment>| -> Vec<_> {
        moments.into_iter().flat_map(|moment| WIDTHS.map(|width| (moment, width))).collect()
    };
    match env::var("TERMINAL_TESTS").ok().as_deref() {
        Some("all") => all(MOMENTS.iter().collect()),
        Some(name) => all(MOMENTS.iter().filter(|moment| moment.name == name).collect()),
        None => MOMENTS.iter().filter(|moment| moment.is_main).map(|moment| (moment, MAIN_WIDTH)).collect(),
    }
}

#[test]
fn moments_look_as_they_should() {
    let selected = selected();
    assert!(!selected.is_empty(), "TERMINAL_TESTS names no moment");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((moment, columns)) = selected.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let stage = Stage::new(moment.name, *columns);
                    if let Err(reason) = panic::catch_unwind(|| (moment.run)(&stage)) {
                        let reason = reason
                            .downcast_ref::<String>()
                            .cloned()
                            .or_else(|| Some((*reason.downcast_ref::<&str>()?).to_owned()));
                        let reason = reason.unwrap_or_default();
                        failed.lock().unwrap().push(format!("{} at {columns} columns: {reason}", moment.name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let all = MOMENTS.len() * WIDTHS.len();
    println!("{} of {all} screens of the terminal were run, {} failed", selected.len(), failed.len());
    assert!(failed.is_empty(), "{} of {} failed:\n\n{}", failed.len(), selected.len(), failed.join("\n\n"));
}

/// A recorded screen without a moment would never be compared.
#[test]
fn each_screen_belongs_to_a_moment() {
    for entry in std::fs::read_dir(stage::folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".snap").and_then(|name| name.rsplit_once('-')).map(|(name, _)| name);
        let is_known = name.is_some_and(|name| MOMENTS.iter().any(|moment| moment.name == name));
        assert!(is_known, "tests/terminal/screens/{file} belongs to no moment");
    }
}
