//! `wasi:clocks`. Until `clock` is granted, time is virtual: it starts at a fixed moment, advances by a fixed step at each reading,
//! and by the full duration at each sleep, which returns immediately. The same call reads the same times in every run.

use std::time::{Duration, Instant, SystemTime};

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::{
    DynPollable, Pollable,
    bindings::clocks::{
        monotonic_clock,
        wall_clock::{self, Datetime},
    },
    subscribe,
};

use super::Wasi;
use crate::state::GuestState;

/// Start of virtual time without a grant: 2020-01-01T00:00:00Z, as the time since 1970.
pub(super) const BEGINNING: Duration = Duration::from_secs(1_577_836_800);
/// Advance of virtual time at each reading.
const STEP: Duration = Duration::from_millis(1);

/// The time that a guest reads.
pub(super) enum Clock {
    /// Real time, with the start of the guest.
    Real(Instant),
    /// Virtual time, which advances by `STEP` at each reading.
    Virtual {
        /// Its start, as the time since 1970.
        start: Duration,
        /// How far the virtual time has advanced.
        elapsed: Duration,
    },
}

impl Clock {
    pub(super) fn real() -> Self {
        Self::Real(Instant::now())
    }

    /// Returns a virtual clock that starts at `start`, the time since 1970.
    pub(super) fn starting_at(start: Duration) -> Self {
        Self::Virtual { start, elapsed: Duration::ZERO }
    }

    /// Returns the time since the guest started.
    fn elapsed(&mut self) -> Duration {
        match self {
            Self::Real(start) => start.elapsed(),
            Self::Virtual { elapsed, .. } => {
                *elapsed = elapsed.saturating_add(STEP);
                *elapsed
            }
        }
    }

    /// Returns the time since 1970.
    fn now(&mut self) -> Duration {
        match *self {
            // A system clock before 1970 is wrong, but no better value is available.
            Self::Real(_) => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            Self::Virtual { start, .. } => start.saturating_add(self.elapsed()),
        }
    }

    fn resolution(&self) -> Duration {
        match self {
            Self::Real(_) => Duration::from_micros(1),
            Self::Virtual { .. } => STEP,
        }
    }

    /// Returns a sleep, which takes real time only on the real clock.
    fn sleep(&mut self, duration: Duration) -> Sleep {
        match self {
            Self::Real(_) => Sleep { until: tokio::time::Instant::now().checked_add(duration), over: false },
            Self::Virtual { elapsed, .. } => {
                *elapsed = elapsed.saturating_add(duration);
                Sleep { until: None, over: true }
            }
        }
    }
}

/// A sleep. If `until` is `None` and `over` is false, it never ends.
struct Sleep {
    until: Option<tokio::time::Instant>,
    over: bool,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Sleep {
    async fn ready(&mut self) {
        match self.until {
            // Yields, because a guest that polls in a loop must not block the thread.
            _ if self.over => tokio::task::yield_now().await,
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

pub(super) struct View<'a> {
    clock: &'a mut Clock,
    table: &'a mut ResourceTable,
}

struct Clocks;

impl HasData for Clocks {
    type Data<'a> = View<'a>;
}

fn view(state: &mut GuestState) -> View<'_> {
    let Wasi { clock, table, .. } = state.wasi();
    View { clock, table }
}

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wall_clock::add_to_linker::<GuestState, Clocks>(linker, view)?;
    monotonic_clock::add_to_linker::<GuestState, Clocks>(linker, view)
}

fn datetime(time: Duration) -> Datetime {
    Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl wall_clock::Host for View<'_> {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        Ok(datetime(self.clock.now()))
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(datetime(self.clock.resolution()))
    }
}

impl monotonic_clock::Host for View<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(nanoseconds(self.clock.elapsed()))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(nanoseconds(self.clock.resolution()))
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let now = nanoseconds(self.clock.elapsed());
        self.subscribe_duration(when.saturating_sub(now))
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let sleep = self.clock.sleep(Duration::from_nanos(duration));
        let sleep = self.table.push(sleep)?;
        subscribe(self.table, sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_advances_by_readings_and_sleeps_only() {
        let run = || {
            let mut clock = Clock::starting_at(BEGINNING);
            let first = (clock.now(), clock.elapsed());
            assert!(clock.sleep(Duration::from_secs(3600)).over);
            std::thread::sleep(Duration::from_millis(2));
            (first, clock.now(), clock.elapsed())
        };
        assert_eq!(run(), run());
        let ((now, elapsed), later, _) = run();
        assert_eq!((now, elapsed), (BEGINNING + STEP, STEP * 2));
        assert_eq!(later, BEGINNING + Duration::from_secs(3600) + STEP * 3);
    }

    #[test]
    fn virtual_time_starts_where_it_is_told() {
        let start = Duration::from_secs(1_767_225_600);
        let mut clock = Clock::starting_at(start);
        assert_eq!((clock.now(), clock.elapsed()), (start + STEP, STEP * 2));
    }

    #[test]
    fn sleeps_do_not_overflow() {
        let mut clock = Clock::starting_at(BEGINNING);
        clock.sleep(Duration::MAX);
        clock.sleep(Duration::MAX);
        assert_eq!(nanoseconds(clock.elapsed()), u64::MAX);
        let far = Clock::real().sleep(Duration::MAX);
        assert!(!far.over && far.until.is_none());
    }
}
