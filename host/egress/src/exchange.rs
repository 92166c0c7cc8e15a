//! The deadlines and error messages of one request, shared by `egress` and `answer`.

use std::{error::Error, future::Future, io, iter, time::Duration};

use patchbay_core::text;
use tokio::time::{Instant, timeout_at};

use crate::{EgressError, EgressLimits, LimitKey, Origin, Scrub};

/// One HTTP request and its response (an exchange with a provider may send several): the server, the limits, the
/// secrets to remove, and the deadline.
pub(crate) struct Exchange {
    pub(crate) origin: Origin,
    pub(crate) limits: EgressLimits,
    pub(crate) scrub: Scrub,
    /// When the whole exchange times out.
    until: Instant,
    /// The error reported when the exchange times out.
    over: EgressError,
}

impl Exchange {
    /// Returns an exchange whose time starts now. `timeout` applies if it is shorter than the configured limit.
    pub(crate) fn new(origin: Origin, limits: EgressLimits, scrub: Scrub, timeout: Option<Duration>) -> Self {
        let most = Duration::from_millis(limits.time_ms);
        let (time, over) = match timeout {
            Some(own) if own < most => {
                (own, EgressError::Deadline { ms: u64::try_from(own.as_millis()).unwrap_or(u64::MAX) })
            }
            _ => (most, EgressError::Timeout { what: "the request", key: LimitKey::TimeMs, ms: limits.time_ms }),
        };
        Self { origin, limits, scrub, until: Instant::now() + time, over }
    }

    /// Waits for the result of `work`.
    ///
    /// # Errors
    /// [`EgressError::Timeout`] or [`EgressError::Deadline`], if the idle limit or the deadline of the exchange is
    /// reached first.
    pub(crate) async fn within<T>(&self, what: &'static str, work: impl Future<Output = T>) -> Result<T, EgressError> {
        let now = Instant::now();
        // `timeout_at` polls the work before the timer, so a server that always has data ready would never time out.
        if now >= self.until {
            return Err(self.over.clone());
        }
        let idle = now + self.limits.idle();
        timeout_at(idle.min(self.until), work).await.map_err(|_| {
            if idle < self.until {
                EgressError::Timeout { what, key: LimitKey::IdleMs, ms: self.limits.idle_ms }
            } else {
                self.over.clone()
            }
        })
    }

    /// Converts an error of the HTTP library according to its type. The message may quote the server: it is scrubbed,
    /// cleaned and truncated, and only used for display.
    pub(crate) fn fault(&self, error: &reqwest::Error) -> EgressError {
        let origin = self.origin.clone();
        let cause = || text::excerpt(&self.scrub.text(&chain(error).last().unwrap_or(error).to_string()), 200);
        if let Some(own) = find::<EgressError>(error) {
            return own.clone();
        }
        if let Some(tls) = find::<rustls::Error>(error) {
            return EgressError::Tls { origin, cause: text::excerpt(&self.scrub.text(&tls.to_string()), 200) };
        }
        if error.is_connect() {
            return if error.is_timeout() {
                EgressError::Timeout { what: "connecting", key: LimitKey::ConnectMs, ms: self.limits.connect_ms }
            } else {
                EgressError::Connect { origin, cause: cause() }
            };
        }
        if let Some(hyper) = find::<hyper::Error>(error) {
            if hyper.is_parse_too_large() {
                let (headers, bytes) = (self.limits.response_headers as u64, self.limits.response_header_bytes as u64);
                return EgressError::HeadTooLarge { headers, bytes };
            }
            if hyper.is_incomplete_message() {
                return EgressError::Truncated { origin };
            }
        }
        match find::<io::Error>(error).map(io::Error::kind) {
            Some(
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe,
            ) => EgressError::Truncated { origin },
            _ => EgressError::Protocol { origin, cause: cause() },
        }
    }
}

/// Returns the first error of type `T` in the chain of `error`.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// Returns `error` and its sources.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error| behind(*error))
}

/// Returns the source of an error. For an I/O error, this is the wrapped error, which `source()` would skip.
fn behind<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
