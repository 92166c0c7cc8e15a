//! The interpreter: QuickJS-NG within its own limits, which produce errors that a program can catch, and the
//! functions that `prelude.js` needs.
//!
//! `patchbay plugin build` calls `wizer_initialize` and stores the resulting memory in the component. A call then
//! begins with a ready interpreter. Without it, as in tests, the interpreter starts at each call.

use std::cell::RefCell;

use rquickjs::{
    Context, Ctx, Function, Object, Persistent, Runtime, Value, allocator::RustAllocator, context::EvalOptions,
};

use crate::tools;

/// Memory of a program, in bytes. It is below the 64 MiB of the sandbox because a program should
/// get an error that it can catch.
const MEMORY: usize = 40_000_000;
/// The interpreter's stack in bytes. With more, deep recursion would exhaust the sandbox's stack first and trap.
const STACK: usize = 128 << 10;

/// An interpreter with its globals, before its first program.
pub(crate) struct Engine {
    pub(crate) context: Context,
    pub(crate) functions: Functions,
}

/// Functions of `prelude.js` that the skill calls.
pub(crate) struct Functions {
    pub(crate) explain: Persistent<Function<'static>>,
    /// Converts the result of a program.
    pub(crate) finish: Persistent<Function<'static>>,
    /// Converts the result of a tool call.
    pub(crate) answer: Persistent<Function<'static>>,
}

thread_local! {
    /// The interpreter that was started when the component was built.
    static READY: RefCell<Option<Engine>> = const { RefCell::new(None) };
}

impl Engine {
    /// Returns an interpreter for one program.
    pub(crate) fn take() -> rquickjs::Result<Self> {
        READY.take().map_or_else(Self::start, Ok)
    }

    fn start() -> rquickjs::Result<Self> {
        let runtime = Runtime::new_with_alloc(RustAllocator)?;
        runtime.set_memory_limit(MEMORY);
        runtime.set_max_stack_size(STACK);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(|ctx, promise, reason, is_handled| {
            tools::note_rejection(&ctx, promise, reason, is_handled);
        })));
        let context = Context::full(&runtime)?;
        let functions = context.with(|ctx| prepare(&ctx))?;
        // A call ends with its whole instance. Tearing the interpreter down would waste time.
        std::mem::forget(runtime);
        Ok(Self { context, functions })
    }
}

/// Defines the globals and runs a first program, after which nothing is left to be initialised.
fn prepare(ctx: &Ctx<'_>) -> rquickjs::Result<Functions> {
    let native = Object::new(ctx.clone())?;
    native.set("log", Function::new(ctx.clone(), tools::log)?)?;
    native.set("call", Function::new(ctx.clone(), tools::call)?)?;
    native.set("find", Function::new(ctx.clone(), tools::find)?)?;
    native.set("names", Function::new(ctx.clone(), tools::names)?)?;
    native.set("isListed", Function::new(ctx.clone(), tools::is_listed)?)?;
    let prelude: Function<'_> = ctx.eval_with_options(include_str!("prelude.js"), options("prelude.js", false))?;
    let made: Object<'_> = prelude.call((native,))?;
    let function = |name| Ok::<_, rquickjs::Error>(Persistent::save(ctx, made.get::<_, Function<'_>>(name)?));
    let functions =
        Functions { explain: function("explain")?, finish: function("finish")?, answer: function("answer")? };
    let _: Value<'_> = ctx.eval_with_options("await Promise.all([0, 1])", options("code.js", true))?;
    while ctx.execute_pending_job() {}
    Ok(functions)
}

/// Returns the options for evaluating a script in the global scope, with or without top-level await.
pub(crate) fn options(file: &str, promise: bool) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = false;
    options.promise = promise;
    options.filename = Some(file.to_owned());
    options
}

/// Starts the interpreter. Called once, when the component is built; its memory then becomes part of the component.
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
extern "C" fn wizer_initialize() {
    READY.set(Engine::start().ok());
}

/// The clock of the interpreter, in microseconds. It is constant, which makes `Date` and
/// `Math.random` the same in each call.
#[cfg(target_arch = "wasm32")]
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    0.0
}
