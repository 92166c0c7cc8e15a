//! Counts the bytes of messages that are being received. A WebSocket message is in memory long before it is complete.

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use parking_lot::Mutex;
use patchbay_jsonrpc::{ConnectionBytes, WaitingBytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes received since the last complete message of a connection. Nothing is counted before the connection is a WebSocket.
#[derive(Default)]
pub(crate) struct ReceivingBytes {
    connection: OnceLock<Arc<ConnectionBytes>>,
    message: Mutex<Option<WaitingBytes>>,
}

impl ReceivingBytes {
    /// Starts counting bytes, for `connection`.
    pub(crate) fn begin(&self, connection: Arc<ConnectionBytes>) {
        // This cannot fail, because a connection is upgraded only once.
        let _ = self.connection.set(connection);
    }

    /// Returns the bytes of a message that is now complete.
    pub(crate) fn take(&self) -> Option<WaitingBytes> {
        self.message.lock().take()
    }

    /// Subtracts bytes that turned out not to belong to a message.
    pub(crate) fn forget(&self, bytes: usize) {
        if let Some(message) = &mut *self.message.lock() {
            message.shrink(bytes);
        }
    }

    pub(crate) fn add(&self, bytes: usize) {
        if let Some(connection) = self.connection.get() {
            self.message.lock().get_or_insert_with(|| connection.wait(0)).grow(bytes);
        }
    }
}

/// A stream whose read bytes are counted.
pub(crate) struct CountedIo<S> {
    pub(crate) stream: S,
    pub(crate) receiving: Arc<ReceivingBytes>,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.receiving.add(buffer.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
