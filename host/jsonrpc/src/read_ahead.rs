//! Reads lines before they are handled, within bounds, and skips blank lines. This way, the end of the client's input is noticed
//! even while a response waits for the client to read.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::AsyncRead,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};

use crate::{BoundedLines, Outbox, ReadLine, WaitingBytes};

/// Maximum number of lines that wait to be handled.
const LINES: usize = 256;
/// Maximum size of all lines that are not handled yet, in bytes. A longer line waits until it is the only one.
const BYTES: u32 = 16 << 20;

/// A line that waits to be handled.
pub struct UnhandledLine {
    /// The line, which is never [`ReadLine::End`].
    pub line: ReadLine,
    /// Kept until the line and its parsed values are handled.
    pub permit: LinePermit,
}

/// One line's share of the byte limit. Dropping it makes room for further lines.
pub struct LinePermit {
    _permit: OwnedSemaphorePermit,
    _waiting: Option<WaitingBytes>,
}

/// Returns the lines of `input`, and the future that reads them. The future ends with the input. It also ends if a limit is reached
/// and the client has read nothing for the time `patience`.
pub fn read_ahead<R: AsyncRead + Unpin>(
    mut input: BoundedLines<R>,
    outbox: &Outbox,
    patience: Duration,
) -> (mpsc::Receiver<UnhandledLine>, impl Future<Output = io::Result<()>>) {
    let (queue, lines) = mpsc::channel(LINES);
    let outbox = outbox.clone();
    let reading = async move {
        let permit = Arc::new(Semaphore::new(BYTES as usize));
        loop {
            let line = input.next().await?;
            let bytes = match &line {
                ReadLine::Line(line) if line.trim_ascii().is_empty() => continue,
                ReadLine::Line(line) => u32::try_from(line.len()).unwrap_or(u32::MAX).min(BYTES),
                ReadLine::TooLong => 0,
                ReadLine::End => break,
            };
            let queued = async {
                let waiting = outbox.count(bytes as usize);
                let permit = Arc::clone(&permit).acquire_many_owned(bytes).await.ok()?;
                let permit = LinePermit { _permit: permit, _waiting: waiting };
                queue.send(UnhandledLine { line, permit }).await.ok()
            };
            tokio::select! {
                biased;
                queued = queued => if queued.is_none() { break },
                () = outbox.stalled(patience) => {
                    tracing::info!("the client sends but does not read; disconnecting it");
                    break;
                }
            }
        }
        Ok(())
    };
    (lines, reading)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn end_of_input_is_seen_while_lines_wait() {
        let (outbox, _writing) = Outbox::new(tokio::io::sink());
        let (mut lines, reading) =
            read_ahead(BoundedLines::new(&b"one\n\n  \r\ntwo\n"[..], 100), &outbox, Duration::MAX);
        reading.await.unwrap();
        for expected in [&b"one"[..], b"two"] {
            assert_eq!(lines.recv().await.unwrap().line, ReadLine::Line(expected.to_vec()));
        }
        assert!(lines.recv().await.is_none());
    }

    #[tokio::test]
    async fn next_long_line_waits_until_the_room_of_the_last_is_free() {
        let (outbox, _writing) = Outbox::new(tokio::io::sink());
        let long = [vec![b'x'; BYTES as usize], b"\n".to_vec()].concat().repeat(2);
        let (mut lines, reading) = read_ahead(BoundedLines::new(&long[..], long.len()), &outbox, Duration::MAX);
        let mut reading = Box::pin(reading);
        let UnhandledLine { line, permit } = tokio::select! {
            _ = &mut reading => panic!("the second line has no permit"),
            line = lines.recv() => line.unwrap(),
        };
        // The values parsed from the line still take memory, so the permit alone counts.
        drop(line);
        let is_waiting = std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context).is_pending())).await;
        assert!(is_waiting && lines.try_recv().is_err());
        drop(permit);
        reading.await.unwrap();
        assert!(lines.recv().await.is_some());
    }

    #[tokio::test]
    async fn client_that_sends_and_never_reads_is_gone_after_a_while() {
        let (_unread, written) = tokio::io::duplex(16);
        let (outbox, writing) = Outbox::new(written);
        tokio::spawn(writing);
        outbox.notify("a", &serde_json::json!({"text": "more than sixteen bytes"})).await.unwrap();
        let (mut sending, input) = tokio::io::duplex(1 << 16);
        let (mut lines, reading) = read_ahead(BoundedLines::new(input, 100), &outbox, Duration::from_millis(200));
        tokio::spawn(async move { while sending.write_all(b"line\n").await.is_ok() {} });
        tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap().unwrap();
        let mut waiting = 0;
        while lines.recv().await.is_some() {
            waiting += 1;
        }
        assert_eq!(waiting, LINES);
    }
}
