//! The Rust bindings of the contract, for the SDK inside a new plugin.
//!
//! In this repository a macro generates them. Compiling that macro takes longer than everything else in a skill's first build, so
//! authors get its result instead.

use wit_bindgen_core::{Files, WorldGenerator as _};
use wit_bindgen_rust::Opts;
use wit_parser::{PackageId, Resolve};

use crate::embedded;

/// Returns the content of `sdk/rust/src/bindings.rs` after the macro in it has run.
///
/// # Errors
/// The contract inside the binary is invalid, which a test excludes.
pub(crate) fn of_skills() -> anyhow::Result<String> {
    let mut resolve = Resolve::default();
    for path in ["wit/host/host.wit", "wit/skill/skill.wit"] {
        push(&mut resolve, path)?;
    }
    let package = push(&mut resolve, "sdk/rust/src/sdk.wit")?;
    let world = resolve.select_world(&[package], Some("sdk"))?;
    let options = Opts {
        generate_all: true,
        pub_export_macro: true,
        export_macro_name: Some("export_component".to_owned()),
        default_bindings_module: Some("patchbay_sdk::bindings".to_owned()),
        runtime_path: Some("patchbay_sdk::wit_bindgen::rt".to_owned()),
        ..Opts::default()
    };
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let code = files.iter().next().map(|(_, code)| String::from_utf8_lossy(code).into_owned());
    Ok(code.unwrap_or_default())
}

fn push(resolve: &mut Resolve, path: &str) -> anyhow::Result<PackageId> {
    resolve.push_source(path, &String::from_utf8_lossy(embedded::file(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_have_all_interfaces() {
        let code = of_skills().unwrap();
        for part in ["mod workspace_search", "mod tool_calls", "macro_rules! __export_sdk_impl", "trait Guest"] {
            assert!(code.contains(part), "{part}");
        }
        assert!(embedded::file("sdk/rust/src/bindings.rs").starts_with(b"//! Generated from the contract."));
    }
}
