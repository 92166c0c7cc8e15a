//! What wasmtime makes of `wit/`. Private: the crate's own types are what others see.
#![allow(missing_docs, unreachable_pub)]

wasmtime::component::bindgen!({
    path: ["../../wit/host", "../../wit/skill"],
    world: "patchbay:skill/skill-plugin",
    imports: { default: async | trappable },
    exports: { default: async },
});

pub mod adapter {
    wasmtime::component::bindgen!({
        path: ["../../wit/host", "../../wit/provider"],
        world: "patchbay:provider/provider-plugin",
        imports: { default: async | trappable },
        exports: { default: async },
        // One log for both worlds.
        with: { "patchbay:host": super::patchbay::host },
    });
}
