//! The engine of the sandbox: its configuration, its pool of instances, and loading components into it.

use std::{
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
    time::Duration,
};

use patchbay_core::Digest;
use tokio::sync::Semaphore;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy,
    component::{Component, Linker},
};

use crate::{
    Artefacts, Failure, Limits, Loaded, Symbols,
    adapter::{self, LoadedAdapter},
    artefacts, capability,
    component::{self, LinkedComponent, PluginWorld},
    component_cache::ComponentCache,
    state::GuestState,
    wasi,
};

/// Interval of the epoch: how often a running guest yields and checks its clock.
const TICK: Duration = Duration::from_millis(10);

/// Number of recently used skill components that stay loaded when nothing references them, because a skill is often asked for its
/// tools first and called later. Each one keeps its code mapped, and can use file descriptors for its memory images.
const RECENT_SKILLS: usize = 16;
/// The same for adapters. An adapter is asked for its manifest and then used, and from then on its provider references it.
const RECENT_ADAPTERS: usize = 1;

/// The engine, its linkers and the loaded components. The engine is created when the first component is loaded.
pub struct Sandbox {
    pub(crate) limits: Arc<Limits>,
    parts: OnceLock<Result<EngineParts, Failure>>,
    artefacts: Option<Artefacts>,
    pub(crate) symbols: Option<Symbols>,
    skills: ComponentCache<Loaded>,
    pub(crate) adapters: ComponentCache<LoadedAdapter>,
    pub(crate) slot_pools: SlotPools,
    clearing: usize,
}

/// The slots of the instance pool, by nesting depth. Each slot has a permit: callers wait for permits, because an
/// exhausted pool fails instead of waiting. A large component needs several.
pub(crate) struct SlotPools {
    by_depth: Vec<Slots>,
}

/// The slots for calls of one depth.
pub(crate) struct Slots {
    pub(crate) free: Arc<Semaphore>,
    pub(crate) most: u32,
}

impl SlotPools {
    fn new(limits: &Limits) -> Self {
        let slots = |most: u32| Slots { free: Arc::new(Semaphore::new(most as usize)), most };
        let nested = (0..Limits::DEPTH).map(|_| Limits::NESTED_CALLS);
        Self { by_depth: std::iter::once(limits.concurrent_calls.max(1)).chain(nested).map(slots).collect() }
    }

    /// Returns the slots for calls of this nesting depth.
    pub(crate) fn at(&self, depth: u32) -> &Slots {
        &self.by_depth[(depth as usize).min(self.by_depth.len() - 1)]
    }
}

/// The engine and its linkers, created with the first component.
pub(crate) struct EngineParts {
    pub(crate) engine: Engine,
    pub(crate) skills: Linker<GuestState>,
    pub(crate) adapters: Linker<GuestState>,
    /// Identifies the engine build; artefacts are valid for one fingerprint.
    fingerprint: String,
}

impl Sandbox {
    /// Returns a sandbox whose calls stay within `limits`. It compiles in this process and stores nothing on disk.
    pub fn new(limits: Limits) -> Self {
        let slot_pools = SlotPools::new(&limits);
        Self {
            limits: Arc::new(limits),
            parts: OnceLock::new(),
            artefacts: None,
            symbols: None,
            skills: ComponentCache::keeping(RECENT_SKILLS),
            adapters: ComponentCache::keeping(RECENT_ADAPTERS),
            slot_pools,
            clearing: CLEARED_AT_ONCE,
        }
    }

    /// Decommits the memory of each slot as soon as the slot is free. This is for components that are replaced while others run for
    /// minutes, because otherwise memory of dropped components would stay resident.
    #[must_use]
    pub fn decommit_immediately(mut self) -> Self {
        self.clearing = 1;
        self
    }

    /// Compiles in a child process and stores the compiled components on disk.
    #[must_use]
    pub fn with_artefacts(mut self, artefacts: Artefacts) -> Self {
        self.artefacts = Some(artefacts);
        self
    }

    /// Finds the source lines of traps in `symbols`.
    #[must_use]
    pub fn with_symbols(mut self, symbols: Symbols) -> Self {
        self.symbols = Some(symbols);
        self
    }

    /// Returns the compiled components on disk, if they are stored.
    pub fn artefacts(&self) -> Option<&Artefacts> {
        self.artefacts.as_ref()
    }

    /// Returns the limits of calls.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the skill component with these `bytes` and this `digest`: from the cache, or compiled and
    /// checked. It stays loaded while it is referenced, and for a while after. Concurrent requests for one
    /// digest wait for the same result.
    ///
    /// # Errors
    /// [`Failure::InvalidComponent`] and [`Failure::Memory`] for unsuitable bytes, [`Failure::Compile`] if the compiler
    /// was stopped, [`Failure::Unavailable`] if no engine is running.
    pub async fn load(self: &Arc<Self>, digest: Digest, bytes: Vec<u8>) -> Result<Arc<Loaded>, Failure> {
        self.skills.get(digest, async { Ok(Loaded(self.ready(digest, bytes.into()).await?)) }).await
    }

    /// Checks, compiles or deserializes, and links a component.
    pub(crate) async fn ready<W: PluginWorld>(
        self: &Arc<Self>,
        digest: Digest,
        bytes: Arc<[u8]>,
    ) -> Result<LinkedComponent<W>, Failure> {
        let judged = Arc::clone(&bytes);
        let compiled = self
            .off_thread(move |sandbox, parts| {
                component::check_bytes::<W>(&sandbox.limits, &judged)?;
                let here = sandbox.artefacts.is_none();
                here.then(|| component::compile(parts, &judged)).transpose()
            })
            .await?;
        let expected = match (&compiled, &self.artefacts) {
            (None, Some(artefacts)) => artefacts.expected(&digest, &self.parts()?.fingerprint).await,
            _ => None,
        };
        let kept = self.read_artefact(digest, expected).await?;
        let component = match (compiled.or(kept), &self.artefacts) {
            (Some(component), _) => component,
            (None, None) => return Err(Failure::Unavailable("a component was not compiled".to_owned())),
            (None, Some(artefacts)) => self.compiled(artefacts, digest, expected, &bytes).await?,
        };
        self.off_thread(move |sandbox, parts| component::link(parts, &sandbox.limits, digest, &component)).await
    }

    /// Compiles a component in a child process and stores the result. If another process has stored one in the meantime, returns
    /// that result instead. `known` is the digest of the stored artefact that was missing or damaged, if there was one.
    async fn compiled(
        self: &Arc<Self>,
        artefacts: &Artefacts,
        digest: Digest,
        known: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Component, Failure> {
        let _lock = artefacts.lock(&digest).await;
        let stored =
            artefacts.expected(&digest, &self.parts()?.fingerprint).await.filter(|stored| Some(*stored) != known);
        if let Some(component) = self.read_artefact(digest, stored).await? {
            return Ok(component);
        }
        let artefact: Arc<[u8]> =
            artefacts.compile_changed(bytes, &self.parts()?.fingerprint, &self.limits).await?.into();
        let kept = Arc::clone(&artefact);
        // The engine only refuses artefacts of another build. On systems without /proc/self/exe, such as macOS, the compiler is the
        // file at this program's path, which an upgrade replaces.
        let replaced = "Patchbay's program file was replaced by another version, so components cannot be compiled; restart \
             Patchbay";
        let component = self
            .off_thread(move |_, parts| {
                component::deserialize(parts, &kept).map_err(|_| Failure::Unavailable(replaced.to_owned()))
            })
            .await?;
        artefacts.keep(digest, &self.parts()?.fingerprint, &artefact).await;
        Ok(component)
    }

    /// Loads the compiled form of the component `digest` from disk, if it has the digest `expected`.
    async fn read_artefact(
        self: &Arc<Self>,
        digest: Digest,
        expected: Option<Digest>,
    ) -> Result<Option<Component>, Failure> {
        let Some(expected) = expected else { return Ok(None) };
        self.off_thread(move |sandbox, parts| {
            let artefacts = sandbox.artefacts.as_ref();
            let found = artefacts.and_then(|artefacts| artefacts.read(&digest, &parts.fingerprint, &expected));
            // The engine rejects an artefact of another build with the same fingerprint. The component is then compiled again.
            Ok(found.and_then(|found| component::deserialize(parts, &found).ok()))
        })
        .await
    }

    /// Runs `work` on a thread for blocking work.
    async fn off_thread<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &EngineParts) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let sandbox = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&sandbox, sandbox.parts()?)).await;
        done.unwrap_or_else(|error| {
            Err(Failure::Unavailable(format!("compiling a component panicked or was cancelled: {error}")))
        })
    }

    pub(crate) fn parts(&self) -> Result<&EngineParts, Failure> {
        self.parts.get_or_init(|| EngineParts::new(&self.limits, self.clearing)).as_ref().map_err(Clone::clone)
    }
}

impl EngineParts {
    fn new(limits: &Limits, clearing: usize) -> Result<Self, Failure> {
        let engine = Engine::new(&configured(limits, Some(clearing))).or_else(|error| {
            // A pool reserves address space, which a container or `ulimit -v` can refuse. Without a pool, calls are slower but have
            // the same results.
            tracing::warn!("cannot create the instance pool, allocating instances on demand: {error:#}");
            Engine::new(&config(limits, false))
        });
        let engine = engine.map_err(|error| {
            Failure::Unavailable(format!(
                "cannot create the component engine: \
            {error:#}"
            ))
        })?;
        let (skills, adapters) = linkers(&engine).map_err(|error| {
            Failure::Unavailable(format!(
                "cannot create the component linker: \
                {error:#}"
            ))
        })?;
        start_ticking(&engine)?;
        Ok(Self { fingerprint: artefacts::fingerprint(&engine), engine, skills, adapters })
    }
}

/// Returns the linkers for skills and adapters.
fn linkers(engine: &Engine) -> wasmtime::Result<(Linker<GuestState>, Linker<GuestState>)> {
    let mut skills = Linker::new(engine);
    wasi::add_to_linker(&mut skills)?;
    let mut adapters = skills.clone();
    capability::add_to_linker(&mut skills)?;
    adapter::add_to_linker(&mut adapters)?;
    Ok((skills, adapters))
}

/// Starts a thread that advances the engine's epoch until the engine is dropped.
fn start_ticking(engine: &Engine) -> Result<(), Failure> {
    let engine = engine.weak();
    let tick = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(TICK);
        }
    };
    match std::thread::Builder::new().name("epoch".to_owned()).spawn(tick) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Unavailable(format!("cannot start the deadline thread: {error}"))),
    }
}

/// Returns the configuration of the engine, with or without a pool of instances. Public for benchmarks that compare the
/// host with the bare engine.
pub fn config(limits: &Limits, pool: bool) -> Config {
    configured(limits, pool.then_some(CLEARED_AT_ONCE))
}

/// Number of freed slots that are decommitted together, with one system call. Memory of a dropped component stays until
/// its slot is decommitted or used again.
const CLEARED_AT_ONCE: usize = 16;

/// Bytes of each fiber's stack that stay resident between calls.
const STACK_RESIDENT: usize = 16 << 10;

/// Bytes of all memories of the pool together that stay resident between calls. Without this bound, memory would stay
/// resident after a burst of calls until the process ends.
const RESIDENT_BYTES: usize = 256 << 20;
/// Lower and upper bound of the resident bytes of one memory. A call that writes more returns the rest to the system. A Rust guest
/// writes about 100 KiB, a language runtime one or two MiB.
const MEMORY_RESIDENT: (usize, usize) = (64 << 10, 2 << 20);

/// `clearing` is the number of slots decommitted together; `None` disables the pool.
fn configured(limits: &Limits, clearing: Option<usize>) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .consume_fuel(true)
        .epoch_interruption(true)
        // The same input must produce the same bytes on every machine.
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        .memory_init_cow(true)
        // Host functions can use the difference between the two sizes.
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .async_stack_zeroing(true)
        // Needed for the source lines of a trap.
        .wasm_backtrace_max_frames(NonZeroUsize::new(16));
    if let Some(clearing) = clearing {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling(limits, clearing)));
    }
    config
}

/// Returns how many bytes of each memory stay resident if the pool has `memories`.
fn resident(memories: u32) -> usize {
    let (least, most) = MEMORY_RESIDENT;
    RESIDENT_BYTES.checked_div(memories as usize).unwrap_or(most).clamp(least, most)
}

fn pooling(limits: &Limits, clearing: usize) -> PoolingAllocationConfig {
    let calls = limits.concurrent_calls.max(1).saturating_add(Limits::DEPTH * Limits::NESTED_CALLS);
    // The largest accepted component must fit, however few calls are allowed.
    let room = |per_slot: u32, most: u32| calls.saturating_mul(per_slot).max(most).saturating_add(Limits::IN_CLEARING);
    let memories = room(Limits::MEMORIES_PER_SLOT, Limits::MEMORIES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(calls)
        .total_stacks(calls.saturating_add(Limits::IN_CLEARING))
        .total_memories(memories)
        .total_tables(room(Limits::TABLES_PER_SLOT, Limits::TABLES))
        // This is only a count, and reserves no memory.
        .total_core_instances(calls.saturating_mul(Limits::CORE_INSTANCES))
        .max_core_instances_per_component(Limits::CORE_INSTANCES)
        // Memories and tables of a whole component are checked when it is loaded, with a better message.
        .max_memories_per_component(u32::MAX)
        .max_memories_per_module(Limits::MEMORIES)
        .max_tables_per_component(u32::MAX)
        .max_tables_per_module(Limits::TABLES)
        .table_elements(Limits::TABLE_ELEMENTS)
        .max_memory_size(limits.memory_bytes.next_multiple_of(64 << 10))
        .linear_memory_keep_resident(resident(memories))
        .table_keep_resident(64 << 10)
        // The part of a fiber's stack that ordinary calls use is zeroed and stays resident, because returning it would cost a
        // system call, a page fault and an interrupt of the other cores for each call.
        .async_stack_keep_resident(STACK_RESIDENT)
        .decommit_batch_size(clearing)
        // Without the scan, keeping pages makes a fresh instance twelve times slower.
        .pagemap_scan(Enabled::Auto);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_bounded_for_all_memories_together() {
        for memories in [1, 100, 576, 4_000] {
            assert!(resident(memories) * memories as usize <= RESIDENT_BYTES, "{memories}");
        }
        assert_eq!((resident(0), resident(1)), (2 << 20, 2 << 20));
        // Even in an unusually large pool, each memory keeps what an ordinary call writes.
        assert_eq!(resident(100_000), 64 << 10);
    }
}
