//! Reads the body of a request, within limits on its size, its time, and the bytes of all clients together.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
};
use http_body_util::BodyExt as _;
use patchbay_core::Code;
use patchbay_jsonrpc::{ConnectionBytes, WaitingBytes};
use tokio::time::{Instant, timeout_at};

use crate::api::ApiError;

/// How long a client may take for the next 64 KiB of a body, or its end.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Bytes of a body that have to arrive within `BODY_TIME`.
const BODY_STEP: usize = 64 << 10;

/// Reads a body of at most `limit` bytes. They count for `client` until the second value is dropped.
///
/// # Errors
/// The body is too long, too slow or incomplete, or the bytes of all clients together exceed their limit.
pub(crate) async fn read(
    body: Body,
    limit: usize,
    client: &Arc<ConnectionBytes>,
) -> Result<(Bytes, WaitingBytes), ApiError> {
    read_within(body, limit, client, BODY_TIME).await
}

async fn read_within(
    mut body: Body,
    limit: usize,
    client: &Arc<ConnectionBytes>,
    time: Duration,
) -> Result<(Bytes, WaitingBytes), ApiError> {
    let (mut read, mut waiting) = (Vec::new(), client.wait(0));
    let (mut deadline, mut wanted) = (Instant::now() + time, BODY_STEP);
    loop {
        let frame = tokio::select! {
            biased;
            () = client.ended().cancelled() => {
                let message = "the server's buffers are full, mostly with data of this token; send this again.";
                return Err(failed(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, message));
            }
            frame = timeout_at(deadline, body.frame()) => frame,
        };
        let frame = match frame {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => return Ok((read.into(), waiting)),
            Ok(Some(Err(_))) => {
                return Err(failed(StatusCode::BAD_REQUEST, Code::InvalidArgs, "the body ended early."));
            }
            Err(_) => {
                let message = format!(
                    "the body is too slow: less than {} KiB arrived within {} s.",
                    BODY_STEP >> 10,
                    time.as_secs()
                );
                return Err(failed(StatusCode::REQUEST_TIMEOUT, Code::InvalidArgs, message));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > limit {
            let message = format!("the body is over {limit} bytes.");
            return Err(failed(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidArgs, message));
        }
        waiting.grow(data.len());
        read.extend_from_slice(&data);
        if read.len() >= wanted {
            (deadline, wanted) = (Instant::now() + time, read.len() + BODY_STEP);
        }
    }
}

fn failed(status: StatusCode, code: Code, message: impl Into<String>) -> ApiError {
    ApiError { message: message.into(), ..ApiError::new(status, code) }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use patchbay_core::Digest;
    use patchbay_jsonrpc::TotalBytes;

    use super::*;

    /// Returns a body that sends `part` `times` times, each after a pause, and then never ends.
    fn dripping(part: &'static [u8], times: usize, pause: Duration) -> Body {
        let parts = stream::iter(0..times).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(Bytes::from_static(part))
        });
        Body::from_stream(parts.chain(stream::pending()))
    }

    #[tokio::test]
    async fn body_without_progress_is_given_up() {
        let all = TotalBytes::new(1 << 20);
        let (time, pause) = (Duration::from_secs(2), Duration::from_millis(500));
        let given_up = async |part, times| {
            let began = Instant::now();
            let error = read_within(dripping(part, times, pause), 1 << 20, &all.connect(Digest::of(b"token")), time)
                .await
                .err()
                .unwrap();
            assert_eq!(error.status, StatusCode::REQUEST_TIMEOUT, "{}", error.message);
            began.elapsed()
        };
        // Six whole steps take longer than the limit in total, but each step is progress.
        let whole = &[b' '; BODY_STEP];
        let (silent, drips, slow) = tokio::join!(given_up(b"", 100), given_up(b"12345", 100), given_up(whole, 6));
        let last = pause * 6;
        assert!(silent >= time && drips >= time && slow >= last + time, "{silent:?} {drips:?} {slow:?}");
        assert!(drips < pause * 100, "{drips:?}");
    }

    #[tokio::test]
    async fn bytes_of_bodies_count_for_all_clients() {
        let all = TotalBytes::new(100);
        let (first, second) = (all.connect(Digest::of(b"first")), all.connect(Digest::of(b"second")));
        let (bytes, waiting) = read(Body::from(vec![b'x'; 40]), 40, &first).await.unwrap();
        let error = read(Body::from(vec![b'x'; 41]), 40, &first).await.err().unwrap();
        assert_eq!((bytes.len(), error.status), (40, StatusCode::PAYLOAD_TOO_LARGE));
        let unfinished = dripping(&[b'x'; 61], 1, Duration::ZERO);
        let error = read(unfinished, 1000, &second).await.err().unwrap();
        assert_eq!((error.status, error.code), (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable));
        assert!(!first.ended().is_cancelled());
        drop(waiting);
        assert!(read(Body::from(vec![b'x'; 100]), 100, &first).await.is_ok());
    }
}
