//! WASI 0.2, closed and virtual, for the languages whose runtimes want it: no files, sockets, environment or arguments,
//! an empty standard input, output into the bounded log, and a clock and a randomness that are the same in every run until
//! `clock` and `random` are granted. `wasi:http` goes the way of `patchbay:host/http`.
//!
//! Calls of `wasi:*` count as host calls. They are counted where wasmtime-wasi asks for its context, once a call; nothing
//! can be refused there, so that the limit is judged at the next tick of the wall clock and at the end.

mod clock;
mod http;
mod stdio;

use std::sync::Arc;

use patchbay_policy::Capability;
use rand::{SeedableRng as _, rngs::Xoshiro256PlusPlus};
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::{Limits, LogLevel, state::GuestState};

/// What a store carries for WASI.
pub(crate) struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    clock: clock::Clock,
    http: WasiHttpCtx,
    hooks: http::Hooks,
    /// Standard output and standard error.
    printed: [stdio::Stream; 2],
}

/// Any number will do: it is the same for all.
const SEED: u64 = 0x5061_7463_6862_6179;

impl Wasi {
    fn new(state: &GuestState) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(Limits::WASI_RESOURCES);
        let output = stdio::GuestOutput::new(Arc::clone(&state.log), &state.limits);
        let printed @ [stdout, stderr] = &[output.stream(LogLevel::Info), output.stream(LogLevel::Warn)];
        let mut ctx = WasiCtx::builder();
        ctx.stdout(stdout.clone())
            .stderr(stderr.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(Limits::RANDOM_BYTES);
        if !state.is_used(&Capability::Random) {
            ctx.secure_random(Xoshiro256PlusPlus::seed_from_u64(SEED))
                .insecure_random(Xoshiro256PlusPlus::seed_from_u64(SEED))
                .insecure_random_seed(SEED.into());
        }
        Self {
            ctx: ctx.build(),
            table,
            clock: clock::Clock::new(state.is_used(&Capability::Clock)),
            http: WasiHttpCtx::new(),
            hooks: http::Hooks::new(state),
            printed: printed.clone(),
        }
    }

    /// Prints the lines that have no end yet.
    pub(crate) fn end_lines(&self) {
        self.printed.iter().for_each(stdio::Stream::end_line);
    }
}

impl GuestState {
    /// What WASI needs, made when it is first asked for. Counts one host call.
    fn wasi(&mut self) -> &mut Wasi {
        self.spent.host_calls = self.spent.host_calls.saturating_add(1);
        let wasi = self.wasi.take().unwrap_or_else(|| Box::new(Wasi::new(self)));
        self.wasi.insert(wasi)
    }

    /// Whether `capability` is granted; if so, it counts as used.
    fn is_used(&self, capability: &Capability) -> bool {
        let granted = self.access.as_ref().filter(|access| access.permits.allows(capability));
        granted.inspect(|access| access.note_use(capability)).is_some()
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Wasi { ctx, table, .. } = self.wasi();
        WasiCtxView { ctx, table }
    }
}

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let Wasi { http, hooks, table, .. } = self.wasi();
        WasiHttpCtxView { hooks, table, ctx: http }
    }
}

/// Links WASI 0.2, with a clock of our own.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    clock::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}
