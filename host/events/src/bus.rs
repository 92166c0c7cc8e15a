//! The transport of events from the [`EventLog`](crate::EventLog) of a session to its subscriptions.

use std::pin::Pin;

use patchbay_core::Event;
use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

/// Carries the events of one session. A bus never blocks and may lose, duplicate or reorder events.
pub trait Bus: Send + Sync {
    /// Sends `event` to all current receivers.
    fn publish(&self, event: Event);

    /// Returns a receiver of the events that are published from now on.
    fn subscribe(&self) -> Box<dyn BusReceiver>;
}

/// The receiving end of a [`Bus`].
pub trait BusReceiver: Send {
    /// Waits for the next event. The future is cancel-safe.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Event, BusError>> + Send + '_>>;

    /// Returns the next event, or `None` if none is available.
    ///
    /// # Errors
    /// The same as [`BusReceiver::next`].
    fn try_next(&mut self) -> Result<Option<Event>, BusError>;
}

/// Why a receiver has no next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The receiver was too slow and lost this many events. More may follow.
    #[error("{0} events are lost")]
    Lagged(u64),
    /// The session has ended. No more events follow.
    #[error("the session has ended")]
    Closed,
}

/// A bus within this process. A receiver that falls more than [`Broadcast::CAPACITY`] events behind loses the oldest.
#[derive(Clone, Debug)]
pub struct Broadcast(broadcast::Sender<Event>);

impl Broadcast {
    /// Number of events that are queued for a slow receiver.
    pub const CAPACITY: usize = 1024;

    /// Returns a bus whose receivers may fall at most `capacity` events behind (at least 1).
    pub fn with_capacity(capacity: usize) -> Self {
        Self(broadcast::Sender::new(capacity.max(1)))
    }
}

impl Default for Broadcast {
    fn default() -> Self {
        Self::with_capacity(Self::CAPACITY)
    }
}

impl Bus for Broadcast {
    fn publish(&self, event: Event) {
        // An error only means that there is no receiver.
        let _ = self.0.send(event);
    }

    fn subscribe(&self) -> Box<dyn BusReceiver> {
        Box::new(self.0.subscribe())
    }
}

impl BusReceiver for broadcast::Receiver<Event> {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Event, BusError>> + Send + '_>> {
        Box::pin(async {
            self.recv().await.map_err(|error| match error {
                RecvError::Lagged(lost) => BusError::Lagged(lost),
                RecvError::Closed => BusError::Closed,
            })
        })
    }

    fn try_next(&mut self) -> Result<Option<Event>, BusError> {
        match self.try_recv() {
            Ok(event) => Ok(Some(event)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Lagged(lost)) => Err(BusError::Lagged(lost)),
            Err(TryRecvError::Closed) => Err(BusError::Closed),
        }
    }
}
