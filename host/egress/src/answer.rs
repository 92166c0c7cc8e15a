//! A response while it arrives: its head, then its body in decompressed and scrubbed pieces. Created by `egress`.

use std::{io, pin::Pin, sync::Arc};

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use reqwest::{StatusCode, header::CONTENT_ENCODING};
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;

use crate::{EgressError, LimitKey, Request, Scrubber, exchange::Exchange, headers, permits::SendPermit};

/// The head of a response, and its body in pieces.
pub struct Answer {
    /// The status. Redirects are not followed but returned like any other response.
    pub status: u16,
    /// The headers, with names in lower case. Transfer headers are left out, and invalid UTF-8 is replaced.
    pub headers: Vec<(String, String)>,
    body: Body,
}

/// A whole response, with its body in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status. Redirects are not followed but returned like any other response.
    pub status: u16,
    /// The headers, with names in lower case. Transfer headers are left out, and invalid UTF-8 is replaced.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed and scrubbed.
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl Answer {
    /// Checks the response's head and prepares the body for reading.
    pub(crate) fn new(
        response: reqwest::Response,
        request: &Request,
        exchange: Arc<Exchange>,
        permit: SendPermit,
    ) -> Result<Self, EgressError> {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            let cause = "the server switched protocols without a request to do so".to_owned();
            return Err(EgressError::Protocol { origin: exchange.origin.clone(), cause });
        }
        let bodiless = request.method == "HEAD" || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let headers = headers::of_answer(response.headers(), bodiless, &exchange.limits, &exchange.scrub)?;
        let gzip = !bodiless && !request.verbatim && is_gzip(&response, &exchange)?;
        if !bodiless && response.content_length().is_some_and(|length| length > exchange.limits.wire_bytes) {
            return Err(over_wire(&exchange));
        }
        let wire = wire(response, exchange.clone());
        let source = if gzip { BodySource::Packed(wire) } else { BodySource::Plain(wire) };
        let scrubber = (!exchange.scrub.is_empty()).then(|| exchange.scrub.blind_stream());
        let body = Body { source, scrubber, decoded: 0, end: None, exchange, permit: Some(permit) };
        Ok(Self { status: status.as_u16(), headers, body })
    }

    /// Returns the next piece of the response body, decompressed and scrubbed, when it arrives, or `None` at the end. If secrets
    /// are bound to the server, the bytes since the last line end are withheld, because a reader could infer a secret from missing
    /// bytes ([`Scrub::blind_stream`](crate::Scrub::blind_stream)). A piece is empty if all of it is withheld. Cancelling a call
    /// loses no data, because the next call continues.
    ///
    /// # Errors
    /// A time or size limit was exceeded, or the body is damaged or truncated. Every later call returns the same error.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, EgressError> {
        self.body.chunk().await
    }

    /// Returns the result of [`Answer::chunk`] if it is available without waiting, otherwise `None`.
    pub fn chunk_ready(&mut self) -> Option<Result<Option<Vec<u8>>, EgressError>> {
        self.body.chunk().now_or_never()
    }

    /// Reads the body to its end and returns the whole response.
    ///
    /// # Errors
    /// The same as [`Answer::chunk`].
    pub async fn whole(mut self) -> Result<Response, EgressError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend(chunk);
        }
        Ok(Response { status: self.status, headers: self.headers, body })
    }
}

/// The body as it arrives, not decompressed yet.
type Wire = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
type Gunzip = GzipDecoder<StreamReader<Wire, Bytes>>;

enum BodySource {
    Plain(Wire),
    /// A gzip body before its first byte. A body without any bytes is accepted as empty.
    Packed(Wire),
    Gzip(Box<Gunzip>, BytesMut),
}

struct Body {
    source: BodySource,
    /// `None` if no secret is bound to the server.
    scrubber: Option<Scrubber>,
    decoded: u64,
    /// How the body ended; `None` until then.
    end: Option<Result<(), EgressError>>,
    exchange: Arc<Exchange>,
    /// The request's permit, released when the body ends.
    permit: Option<SendPermit>,
}

impl Body {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, EgressError> {
        while self.end.is_none() {
            let piece = self.next().await;
            let clean = match (&piece, &mut self.scrubber) {
                (Ok(Some(piece)), Some(scrubber)) => scrubber.push(piece),
                (Ok(Some(piece)), None) => piece.to_vec(),
                (Ok(None), Some(scrubber)) => scrubber.finish(),
                (Ok(None), None) | (Err(_), _) => Vec::new(),
            };
            self.end = match piece {
                Ok(Some(_)) => None,
                Ok(None) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            if self.end.is_some() {
                self.permit = None;
            }
            // Empty pieces are returned, too, to tell the reader that the server is not silent.
            if !clean.is_empty() || self.end.is_none() {
                return Ok(Some(clean));
            }
        }
        self.end.clone().unwrap_or(Ok(())).map(|()| None)
    }

    /// Returns the next piece, decompressed, within the limit.
    async fn next(&mut self) -> Result<Option<Bytes>, EgressError> {
        if let BodySource::Packed(wire) = &mut self.source {
            let first = wire.next().await;
            let rest = std::mem::replace(wire, Box::pin(stream::empty()));
            self.source = match first {
                Some(first) => BodySource::Gzip(Box::new(gunzip(first, rest)), BytesMut::new()),
                None => BodySource::Plain(rest),
            };
        }
        let piece = match &mut self.source {
            BodySource::Plain(wire) | BodySource::Packed(wire) => wire.next().await.transpose(),
            BodySource::Gzip(gunzip, buffer) => {
                // Small compared with the limit, which stops a decompression bomb early.
                buffer.reserve(16 << 10);
                let read = gunzip.read_buf(buffer).await;
                read.map(|read| (read > 0).then(|| buffer.split().freeze()))
            }
        };
        let piece = piece.map_err(|error| self.fault(&error))?;
        self.decoded += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let limit = self.exchange.limits.body_bytes;
        if self.decoded > limit {
            return Err(EgressError::TooLarge { what: "response body", key: LimitKey::BodyBytes, limit });
        }
        Ok(piece)
    }

    /// Converts an error of the decoder. Errors of [`wire`], which the decoder passes on, are returned unchanged.
    fn fault(&self, error: &io::Error) -> EgressError {
        if let Some(own) = error.get_ref().and_then(|error| error.downcast_ref::<EgressError>()) {
            return own.clone();
        }
        let origin = self.exchange.origin.clone();
        match error.kind() {
            io::ErrorKind::UnexpectedEof => EgressError::Truncated { origin },
            _ => EgressError::Encoding { origin, cause: error.to_string() },
        }
    }
}

/// Returns the body as it arrives, and enforces the time and size limits.
fn wire(response: reqwest::Response, exchange: Arc<Exchange>) -> Wire {
    let pieces = stream::unfold(Some((response, 0)), move |state| {
        let exchange = exchange.clone();
        async move {
            let (mut response, received) = state?;
            let piece = match exchange.within("the next part of the response body", response.chunk()).await {
                Ok(Ok(piece)) => Ok(piece?),
                Ok(Err(error)) => Err(exchange.fault(&error)),
                Err(error) => Err(error),
            };
            let received = received + piece.as_ref().map_or(0, |piece| piece.len() as u64);
            match piece {
                Ok(_) if received > exchange.limits.wire_bytes => {
                    Some((Err(io::Error::other(over_wire(&exchange))), None))
                }
                Ok(piece) => Some((Ok(piece), Some((response, received)))),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        }
    });
    // The decoder polls again after the end.
    Box::pin(pieces.fuse())
}

fn gunzip(first: io::Result<Bytes>, rest: Wire) -> Gunzip {
    let wire: Wire = Box::pin(stream::iter([first]).chain(rest));
    let mut gunzip = GzipDecoder::new(StreamReader::new(wire));
    // Like a gzip file, a gzip body may have several members.
    gunzip.multiple_members(true);
    gunzip
}

fn over_wire(exchange: &Exchange) -> EgressError {
    let limit = exchange.limits.wire_bytes;
    EgressError::TooLarge { what: "compressed response body", key: LimitKey::WireBytes, limit }
}

/// Whether the body is gzip, the only encoding that was offered. Any other encoding is an error.
fn is_gzip(response: &reqwest::Response, exchange: &Exchange) -> Result<bool, EgressError> {
    let mut codings = response.headers().get_all(CONTENT_ENCODING).iter().map(|value| value.as_bytes());
    let (first, second) = (codings.next().unwrap_or(b"identity"), codings.next());
    match first.trim_ascii().to_ascii_lowercase().as_slice() {
        b"" | b"identity" if second.is_none() => Ok(false),
        b"gzip" | b"x-gzip" if second.is_none() => Ok(true),
        coding => {
            // Scrub before truncating. Otherwise part of a secret could remain.
            let coding = patchbay_core::text::excerpt(&exchange.scrub.text(&String::from_utf8_lossy(coding)), 40);
            let cause = format!("it is encoded as '{coding}', but only gzip was offered");
            Err(EgressError::Encoding { origin: exchange.origin.clone(), cause })
        }
    }
}
