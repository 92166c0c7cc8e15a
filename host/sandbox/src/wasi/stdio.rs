//! Standard output and standard error of a guest. Each line is written to the guest's log until the log is full. After that, the
//! guest continues, but its output is dropped. The last lines are always kept, because the user sees them with a trap.

use std::{mem, pin::Pin, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use patchbay_core::text;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError},
};

use crate::{Limits, LogLevel, last_lines::LastLines};

/// Both output streams of one guest, which share one limit.
#[derive(Clone)]
pub(super) struct GuestOutput {
    room: Arc<Mutex<Room>>,
    log: Arc<LastLines>,
}

/// The lines and bytes that the log still accepts.
struct Room {
    lines: u32,
    bytes: usize,
}

#[derive(Clone)]
pub(super) struct Stream {
    output: GuestOutput,
    line: Arc<Mutex<PendingLine>>,
    level: LogLevel,
}

struct PendingLine {
    bytes: Vec<u8>,
    output: GuestOutput,
    level: LogLevel,
}

impl GuestOutput {
    pub(super) fn new(log: Arc<LastLines>, limits: &Limits) -> Self {
        let room = Room { lines: limits.log_lines, bytes: limits.log_bytes };
        Self { room: Arc::new(Mutex::new(room)), log }
    }

    pub(super) fn stream(&self, level: LogLevel) -> Stream {
        let line = PendingLine { bytes: Vec::new(), output: self.clone(), level };
        Stream { output: self.clone(), line: Arc::new(Mutex::new(line)), level }
    }

    fn print(&self, level: LogLevel, line: &[u8]) {
        let mut room = self.room.lock();
        let cleaned = text::clean_line(&String::from_utf8_lossy(line));
        self.log.keep(&cleaned);
        if room.lines == 0 {
            return;
        }
        room.lines -= 1;
        // The last line is reserved for the notice.
        if room.lines == 0 || line.len() > room.bytes {
            room.lines = 0;
            let notice = "further output is left out (limits.log_lines, limits.log_bytes)";
            self.log.forward(LogLevel::Warn, notice);
            return;
        }
        room.bytes -= line.len();
        self.log.forward(level, &cleaned);
    }

    fn is_full(&self) -> bool {
        self.room.lock().lines == 0
    }
}

impl Stream {
    fn write(&self, mut bytes: &[u8]) {
        let mut line = self.line.lock();
        if self.output.is_full() && bytes.len() > LastLines::BYTES {
            // The log is full, so only the last lines matter. The host does not process the rest.
            bytes = &bytes[bytes.len() - LastLines::BYTES..];
            line.bytes.clear();
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let mut whole = mem::take(&mut line.bytes);
            whole.extend_from_slice(&bytes[..end]);
            self.output.print(self.level, &whole);
            bytes = &bytes[end + 1..];
        }
        // An unfinished line is cut at a length that neither the log nor the last lines would accept.
        let most = self.output.room.lock().bytes.saturating_add(1).max(LastLines::BYTES);
        let free = most.saturating_sub(line.bytes.len());
        line.bytes.extend_from_slice(&bytes[..bytes.len().min(free)]);
    }

    /// Prints the unfinished line.
    pub(super) fn end_line(&self) {
        self.line.lock().end();
    }
}

impl PendingLine {
    fn end(&mut self) {
        if !self.bytes.is_empty() {
            self.output.print(self.level, &mem::take(&mut self.bytes));
        }
    }
}

impl Drop for PendingLine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Maximum bytes of one write.
const CHUNK: usize = 64 << 10;

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        Stream::write(self, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn check_write(&mut self) -> Result<usize, StreamError> {
        Ok(CHUNK)
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        Stream::write(&self, bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogSink;

    #[derive(Default)]
    struct CollectedLog(Mutex<Vec<String>>);

    impl LogSink for CollectedLog {
        fn write(&self, level: LogLevel, message: &str) {
            self.0.lock().push(format!("{level:?} {message}"));
        }
    }

    fn printed(limits: &Limits, write: impl FnOnce(&Stream, &Stream)) -> Vec<String> {
        let heard = Arc::new(CollectedLog::default());
        let output = GuestOutput::new(LastLines::new(heard.clone()), limits);
        let (out, err) = (output.stream(LogLevel::Info), output.stream(LogLevel::Warn));
        write(&out, &err);
        drop((out, err));
        heard.0.lock().clone()
    }

    #[test]
    fn lines_are_logged_whole_including_the_last() {
        let heard = printed(&Limits::default(), |out, err| {
            out.write(b"one\ntw");
            err.write(b"oops\n");
            out.write(b"o\n\x1b[31mred");
        });
        assert_eq!(heard, ["Info one", "Warn oops", "Info two", "Info [31mred"]);
    }

    #[test]
    fn excess_output_is_cut_with_a_notice() {
        let few = Limits { log_lines: 3, ..Limits::default() };
        let heard = printed(&few, |out, _| out.write(&b"x\n".repeat(10_000)));
        assert_eq!(heard.len(), 3);
        assert!(heard[2].contains("left out"), "{heard:?}");
        let short = Limits { log_bytes: 10, ..Limits::default() };
        let heard = printed(&short, |out, _| {
            for _ in 0..1000 {
                out.write(b"no end of it ");
            }
            assert!(out.line.lock().bytes.len() <= LastLines::BYTES);
        });
        assert_eq!(heard, ["Warn further output is left out (limits.log_lines, limits.log_bytes)"]);
    }

    #[test]
    fn last_lines_are_kept_when_the_log_is_full() {
        let few = Limits { log_lines: 3, ..Limits::default() };
        let last = LastLines::new(Arc::new(CollectedLog::default()));
        let out = GuestOutput::new(Arc::clone(&last), &few).stream(LogLevel::Info);
        out.write(&b"x\n".repeat(10_000));
        out.write(b"one\ntwo\nthree\nfour\nTypeError: no\nunfinished");
        out.end_line();
        assert_eq!(last.take(), ["two", "three", "four", "TypeError: no", "unfinished"]);
        out.write(&b"y".repeat(100_000));
        out.end_line();
        let [line] = &last.take()[..] else { panic!("one line") };
        assert!(line.len() <= LastLines::BYTES && line.starts_with("yyy"));
    }
}
