//! The code that wasmtime generates from `wit/`. Private: other crates see this crate's own types.
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
        // Both worlds use one `log` interface.
        with: { "patchbay:host": super::patchbay::host },
    });
}
