//! The differences of several files as text, for `/undo` and `/diff`.

use std::fmt;

use patchbay_core::text;
use patchbay_tools::FileDiff;

/// Maximum number of lines that are shown. The number of further lines follows.
const LINES: usize = 400;

/// The differences of files, one after another.
#[derive(Default)]
pub(crate) struct FileDifferences {
    diff: FileDiff,
    /// Whether a file was added.
    has_files: bool,
}

impl FileDifferences {
    /// Adds the difference of the file at `path`. `old` is `None` if the file was created, and `new` if it was deleted.
    pub(crate) fn add(&mut self, path: &str, old: Option<&[u8]>, new: Option<&[u8]>) {
        let verb = match (old, new) {
            (None, _) => "Created",
            (_, None) => "Deleted",
            _ => "Changed",
        };
        let as_text = |contents: Option<&[u8]>| match contents {
            None => Some(String::new()),
            Some(contents) => std::str::from_utf8(contents).ok().filter(|text| !text.contains('\0')).map(str::to_owned),
        };
        let path = text::excerpt(path, 200);
        self.has_files = true;
        match (as_text(old), as_text(new)) {
            (Some(old), Some(new)) => {
                let diff = FileDiff::new(&old, &new);
                self.diff.append(&format!("{verb} {path}: {}", diff.counts()), diff);
            }
            _ => self.diff.append(&format!("{verb} {path}, which is not text"), FileDiff::default()),
        }
    }

    /// Adds a line about the file at `path`.
    pub(crate) fn note(&mut self, path: &str, note: &str) {
        self.has_files = true;
        self.diff.append(&format!("{}: {note}", text::excerpt(path, 200)), FileDiff::default());
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.has_files
    }
}

impl fmt::Display for FileDifferences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.diff.to_string();
        let shown: Vec<&str> = all.lines().take(LINES).collect();
        f.write_str(&shown.join("\n"))?;
        let more = all.lines().count().saturating_sub(LINES);
        if more > 0 { write!(f, "\n… {more} more lines") } else { Ok(()) }
    }
}
