//! Runs a program: evaluates it, then alternates between the interpreter's job queue and the calls of tools, until the program
//! has ended and nothing is under way.

use std::{collections::BTreeMap, rc::Rc};

use patchbay_sdk::{
    Content, Failure, Reply, Result,
    tool_calls::{self, Outcome, Request},
};
use rquickjs::{Array, Ctx, Function, Object, Promise, TypedArray, Value, promise::PromiseState};

use crate::{
    bounded::{cut_value, excerpt},
    declare,
    engine::{Engine, Functions, options},
    error::{AFTER, BEFORE, FILE, MESSAGE, Thrown},
    host::Host,
    tools::{OWN, PAGE, Queued, Settle, Wanted, requested},
};

/// How many tool calls run in parallel: as many as the host allows.
const AT_ONCE: usize = 8;
/// How many tools one search shows.
const FOUND: u32 = 8;
/// Bytes of logged text in the message of a failure.
const LOG_OF_FAILURE: usize = 8 << 10;

/// Runs a program and returns its log and its value.
///
/// # Errors
/// The exception that ended the program, with its log and a note on how its calls ended. The kind comes from a failed
/// tool call, or is `syntax-error`, `exception`, or `stalled` if the program waits for a promise that never settles.
pub(crate) fn run(code: &str, input: Option<&serde_json::Value>, host: &Rc<dyn Host>) -> Result<Reply> {
    let engine = Engine::take()?;
    requested(|it| it.host = Some(Rc::clone(host)));
    let value = engine.context.with(|ctx| {
        let running = Running::new(ctx, &engine.functions, host.as_ref())?;
        running.run(code, input)
    });
    // The instance ends with the call; see `Engine::start`.
    std::mem::forget(engine);
    let log = requested(std::mem::take).log.into_text();
    match (value, log) {
        (Ok(value), log) => Ok(reply(value, log)),
        (Err(failure), None) => Err(failure),
        (Err(failure), Some(log)) => {
            let message = format!("{}\nLogged before:\n{}", failure.message(), excerpt(&log, LOG_OF_FAILURE));
            Err(Failure::new(failure.kind(), message))
        }
    }
}

enum Returned {
    Nothing,
    Text(String),
    Json(String),
}

fn reply(value: Returned, log: Option<String>) -> Reply {
    let logged = log.map_or_else(Reply::new, Reply::from);
    match value {
        Returned::Nothing => logged_or_undefined(logged),
        Returned::Text(text) => logged.with(Content::Text(cut_value(text).0)),
        Returned::Json(json) => logged.with(match cut_value(json) {
            (json, false) => Content::Json(json),
            (text, true) => Content::Text(text),
        }),
    }
}

fn logged_or_undefined(logged: Reply) -> Reply {
    if logged.is_empty() { logged.with(Content::Text("undefined".to_owned())) } else { logged }
}

struct Running<'js, 'h> {
    ctx: Ctx<'js>,
    explain: Function<'js>,
    finish: Function<'js>,
    answer: Function<'js>,
    host: &'h dyn Host,
}

impl<'js, 'h> Running<'js, 'h> {
    fn new(ctx: Ctx<'js>, functions: &Functions, host: &'h dyn Host) -> Result<Self> {
        let explain = functions.explain.clone().restore(&ctx)?;
        let finish = functions.finish.clone().restore(&ctx)?;
        let answer = functions.answer.clone().restore(&ctx)?;
        Ok(Self { ctx, explain, finish, answer, host })
    }

    fn run(&self, code: &str, input: Option<&serde_json::Value>) -> Result<Returned> {
        if let Some(input) = input {
            let input = self.ctx.json_parse(input.to_string());
            let set = input.and_then(|input| self.ctx.globals().set("input", input));
            set.map_err(|error| self.thrown(error).into_failure(false, self.host))?;
        }
        match self.evaluate(code) {
            Err(thrown) if thrown.is_return_at_top_level() => {
                let code = format!("{BEFORE}{code}{AFTER}");
                self.evaluate(&code).and_then(|program| self.drive(&program))
            }
            .map_err(|ended| ended.into_failure(true, self.host)),
            evaluated => {
                evaluated.and_then(|program| self.drive(&program)).map_err(|ended| ended.into_failure(false, self.host))
            }
        }
    }

    /// Evaluates the code to its first wait. Returns a promise of its converted value.
    fn evaluate(&self, code: &str) -> std::result::Result<Promise<'js>, Thrown> {
        let program = self.ctx.eval_with_options::<Promise<'js>, _>(code, options(FILE, true));
        program.and_then(|program| self.finish.call((program,))).map_err(|error| self.thrown(error))
    }

    fn thrown(&self, error: rquickjs::Error) -> Thrown {
        Thrown::of_engine(&self.ctx, &self.explain, error)
    }

    /// Runs jobs and calls of tools until nothing is left, or until the program has failed.
    fn drive(&self, program: &Promise<'js>) -> std::result::Result<Returned, Thrown> {
        let mut running = BTreeMap::<u32, Settle>::new();
        loop {
            while self.ctx.execute_pending_job() {}
            if program.state() == PromiseState::Rejected {
                break;
            }
            self.start_queued(&mut running);
            if self.ctx.execute_pending_job() {
                continue;
            }
            if running.is_empty() {
                break;
            }
            let outcomes = self.host.wait();
            if outcomes.is_empty() {
                break;
            }
            for Outcome { id, answer } in outcomes {
                if let Some(promise) = running.remove(&id) {
                    self.settle(promise, answer.map_err(|error| Failure::new(error.kind, error.message)));
                }
            }
        }
        match program.result::<Array<'js>>() {
            Some(Ok(value)) => self.unhandled().map_or_else(|| self.returned(&value), Err),
            Some(Err(error)) => {
                let thrown = self.thrown(error);
                let note = self.end_calls(running.len(), &thrown.text);
                Err(Thrown { note, ..thrown })
            }
            None => Err(Thrown {
                text: "the program waits for a promise that never settles".to_owned(),
                kind: "stalled".to_owned(),
                ..Thrown::default()
            }),
        }
    }

    /// Lets the `running` calls of a failed program run to their end: none is stopped in the middle of an effect.
    /// Returns a description of how its calls ended, empty if it made none. Calls that are not started never begin.
    ///
    /// Reports the `error` first: if a call does not end, the host stops the program at its time limit, and the failure is lost.
    fn end_calls(&self, running: usize, error: &str) -> String {
        let calls = |count: usize| if count == 1 { "1 other call".to_owned() } else { format!("{count} other calls") };
        if running > 0 {
            let error = excerpt(error, MESSAGE);
            self.host.report(&format!("{error}\nThe program has failed and waits for {}.\n", calls(running)));
        }
        let (mut ended, mut failed) = (0, 0);
        while ended < running {
            let outcomes = self.host.wait();
            if outcomes.is_empty() {
                break;
            }
            ended += outcomes.len();
            failed += outcomes.iter().filter(|outcome| outcome.answer.is_err()).count();
        }
        let waiting =
            requested(|it| it.queue.drain(..).filter(|queued| matches!(queued.request, Wanted::Call(_))).count());
        let of_running = (running > 0).then(|| {
            let failures = if failed > 0 { format!("; {failed} of them failed") } else { String::new() };
            format!("{} had been started and ran to the end{failures}.", calls(running))
        });
        let of_waiting = (waiting > 0).then(|| format!("{} had not been started.", calls(waiting)));
        of_running.into_iter().chain(of_waiting).collect::<Vec<_>>().join(" ")
    }

    /// Starts queued calls, as many as may run, and answers queued searches.
    fn start_queued(&self, running: &mut BTreeMap<u32, Settle>) {
        let (mut calls, mut promises): (Vec<Request>, Vec<Settle>) = (Vec::new(), Vec::new());
        while running.len() + calls.len() < AT_ONCE {
            let Some(Queued { request, promise }) = requested(|it| it.queue.pop_front()) else { break };
            match request {
                Wanted::Find(query) => self.settle(promise, self.find(&query)),
                Wanted::Call(call) if call.tool == OWN => {
                    let words = "a program cannot run another program; write both as one";
                    self.settle(promise, Err(Failure::new("denied", words)));
                }
                Wanted::Call(call) => {
                    calls.push(call);
                    promises.push(promise);
                }
            }
        }
        if calls.is_empty() {
            return;
        }
        match self.host.start(&calls) {
            Ok(ids) => running.extend(ids.into_iter().zip(promises)),
            Err(failure) => promises.into_iter().for_each(|promise| self.settle(promise, Err(failure.clone()))),
        }
    }

    fn find(&self, query: &str) -> Result<Vec<tool_calls::Content>> {
        let text = if query.trim().is_empty() {
            declare::names(|after| self.host.entries(after, PAGE))?
        } else {
            let mut tools = self.host.find(query, FOUND)?;
            tools.retain(|tool| tool.name != OWN);
            declare::declarations(&tools)
        };
        Ok(vec![tool_calls::Content::Text(text)])
    }

    /// Resolves or rejects the promise of a request.
    fn settle(&self, promise: Settle, answer: Result<Vec<tool_calls::Content>>) {
        let settled = match answer {
            Ok(content) => self.value(content).and_then(|value| self.resolve(&promise, value)),
            Err(failure) => self.reject(&promise, failure.kind(), failure.message()),
        };
        if let Err(error) = settled {
            let thrown = self.thrown(error);
            // If this fails as well, the promise stays pending and the program ends as stalled.
            let _ = self.reject(&promise, "failed", &thrown.text);
            self.ctx.catch();
        }
    }

    fn resolve(&self, promise: &Settle, value: Value<'js>) -> rquickjs::Result<()> {
        promise.resolve.clone().restore(&self.ctx)?.call((value,))
    }

    fn reject(&self, promise: &Settle, kind: &str, message: &str) -> rquickjs::Result<()> {
        promise.reject.clone().restore(&self.ctx)?.call((kind, message))
    }

    /// Converts the answer of a tool for the program.
    fn value(&self, content: Vec<tool_calls::Content>) -> rquickjs::Result<Value<'js>> {
        let parts = Array::new(self.ctx.clone())?;
        for (index, part) in content.into_iter().enumerate() {
            let pair = Array::new(self.ctx.clone())?;
            let object = || Object::new(self.ctx.clone());
            match part {
                tool_calls::Content::Text(text) => pair.set(0, "text").and_then(|()| pair.set(1, text))?,
                tool_calls::Content::Json(json) => pair.set(0, "json").and_then(|()| pair.set(1, json))?,
                tool_calls::Content::Blob(blob) => {
                    let value = object()?;
                    value.set("mediaType", blob.media_type)?;
                    value.set("data", TypedArray::<u8>::new(self.ctx.clone(), blob.data)?)?;
                    pair.set(1, value)?;
                }
                tool_calls::Content::Link(link) => {
                    let value = object()?;
                    value.set("mediaType", link.media_type)?;
                    value.set("path", link.path)?;
                    pair.set(1, value)?;
                }
                tool_calls::Content::Other(other) => {
                    let value = object()?;
                    value.set("name", other.name)?;
                    value.set("value", other.value)?;
                    pair.set(1, value)?;
                }
            }
            parts.set(index, pair)?;
        }
        self.answer.call((parts,))
    }

    /// Returns the first rejection that nothing in the program handles.
    fn unhandled(&self) -> Option<Thrown> {
        let (_, reason) = requested(|it| it.rejected.drain(..).next())?;
        let reason = reason.restore(&self.ctx).ok()?;
        let thrown = Thrown::of(&self.ctx, &self.explain, reason);
        Some(Thrown { text: format!("a promise was rejected and not awaited: {}", thrown.text), ..thrown })
    }

    fn returned(&self, value: &Array<'js>) -> std::result::Result<Returned, Thrown> {
        let read = || Ok((value.get::<bool>(0)?, value.get::<String>(1)?));
        let (is_text, value) = read().map_err(|error| self.thrown(error))?;
        Ok(match (is_text, value) {
            (true, text) => Returned::Text(text),
            (false, json) if json.is_empty() => Returned::Nothing,
            (false, json) => Returned::Json(json),
        })
    }
}
