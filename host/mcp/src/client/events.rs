//! Extracts the data of server-sent events from pieces of a response body. The length of each event is limited.

/// Assembles events from the pieces of a body.
pub(super) struct EventReader {
    /// The beginning of a line that has not ended yet.
    line: Vec<u8>,
    /// The data of the event so far; `None` if it has none.
    data: Option<Vec<u8>>,
    limit: usize,
}

/// An event is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl EventReader {
    /// Returns a reader of events. `limit` is the size limit in bytes of an event's data together with the line that is being read.
    pub(super) fn new(limit: usize) -> Self {
        Self { line: Vec::new(), data: None, limit }
    }

    /// Adds a piece of the body. Returns the data of the events that it completes.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_end) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            if self.line.len() + self.data.as_ref().map_or(0, Vec::len) + text.len() > self.limit {
                return Err(TooLong);
            }
            self.line.extend_from_slice(text);
            if is_end {
                events.extend(self.end_line());
            }
        }
        Ok(events)
    }

    /// Reads a complete line. Returns the data of the event if the line ends it.
    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            return self.data.take();
        }
        // Other fields and comments are ignored.
        let value = line.strip_prefix(b"data:")?;
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_from_any_pieces() {
        let body = b": hello\r\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata:1}\r\n\r\ndata: two\n\n\n\ndata: incomplete\n";
        for size in [1, 2, 7, 1_000] {
            let mut reader = EventReader::new(100);
            let events: Vec<_> = body.chunks(size).flat_map(|piece| reader.push(piece).unwrap()).collect();
            assert_eq!(events, [b"{\"a\":\n1}".to_vec(), b"two".to_vec()], "{size}");
        }
    }

    #[test]
    fn long_event_is_refused_before_it_is_kept() {
        let mut reader = EventReader::new(10);
        assert_eq!(reader.push(b"data: 12345678901"), Err(TooLong));
        let mut reader = EventReader::new(20);
        assert!(reader.push(b"data: 123456\n").unwrap().is_empty());
        assert_eq!(reader.push(b"data: 1234567890"), Err(TooLong));
    }
}
