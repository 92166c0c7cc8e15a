//! Limits how many requests each token may have at once. No token can lock out the others, and the health checks of
//! supervisors are always answered.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_mcp::server::ActiveRequest;

/// Limit of the requests that wait for a permit. Further requests are refused.
const WAITING: usize = 64;

/// The requests of all tokens, active or waiting for a permit.
pub(crate) struct RequestShares {
    /// Limit of the requests of one token.
    of_token: usize,
    /// Limit of the requests of all tokens together.
    of_all: usize,
    begun: Mutex<BTreeMap<Digest, usize>>,
}

/// A request that counts for its token until this is dropped.
pub(crate) struct RequestShare {
    all: Arc<RequestShares>,
    token: Digest,
}

/// A request with a permit and a share.
pub(crate) struct ServedRequest {
    pub(crate) _active: ActiveRequest,
    pub(crate) _share: RequestShare,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooManyRequests {
    OfToken,
    OfAll,
}

impl RequestShares {
    /// Returns the shares of a server with `permits`. One token may use three quarters of them.
    pub(crate) fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { of_token: permits - permits / 4, of_all: permits + WAITING, begun: Mutex::default() })
    }

    /// Counts a request of a token.
    ///
    /// # Errors
    /// The token, or all tokens together, have too many requests.
    pub(crate) fn begin(self: &Arc<Self>, token: Digest) -> Result<RequestShare, TooManyRequests> {
        let mut begun = self.begun.lock();
        if begun.get(&token).is_some_and(|own| *own >= self.of_token) {
            return Err(TooManyRequests::OfToken);
        }
        if begun.values().sum::<usize>() >= self.of_all {
            return Err(TooManyRequests::OfAll);
        }
        *begun.entry(token).or_default() += 1;
        Ok(RequestShare { all: Arc::clone(self), token })
    }
}

impl Drop for RequestShare {
    fn drop(&mut self) {
        let mut begun = self.all.begun.lock();
        if let Entry::Occupied(mut own) = begun.entry(self.token) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_leaves_permits_to_the_others() {
        let shares = RequestShares::new(8);
        let tokens: Vec<_> = (0..40).map(|number: u8| Digest::of(&[number])).collect();
        let mut first: Vec<_> = (0..6).map(|_| shares.begin(tokens[0]).unwrap()).collect();
        assert_eq!(shares.begin(tokens[0]).err(), Some(TooManyRequests::OfToken));
        let others: Vec<_> =
            tokens[1..].iter().flat_map(|token| [*token; 6]).map_while(|token| shares.begin(token).ok()).collect();
        assert_eq!(others.len(), 8 + WAITING - 6);
        assert_eq!(shares.begin(tokens[39]).err(), Some(TooManyRequests::OfAll));
        first.pop();
        assert!(shares.begin(tokens[39]).is_ok() && shares.begin(tokens[0]).is_ok());
        drop((first, others));
        assert!(shares.begun.lock().is_empty());
        assert_eq!(RequestShares::new(1).of_token, 1);
    }
}
