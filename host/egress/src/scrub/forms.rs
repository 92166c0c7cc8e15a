//! The encodings of a secret that `scrub` removes.

use base64::{Engine, engine::general_purpose};

use crate::Secret;

/// One encoding of a secret. Each character may be spelled in many ways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    /// The form to search for: ASCII, in lower case.
    pub(super) text: Vec<u8>,
    /// Whether encoders break it into lines or groups: base64 and hexadecimal.
    pub(super) breaks: bool,
}

/// Characters that may occur between two characters of a form that [`breaks`](Form::breaks).
pub(super) const SEPARATORS: &[u8] = b"\n\r\t :-";

/// Returns the secret itself, and its encodings in hexadecimal and base64.
pub(super) fn forms(secret: &Secret) -> Vec<Form> {
    let secret = secret.expose().as_bytes();
    let form = |text: &[u8], breaks| Form { text: text.to_ascii_lowercase(), breaks };
    let mut forms = vec![form(secret, false), form(hex::encode(secret).as_bytes(), true)];
    for engine in [general_purpose::STANDARD_NO_PAD, general_purpose::URL_SAFE_NO_PAD] {
        // Base64 encodes three bytes as four characters, so a secret looks different at each of three offsets.
        // Characters at its ends that also depend on neighbouring bytes are left out.
        for (offset, shared) in [(0, 0), (1, 2), (2, 3)] {
            let mut shifted = vec![0; offset];
            shifted.extend_from_slice(secret);
            let own = shifted.len() * 8 / 6;
            forms.extend(engine.encode(&shifted).as_bytes().get(shared..own).map(|text| form(text, true)));
        }
    }
    forms
}
