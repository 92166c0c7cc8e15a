//! The baseline: wasmtime alone, with the host's configuration and limits, running the same component. `path` and `streaming`
//! compare with it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use patchbay_sandbox::Limits;
use wasmtime::{
    Engine, ResourceLimiter, Store, UpdateDeadline,
    component::{Component, Linker},
};

mod bindings {
    #![allow(missing_docs)]
    wasmtime::component::bindgen!({
        path: ["../wit/host", "../wit/skill"],
        world: "patchbay:skill/skill-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

struct State {
    used: usize,
    limit: usize,
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.used += desired - current;
        Ok(self.used <= self.limit)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        self.used += 8 * (desired - current);
        Ok(self.used <= self.limit)
    }
}

/// A component, compiled and linked.
pub struct Bare {
    engine: Engine,
    pre: bindings::SkillPluginPre<State>,
    limits: Limits,
}

impl Bare {
    pub fn new(component: &[u8], limits: Limits) -> Arc<Self> {
        let engine = Engine::new(&patchbay_sandbox::config(&limits, true)).unwrap();
        let weak = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let component = Component::new(&engine, component).unwrap();
        let pre = Linker::new(&engine).instantiate_pre(&component).unwrap();
        Arc::new(Self { pre: bindings::SkillPluginPre::new(pre).unwrap(), engine, limits })
    }

    /// Runs one call in a fresh instance.
    pub async fn call(&self, tool: &str, input: &str) -> String {
        let state = State { used: 0, limit: self.limits.memory_bytes };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| state);
        store.set_fuel(self.limits.fuel).unwrap();
        store.set_hostcall_fuel(self.limits.output_bytes);
        let deadline = Instant::now() + Duration::from_millis(self.limits.time_ms);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            assert!(Instant::now() < deadline);
            Ok(UpdateDeadline::Yield(1))
        });
        let skill = self.pre.instantiate_async(&mut store).await.unwrap();
        let answer = skill.patchbay_skill_skill().call_call(&mut store, tool, input, &[]).await.unwrap();
        match answer.unwrap().pop() {
            Some(bindings::patchbay::skill::types::Content::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }
}
