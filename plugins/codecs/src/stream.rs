//! What every streaming adapter does: one request, its head, its events, its end.
//!
//! A [`Codec`] knows the events of one API. [`Stream`] drives it: it reads heads, cuts bodies into events, collects what
//! a refusal says, and sees to it that each exchange ends in a `finish` or a `fail`. What a codec has to say goes through
//! [`Out`], which keeps the contract's rules for blocks.

use std::collections::BTreeSet;

use patchbay_provider_sdk::{
    Action, BlockDelta, BlockEnd, BlockKind, BlockStart, Event, Failure, Finish, HttpRequest, Input, Pair,
    ResponseHead, TransportFailure, Usage,
};

use crate::failure::{cut, failure, header};
use crate::sse::Parser;

/// Bytes of a refusal that are read: what an API says of an error is a few hundred, a gateway's page a few thousand.
pub const MAX_REFUSAL: usize = 64 << 10;

/// The events of one API.
pub trait Codec {
    /// One server-sent event; `event` is `message` where it has no name.
    fn event(&mut self, event: &str, data: &str, out: &mut Out);

    /// The body is over, and neither finish nor fail came, nor is anything sent or waited for. A codec whose API has no last event finishes here.
    fn end(&mut self, out: &mut Out) {
        out.fail(cut());
    }

    /// The time that [`Out::wait`] asked for is over.
    fn timer(&mut self, out: &mut Out) {
        let _ = out;
    }

    /// The answer's status was no 2xx, or its body JSON instead of events; `body` is its beginning
    /// ([`MAX_REFUSAL`] at most).
    fn refused(&mut self, status: u16, headers: &[Pair], body: &[u8]) -> Failure;
}

/// What a codec has to say, as actions. Everything after `finish` or `fail` is ignored, and so is what is said of a block
/// that is not open.
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
    /// The model's name, as the API gives it.
    pub fn started(&mut self, model: &str) {
        self.emit(Event::Started(model.to_owned()));
    }

    /// Starts a block and gives its index: 0, 1, 2… in the order of starts.
    pub fn start(&mut self, kind: BlockKind) -> u32 {
        let index = self.next;
        if !self.over {
            self.next += 1;
            self.open.insert(index);
            self.emit(Event::BlockStart(BlockStart { index, kind }));
        }
        index
    }

    /// More of a block. Nothing is said of nothing, and what follows at once for the same block is joined.
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

    /// Ends a block, with what this adapter wants to see again in its place.
    pub fn end(&mut self, index: u32, opaque: Option<String>) {
        if self.open.remove(&index) {
            self.emit(Event::BlockEnd(BlockEnd { index, opaque }));
        }
    }

    /// What was used up to now.
    pub fn usage(&mut self, usage: Usage) {
        self.emit(Event::Usage(usage));
    }

    /// Anything else that somebody may want to know.
    pub fn extra(&mut self, name: &str, value: impl Into<String>) {
        self.emit(Event::Extra(Pair { name: name.to_owned(), value: value.into() }));
    }

    /// The answer is whole: `stop` is the contract's word, `raw` the API's own. Blocks that are open end first.
    pub fn finish(&mut self, stop: &str, raw: &str) {
        while let Some(index) = self.open.pop_first() {
            self.emit(Event::BlockEnd(BlockEnd { index, opaque: None }));
        }
        self.act(Action::Finish(Finish { stop: stop.to_owned(), raw: raw.to_owned() }));
        self.over = true;
    }

    /// The answer failed. Blocks that are open stay so: they were interrupted.
    pub fn fail(&mut self, failure: Failure) {
        self.act(Action::Fail(failure));
        self.over = true;
    }

    /// Sends another request; what is still to come of the body before is dropped.
    pub fn send(&mut self, request: HttpRequest) {
        self.act(Action::Send(request));
        self.sent = true;
    }

    /// Asks for a [`Codec::timer`] in `ms` milliseconds.
    pub fn wait(&mut self, ms: u32) {
        self.act(Action::WaitMs(ms));
        self.waiting = true;
    }

    /// Whether `finish` or `fail` was said.
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

/// Where an exchange stands.
#[derive(Debug)]
enum At {
    /// A request was sent, and nothing came yet.
    Sent,
    /// Events come.
    Events(Parser),
    /// What comes says why there are no events.
    Refusal { head: ResponseHead, body: Vec<u8> },
    /// Nothing is in flight.
    Idle,
}

/// One completion of a [`Codec`], from its request to its end.
#[derive(Debug)]
pub struct Stream<C> {
    codec: C,
    out: Out,
    at: At,
}

impl<C: Codec> Stream<C> {
    /// Sends `request`.
    pub fn begin(codec: C, request: HttpRequest) -> (Self, Vec<Action>) {
        (Self { codec, out: Out::default(), at: At::Sent }, vec![Action::Send(request)])
    }

    /// Goes on with what came. After the end nothing comes of it.
    pub fn resume(&mut self, input: Input) -> Vec<Action> {
        if !self.out.over {
            self.take(input);
            if std::mem::take(&mut self.out.sent) {
                self.at = At::Sent;
            }
            if !self.out.over && !self.out.waiting && matches!(self.at, At::Idle) {
                // The codec has nothing to wait for: to say so is better than to break the contract.
                self.out.fail(cut());
            }
        }
        std::mem::take(&mut self.out.actions)
    }

    /// The codec.
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
        // A server that does not say what it sends is believed to send what it was asked for.
        let content_type = header(&head.headers, "content-type").unwrap_or("text/event-stream");
        let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !refused && media == "text/event-stream" {
            self.at = At::Events(Parser::new());
        } else if refused || media == "application/json" || media.ends_with("+json") {
            self.at = At::Refusal { head, body: Vec::new() };
        } else {
            let message = format!("the server answered with '{}' instead of events", quote(content_type));
            self.out.fail(Failure { http_status: Some(head.status), ..failure("server", message) });
        }
    }

    fn chunk(&mut self, bytes: &[u8]) {
        match &mut self.at {
            At::Events(parser) => {
                let (codec, out) = (&mut self.codec, &mut self.out);
                let pushed = parser.push(bytes, |event, data| {
                    // A new request drops what is left of this body.
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
            // The status says more than the loss of the words behind it.
            At::Refusal { head, .. } if !(200..300).contains(&head.status) => self.refuse(),
            _ => {
                let kind = if failed.kind == "timeout" { "timeout" } else { "network" };
                self.out.fail(failure(kind, failed.message));
            }
        }
    }

    fn refuse(&mut self) {
        if let At::Refusal { head, body } = std::mem::replace(&mut self.at, At::Idle) {
            self.out.fail(self.codec.refused(head.status, &head.headers, &body));
        }
    }
}

/// A header's value, short enough for a message.
fn quote(value: &str) -> String {
    value.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
