//! Tests of the crate with hostile servers on loopback.

mod answers;
mod connections;
mod limits;
mod requests;
mod secrets;
mod server;
mod ssrf;
mod tls;

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use patchbay_policy::{Capability, HostPattern};

use crate::{
    CheckedTarget, Egress, EgressError, EgressLimits, Request, Resolver, Resolving, Response, Target, tls::Trust,
};

/// A resolver with scripted results: one for each lookup; the last one repeats.
pub(super) struct Script {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Script {
    /// Each result is a string of addresses, separated by spaces.
    pub(super) fn new(answers: &[&str]) -> Arc<Self> {
        let addresses = |text: &&str| text.split_whitespace().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(addresses).collect(), asked: AtomicUsize::new(0) })
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for Script {
    fn resolve(&self, _: &str) -> Resolving {
        let at = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len().saturating_sub(1));
        let answer = self.answers.get(at).cloned().ok_or_else(|| io::Error::other("no such name"));
        Box::pin(async { answer })
    }
}

/// Returns the pattern `http:TEXT`.
pub(super) fn rule(text: &str) -> HostPattern {
    match format!("http:{text}").parse() {
        Ok(Capability::Http(host)) => host,
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns a target for `url`, with a permit that names its host exactly.
pub(super) fn target(url: &str) -> CheckedTarget {
    let target = Target::parse(url).unwrap();
    let exact = HostPattern::exactly(target.origin().host(), Some(target.origin().port())).unwrap();
    target.allow(exact).unwrap()
}

pub(super) fn get(url: &str) -> Request {
    Request::get("test", target(url))
}

/// Returns limits with times that are long enough for every test that does not change them.
pub(super) fn limits() -> EgressLimits {
    EgressLimits { time_ms: 60_000, idle_ms: 60_000, connect_ms: 60_000, ..EgressLimits::default() }
}

/// Returns an egress that resolves `localhost` to 127.0.0.1, whatever the system does.
pub(super) fn egress(limits: EgressLimits) -> Egress {
    Egress::with(limits, Script::new(&["127.0.0.1"]), Trust::System)
}

pub(super) async fn send(url: &str) -> Result<Response, EgressError> {
    egress(limits()).send(get(url)).await
}
