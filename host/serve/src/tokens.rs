//! Who may connect. The store of tokens is behind [`Tokens`]; each request asks it.

use futures_util::future::BoxFuture;
use patchbay_core::Digest;

/// The tokens of a home.
pub trait Tokens: Send + Sync {
    /// Returns the token with this SHA-256; `None` if there is none, it has expired, or the store cannot be read.
    fn find(&self, digest: Digest) -> BoxFuture<'_, Option<ServeToken>>;
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeToken {
    /// The name that the user gave it.
    pub name: String,
}
