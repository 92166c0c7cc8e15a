//! A host in the test's own process, with the bundled adapters: for tests that need its Rust interface, for example for events
//! that arrive while a turn is running. If the binary is enough, use [`crate::binary`].

use std::{fs, path::Path, sync::Arc};

use patchbay_provider::{BundledAdapter, ExchangeLimits, Settings};
use patchbay_sandbox::{Compiler, Limits};
use patchbay_session::{AgentSettings, Config, Host, Paths, SessionLimits};
use patchbay_store::BudgetSettings;

use crate::binary::{self, Patchbay};

/// The limits of a host: of its calls, and of its sessions.
#[derive(Clone, Default)]
pub struct HostLimits {
    /// The limits of calls.
    pub calls: Limits,
    /// The limits of sessions.
    pub session: SessionLimits,
}

impl From<Limits> for HostLimits {
    fn from(calls: Limits) -> Self {
        Self { calls, ..Self::default() }
    }
}

impl From<SessionLimits> for HostLimits {
    fn from(session: SessionLimits) -> Self {
        Self { session, ..Self::default() }
    }
}

/// Opens a host in the home of `patchbay`, with default limits.
pub fn host(patchbay: &Patchbay, settings: Settings) -> Arc<Host> {
    host_with(patchbay, settings, Limits::default())
}

/// Like [`host_of`], without a budget.
pub fn host_with(patchbay: &Patchbay, settings: Settings, limits: impl Into<HostLimits>) -> Arc<Host> {
    host_of(patchbay, settings, limits.into(), BudgetSettings::default())
}

/// Opens a host in the home of `patchbay`, with these limits and this budget. An adapter step has the same time limit as a
/// call.
pub fn host_of(patchbay: &Patchbay, settings: Settings, limits: HostLimits, budget: BudgetSettings) -> Arc<Host> {
    let HostLimits { calls, session } = limits;
    let exchange = ExchangeLimits::default();
    let config = Config {
        exchange: ExchangeLimits {
            step_fuel: exchange.step_fuel.max(calls.fuel),
            fuel: exchange.fuel.max(calls.fuel),
            step_ms: exchange.step_ms.max(calls.time_ms),
            ..exchange
        },
        limits: calls,
        agents: AgentSettings { budget, limits: session, ..AgentSettings::default() },
        bundled_adapters: bundled_adapters(&ADAPTERS),
        providers: Box::new(move || Ok(settings.clone())),
        ..config(&patchbay.home())
    };
    Host::open(config).expect("a host")
}

/// Returns the configuration of a host with the home `home`, with the defaults of the binary but no bundled adapters.
pub fn config(home: &Path) -> Config {
    let [config, data, cache, state] = ["config", "data", "cache", "state"].map(|name| home.join(name));
    Config::new(Paths { config, data, cache, state }, compiler())
}

/// Returns the binary as a component compiler.
pub fn compiler() -> Compiler {
    Compiler { program: binary::path(), arguments: vec!["compile".into()], keeps_functions: false }
}

const ADAPTERS: [&str; 7] = ["anthropic", "demo", "google", "meta", "openai", "openai-compatible", "xai"];

/// Returns adapters of the binary. Their bytes are leaked, because a host borrows them for the rest of the process.
pub fn bundled_adapters(names: &[&'static str]) -> &'static [BundledAdapter] {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/dist/providers");
    let read = |name: &&'static str| BundledAdapter {
        name,
        bytes: fs::read(dist.join(format!("{name}.wasm"))).expect("an adapter").leak(),
        description: fs::read_to_string(dist.join(format!("{name}.json"))).expect("a description").leak(),
    };
    names.iter().map(read).collect::<Vec<_>>().leak()
}
