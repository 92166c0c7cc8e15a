//! The requests of a program: its log, its tool calls and its rejected promises. The functions here are the members of
//! `native` in `prelude.js`; `program` reads the results.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use patchbay_sdk::tool_calls::Request;
use rquickjs::{Ctx, Exception, Function, Persistent, Value};

use crate::{bounded::Log, declare, host::Host};

/// The name of the tool that runs programs. It cannot call itself.
pub(crate) const OWN: &str = "code__run";

/// The requests of the running program.
#[derive(Default)]
pub(crate) struct Requested {
    /// The host of the program; `None` while none runs.
    pub(crate) host: Option<Rc<dyn Host>>,
    /// The paths of the tools; `None` until the program lists them.
    listed: Option<Rc<[Vec<String>]>>,
    pub(crate) log: Log,
    /// Requests that are not started, the oldest first.
    pub(crate) queue: VecDeque<Queued>,
    /// Rejected promises that nothing handles, with their reasons.
    pub(crate) rejected: Vec<(Persistent<Value<'static>>, Persistent<Value<'static>>)>,
}

/// A request, with the functions that settle its promise.
pub(crate) struct Queued {
    pub(crate) request: Wanted,
    pub(crate) promise: Settle,
}

/// The request that a program waits for.
pub(crate) enum Wanted {
    Call(Request),
    /// The declarations of the tools that match a query.
    Find(String),
}

/// The functions that settle a promise.
pub(crate) struct Settle {
    pub(crate) resolve: Persistent<Function<'static>>,
    /// Called with the kind and the message of the error.
    pub(crate) reject: Persistent<Function<'static>>,
}

/// How many tools are requested from the host in one call.
pub(crate) const PAGE: u32 = 1_000;
/// How many rejected promises are remembered.
const REJECTED: usize = 100;

thread_local! {
    static REQUESTED: RefCell<Requested> = RefCell::default();
}

/// Runs `work` with the program's requests.
pub(crate) fn requested<T>(work: impl FnOnce(&mut Requested) -> T) -> T {
    REQUESTED.with_borrow_mut(work)
}

/// Adds a line to the log and reports it, so a front shows it while the program runs. A line beyond the limit of the log is not
/// reported either: progress counts as output.
pub(crate) fn log(text: String) {
    let host = requested(|it| if it.log.push(&text) { it.host.clone() } else { None });
    if let Some(host) = host {
        host.report(&format!("{text}\n"));
    }
}

/// Returns the names that follow `path` in the paths of the tools, each once: the keys of
/// `tools` and of the objects in it.
pub(crate) fn names(ctx: Ctx<'_>, path: Vec<String>) -> rquickjs::Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for tool in listed(&ctx)?.iter().filter(|tool| tool.starts_with(&path)) {
        // The tools are sorted by name, so a skill's tools are adjacent.
        if let Some(name) = tool.get(path.len()).filter(|name| names.last() != Some(*name)) {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Returns whether there is a tool at `path` or below it.
pub(crate) fn is_listed(ctx: Ctx<'_>, path: Vec<String>) -> rquickjs::Result<bool> {
    Ok(listed(&ctx)?.iter().any(|tool| tool.starts_with(&path)))
}

/// Returns the path of each tool that a program can call. Queries the host only once.
fn listed(ctx: &Ctx<'_>) -> rquickjs::Result<Rc<[Vec<String>]>> {
    let (listed, host) = requested(|it| (it.listed.clone(), it.host.clone()));
    match (listed, host) {
        (Some(listed), _) => Ok(listed),
        (None, None) => Ok(Rc::default()),
        (None, Some(host)) => {
            let paths = declare::paths(|after| host.entries(after, PAGE));
            let paths: Rc<[_]> = paths.map_err(|failure| Exception::throw_message(ctx, failure.message()))?.into();
            requested(|it| it.listed = Some(Rc::clone(&paths)));
            Ok(paths)
        }
    }
}

pub(crate) fn call<'js>(ctx: Ctx<'js>, tool: String, input: String, resolve: Function<'js>, reject: Function<'js>) {
    let request = Wanted::Call(Request { tool, input, extra: Vec::new() });
    queue(&ctx, request, resolve, reject);
}

pub(crate) fn find<'js>(ctx: Ctx<'js>, query: String, resolve: Function<'js>, reject: Function<'js>) {
    queue(&ctx, Wanted::Find(query), resolve, reject);
}

fn queue<'js>(ctx: &Ctx<'js>, request: Wanted, resolve: Function<'js>, reject: Function<'js>) {
    let promise = Settle { resolve: Persistent::save(ctx, resolve), reject: Persistent::save(ctx, reject) };
    requested(|it| it.queue.push_back(Queued { request, promise }));
}

/// Records that a promise was rejected without a handler, or that such a promise now has a handler.
pub(crate) fn note_rejection<'js>(ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, is_handled: bool) {
    let promise = Persistent::save(ctx, promise);
    let reason = Persistent::save(ctx, reason);
    requested(|it| {
        if is_handled {
            it.rejected.retain(|(rejected, _)| *rejected != promise);
        } else if it.rejected.len() < REJECTED {
            it.rejected.push((promise, reason));
        }
    });
}
