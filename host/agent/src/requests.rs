//! The requests that the agents of a session make to models: how many at once, and how many until the next message of a
//! person. `turn` and `inference` take a place for each request.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use patchbay_core::{Code, Outcome, Retrying, completion::StreamEvent, text};
use patchbay_provider::Sink;
use patchbay_sandbox::BoxFuture;
use tokio::sync::oneshot;

/// Limits the requests of a session's agents, which share it.
pub struct Requests {
    places: Mutex<Places>,
    /// Requests since the last message of a person.
    made: AtomicU32,
    limit: u32,
}

struct Places {
    free: u32,
    /// Requests that wait for a place, those of a person's turns first, then in the order of their arrival.
    waiting: BTreeMap<(RequestRank, u64), oneshot::Sender<RequestPlace>>,
    /// The arrivals so far.
    arrived: u64,
}

/// Which waiting requests are sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestRank {
    /// Requests of turns that a person began.
    Person,
    /// Requests of other turns.
    Agent,
}

/// The right to make one request now. Dropping it passes it on.
pub(crate) struct RequestPlace(Arc<Requests>);

impl Requests {
    /// Allows `at_once` concurrent requests, and `limit` requests between two messages of a person.
    pub fn new(at_once: u32, limit: u32) -> Arc<Self> {
        let places = Places { free: at_once.max(1), waiting: BTreeMap::new(), arrived: 0 };
        Arc::new(Self { places: Mutex::new(places), made: AtomicU32::new(0), limit })
    }

    /// Notes a message of a person: requests are counted from zero.
    pub fn message_came(&self) {
        self.made.store(0, Ordering::Relaxed);
    }

    /// Counts one more request.
    ///
    /// # Errors
    /// The outcome of a turn that may make no more requests.
    pub(crate) fn count(&self) -> Result<(), Outcome> {
        let more = |made: u32| (made < self.limit).then_some(made + 1);
        if self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            return Ok(());
        }
        let message = format!(
            "the agents of this session made {} requests since your last message (limits.tree_requests). Say anything to go \
             on.",
            text::with_commas(self.limit.into())
        );
        Err(Outcome::error(Code::LimitRequests, message))
    }

    /// Returns a place, or what will receive one: those of a person's turns first, then in the order of these calls.
    pub(crate) fn place_or_wait(
        self: &Arc<Self>,
        rank: RequestRank,
    ) -> Result<RequestPlace, oneshot::Receiver<RequestPlace>> {
        let mut places = self.places.lock();
        if places.free > 0 {
            places.free -= 1;
            return Ok(RequestPlace(Arc::clone(self)));
        }
        let (sender, given) = oneshot::channel();
        places.arrived += 1;
        let arrived = places.arrived;
        places.waiting.insert((rank, arrived), sender);
        Err(given)
    }

    /// Waits for a place. The future is cancel-safe.
    pub(crate) async fn place(self: &Arc<Self>, rank: RequestRank) -> RequestPlace {
        loop {
            match self.place_or_wait(rank) {
                Ok(place) => return place,
                // The sender stays in the queue until it is used, so an error does not happen.
                Err(given) => {
                    if let Ok(place) = given.await {
                        return place;
                    }
                }
            }
        }
    }
}

/// A sink that has a place while a request is under way. It gives the place up while the request waits for another attempt, which
/// may take minutes, and takes one again before that.
pub(crate) struct PlacedSink<'a> {
    sink: &'a mut dyn Sink,
    requests: Arc<Requests>,
    rank: RequestRank,
    place: Option<RequestPlace>,
}

impl<'a> PlacedSink<'a> {
    /// Returns a sink that passes everything on to `sink`.
    pub(crate) fn new(place: RequestPlace, rank: RequestRank, sink: &'a mut dyn Sink) -> Self {
        Self { sink, requests: Arc::clone(&place.0), rank, place: Some(place) }
    }
}

impl Sink for PlacedSink<'_> {
    fn event(&mut self, event: StreamEvent) {
        self.sink.event(event);
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.place = None;
        self.sink.retrying(retrying);
    }

    fn given_up(&mut self, retrying: &Retrying) {
        self.place = None;
        self.sink.given_up(retrying);
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.place = Some(self.requests.place(self.rank).await);
            self.sink.ready().await;
        })
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        let requests = Arc::clone(&self.0);
        let next = {
            let mut places = requests.places.lock();
            let next = loop {
                match places.waiting.pop_first() {
                    // The receiver of a request that was given up is closed.
                    Some((_, next)) if next.is_closed() => {}
                    next => break next,
                }
            };
            if next.is_none() {
                places.free += 1;
            }
            next
        };
        if let Some((_, next)) = next {
            // If the receiver is closed meanwhile, the place is dropped, and thereby passed on.
            drop(next.send(RequestPlace(requests)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Context, task::Waker};

    use super::*;

    fn is_ready(future: std::pin::Pin<&mut (impl Future + ?Sized)>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn places_go_to_a_persons_turns_first_then_in_order() {
        let requests = Requests::new(1, 10);
        let held = requests.place_or_wait(RequestRank::Agent).ok().unwrap();

        let mut first = pin!(requests.place(RequestRank::Agent));
        let mut second = pin!(requests.place(RequestRank::Agent));
        let mut person = pin!(requests.place(RequestRank::Person));
        assert!(!is_ready(first.as_mut()) && !is_ready(second.as_mut()) && !is_ready(person.as_mut()));
        drop(held);
        let std::task::Poll::Ready(held) = person.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the person's turn was not first")
        };
        assert!(!is_ready(first.as_mut()));
        drop(held);
        let std::task::Poll::Ready(held) = first.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the first was not next")
        };
        assert!(!is_ready(second.as_mut()));
        drop(held);
        assert!(is_ready(second.as_mut()));
    }

    #[test]
    fn place_is_passed_on_by_requests_that_were_given_up() {
        let requests = Requests::new(1, 10);
        let held = requests.place_or_wait(RequestRank::Agent).ok().unwrap();
        {
            let mut gone = pin!(requests.place(RequestRank::Person));
            assert!(!is_ready(gone.as_mut()));
        }
        let mut next = pin!(requests.place(RequestRank::Agent));
        assert!(!is_ready(next.as_mut()));
        drop(held);
        assert!(is_ready(next.as_mut()));
        // A place that was given but not taken is free again.
        {
            let held = requests.place_or_wait(RequestRank::Agent).ok().unwrap();
            let mut given = Box::pin(requests.place(RequestRank::Agent));
            assert!(!is_ready(given.as_mut()));
            drop(held);
            drop(given);
        }
        assert!(requests.place_or_wait(RequestRank::Agent).is_ok());
    }

    #[tokio::test]
    async fn waiting_request_lends_its_place_to_others() {
        struct NoSink;
        impl Sink for NoSink {
            fn event(&mut self, _: StreamEvent) {}
            fn retrying(&mut self, _: &Retrying) {}
        }
        let [provider, what, cause] = ["openai", "Rate limit exceeded", "slow down"].map(str::to_owned);
        let retrying = Retrying { provider, what, cause, wait_ms: 60_000, attempt: 1, of: 15 };
        let requests = Requests::new(1, 10);
        let mut none = NoSink;
        for give_up in [false, true] {
            let place = requests.place(RequestRank::Agent).await;
            let mut sink = PlacedSink::new(place, RequestRank::Agent, &mut none);
            assert!(requests.place_or_wait(RequestRank::Agent).is_err());
            if give_up {
                sink.given_up(&retrying)
            } else {
                sink.retrying(&retrying)
            }
            // Another request takes the place, and the next attempt waits for it.
            let other = requests.place_or_wait(RequestRank::Agent).ok().unwrap();
            {
                let mut ready = sink.ready();
                assert!(!is_ready(ready.as_mut()));
                drop(other);
                ready.await;
            }
            assert!(requests.place_or_wait(RequestRank::Agent).is_err());
        }
        assert!(requests.place_or_wait(RequestRank::Agent).is_ok());
    }

    #[test]
    fn requests_are_limited_until_the_next_message() {
        let requests = Requests::new(1, 2);
        assert!(requests.count().is_ok() && requests.count().is_ok());
        let refused = requests.count().unwrap_err();
        assert_eq!(refused.code, Code::LimitRequests);
        assert!(refused.message.starts_with("the agents of this session made 2 requests since your last message"));
        requests.message_came();
        assert!(requests.count().is_ok());
    }
}
