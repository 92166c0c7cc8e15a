//! Where the operator keeps secrets: in the environment, else in `credentials.json`.

use std::{
    collections::{BTreeMap, HashMap},
    env,
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use patchbay_core::Name;
use serde::Deserialize;
use serde_json::error::Category;

use crate::{CredentialError, Secret, SecretError};

/// The secrets of one home. A secret that was found is held; one that was not is looked for anew.
pub struct Secrets {
    file: PathBuf,
    environment: fn(&str) -> Option<OsString>,
    found: Mutex<HashMap<(Name, String), Secret>>,
    /// Whether it was said that others may read the file.
    warned: AtomicBool,
}

/// Where a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this environment variable.
    Variable(String),
    /// In `credentials.json`.
    File,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(variable) => write!(f, "the environment variable {variable}"),
            Self::File => f.write_str("credentials.json"),
        }
    }
}

/// Where `credentials.json` is not of its form. What stands there is never told: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The column, in bytes.
    pub column: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// One entry of `credentials.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(alias = "api_key")]
    token: String,
}

impl Secrets {
    /// The secrets of the environment and of `credentials.json` in the folder `config`. Nothing is read yet.
    pub fn open(config: &Path) -> Self {
        Self::with_environment(config, |variable| env::var_os(variable))
    }

    /// The same with another environment.
    pub(crate) fn with_environment(config: &Path, environment: fn(&str) -> Option<OsString>) -> Self {
        let file = config.join("credentials.json");
        Self { file, environment, found: Mutex::default(), warned: AtomicBool::new(false) }
    }

    /// The secret called `name`: what the environment variable `variable` holds, unless that is empty; else the entry `name`
    /// of `credentials.json`, `{"NAME": {"token": "…"}}` (or `api_key`). Reads a small file when it is first asked.
    ///
    /// # Errors
    /// [`CredentialError`], but never [`CredentialError::NotConfigured`].
    pub fn get(&self, name: &Name, variable: &str) -> Result<Secret, CredentialError> {
        let key = (name.clone(), variable.to_owned());
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = found.get(&key) {
            return Ok(secret.clone());
        }
        let secret = self.look(name, variable)?;
        found.insert(key, secret.clone());
        Ok(secret)
    }

    fn look(&self, name: &Name, variable: &str) -> Result<Secret, CredentialError> {
        let unusable = |place| |source| CredentialError::Unusable { name: name.clone(), place, source };
        if let Some(value) = (self.environment)(variable).filter(|value| !value.is_empty()) {
            let secret = value.to_str().ok_or(SecretError::Characters).and_then(Secret::new);
            return secret.map_err(unusable(Place::Variable(variable.to_owned())));
        }
        match self.read()?.get(name.as_str()) {
            Some(Entry { token }) if !token.is_empty() => Secret::new(token).map_err(unusable(Place::File)),
            _ => Err(CredentialError::NoSecret { name: name.clone(), variable: variable.to_owned() }),
        }
    }

    fn read(&self) -> Result<BTreeMap<String, Entry>, CredentialError> {
        let mut file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(CredentialError::Unreadable(error)),
        };
        if let Some(warning) = self.warning(&file) {
            tracing::warn!("{warning}");
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(CredentialError::Unreadable)?;
        Ok(parse(&text)?)
    }

    /// What is to be said of a file that others may read, once.
    fn warning(&self, file: &File) -> Option<String> {
        if !open_to_others(file) || self.warned.swap(true, Ordering::Relaxed) {
            return None;
        }
        let path = self.file.display();
        Some(format!("others may read {path}, which holds secrets; to close it: chmod 600 '{path}'"))
    }
}

/// Nothing of what is held.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

fn parse(text: &[u8]) -> Result<BTreeMap<String, Entry>, Malformed> {
    serde_json::from_slice(text).map_err(|error| Malformed {
        line: error.line(),
        column: error.column(),
        // The error's own text quotes what it found.
        what: match error.classify() {
            Category::Eof => "the file ends too early",
            Category::Syntax | Category::Io => "this is not JSON",
            Category::Data => "the file reads {\"NAME\": {\"token\": \"…\"}}, and has nothing else",
        },
    })
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

#[cfg(test)]
mod tests;
