//! The wall clock and the random ids of a host. `store`, `events`, `tools`, `agent` and `session` get both only from here, because
//! a replay of a session has to supply the same times and ids. `Instant` is still used for timeouts and measurements, which are
//! not stored.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

/// The source of times and ids; by default, the operating system. Cheap to clone.
#[derive(Clone)]
pub struct Source(Arc<Inputs>);

struct Inputs {
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    uuid: Box<dyn Fn() -> [u8; 16] + Send + Sync>,
}

impl Source {
    /// Returns a source that calls `now` for each time and `uuid` for the bytes of each random UUID (version 4).
    pub fn new(
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
        uuid: impl Fn() -> [u8; 16] + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inputs { now: Box::new(now), uuid: Box::new(uuid) }))
    }

    /// Returns the time since 1970; zero if the clock is set before 1970.
    pub fn since_1970(&self) -> Duration {
        (self.0.now)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns the whole seconds since 1970.
    pub fn unix_s(&self) -> i64 {
        i64::try_from(self.since_1970().as_secs()).unwrap_or(i64::MAX)
    }

    /// Returns the whole milliseconds since 1970.
    pub fn unix_ms(&self) -> i64 {
        i64::try_from(self.since_1970().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the bytes of a new UUID.
    pub fn uuid(&self) -> [u8; 16] {
        (self.0.uuid)()
    }

    /// Returns a new id for a line or a client's request that arrives now.
    pub fn line_id(&self) -> patchbay_core::LineId {
        patchbay_core::LineId::new(self.unix_ms().cast_unsigned(), self.uuid())
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::new(SystemTime::now, || Uuid::new_v4().into_bytes())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
