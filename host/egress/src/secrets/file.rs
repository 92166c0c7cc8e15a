//! Reads `credentials.json`. Each entry is checked separately, so an invalid entry does not affect the others. Called
//! by `secrets`.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use parking_lot::Mutex;
use patchbay_core::Name;
use serde_json::{Map, Value, error::Category};

use crate::{CredentialError, Secret};

/// Size limit of `credentials.json`, in bytes. Enough for hundreds of keys.
const MOST: u64 = 1 << 20;

/// Why `credentials.json` as a whole cannot be used. The message never quotes the file, which may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The file is not valid JSON.
    #[error("line {line}, column {column}: {what}")]
    Syntax {
        /// The line of the error, counted from 1.
        line: usize,
        /// The column of the error, in bytes.
        column: usize,
        /// A description of the syntax error.
        what: &'static str,
    },
    /// The file is JSON, but not an object.
    #[error("the file must be an object: {{\"NAME\": {{\"api_key\": \"…\"}}}}")]
    NoObject,
}

/// The file, and its content when it was last read.
pub(super) struct CredentialsFile {
    pub(super) path: PathBuf,
    last: Mutex<Option<(Stamp, Arc<Entries>)>>,
    /// Whether a warning about the file's permissions was logged.
    warned: AtomicBool,
}

pub(super) type Entries = Result<Map<String, Value>, Malformed>;

/// The metadata that changes with the content of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl CredentialsFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// Returns the secret of the entry `name`; `None` if there is no such entry, or if its key is an empty string.
    ///
    /// # Errors
    /// [`CredentialError::Unreadable`], [`CredentialError::Malformed`], [`CredentialError::Entry`].
    pub(super) fn entry(&self, name: &Name) -> Result<Option<String>, CredentialError> {
        let file = || self.path.clone();
        let entries = match self.entries() {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(None),
            Err(source) => return Err(CredentialError::Unreadable { file: file(), source }),
        };
        let entries = match &*entries {
            Ok(entries) => entries,
            Err(error) => return Err(CredentialError::Malformed { file: file(), source: error.clone() }),
        };
        let Some(entry) = entries.get(name.as_str()) else { return Ok(None) };
        // Other keys are ignored: they are for other programs.
        let key = entry.as_object().and_then(|entry| entry.get("api_key").or_else(|| entry.get("token")));
        match key.and_then(Value::as_str) {
            Some(text) => Ok(Some(text.to_owned()).filter(|text| !text.is_empty())),
            None => Err(CredentialError::Entry { file: file(), name: name.clone() }),
        }
    }

    /// Returns the entries, or `None` if the file does not exist. The file is only read again if it has changed; otherwise the same
    /// `Arc` is returned.
    pub(super) fn entries(&self) -> io::Result<Option<Arc<Entries>>> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stamp = Stamp::of(&metadata);
        let mut last = self.last.lock();
        if let Some((_, entries)) = last.as_ref().filter(|(read, _)| *read == stamp) {
            return Ok(Some(Arc::clone(entries)));
        }
        // Opening a pipe would wait for a writer.
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let file = File::open(&self.path)?;
        if let Some(warning) = self.warning(&file) {
            tracing::warn!("{warning}");
        }
        let mut text = Vec::new();
        file.take(MOST + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MOST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST} bytes")));
        }
        let entries = Arc::new(parse(&text));
        *last = Some((stamp, Arc::clone(&entries)));
        Ok(Some(entries))
    }

    /// Returns a warning if other users may read the file, but only once.
    pub(super) fn warning(&self, file: &File) -> Option<String> {
        if !open_to_others(file) || self.warned.swap(true, Ordering::Relaxed) {
            return None;
        }
        let path = self.path.display();
        Some(format!("other users can read {path}, which contains secrets. To fix it: chmod 600 '{path}'"))
    }
}

/// Returns the values of all entries that can be secrets; none if the file is malformed.
pub(super) fn values(entries: &Entries) -> Vec<Secret> {
    let Ok(entries) = entries else { return Vec::new() };
    let keys =
        entries.values().filter_map(Value::as_object).flat_map(|entry| [entry.get("api_key"), entry.get("token")]);
    keys.flatten().filter_map(Value::as_str).filter_map(|text| Secret::new(text).ok()).collect()
}

fn parse(text: &[u8]) -> Entries {
    match serde_json::from_slice(text) {
        Ok(Value::Object(entries)) => Ok(entries),
        Ok(_) => Err(Malformed::NoObject),
        // serde's message quotes the value.
        Err(error) => Err(Malformed::Syntax {
            line: error.line(),
            column: error.column(),
            what: match error.classify() {
                Category::Eof => "the file ends too early",
                Category::Syntax | Category::Io | Category::Data => "this is not JSON",
            },
        }),
    }
}

#[cfg(unix)]
fn open_to_others(file: &File) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn open_to_others(_: &File) -> bool {
    false
}
