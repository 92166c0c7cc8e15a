//! Ends a connection whose client has stopped reading. Otherwise it would keep memory and a permit.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// A stream whose writes fail if they wait too long.
pub struct TimedIo<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncWrite + Unpin> TimedIo<S> {
    /// Returns `stream`, whose writes may each wait for `limit`.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }

    /// Applies the limit to the result of a write.
    fn timed<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        waiting.as_mut().reset(Instant::now() + limit);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timed(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn write_to_a_client_that_does_not_read_fails() {
        let (mut client, server) = duplex(4);
        let limit = Duration::from_millis(50);
        let mut io = TimedIo::new(server, limit);
        io.write_all(b"abcd").await.unwrap();
        let began = Instant::now();
        let error = io.write_all(b"e").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed() >= limit), (io::ErrorKind::TimedOut, true));
        let mut read = [0; 4];
        client.read_exact(&mut read).await.unwrap();
        io.write_all(b"e").await.unwrap();
    }

    /// The writes take longer in total than the limit of a single one.
    #[tokio::test]
    async fn slow_client_is_served() {
        let (mut client, server) = duplex(1);
        let mut io = TimedIo::new(server, Duration::from_secs(5));
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            for _ in 0..8 {
                sleep(Duration::from_secs(1)).await;
                all.push(client.read_u8().await.unwrap());
            }
            all
        });
        io.write_all(b"12345678").await.unwrap();
        assert_eq!(reading.await.unwrap(), b"12345678");
    }
}
