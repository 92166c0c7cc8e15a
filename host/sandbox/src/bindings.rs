//! The code that wasmtime generates from `wit/`. Private: other crates see this crate's own types.
#![allow(missing_docs, unreachable_pub)]

wasmtime::component::bindgen!({
    path: ["../../wit/host", "../../wit/skill"],
    world: "patchbay:skill/skill-plugin",
    imports: { default: async | trappable },
    exports: { default: async },
});

/// Host interfaces that no world in `wit/` imports. A component imports them in a world of its own.
pub mod unlisted {
    wasmtime::component::bindgen!({
        path: ["../../wit/host"],
        inline: "
            package patchbay:unlisted;
            world unlisted {
                import patchbay:host/call@0.1.2;
                import patchbay:host/skill-files@0.1.2;
                import patchbay:host/tool-calls@0.1.2;
                import patchbay:host/tool-index@0.1.2;
                import patchbay:host/workspace-changes@0.1.2;
                import patchbay:host/workspace-search@0.1.2;
            }
        ",
        imports: { default: async | trappable },
        with: { "patchbay:host/types": super::patchbay::host::types },
    });
}

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

/// The interfaces that an adapter may export in addition to its world. A component that lacks one cannot be instantiated with the
/// full world, so use the indices of each interface instead.
pub mod optional {
    wasmtime::component::bindgen!({
        path: ["../../wit/host", "../../wit/provider"],
        inline: "
            package patchbay:optional;
            world optional {
                export patchbay:provider/catalogue@0.1.2;
                export patchbay:provider/models@0.1.2;
                export patchbay:provider/thinking@0.1.2;
            }
        ",
        exports: { default: async },
        with: { "patchbay:provider/types": super::adapter::patchbay::provider::types },
    });
}
