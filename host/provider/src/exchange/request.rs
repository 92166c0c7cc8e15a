//! Checks an adapter's request and completes it: joins the path to the base URL, adds the secret and assembles the body.
//! Called by `in_flight` for each request.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use patchbay_core::{completion::Blob, text};
use patchbay_egress::{CredentialError, Placed, Placement, Request, Scrub, Secret};
use patchbay_sandbox::{
    Auth,
    adapter::{AdapterRequest, BodyPiece},
};

use super::{AttemptStop, Keys, RequestTarget, Violation};
use crate::{
    ExchangeError,
    route::{Base, JoinError, RouteCredential, join},
};

/// Turns an adapter's `request` into the HTTP request to send. `blob` looks up the blobs that its body may contain.
///
/// # Errors
/// An [`AttemptStop`] if the request breaks the contract or a limit, the base URL is refused, or the key is missing.
pub(super) fn build<'b>(
    target: &RequestTarget<'_>,
    request: AdapterRequest,
    blob: impl Fn(u32) -> Option<&'b Blob>,
    keys: &Keys,
) -> Result<Request, AttemptStop> {
    let AdapterRequest { method, path_and_query, headers, auth, body } = scrubbed(request, &keys.scrub);
    let Some(base) = target.base else {
        let provider = target.provider;
        let what = format!("made a request, but the provider has no base URL: set origin in [providers.{provider}]");
        return Err(Violation::of_contract(what).into());
    };
    let url = join(base, &path_and_query).map_err(|error| match error {
        JoinError::Path(error) => {
            let path = text::excerpt(&path_and_query, 80);
            AttemptStop::from(Violation::of_contract(format!("requested the path '{path}', which {error}")))
        }
        JoinError::Base(error) => AttemptStop::Refused(error),
    })?;
    let body = assemble(body, &blob, target.limits.request_bytes)?;
    let secrets = place(target, base, auth, keys)?;
    let owner = format!("provider:{}", target.provider);
    let scrub = keys.scrub.clone();
    Ok(Request { method, headers, body, secrets, scrub, ..Request::get(owner, url) })
}

/// Removes secrets that an adapter copied from a response. They must not reach the method, path or headers of a
/// request, nor errors about it.
fn scrubbed(mut request: AdapterRequest, scrub: &Scrub) -> AdapterRequest {
    if !scrub.is_empty() {
        let pairs = request.headers.iter_mut().flat_map(|(name, value)| [name, value]);
        let credentials = request.auth.iter_mut().map(|auth| &mut auth.credential);
        for text in pairs.chain(credentials).chain([&mut request.method, &mut request.path_and_query]) {
            *text = scrub.text(text);
        }
    }
    request
}

/// Returns the secret with its placement in the request, bound to the base URL's origin. Empty if the provider has no
/// secret or the adapter does not request it.
fn place(target: &RequestTarget<'_>, base: &Base, auth: Vec<Auth>, keys: &Keys) -> Result<Vec<Placed>, AttemptStop> {
    // A server without a credential, such as a local one, works even if its adapter requests a key.
    let Some(credential) = target.credential else { return Ok(Vec::new()) };
    if auth.len() > 1 {
        return Err(Violation::of_contract("requested its credential more than once in a request").into());
    }
    if let Some(other) = auth.iter().find(|auth| auth.credential != credential.id) {
        let (other, own) = (text::excerpt(&other.credential, 40), &credential.id);
        return Err(
            Violation::of_contract(format!("requested the credential '{other}', but may only use '{own}'")).into()
        );
    }
    if auth.is_empty() {
        return Ok(Vec::new());
    }
    let Some(secret) = keys.own.clone()? else { return Ok(Vec::new()) };
    let placed = |auth: Auth| Placed {
        secret: secret.clone(),
        placement: match auth.placement {
            patchbay_sandbox::RequestedPlacement::Header { name, prefix } => Placement::Header { name, prefix },
            patchbay_sandbox::RequestedPlacement::Query(name) => Placement::Query(name),
        },
        origin: base.origin.clone(),
    };
    Ok(auth.into_iter().map(placed).collect())
}

/// Reads the provider's key, or runs its key command.
///
/// # Errors
/// [`ExchangeError::MissingCredentials`], [`ExchangeError::UnusableCredentials`] and [`ExchangeError::KeyCommand`].
pub(super) async fn secret(target: &RequestTarget<'_>, credential: &RouteCredential) -> Result<Secret, ExchangeError> {
    target.secrets.get(&credential.secret).await.map_err(|error| {
        let provider = target.provider;
        let mut message = match error {
            error @ CredentialError::KeyCommand(_) => {
                return ExchangeError::KeyCommand { message: error.to_string(), for_models: error.for_plugin() };
            }
            CredentialError::NoSecret { .. } | CredentialError::NotConfigured { .. } => {
                match credential.secret.lookup.variables() {
                    [] => format!("No credentials for {provider}. Add to credentials.json"),
                    [variable, ..] => {
                        format!("No credentials for {provider}. Set {variable} or add to credentials.json")
                    }
                }
            }
            // A key or its file exists but cannot be used.
            error => {
                let for_models = format!("{}.", error.for_plugin());
                return ExchangeError::UnusableCredentials { message: format!("{error}."), for_models };
            }
        };
        if let Some(page) = &credential.obtain_url {
            message.push_str("\n\nGet your API key at: ");
            message.push_str(page);
        }
        ExchangeError::MissingCredentials { message }
    })
}

/// Assembles the body, with blobs in base64. The size is checked before memory is allocated.
fn assemble<'b>(
    pieces: Vec<BodyPiece>,
    blob: &impl Fn(u32) -> Option<&'b Blob>,
    most: usize,
) -> Result<Bytes, Violation> {
    let mut size = 0_usize;
    for piece in &pieces {
        size = size.saturating_add(match piece {
            BodyPiece::Bytes(bytes) => bytes.len(),
            BodyPiece::BlobBase64(id) => {
                let blob = blob(*id).ok_or_else(|| {
                    Violation::of_contract(format!("put blob {id} into a body, but it does not exist"))
                })?;
                base64::encoded_len(blob.data.len(), true).unwrap_or(usize::MAX)
            }
        });
        if size > most {
            let what = format!("made a request with a body of over {most} bytes, the limit 'exchange.request_bytes'");
            return Err(Violation::of_limit(what));
        }
    }
    if let [BodyPiece::Bytes(_)] = pieces.as_slice() {
        let whole = pieces.into_iter().find_map(|piece| match piece {
            BodyPiece::Bytes(bytes) => Some(bytes),
            BodyPiece::BlobBase64(_) => None,
        });
        return Ok(whole.unwrap_or_default().into());
    }
    let mut encoded = String::new();
    let mut whole = Vec::with_capacity(size);
    for piece in pieces {
        match piece {
            BodyPiece::Bytes(bytes) => whole.extend_from_slice(&bytes),
            BodyPiece::BlobBase64(id) => {
                // Encoding in chunks avoids a second copy of the whole blob in memory. Their length is a multiple of
                // three, so only the last one is padded.
                for chunk in blob(id).map(|blob| blob.data.chunks(3 << 12)).into_iter().flatten() {
                    encoded.clear();
                    STANDARD.encode_string(chunk, &mut encoded);
                    whole.extend_from_slice(encoded.as_bytes());
                }
            }
        }
    }
    Ok(whole.into())
}
