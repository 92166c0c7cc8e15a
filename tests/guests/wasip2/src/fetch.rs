//! One GET request with `wasi:http`.

use std::io::Read as _;

use patchbay_sdk::{Failure, Result};
use wasip2::http::{
    outgoing_handler::{ErrorCode, handle},
    types::{Fields, OutgoingRequest, Scheme},
};

pub(crate) fn get(url: &str) -> Result<String> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| Failure::invalid(format!("'{url}' is not a URL")))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let scheme = match scheme {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    let request = OutgoingRequest::new(Fields::new());
    let set = request.set_scheme(Some(&scheme)).is_ok()
        && request.set_authority(Some(authority)).is_ok()
        && request.set_path_with_query(Some(&path)).is_ok();
    if !set {
        return Err(Failure::invalid(format!("'{url}' is not a URL that WASI takes")));
    }

    let pending = handle(request, None).map_err(named)?;
    pending.subscribe().block();
    let answer = pending.get().ok_or_else(|| lost("no answer"))?.map_err(|()| lost("the answer was taken"))?;
    let response = answer.map_err(named)?;
    let body = response.consume().map_err(|()| lost("the body was taken"))?;
    let mut stream = body.stream().map_err(|()| lost("the stream was taken"))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(format!("{}\n{text}", response.status()))
}

/// The message is the name of the code, with its payload.
fn named(code: ErrorCode) -> Failure {
    let name = code.to_string();
    Failure::new("failed", name.strip_prefix("ErrorCode::").unwrap_or(&name))
}

fn lost(what: &str) -> Failure {
    Failure::new("failed", what)
}
