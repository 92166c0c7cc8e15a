//! Limits the requests that a session's agents make to models: how many are under way at once, in total and to each
//! provider, and how many are made until the user's next message. `spending` acquires a permit for each request.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use patchbay_core::{Code, Name, Outcome, RequestLimit, Retrying, completion::StreamEvent, text};
use patchbay_provider::Sink;
use tokio::sync::oneshot;

use crate::share::{ProviderShare, ShareEpoch};

/// The limits on a session's requests, which its agents share.
pub struct Requests {
    permits: Mutex<RequestPermits>,
    /// Number of requests since the user's last message.
    made: AtomicU32,
    limit: u32,
}

struct RequestPermits {
    /// How many requests may be under way at once, to all providers together.
    most: u32,
    under_way: u32,
    /// The shares of the providers that have received requests.
    shares: BTreeMap<Name, ProviderShare>,
    /// Requests that wait for a permit, in order of arrival. Turns that a user started come first.
    waiting: BTreeMap<(RequestRank, u64), WaitingRequest>,
    arrived: u64,
}

struct WaitingRequest {
    provider: Name,
    /// Receives the permit. Closed if the request was given up.
    given: oneshot::Sender<RequestPermit>,
}

/// Which waiting requests are sent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestRank {
    /// Requests of turns that the user began.
    Person,
    Agent,
}

/// The right to make one request to a provider now. When it is dropped, a waiting request receives a permit.
pub(crate) struct RequestPermit {
    requests: Arc<Requests>,
    provider: Name,
    epoch: ShareEpoch,
}

/// A request in the queue for a permit. Dropping it gives up the request.
pub(crate) struct QueuedRequest {
    given: oneshot::Receiver<RequestPermit>,
    /// The limit that the request waits for.
    limit: RequestLimit,
}

/// Notes that a request waits for a limit, or with `None` that it no longer waits.
pub(crate) type WaitNotice = Arc<dyn Fn(Option<&RequestLimit>) + Send + Sync>;

impl RequestPermits {
    /// Counts a request that begins; returns `None` if it has to wait.
    fn begin(&mut self, provider: &Name) -> Option<ShareEpoch> {
        if self.under_way >= self.most {
            return None;
        }
        let most = self.most;
        let share = self.shares.entry(provider.clone()).or_insert_with(|| ProviderShare::new(most));
        let epoch = share.begin()?;
        self.under_way += 1;
        Some(epoch)
    }

    fn end(&mut self, provider: &Name) {
        self.under_way = self.under_way.saturating_sub(1);
        self.change_share(provider, ProviderShare::end);
    }

    fn change_share(&mut self, provider: &Name, change: impl FnOnce(&mut ProviderShare)) {
        if let Some(share) = self.shares.get_mut(provider) {
            change(share);
        }
    }

    /// Returns the limit that a request to `provider` waits for.
    fn limit(&self, provider: &Name) -> RequestLimit {
        match self.shares.get(provider).filter(|share| share.is_full() && share.size() < self.most) {
            Some(share) => RequestLimit { provider: Some(provider.to_string()), at_once: share.size() },
            None => RequestLimit { provider: None, at_once: self.most },
        }
    }

    /// Removes the requests that may begin now from the queue. A request to a provider whose share is full does not keep
    /// requests to other providers waiting.
    fn admit(&mut self) -> Vec<(WaitingRequest, ShareEpoch)> {
        let mut admitted = Vec::new();
        for (key, waiting) in std::mem::take(&mut self.waiting) {
            if waiting.given.is_closed() {
                continue;
            }
            match self.begin(&waiting.provider) {
                Some(epoch) => admitted.push((waiting, epoch)),
                None => drop(self.waiting.insert(key, waiting)),
            }
        }
        admitted
    }
}

impl Requests {
    /// Allows `at_once` concurrent requests, and `limit` requests between two messages of the user.
    pub fn new(at_once: u32, limit: u32) -> Arc<Self> {
        let permits = RequestPermits {
            most: at_once.max(1),
            under_way: 0,
            shares: BTreeMap::new(),
            waiting: BTreeMap::new(),
            arrived: 0,
        };
        Arc::new(Self { permits: Mutex::new(permits), made: AtomicU32::new(0), limit })
    }

    /// Restarts the count at zero. Called for each message of the user.
    pub fn message_came(&self) {
        self.made.store(0, Ordering::Relaxed);
    }

    /// Counts one more request of the session.
    ///
    /// # Errors
    /// The outcome of a turn that may make no more requests.
    pub(crate) fn count(&self) -> Result<(), Outcome> {
        let more = |made: u32| (made < self.limit).then_some(made + 1);
        if self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
            return Ok(());
        }
        let message = format!(
            "the agents of this session made {} requests since your last message (limits.tree_requests). Send any message to \
             continue.",
            text::with_commas(self.limit.into())
        );
        Err(Outcome::error(Code::LimitRequests, message))
    }

    /// Returns a permit for a request to `provider`, or queues the request. Queued requests of turns that the user began
    /// receive permits first, then the others; each group in the order of these calls.
    pub(crate) fn permit_or_wait(
        self: &Arc<Self>,
        provider: &Name,
        rank: RequestRank,
    ) -> Result<RequestPermit, QueuedRequest> {
        let mut permits = self.permits.lock();
        if let Some(epoch) = permits.begin(provider) {
            return Ok(self.permit_at(provider.clone(), epoch));
        }
        let (sender, given) = oneshot::channel();
        permits.arrived += 1;
        let arrived = permits.arrived;
        permits.waiting.insert((rank, arrived), WaitingRequest { provider: provider.clone(), given: sender });
        Err(QueuedRequest { given, limit: permits.limit(provider) })
    }

    /// Waits for a permit for a request to `provider`. `notice`, if there is one, is called when the wait begins and when it
    /// ends. The future is cancel-safe.
    pub(crate) async fn permit(
        self: &Arc<Self>,
        provider: &Name,
        rank: RequestRank,
        notice: Option<&WaitNotice>,
    ) -> RequestPermit {
        loop {
            let queued = match self.permit_or_wait(provider, rank) {
                Ok(permit) => return permit,
                Err(queued) => queued,
            };
            let _noted = notice.map(|notice| NotedWait::new(notice, &queued.limit));
            // The sender stays in the queue until it is used, so an error cannot happen.
            if let Ok(permit) = queued.given.await {
                return permit;
            }
        }
    }

    fn permit_at(self: &Arc<Self>, provider: Name, epoch: ShareEpoch) -> RequestPermit {
        RequestPermit { requests: Arc::clone(self), provider, epoch }
    }

    /// Changes the number of permits, and hands new permits to waiting requests.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut RequestPermits)) {
        let admitted = {
            let mut permits = self.permits.lock();
            change(&mut permits);
            permits.admit()
        };
        for (WaitingRequest { provider, given }, epoch) in admitted {
            // If the receiver is closed meanwhile, the permit is dropped, and thereby passed on.
            drop(given.send(self.permit_at(provider, epoch)));
        }
    }
}

/// Notes the end of a wait when it is dropped, even if the wait is cancelled.
struct NotedWait<'a>(&'a WaitNotice);

impl<'a> NotedWait<'a> {
    fn new(notice: &'a WaitNotice, limit: &RequestLimit) -> Self {
        notice(Some(limit));
        Self(notice)
    }
}

impl Drop for NotedWait<'_> {
    fn drop(&mut self) {
        (self.0)(None);
    }
}

impl RequestPermit {
    /// Notes that the provider refused the request because of a rate limit or an overload.
    fn overloaded(&self) {
        self.requests.change(|permits| permits.change_share(&self.provider, |share| share.overloaded(self.epoch)));
    }

    /// Ends a request that was answered.
    fn answered(self) {
        self.requests.change(|permits| permits.change_share(&self.provider, |share| share.answered(self.epoch)));
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let requests = Arc::clone(&self.requests);
        requests.change(|permits| permits.end(&self.provider));
    }
}

/// A sink that holds a permit during a request. It releases the permit while the request waits for a retry, which may take
/// minutes, and acquires one again before the retry. It reports the result of the request to the provider's share.
pub(crate) struct PermitSink<'a> {
    sink: &'a mut dyn Sink,
    requests: Arc<Requests>,
    provider: Name,
    rank: RequestRank,
    notice: Option<WaitNotice>,
    permit: Option<RequestPermit>,
}

impl<'a> PermitSink<'a> {
    /// Returns a sink that passes everything on to `sink`. `notice` is called while a retry waits for a permit.
    pub(crate) fn new(
        permit: RequestPermit,
        rank: RequestRank,
        notice: Option<WaitNotice>,
        sink: &'a mut dyn Sink,
    ) -> Self {
        let (requests, provider) = (Arc::clone(&permit.requests), permit.provider.clone());
        Self { sink, requests, provider, rank, notice, permit: Some(permit) }
    }

    /// Releases the permit after the request. `is_answered` is true for a complete answer.
    pub(crate) fn ended(mut self, is_answered: bool) {
        if let Some(permit) = self.permit.take().filter(|_| is_answered) {
            permit.answered();
        }
    }
}

impl Sink for PermitSink<'_> {
    fn event(&mut self, event: StreamEvent) {
        self.sink.event(event);
    }

    fn overloaded(&mut self) {
        if let Some(permit) = &self.permit {
            permit.overloaded();
        }
        self.sink.overloaded();
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.permit = None;
        self.sink.retrying(retrying);
    }

    fn given_up(&mut self, retrying: &Retrying) {
        self.permit = None;
        self.sink.given_up(retrying);
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.permit = Some(self.requests.permit(&self.provider, self.rank, self.notice.as_ref()).await);
            self.sink.ready().await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::{Pin, pin},
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn demo() -> Name {
        "demo".parse().unwrap()
    }

    fn poll<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Takes a permit that is free.
    fn take(requests: &Arc<Requests>) -> RequestPermit {
        requests.permit_or_wait(&demo(), RequestRank::Agent).ok().expect("a free permit")
    }

    /// Takes all permits that are free.
    fn take_all(requests: &Arc<Requests>) -> Vec<RequestPermit> {
        std::iter::from_fn(|| requests.permit_or_wait(&demo(), RequestRank::Agent).ok()).collect()
    }

    #[test]
    fn permits_go_to_the_users_turns_first_then_in_order() {
        let (requests, demo) = (Requests::new(1, 10), demo());
        let held = take(&requests);
        let mut first = pin!(requests.permit(&demo, RequestRank::Agent, None));
        let mut second = pin!(requests.permit(&demo, RequestRank::Agent, None));
        let mut person = pin!(requests.permit(&demo, RequestRank::Person, None));
        assert!(poll(first.as_mut()).is_none() && poll(second.as_mut()).is_none() && poll(person.as_mut()).is_none());
        drop(held);
        let held = poll(person.as_mut()).expect("the person's turn is first");
        assert!(poll(first.as_mut()).is_none());
        drop(held);
        let held = poll(first.as_mut()).expect("the first is next");
        assert!(poll(second.as_mut()).is_none());
        drop(held);
        assert!(poll(second.as_mut()).is_some());
    }

    #[test]
    fn permit_is_passed_on_by_requests_that_were_given_up() {
        let (requests, demo) = (Requests::new(1, 10), demo());
        let held = take(&requests);
        {
            let mut gone = pin!(requests.permit(&demo, RequestRank::Person, None));
            assert!(poll(gone.as_mut()).is_none());
        }
        let mut next = pin!(requests.permit(&demo, RequestRank::Agent, None));
        assert!(poll(next.as_mut()).is_none());
        drop(held);
        assert!(poll(next.as_mut()).is_some());
        // A permit that was given but not taken is free again.
        {
            let held = take(&requests);
            let mut given = Box::pin(requests.permit(&demo, RequestRank::Agent, None));
            assert!(poll(given.as_mut()).is_none());
            drop(held);
            drop(given);
        }
        take(&requests);
    }

    struct NoSink;

    impl Sink for NoSink {
        fn event(&mut self, _: StreamEvent) {}
        fn retrying(&mut self, _: &Retrying) {}
    }

    #[tokio::test]
    async fn waiting_request_lends_its_permit_to_others() {
        let [provider, what, cause] = ["openai", "Rate limit exceeded", "slow down"].map(str::to_owned);
        let retrying = Retrying { provider, what, cause, wait_ms: 60_000, attempt: 1, of: 15 };
        let (requests, demo) = (Requests::new(1, 10), demo());
        let mut none = NoSink;
        for give_up in [false, true] {
            let permit = requests.permit(&demo, RequestRank::Agent, None).await;
            let mut sink = PermitSink::new(permit, RequestRank::Agent, None, &mut none);
            assert!(requests.permit_or_wait(&demo, RequestRank::Agent).is_err());
            if give_up {
                sink.given_up(&retrying)
            } else {
                sink.retrying(&retrying)
            }
            // Another request takes the permit, and the next attempt waits for it.
            let other = take(&requests);
            {
                let mut ready = sink.ready();
                assert!(poll(ready.as_mut()).is_none());
                drop(other);
                ready.await;
            }
            assert!(requests.permit_or_wait(&demo, RequestRank::Agent).is_err());
        }
        take(&requests);
    }

    #[test]
    fn overloaded_provider_gets_half_and_recovers() {
        let requests = Requests::new(4, 100);
        let mut none = NoSink;
        let permits = take_all(&requests);
        assert_eq!(permits.len(), 4);
        // All four are refused in the same round trip, which halves the share only once.
        for permit in permits {
            let mut sink = PermitSink::new(permit, RequestRank::Agent, None, &mut none);
            sink.overloaded();
            sink.ended(false);
        }
        assert_eq!(take_all(&requests).len(), 2);
        // Answers make the share larger; requests that fail in another way do not.
        for (answered, at_once) in [(false, 2), (true, 2), (true, 3), (true, 3), (true, 3), (true, 4), (true, 4)] {
            PermitSink::new(take(&requests), RequestRank::Agent, None, &mut none).ended(answered);
            assert_eq!(take_all(&requests).len(), at_once);
        }
    }

    #[test]
    fn full_share_keeps_only_requests_to_its_provider_waiting() {
        let (requests, demo, other) = (Requests::new(2, 100), demo(), "other".parse::<Name>().unwrap());
        let held = take(&requests);
        held.overloaded();
        let mut waits = pin!(requests.permit(&demo, RequestRank::Person, None));
        assert!(poll(waits.as_mut()).is_none());
        let second = requests.permit_or_wait(&other, RequestRank::Agent).ok().expect("a permit for another provider");
        // Now the limit of the session is reached.
        let mut last = pin!(requests.permit(&other, RequestRank::Agent, None));
        assert!(poll(last.as_mut()).is_none());
        drop(second);
        assert!(poll(waits.as_mut()).is_none());
        assert!(poll(last.as_mut()).is_some());
        drop(held);
        assert!(poll(waits.as_mut()).is_some());
    }

    #[test]
    fn wait_is_noted_with_its_limit_and_its_end() {
        let noted: Arc<Mutex<Vec<Option<RequestLimit>>>> = Arc::default();
        let keep = Arc::clone(&noted);
        let notice: WaitNotice = Arc::new(move |limit: Option<&RequestLimit>| keep.lock().push(limit.cloned()));
        let (requests, demo) = (Requests::new(2, 100), demo());
        let permits = take_all(&requests);
        {
            let mut cancelled = pin!(requests.permit(&demo, RequestRank::Agent, Some(&notice)));
            assert!(poll(cancelled.as_mut()).is_none());
        }
        permits[0].overloaded();
        {
            let mut waits = pin!(requests.permit(&demo, RequestRank::Agent, Some(&notice)));
            assert!(poll(waits.as_mut()).is_none());
            drop(permits);
            assert!(poll(waits.as_mut()).is_some());
        }
        // A request that does not wait is not noted.
        assert!(poll(pin!(requests.permit(&demo, RequestRank::Agent, Some(&notice)))).is_some());
        let of_session = RequestLimit { provider: None, at_once: 2 };
        let of_provider = RequestLimit { provider: Some("demo".to_owned()), at_once: 1 };
        assert_eq!(*noted.lock(), [Some(of_session), None, Some(of_provider), None]);
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
