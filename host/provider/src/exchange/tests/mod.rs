//! Tests of the driver of an exchange, with scripted adapters and hostile servers.

mod answers;
#[cfg(unix)]
mod key_command;
mod requests;
mod retries;
mod secrets;
#[path = "../../../../egress/src/tests/server.rs"]
mod server;
mod stream_check;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use patchbay_core::{
    Name, Retrying,
    completion::{Blob, BlockKind, CompletionRequest, FailureKind, Finish, Stop, StreamEvent},
};
use patchbay_egress::{Binding, Egress, SecretLookup, SecretRef, Secrets, Variables};
use patchbay_sandbox::{
    Auth, Failure, RequestedPlacement,
    adapter::{Action, AdapterFailure, AdapterRequest, BodyPiece, Input, RetryHint},
};

use super::{
    ExchangeContext, RequestTarget,
    adapter::{Instance, StartAdapter},
    complete, drive,
};
use crate::{
    Completed, ExchangeError, ExchangeLimits, Sink,
    route::{Base, Route, RouteCredential},
};

/// The behaviour of a scripted adapter: its actions at the start (`None`) and for each input.
pub(super) type Steps = Arc<dyn Fn(Option<&Input>) -> Vec<Action> + Send + Sync>;

/// A scripted adapter that records its inputs.
pub(super) struct Script {
    steps: Steps,
    pub(super) heard: Arc<Mutex<Vec<Input>>>,
    begun: Mutex<u32>,
    blobs: Vec<Blob>,
}

pub(super) struct Playing {
    steps: Steps,
    heard: Arc<Mutex<Vec<Input>>>,
    blobs: Vec<Blob>,
}

impl Script {
    pub(super) fn new(steps: impl Fn(Option<&Input>) -> Vec<Action> + Send + Sync + 'static) -> Self {
        Self { steps: Arc::new(steps), heard: Arc::default(), begun: Mutex::default(), blobs: Vec::new() }
    }

    /// Returns a script that performs these lists of actions, one for each step, whatever the input is.
    pub(super) fn listing(steps: Vec<Vec<Action>>) -> Self {
        let steps = Mutex::new(VecDeque::from(steps));
        Self::new(move |_| steps.lock().unwrap().pop_front().unwrap())
    }

    /// Returns a script that sends `first`, emits the response as one block of text, and finishes at the end of the
    /// body.
    pub(super) fn relaying(first: AdapterRequest) -> Self {
        Self::new(move |input| match input {
            None => vec![Action::Send(first.clone())],
            Some(Input::Head { status, .. }) => vec![emit(StreamEvent::Started(status.to_string())), start(0)],
            Some(Input::Chunk(bytes)) => vec![delta(0, &String::from_utf8_lossy(bytes))],
            Some(Input::End) => vec![end(0), finish()],
            Some(Input::TransportFailed { message, .. }) => {
                vec![fail(FailureKind::Network, message, RetryHint::Backoff)]
            }
            Some(Input::Timer) => panic!("no timer was set"),
        })
    }

    pub(super) fn with_blobs(mut self, blobs: &[&[u8]]) -> Self {
        let blob = |data: &&[u8]| Blob { media_type: "image/png".to_owned(), name: None, data: (*data).into() };
        self.blobs = blobs.iter().map(blob).collect();
        self
    }

    /// Returns the number of attempts.
    pub(super) fn begun(&self) -> u32 {
        *self.begun.lock().unwrap()
    }

    pub(super) fn heard(&self) -> Vec<Input> {
        self.heard.lock().unwrap().clone()
    }

    /// Returns the bytes of all chunks.
    pub(super) fn body(&self) -> Vec<u8> {
        let heard = self.heard();
        heard.iter().flat_map(|input| if let Input::Chunk(bytes) = input { bytes.clone() } else { vec![] }).collect()
    }

    /// Returns the kind and the message of the last connection that failed.
    pub(super) fn lost(&self) -> (&'static str, String) {
        let lost = |input: &Input| match input {
            Input::TransportFailed { kind, message } => Some((kind.as_str(), message.clone())),
            _ => None,
        };
        self.heard().iter().rev().find_map(lost).expect("a connection that failed")
    }
}

impl StartAdapter for Script {
    type Instance = Playing;

    async fn begin(&self, _: CompletionRequest, attempt: u32) -> Result<(Playing, Vec<Action>), Failure> {
        let mut begun = self.begun.lock().unwrap();
        *begun += 1;
        assert_eq!(attempt, *begun, "attempts are counted");
        drop(begun);
        let playing = Playing { steps: self.steps.clone(), heard: self.heard.clone(), blobs: self.blobs.clone() };
        let actions = (playing.steps)(None);
        Ok((playing, actions))
    }
}

impl Instance for Playing {
    async fn resume(&mut self, input: Input) -> Result<Vec<Action>, Failure> {
        self.heard.lock().unwrap().push(input.clone());
        Ok((self.steps)(Some(&input)))
    }

    fn blob(&self, id: u32) -> Option<&Blob> {
        self.blobs.get(id as usize)
    }
}

/// A sink that records the events and retries of a completion.
#[derive(Default)]
pub(super) struct Heard {
    /// The events of all attempts.
    pub(super) events: Vec<StreamEvent>,
    pub(super) retries: Vec<Retrying>,
    /// Number of attempts that were refused because of a rate limit or an overload.
    pub(super) overloads: usize,
    /// The retries after answers that broke off, each with the number of events before it.
    pub(super) given_up: Vec<(usize, Retrying)>,
}

impl Sink for Heard {
    fn event(&mut self, event: StreamEvent) {
        self.events.push(event);
    }

    fn overloaded(&mut self) {
        self.overloads += 1;
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.retries.push(retrying.clone());
    }

    fn given_up(&mut self, retrying: &Retrying) {
        self.given_up.push((self.events.len(), retrying.clone()));
    }
}

impl Heard {
    /// Returns the text of the last attempt.
    pub(super) fn text(&self) -> String {
        let text = |event: &StreamEvent| match event {
            StreamEvent::BlockDelta { text, .. } => text.clone(),
            _ => String::new(),
        };
        let from = self.given_up.last().map_or(0, |(events, _)| *events);
        self.events[from..].iter().map(text).collect()
    }
}

/// A provider `test`, with the settings for its completions.
pub(super) struct Bench {
    pub(super) provider: Name,
    pub(super) base: Option<Base>,
    pub(super) credential: Option<RouteCredential>,
    pub(super) limits: ExchangeLimits,
    egress: OnceLock<Egress>,
    secrets: Secrets,
    home: tempfile::TempDir,
    pub(super) heard: Heard,
    /// The delays between attempts; tests do not wait for them.
    waits: Mutex<Vec<Duration>>,
}

/// A key with characters that encoders change.
pub(super) const SENTINEL: &str = "sk-Sentinel/42+\"<&>'=%";

impl Bench {
    /// Returns a provider with the base URL `origin`.
    pub(super) fn at(origin: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let base = Base { origin: origin.parse().unwrap(), path: String::new(), allow_private: false };
        Self {
            provider: "test".parse().unwrap(),
            base: Some(base),
            credential: None,
            limits: ExchangeLimits::default(),
            egress: OnceLock::new(),
            secrets: Secrets::open(home.path()),
            home,
            heard: Heard::default(),
            waits: Mutex::default(),
        }
    }

    /// Returns a provider without a server.
    pub(super) fn nowhere() -> Self {
        Self::at("http://127.0.0.1:9")
    }

    /// Adds a credential `key`, with or without a secret.
    pub(super) fn with_key(mut self, known: bool) -> Self {
        if known {
            self.write_credentials(&serde_json::json!({ "test": { "api_key": SENTINEL } }).to_string());
        }
        self.credential = Some(RouteCredential {
            id: "key".to_owned(),
            secret: stored(&self.provider, "PATCHBAY_TEST_NO_SUCH_KEY"),
            obtain_url: Some("https://keys.example".to_owned()),
        });
        self
    }

    /// Writes a script that prints a key into the home, and makes it the key command of the credential `key`. `text` is its body.
    #[cfg(unix)]
    pub(super) fn with_key_command(mut self, text: &str) -> Self {
        let (text, file) = (format!("echo run >> runs; n=$(wc -l < runs)\n{text}"), self.home.path().join("give-key"));
        // A separate process writes the file. If this process did, programs that other tests start at the same moment could inherit
        // the open file, and a file that is open for writing cannot be run.
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod 755 \"$2\"";
        let written = std::process::Command::new("sh").args(["-c", write, "sh", &text]).arg(&file).status().unwrap();
        assert!(written.success(), "{written}");
        let line: patchbay_egress::CommandLine = serde_json::from_value(serde_json::json!([file])).unwrap();
        let secret = SecretRef { name: self.provider.clone(), lookup: SecretLookup::Command(line.within(None)) };
        // Binds the key like `Providers` does for each ready provider, so all its values are scrubbed.
        let origin = self.base.as_ref().unwrap().origin.clone();
        self.secrets.bind([Binding { secret: secret.clone(), origin }]);
        self.credential =
            Some(RouteCredential { id: "key".to_owned(), secret, obtain_url: Some("https://keys.example".to_owned()) });
        self
    }

    /// Returns how often the key command ran.
    #[cfg(unix)]
    pub(super) fn runs(&self) -> usize {
        std::fs::read_to_string(self.home.path().join("runs")).unwrap_or_default().lines().count()
    }

    /// Returns the delays between attempts in seconds.
    pub(super) fn waits(&self) -> Vec<u64> {
        self.waits.lock().unwrap().iter().map(Duration::as_secs).collect()
    }

    pub(super) fn write_credentials(&self, text: &str) {
        std::fs::write(self.home.path().join("credentials.json"), text).unwrap();
    }

    pub(super) async fn run(&mut self, adapter: &impl StartAdapter) -> Result<Completed, ExchangeError> {
        let egress = self.egress.get_or_init(|| self.limits.egress());
        let target = RequestTarget {
            provider: &self.provider,
            base: self.base.as_ref(),
            credential: self.credential.as_ref(),
            egress,
            secrets: &self.secrets,
            limits: &self.limits,
        };
        let scrub = Arc::default();
        let wait = |delay| {
            self.waits.lock().unwrap().push(delay);
            std::future::ready(())
        };
        let exchange = drive(&target, adapter, question(), &mut self.heard, &scrub, wait);
        // Stops a test that would hang.
        tokio::time::timeout(Duration::from_secs(60), exchange).await.expect("an exchange that ends")
    }
}

/// Returns the key of a provider, which is in this variable or in `credentials.json`; `""` for no variable.
pub(super) fn stored(provider: &Name, variable: &str) -> SecretRef {
    let variables = Variables::new(Some(variable.to_owned()).filter(|variable| !variable.is_empty()));
    SecretRef { name: provider.clone(), lookup: SecretLookup::Stored(variables) }
}

pub(super) fn question() -> CompletionRequest {
    CompletionRequest { model: "m".to_owned(), ..CompletionRequest::default() }
}

pub(super) fn get(path: &str) -> AdapterRequest {
    AdapterRequest {
        method: "GET".to_owned(),
        path_and_query: path.to_owned(),
        headers: vec![],
        auth: vec![],
        body: vec![],
    }
}

pub(super) fn post(body: Vec<BodyPiece>) -> AdapterRequest {
    AdapterRequest { method: "POST".to_owned(), body, ..get("/") }
}

pub(super) fn bearer() -> Auth {
    let placement = RequestedPlacement::Header { name: "Authorization".to_owned(), prefix: "Bearer ".to_owned() };
    Auth { credential: "key".to_owned(), placement }
}

pub(super) fn emit(event: StreamEvent) -> Action {
    Action::Emit(event)
}

pub(super) fn start(index: u32) -> Action {
    emit(StreamEvent::BlockStart { index, kind: BlockKind::Text })
}

pub(super) fn delta(index: u32, text: &str) -> Action {
    emit(StreamEvent::BlockDelta { index, text: text.to_owned() })
}

pub(super) fn end(index: u32) -> Action {
    emit(StreamEvent::BlockEnd { index, opaque: None })
}

pub(super) fn finish() -> Action {
    Action::Finish(Finish { stop: Stop::EndTurn, raw: "stop".to_owned() })
}

pub(super) fn fail(kind: FailureKind, message: &str, retry: RetryHint) -> Action {
    Action::Fail(AdapterFailure { kind, message: message.to_owned(), http_status: None, code: None, retry })
}

/// Checks that a completion can run in a task.
fn _a_completion_can_be_spawned(
    w: &ExchangeContext,
    r: &Route,
    request: CompletionRequest,
    s: &mut dyn Sink,
) -> impl Send {
    complete(w, r, request, s)
}
