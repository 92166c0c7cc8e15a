//! Reads the operator's secrets from the environment and `credentials.json`, and knows the origins to which they are bound.
//! Credentials of skills and keys of providers use it.

mod file;

use std::{collections::HashMap, env, ffi::OsString, fmt, future::Future, path::Path, pin::Pin};

use parking_lot::{Mutex, MutexGuard};
use patchbay_core::Name;

use self::file::CredentialsFile;
use crate::{CredentialError, Origin, Scrub, Secret, SecretError};

pub use self::file::Malformed;

/// The secrets of one home, and the origins to which they are bound.
///
/// A secret that was found is kept while the process lives: a file that is lost or damaged later does not remove it, and one that
/// is replaced is still scrubbed.
pub struct Secrets {
    environment: fn(&str) -> Option<OsString>,
    file: CredentialsFile,
    state: Mutex<SecretsState>,
}

#[derive(Default)]
struct SecretsState {
    /// Every value that was found for a name and its variable, the newest last.
    found: HashMap<(Name, String), Vec<Secret>>,
    bound: Vec<Binding>,
    /// Loaders that add bindings later.
    loaders: Vec<Loader>,
    /// The scrub of each origin that was requested.
    scrubs: HashMap<Origin, Scrub>,
}

/// Adds bindings with [`Secrets::bind`] before answers are scrubbed.
pub type Loader = std::sync::Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A secret and an origin that it is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The name of the secret in `credentials.json`.
    pub name: Name,
    /// The environment variable that may hold it.
    pub variable: String,
    /// The origin.
    pub origin: Origin,
}

/// Where a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// In this environment variable.
    Variable(String),
    /// In `credentials.json`.
    File,
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(variable) => write!(f, "the environment variable {variable}"),
            Self::File => f.write_str("credentials.json"),
        }
    }
}

/// Values that are kept for each secret. A key is rarely replaced more often while a process runs.
const VALUES: usize = 64;

impl Secrets {
    /// Returns the secrets of the environment and of `credentials.json` in the folder `config`. Reads nothing yet.
    pub fn open(config: &Path) -> Self {
        Self::with_environment(config, |variable| env::var_os(variable))
    }

    /// Like [`Secrets::open`], with another environment.
    pub(crate) fn with_environment(config: &Path, environment: fn(&str) -> Option<OsString>) -> Self {
        let file = CredentialsFile::new(config.join("credentials.json"));
        Self { environment, file, state: Mutex::default() }
    }

    /// Returns the secret `name`: the value of the environment variable `variable`, unless that is empty; else the
    /// entry `name` of `credentials.json`, `{"NAME": {"api_key": "…"}}` (or `token`). The file is read again when it
    /// has changed.
    ///
    /// # Errors
    /// [`CredentialError`], but never [`CredentialError::NotConfigured`].
    pub fn get(&self, name: &Name, variable: &str) -> Result<Secret, CredentialError> {
        let found = self.find(name, variable).map(|(secret, _)| secret);
        let mut state = self.state();
        let values = state.found.entry((name.clone(), variable.to_owned())).or_default();
        match found {
            Ok(secret) => {
                if !values.last().is_some_and(|last| last.is(&secret)) {
                    values.retain(|value| !value.is(&secret));
                    values.push(secret.clone());
                    let over = values.len().saturating_sub(VALUES);
                    values.drain(..over);
                }
                Ok(secret)
            }
            Err(error) => values.last().cloned().ok_or(error),
        }
    }

    /// Returns where the secret `name` is found, as [`Secrets::get`] finds it. The value is not kept.
    ///
    /// # Errors
    /// As [`Secrets::get`].
    pub fn locate(&self, name: &Name, variable: &str) -> Result<SecretSource, CredentialError> {
        self.find(name, variable).map(|(_, place)| place)
    }

    fn find(&self, name: &Name, variable: &str) -> Result<(Secret, SecretSource), CredentialError> {
        let unusable = |place| |source| CredentialError::Unusable { name: name.clone(), place, source };
        if let Some(value) = (self.environment)(variable).filter(|value| !value.is_empty()) {
            let secret = value.to_str().ok_or(SecretError::Characters).and_then(Secret::new);
            let place = SecretSource::Variable(variable.to_owned());
            return secret.map(|secret| (secret, place.clone())).map_err(unusable(place));
        }
        match self.file.entry(name)? {
            Some(text) => match Secret::new(&text) {
                Ok(secret) => Ok((secret, SecretSource::File)),
                Err(error) => Err(unusable(SecretSource::File)(error)),
            },
            None => Err(CredentialError::NoSecret { name: name.clone(), variable: variable.to_owned() }),
        }
    }

    /// Binds secrets to origins: from now on, answers of an origin are scrubbed of them. A binding is never removed.
    pub fn bind(&self, bindings: impl IntoIterator<Item = Binding>) {
        let mut state = self.state();
        for binding in bindings {
            if !state.bound.contains(&binding) {
                state.bound.push(binding);
            }
        }
    }

    /// Runs `loader` before answers are scrubbed.
    pub fn bind_with(&self, loader: Loader) {
        self.state().loaders.push(loader);
    }

    /// Returns the scrub for answers of `origin`. It removes every secret that is bound to the host, whether or not this process has
    /// sent it. Secrets that cannot be read are left out; no other process can read them either.
    pub async fn scrub(&self, origin: &Origin) -> Scrub {
        let loaders = self.state().loaders.clone();
        for loader in loaders {
            loader().await;
        }
        let bound: Vec<_> = {
            let state = self.state();
            let same = state.bound.iter().filter(|binding| binding.origin.shares_host_with(origin));
            same.map(|binding| (binding.name.clone(), binding.variable.clone())).collect()
        };
        for (name, variable) in &bound {
            if let Err(error @ (CredentialError::Unreadable { .. } | CredentialError::Malformed { .. })) =
                self.get(name, variable)
            {
                tracing::debug!("a secret cannot be scrubbed: {error}");
            }
        }
        let mut state = self.state();
        let values: Vec<Secret> = bound.iter().filter_map(|key| state.found.get(key)).flatten().cloned().collect();
        if values.is_empty() {
            return Scrub::default();
        }
        if let Some(scrub) = state.scrubs.get(origin).filter(|scrub| scrub.is_of(&values)) {
            return scrub.clone();
        }
        let scrub = Scrub::new(&values);
        state.scrubs.insert(origin.clone(), scrub.clone());
        scrub
    }

    fn state(&self) -> MutexGuard<'_, SecretsState> {
        self.state.lock()
    }
}

/// Shows no content.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
