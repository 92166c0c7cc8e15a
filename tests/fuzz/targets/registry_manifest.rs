//! Any bytes as the manifest of a package in a registry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_core::{Digest, text};
use patchbay_skill::{PushedComponent, RegistryManifest, SIGNATURE_BYTES};

fuzz_target!(|bytes: &[u8]| {
    match RegistryManifest::parse(bytes) {
        Ok(manifest) => {
            assert_eq!(manifest.digest, Digest::of(bytes));
            assert!(manifest.signature.is_none_or(|signature| signature.len() <= SIGNATURE_BYTES));
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.chars().count() <= 500 && message == text::clean_line(&message), "{message:?}");
        }
    }
    // Any text used as a signature, file name or version is read back unchanged.
    let Ok(written) = str::from_utf8(bytes) else { return };
    let word = || written.chars().take(1000).collect::<String>();
    let pushed = PushedComponent {
        title: word(),
        component: bytes.to_vec(),
        imports: vec![word()],
        exports: vec![word()],
        signature: Some(word()),
    };
    let read = RegistryManifest::parse(&pushed.manifest(&word())).expect("what is pushed can be read");
    assert_eq!((read.title, read.signature), (Some(word()), Some(word())));
    assert_eq!((read.component, read.bytes), (Digest::of(bytes), bytes.len() as u64));
});
