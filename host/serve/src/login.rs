//! Signs in a browser: a link contains a code that can be exchanged for a cookie, once and within 60 seconds. The
//! cookie is a token of its own, which `patchbay token list` shows and `patchbay token remove` revokes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use parking_lot::Mutex;
use patchbay_core::{Digest, Name};
use patchbay_store::{Store, StoreError, TokenRights};

/// How long the code in a login link is valid.
const CODE: Duration = Duration::from_secs(60);
/// How long a cookie is valid, in seconds.
const COOKIE_S: i64 = 12 * 3_600;
const COOKIE: &str = "patchbay";

/// The codes of unused links.
#[derive(Clone, Default)]
pub struct Logins(Arc<Mutex<Vec<(Digest, Instant)>>>);

impl Logins {
    /// Returns the code of a new link.
    pub fn new_code(&self) -> String {
        let code = hex::encode(rand::random::<[u8; 32]>());
        self.0.lock().push((Digest::of(code.as_bytes()), Instant::now()));
        code
    }

    /// Removes a code. Returns false if it is unknown or has expired.
    pub(crate) fn take(&self, code: &str) -> bool {
        let digest = Digest::of(code.as_bytes());
        let mut codes = self.0.lock();
        codes.retain(|(_, made)| made.elapsed() < CODE);
        match codes.iter().position(|(known, _)| *known == digest) {
            Some(at) => {
                codes.remove(at);
                true
            }
            None => false,
        }
    }
}

/// Adds a token for a browser, and returns the header that sets its cookie; `None` if the random name is taken.
/// `is_secure` indicates whether browsers reach the server over TLS.
pub(crate) async fn new_cookie(store: &Store, is_secure: bool) -> Result<Option<HeaderValue>, StoreError> {
    let now = store.source().unix_s();
    for old in store.client_tokens().await? {
        if old.has_expired(now) && old.name.as_str().starts_with("browser-") {
            store.remove_client_token(&old.name).await?;
        }
    }
    let value = hex::encode(rand::random::<[u8; 32]>());
    let digest = Digest::of(value.as_bytes());
    let name = format!("browser-{}", digest.to_hex().get(..8).unwrap_or_default());
    let Ok(name) = name.parse::<Name>() else { return Ok(None) };
    let may = TokenRights { lines: true, answers: true, grants: false };
    if !store.add_client_token(name, digest, may, Some(COOKIE_S)).await? {
        return Ok(None);
    }
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={COOKIE_S}; HttpOnly; SameSite=Strict{secure}");
    Ok(HeaderValue::from_str(&cookie).ok().map(|mut cookie| {
        cookie.set_sensitive(true);
        cookie
    }))
}

/// Returns the digest of the cookie, if there is one.
pub(crate) fn cookie_digest(headers: &HeaderMap) -> Option<Digest> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values =
        cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().strip_prefix("patchbay="));
    let value = values.next()?;
    values.next().is_none().then(|| Digest::of(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_work_once() {
        let logins = Logins::default();
        let code = logins.new_code();
        assert!(!logins.take("") && !logins.take(&code[1..]));
        assert!(logins.take(&code) && !logins.take(&code));
        let late = logins.new_code();
        logins.0.lock()[0].1 = Instant::now().checked_sub(CODE).unwrap();
        assert!(!logins.take(&late));
    }

    #[tokio::test]
    async fn a_cookie_is_a_token_that_expires() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let cookie = new_cookie(&store, true).await.unwrap().unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let mut headers = HeaderMap::new();
        let pair = cookie.split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().unwrap());
        let token = store.client_token(&cookie_digest(&headers).unwrap()).await.unwrap().unwrap();
        assert!(token.name.as_str().starts_with("browser-") && !token.may.grants && token.expires_at.is_some());
        headers.append(header::COOKIE, pair.parse().unwrap());
        assert_eq!(cookie_digest(&headers), None, "two cookies could be of two servers");
    }
}
