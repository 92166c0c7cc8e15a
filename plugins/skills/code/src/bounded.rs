//! Bounds on a program's output: a model reads all of it.

/// Bytes of logged text, and bytes of the value.
const BYTES: usize = 64 << 10;

/// The text that a program has logged, cut at the limit.
#[derive(Default)]
pub(crate) struct Log {
    text: String,
    left_out: usize,
}

impl Log {
    /// Adds a line. Returns whether all of it fitted.
    pub(crate) fn push(&mut self, line: &str) -> bool {
        let room = if self.left_out > 0 { 0 } else { BYTES.saturating_sub(self.text.len()) };
        let kept = &line[..line.floor_char_boundary(room)];
        if kept.len() < line.len() || room == 0 {
            self.left_out += line.len() + 1 - kept.len();
        }
        if room > 0 {
            self.text.push_str(kept);
            self.text.push('\n');
        }
        self.left_out == 0
    }

    /// Returns the text; `None` if nothing was logged.
    pub(crate) fn into_text(mut self) -> Option<String> {
        if self.left_out > 0 {
            self.text.push_str(&format!("[{} more bytes were logged and left out. Log less.]\n", self.left_out));
        }
        self.text.pop().map(|_| self.text)
    }
}

/// Returns a value, cut at the limit with a note. The second part is true if it was cut.
pub(crate) fn cut_value(mut text: String) -> (String, bool) {
    let size = text.len();
    if size <= BYTES {
        return (text, false);
    }
    text.truncate(text.floor_char_boundary(BYTES));
    text.push_str(&format!("\n[The value has {size} bytes; {} of them are left out. Return less.]", size - text.len()));
    (text, true)
}

/// Returns at most `bytes` bytes of a text, with dots where it was cut.
pub(crate) fn excerpt(text: &str, bytes: usize) -> String {
    if text.len() <= bytes { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(bytes)]) }
}
