//! What a program has requested: its log, its calls of tools and its rejected promises. The functions here are those of
//! `native` in `prelude.js`; `program` reads what they leave.

use std::{cell::RefCell, collections::VecDeque};

use patchbay_sdk::tool_calls::Request;
use rquickjs::{Ctx, Function, Persistent, Value};

use crate::bounded::Log;

/// The name of the tool that runs programs. It cannot call itself.
pub(crate) const OWN: &str = "code__run";

/// What the running program has requested.
#[derive(Default)]
pub(crate) struct Requested {
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

/// What a program waits for.
pub(crate) enum Wanted {
    /// The call of a tool.
    Call(Request),
    /// The declarations of the tools that match a query.
    Find(String),
}

/// The functions that settle a promise.
pub(crate) struct Settle {
    /// Takes the value.
    pub(crate) resolve: Persistent<Function<'static>>,
    /// Takes the kind and the message of the error.
    pub(crate) reject: Persistent<Function<'static>>,
}

/// Rejected promises that are remembered.
const REJECTED: usize = 100;

thread_local! {
    static REQUESTED: RefCell<Requested> = RefCell::default();
}

/// Runs `work` with what the program has requested.
pub(crate) fn requested<T>(work: impl FnOnce(&mut Requested) -> T) -> T {
    REQUESTED.with_borrow_mut(work)
}

pub(crate) fn log(text: String) {
    requested(|it| it.log.push(&text));
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

/// Notes that a promise was rejected that nothing handles, or that something handles such a promise now.
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
