//! Generated from the contract. `patchbay plugin new` puts the generated code here, because compiling the generator takes longer
//! than compiling a skill.
wit_bindgen::generate!({
    path: ["wit/host", "wit/skill", "src/sdk.wit"],
    world: "patchbay:sdk/sdk",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "patchbay_sdk::bindings",
    runtime_path: "patchbay_sdk::wit_bindgen::rt",
});
