//! Any text as a `plugin.json`: it parses or is refused, and everything shown of it is one clean line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Code, text};
use patchbay_skill::agent_plugin::PluginManifest;

fuzz_target!(|data: &[u8]| {
    match PluginManifest::parse(data) {
        Ok((manifest, notes)) => {
            let name = manifest.name.as_str();
            assert!((1..=64).contains(&name.len()) && !name.contains("..") && !name.contains('/'), "{name}");
            let shown = [Some(manifest.label()), manifest.version.as_deref(), manifest.description.as_deref()];
            let namespaces = manifest.namespaces.iter().chain(&manifest.keywords).map(String::as_str);
            for line in shown.into_iter().flatten().chain(namespaces).chain(notes.iter().map(|note| &*note.message)) {
                assert_eq!(text::clean_line(line), line);
            }
            assert!(notes.iter().all(|note| note.code == Code::PackageFieldIgnored));
        }
        Err(problem) => {
            assert_eq!(text::clean_line(&problem.message), problem.message);
            let codes = [Code::PackageManifestInvalid, Code::PackageSchemaUnsupported, Code::PackageLimit];
            assert!(codes.contains(&problem.code), "{problem:?}");
        }
    }
});
