//! Any bytes as the signature of a file, both unchanged and as the blob between the two marker lines.
#![no_main]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_skill::{Fingerprint, SIGNATURE_BYTES, SignatureError, verify_signature};

/// The file that the seeds sign.
const FILE: &[u8] = b"patchbay\n";

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    let lines = format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", STANDARD.encode(bytes));
    judge(lines.as_bytes());
});

fn judge(signature: &[u8]) {
    let result = verify_signature(signature, FILE);
    assert_eq!(result, verify_signature(signature, FILE), "it is the same each time");
    match result {
        Ok(key) => {
            assert!(signature.len() <= SIGNATURE_BYTES);
            assert_eq!(verify_signature(signature, b"another file"), Err(SignatureError::Mismatch(key)));
            assert_eq!(key.to_string().parse::<Fingerprint>(), Ok(key));
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.chars().count() <= 300 && message == text::clean_line(&message), "{message:?}");
        }
    }
}
