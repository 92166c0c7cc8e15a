//! The common part of all streaming adapters: one request, the head of its response, its events, its end.
//!
//! A [`Codec`] handles the events of one API. [`Stream`] drives it: it checks heads, splits bodies into events,
//! collects the body of a refusal, and ensures that each exchange ends with `finish` or `fail`. A codec emits its
//! actions through [`Out`], which enforces the contract's rules for blocks.

use std::collections::BTreeSet;

use patchbay_provider_sdk::{
    Action, BlockDelta, BlockEnd, BlockKind, BlockStart, Event, Failure, Finish, HttpRequest, Input, Pair,
    ResponseHead, TransportFailure, Usage,
};

use crate::context_window;
use crate::failure::{cut, failure, header, no_events, transport};
use crate::sse::Parser;

/// Maximum number of bytes of a refusal that are read. An API error has a few hundred bytes, a gateway's page a few thousand.
pub const MAX_REFUSAL: usize = 64 << 10;

/// Converts the events of one API.
pub trait Codec {
    /// Handles one server-sent event; `event` is `message` if it has no name.
    fn event(&mut self, event: &str, data: &str, out: &mut Out);

    /// Handles the end of the body if the answer has not ended and nothing is pending. A codec whose API
    /// has no last event finishes here.
    fn end(&mut self, out: &mut Out) {
        out.fail(cut());
    }

    /// Handles the end of the time requested with [`Out::wait`].
    fn timer(&mut self, out: &mut Out) {
        let _ = out;
    }

    /// Returns another request to send instead of a refused one; `None`: the refusal is final. Called before
    /// [`Codec::refused`], with the same body.
    fn retry_refused(&mut self, status: u16, body: &[u8]) -> Option<HttpRequest> {
        let _ = (status, body);
        None
    }

    /// Converts a response whose status is not 2xx or whose body is JSON instead of events. `body` has
    /// at most [`MAX_REFUSAL`] bytes.
    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure;
}

/// Collects the actions of a codec. Everything after `finish` or `fail`, and everything about a
/// block that is not open, is ignored.
#[derive(Debug, Default)]
pub struct Out {
    actions: Vec<Action>,
    next: u32,
    open: BTreeSet<u32>,
    over: bool,
    sent: bool,
    waiting: bool,
}

impl Out {
    /// Emits the model's name from the API.
    pub fn started(&mut self, model: &str) {
        self.emit(Event::Started(model.to_owned()));
    }

    /// Starts a block and returns its index: 0, 1, 2… in the order of starts.
    pub fn start(&mut self, kind: BlockKind) -> u32 {
        let index = self.next;
        if !self.over {
            self.next += 1;
            self.open.insert(index);
            self.emit(Event::BlockStart(BlockStart { index, kind }));
        }
        index
    }

    /// Adds text to a block. Empty strings are ignored, and adjacent text of the same block is joined.
    pub fn delta(&mut self, index: u32, text: impl Into<String>) {
        let text = text.into();
        if text.is_empty() || !self.open.contains(&index) {
            return;
        }
        match self.actions.last_mut() {
            Some(Action::Emit(Event::BlockDelta(last))) if last.index == index && !self.over => {
                last.text.push_str(&text);
            }
            _ => self.emit(Event::BlockDelta(BlockDelta { index, text })),
        }
    }

    /// Ends a block. `opaque` is returned to this adapter with the block in later requests.
    pub fn end(&mut self, index: u32, opaque: Option<String>) {
        if self.open.remove(&index) {
            self.emit(Event::BlockEnd(BlockEnd { index, opaque }));
        }
    }

    /// Emits the token usage so far.
    pub fn usage(&mut self, usage: Usage) {
        self.emit(Event::Usage(usage));
    }

    /// Emits an event of any other kind.
    pub fn extra(&mut self, name: &str, value: impl Into<String>) {
        self.emit(Event::Extra(Pair { name: name.to_owned(), value: value.into() }));
    }

    /// Finishes a complete answer: `stop` is the contract's value, `raw` the API's. Ends open blocks first.
    pub fn finish(&mut self, stop: &str, raw: &str) {
        while let Some(index) = self.open.pop_first() {
            self.emit(Event::BlockEnd(BlockEnd { index, opaque: None }));
        }
        self.act(Action::Finish(Finish { stop: stop.to_owned(), raw: raw.to_owned() }));
        self.over = true;
    }

    /// Fails the answer. Open blocks are not ended, because they were interrupted. The failure for a conversation that is too
    /// long has its own code: see [`context_window`].
    pub fn fail(&mut self, failure: Failure) {
        self.act(Action::Fail(context_window::recognised(failure)));
        self.over = true;
    }

    /// Sends another request. The rest of the previous body is dropped.
    pub fn send(&mut self, request: HttpRequest) {
        self.act(Action::Send(request));
        self.sent = true;
    }

    /// Requests a call of [`Codec::timer`] after `ms` milliseconds.
    pub fn wait(&mut self, ms: u32) {
        self.act(Action::WaitMs(ms));
        self.waiting = true;
    }

    /// Returns true after `finish` or `fail`.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn emit(&mut self, event: Event) {
        self.act(Action::Emit(event));
    }

    fn act(&mut self, action: Action) {
        if !self.over {
            self.actions.push(action);
        }
    }
}

/// The state of an exchange.
#[derive(Debug)]
enum At {
    /// A request was sent, and no head has arrived.
    Sent,
    Events(Parser),
    /// The body of a refusal is arriving.
    Refusal {
        head: ResponseHead,
        body: Vec<u8>,
    },
    Idle,
}

/// One completion with a [`Codec`], from its request to its end.
#[derive(Debug)]
pub struct Stream<C> {
    codec: C,
    out: Out,
    at: At,
}

impl<C: Codec> Stream<C> {
    /// Starts the stream by sending `request`.
    pub fn begin(codec: C, request: HttpRequest) -> (Self, Vec<Action>) {
        (Self { codec, out: Out::default(), at: At::Sent }, vec![Action::Send(request)])
    }

    /// Sends `request`, or fails immediately if it is a failure.
    pub fn begin_or_fail(codec: C, request: Result<HttpRequest, Failure>) -> (Self, Vec<Action>) {
        match request {
            Ok(request) => Self::begin(codec, request),
            Err(failure) => {
                let mut out = Out::default();
                out.fail(failure);
                let actions = std::mem::take(&mut out.actions);
                (Self { codec, out, at: At::Idle }, actions)
            }
        }
    }

    /// Handles an input and returns the next actions; none after the end.
    pub fn resume(&mut self, input: Input) -> Vec<Action> {
        if !self.out.over {
            self.take(input);
            if std::mem::take(&mut self.out.sent) {
                self.at = At::Sent;
            }
            if !self.out.over && !self.out.waiting && matches!(self.at, At::Idle) {
                // The codec is not waiting for anything: failing is better than breaking the contract.
                self.out.fail(cut());
            }
        }
        std::mem::take(&mut self.out.actions)
    }

    /// Returns the codec of the stream.
    pub fn codec(&mut self) -> &mut C {
        &mut self.codec
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::ResponseHead(head) => self.head(head),
            Input::BodyChunk(bytes) => self.chunk(&bytes),
            Input::BodyEnd => self.body_end(),
            Input::TransportFailed(failed) => self.transport_failed(failed),
            Input::Timer => {
                self.out.waiting = false;
                self.codec.timer(&mut self.out);
            }
        }
    }

    fn head(&mut self, head: ResponseHead) {
        let refused = !(200..300).contains(&head.status);
        // A response without a content type is assumed to have the requested one.
        let content_type = header(&head.headers, "content-type").unwrap_or("text/event-stream");
        let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !refused && media == "text/event-stream" {
            self.at = At::Events(Parser::new());
        } else if refused || media == "application/json" || media.ends_with("+json") {
            self.at = At::Refusal { head, body: Vec::new() };
        } else {
            self.out.fail(no_events(head.status, &head.headers));
        }
    }

    fn chunk(&mut self, bytes: &[u8]) {
        match &mut self.at {
            At::Events(parser) => {
                let (codec, out) = (&mut self.codec, &mut self.out);
                let pushed = parser.push(bytes, |event, data| {
                    // A new request drops the rest of this body.
                    if !out.over && !out.sent {
                        codec.event(event, data, out);
                    }
                });
                if let Err(error) = pushed
                    && !out.sent
                {
                    out.fail(failure("server", error.to_string()));
                }
            }
            At::Refusal { body, .. } => {
                body.extend(bytes.iter().take(MAX_REFUSAL - body.len()));
                if body.len() == MAX_REFUSAL {
                    self.refuse();
                }
            }
            At::Sent | At::Idle => {}
        }
    }

    fn body_end(&mut self) {
        match std::mem::replace(&mut self.at, At::Idle) {
            At::Events(mut parser) => {
                parser.finish(|event, data| self.codec.event(event, data, &mut self.out));
                if !self.out.over && !self.out.sent && !self.out.waiting {
                    self.codec.end(&mut self.out);
                }
            }
            at @ At::Refusal { .. } => {
                self.at = at;
                self.refuse();
            }
            At::Sent | At::Idle => {}
        }
    }

    fn transport_failed(&mut self, failed: TransportFailure) {
        match &self.at {
            // The status is more helpful than the error of its body.
            At::Refusal { head, .. } if !(200..300).contains(&head.status) => self.refuse(),
            _ => self.out.fail(transport(failed)),
        }
    }

    fn refuse(&mut self) {
        if let At::Refusal { head, body } = std::mem::replace(&mut self.at, At::Idle) {
            match self.codec.retry_refused(head.status, &body) {
                Some(request) => self.out.send(request),
                None => self.out.fail(self.codec.refused(head.status, &head.headers, &body)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
