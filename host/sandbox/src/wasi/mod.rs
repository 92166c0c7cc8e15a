//! WASI 0.2, closed and virtual, for languages whose runtimes need it: no files, sockets, environment or arguments; an
//! empty standard input; output to the bounded log; a clock and randomness that are the same in every run until `clock`
//! and `random` are granted. `wasi:http` uses `patchbay:host/http`.
//!
//! Calls of `wasi:*` count as host calls. They are counted where wasmtime-wasi requests its context, once for each call.
//! No error can be returned there, so the limit is checked at the next epoch tick and at the end.

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

/// The WASI state of a store.
pub(crate) struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    clock: clock::Clock,
    http: WasiHttpCtx,
    hooks: http::Hooks,
    /// Standard output and standard error.
    printed: [stdio::Stream; 2],
}

/// Seed of the virtual randomness; any fixed number works.
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
        let fixed = state.fixed();
        let seed = if state.is_used(&Capability::Random) { fixed.map(|fixed| fixed.seed) } else { Some(SEED) };
        if let Some(seed) = seed {
            ctx.secure_random(Xoshiro256PlusPlus::seed_from_u64(seed))
                .insecure_random(Xoshiro256PlusPlus::seed_from_u64(seed))
                .insecure_random_seed(seed.into());
        }
        let clock = match (state.is_used(&Capability::Clock), fixed) {
            (true, None) => clock::Clock::real(),
            (true, Some(fixed)) => clock::Clock::starting_at(fixed.start),
            (false, _) => clock::Clock::starting_at(clock::BEGINNING),
        };
        Self {
            ctx: ctx.build(),
            table,
            clock,
            http: WasiHttpCtx::new(),
            hooks: http::Hooks::new(state),
            printed: printed.clone(),
        }
    }

    pub(crate) fn end_lines(&self) {
        self.printed.iter().for_each(stdio::Stream::end_line);
    }
}

impl GuestState {
    /// Returns the WASI state, created at first use. Counts one host call.
    fn wasi(&mut self) -> &mut Wasi {
        self.spent.host_calls = self.spent.host_calls.saturating_add(1);
        let wasi = self.wasi.take().unwrap_or_else(|| Box::new(Wasi::new(self)));
        self.wasi.insert(wasi)
    }

    /// Returns whether `capability` is granted, and records its use.
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

/// Links WASI 0.2 with the host's own clock.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    clock::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}
