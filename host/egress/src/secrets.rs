//! Reads the operator's secrets from the environment, `credentials.json` and key commands, and knows the origins to which they are
//! bound. Used for the credentials of skills and the keys of providers.

mod command;
mod file;

use std::{
    collections::HashMap,
    env,
    ffi::OsString,
    fmt,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use patchbay_core::Name;

use self::{
    command::KeyCommands,
    file::{CredentialsFile, Entries},
};
use crate::{CredentialError, KeyCommand, Origin, Scrub, Secret, SecretError, Variables};

pub use self::{
    command::{KeyCommandError, KeyCommandFailure},
    file::Malformed,
};

/// The secrets of one home, and the origins to which they are bound.
///
/// A secret that was found is kept for the lifetime of the process: losing or damaging the file does not remove it, and a replaced
/// value is still scrubbed.
pub struct Secrets {
    environment: fn(&str) -> Option<OsString>,
    file: CredentialsFile,
    commands: KeyCommands,
    /// The folder in which key commands run.
    folder: PathBuf,
    state: Mutex<SecretsState>,
}

#[derive(Default)]
struct SecretsState {
    /// Every value that was found for a secret, the newest last.
    found: HashMap<SecretRef, Vec<Secret>>,
    bound: Vec<Binding>,
    /// Loaders, which add further bindings before a scrub.
    loaders: Vec<Loader>,
    /// The last result of [`Secrets::scrub`] for each origin.
    scrubs: HashMap<Origin, Scrub>,
    /// The last result of [`Secrets::scrub_known`].
    scrub_of_all: ScrubOfAll,
    /// Number of changes to `found` and `bound`.
    changes: u64,
}

/// A scrub of every secret, and the state that it was created from.
#[derive(Default)]
struct ScrubOfAll {
    /// [`SecretsState::changes`] at that time; `None` before the first scrub.
    changes: Option<u64>,
    entries: Option<Arc<Entries>>,
    scrub: Scrub,
}

/// Adds bindings with [`Secrets::bind`] before responses are scrubbed.
pub type Loader = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A secret of the operator, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    /// The name of the provider or credential.
    pub name: Name,
    /// Where the value of the secret is looked up.
    pub lookup: SecretLookup,
}

/// How the value of a secret is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretLookup {
    /// In the first of these environment variables that is not empty, otherwise in the entry of
    /// `credentials.json` with the secret's name.
    Stored(Variables),
    /// In the output of this command.
    Command(KeyCommand),
}

impl SecretRef {
    /// Returns the command that prints the value, if there is one.
    pub fn command(&self) -> Option<&KeyCommand> {
        match &self.lookup {
            SecretLookup::Stored(_) => None,
            SecretLookup::Command(command) => Some(command),
        }
    }
}

impl SecretLookup {
    /// Returns the environment variables; none for a command.
    pub fn variables(&self) -> &[String] {
        match self {
            Self::Stored(variables) => variables.names(),
            Self::Command(_) => &[],
        }
    }
}

/// A secret and an origin that it is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The secret that is bound to the origin.
    pub secret: SecretRef,
    /// The only origin that may receive the secret.
    pub origin: Origin,
}

/// Where a secret was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// In this environment variable.
    Variable(String),
    /// In an entry of `credentials.json`.
    File,
    /// In the output of a command. Whether the command prints it is only known when it is run.
    Command,
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(variable) => write!(f, "the environment variable {variable}"),
            Self::File => f.write_str("credentials.json"),
            Self::Command => f.write_str("the output of its key command"),
        }
    }
}

/// How many values are kept and scrubbed for each secret. A key is rarely replaced more often while a process runs; the tokens of
/// key commands usually last an hour.
const VALUES: usize = 64;

impl Secrets {
    /// Returns the secrets of the environment and of `credentials.json` in the folder `config`. Reads nothing yet.
    pub fn open(config: &Path) -> Self {
        Self::with_environment(config, |variable| env::var_os(variable))
    }

    /// Like [`Secrets::open`], with another environment.
    pub(crate) fn with_environment(config: &Path, environment: fn(&str) -> Option<OsString>) -> Self {
        let file = CredentialsFile::new(config.join("credentials.json"));
        let (commands, folder) = (KeyCommands::default(), config.to_owned());
        Self { environment, file, commands, folder, state: Mutex::default() }
    }

    /// Returns the value of `secret`: the output of its command; otherwise the first of its environment variables that
    /// is not empty; otherwise the entry of `credentials.json`, `{"NAME": {"api_key": "…"}}` (or `token`). The file is
    /// read again when it has changed. The command is run unless its earlier key is still cached, which is why this
    /// should only be called if a request needs the key.
    ///
    /// # Errors
    /// [`CredentialError`], but never [`CredentialError::NotConfigured`].
    pub async fn get(&self, secret: &SecretRef) -> Result<Secret, CredentialError> {
        let Some(command) = secret.command() else { return self.stored(secret) };
        let value = self.commands.get(secret, command, &self.folder).await?;
        self.keep(secret, &value);
        Ok(value)
    }

    /// Returns the value of `secret` without running a command; `None` if it has a command.
    ///
    /// # Errors
    /// The same as for [`Secrets::get`].
    pub fn peek(&self, secret: &SecretRef) -> Result<Option<Secret>, CredentialError> {
        if secret.command().is_some() {
            return Ok(None);
        }
        self.stored(secret).map(Some)
    }

    /// Reports that a server rejected `value`. If it came from the command of `secret`, the command is run again for
    /// the next request.
    pub async fn discard(&self, secret: &SecretRef, value: &Secret) {
        if secret.command().is_some() {
            self.commands.discard(secret, value).await;
        }
    }

    fn stored(&self, secret: &SecretRef) -> Result<Secret, CredentialError> {
        match self.find(secret) {
            Ok((value, _)) => {
                self.keep(secret, &value);
                Ok(value)
            }
            Err(error) => {
                let state = self.state();
                let last = state.found.get(secret).and_then(|values| values.last());
                last.cloned().ok_or(error)
            }
        }
    }

    /// Keeps a value of `secret`, which is scrubbed from now on.
    fn keep(&self, secret: &SecretRef, value: &Secret) {
        let mut state = self.state();
        let values = state.found.entry(secret.clone()).or_default();
        if !values.last().is_some_and(|last| last.is(value)) {
            values.retain(|there| !there.is(value));
            values.push(value.clone());
            let over = values.len().saturating_sub(VALUES);
            values.drain(..over);
            state.changes += 1;
        }
    }

    /// Returns where [`Secrets::get`] would find `secret`. Does not run a command, and keeps no value.
    ///
    /// # Errors
    /// The same as for [`Secrets::get`].
    pub fn locate(&self, secret: &SecretRef) -> Result<SecretSource, CredentialError> {
        if secret.command().is_some() {
            return Ok(SecretSource::Command);
        }
        self.find(secret).map(|(_, place)| place)
    }

    /// Finds a value in the environment or in the file.
    fn find(&self, secret: &SecretRef) -> Result<(Secret, SecretSource), CredentialError> {
        let SecretRef { name, lookup } = secret;
        let unusable = |place| |source| CredentialError::Unusable { name: name.clone(), place, source };
        if let Some((value, variable)) = self.in_environment(secret) {
            let secret = value.to_str().ok_or(SecretError::Characters).and_then(Secret::new);
            let place = SecretSource::Variable(variable.clone());
            return secret.map(|secret| (secret, place.clone())).map_err(unusable(place));
        }
        match self.file.entry(name)? {
            Some(text) => match Secret::new(&text) {
                Ok(secret) => Ok((secret, SecretSource::File)),
                Err(error) => Err(unusable(SecretSource::File)(error)),
            },
            None => Err(CredentialError::NoSecret {
                name: name.clone(),
                variables: Variables::new(lookup.variables().to_vec()),
            }),
        }
    }

    /// Returns the value of the first variable of `secret` that is set, and its name.
    fn in_environment<'s>(&self, secret: &'s SecretRef) -> Option<(OsString, &'s String)> {
        let mut variables = secret.lookup.variables().iter();
        let value = |variable: &str| (self.environment)(variable).filter(|value| !value.is_empty());
        variables.find_map(|variable| Some((value(variable)?, variable)))
    }

    /// Binds secrets to origins: from now on, they are scrubbed from responses of these origins. A binding is never
    /// removed.
    pub fn bind(&self, bindings: impl IntoIterator<Item = Binding>) {
        let mut state = self.state();
        for binding in bindings {
            if !state.bound.contains(&binding) {
                state.bound.push(binding);
                state.changes += 1;
            }
        }
    }

    /// Registers `loader`, which is run by each [`Secrets::scrub`] and [`Secrets::scrub_all`].
    pub fn bind_with(&self, loader: Loader) {
        self.state().loaders.push(loader);
    }

    /// Returns the scrub for responses of `origin`. It removes every secret that is bound to the same host, whether or not this
    /// process has sent it. Secrets that cannot be read are left out, because other processes cannot read and send them either.
    pub async fn scrub(&self, origin: &Origin) -> Scrub {
        let loaders = self.state().loaders.clone();
        for loader in loaders {
            loader().await;
        }
        let bound: Vec<_> = {
            let state = self.state();
            let same = state.bound.iter().filter(|binding| binding.origin.shares_host_with(origin));
            same.map(|binding| binding.secret.clone()).collect()
        };
        for secret in &bound {
            // For a command, only the values that it has printed so far are known.
            if let Err(error @ (CredentialError::Unreadable { .. } | CredentialError::Malformed { .. })) =
                self.peek(secret)
            {
                tracing::debug!("cannot scrub a secret: {error}");
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

    /// Returns a scrub of every secret of the home: the bound secrets and all entries of `credentials.json`. For
    /// recordings and for text that leaves the home.
    pub async fn scrub_all(&self) -> Scrub {
        let loaders = self.state().loaders.clone();
        for loader in loaders {
            loader().await;
        }
        self.scrub_known()
    }

    /// Like [`Secrets::scrub_all`], without running the loaders first. Key commands are not run either, so a key that no command
    /// has printed in this process is not scrubbed.
    pub fn scrub_known(&self) -> Scrub {
        // Each recorded call needs it, so the values are collected again only after a change. The environment of a process
        // does not change.
        let entries = self.file.entries().ok().flatten();
        let mut state = self.state();
        let last = &state.scrub_of_all;
        let same_file = match (&last.entries, &entries) {
            (Some(last), Some(now)) => Arc::ptr_eq(last, now),
            (last, now) => last.is_none() && now.is_none(),
        };
        if same_file && last.changes == Some(state.changes) {
            return last.scrub.clone();
        }
        let bound = state.bound.iter().filter_map(|binding| self.in_environment(&binding.secret));
        // A value that cannot be a secret is reported where it is used.
        let variables = bound.filter_map(|(value, _)| Secret::new(value.to_str()?).ok());
        let in_file = entries.as_deref().map(file::values).unwrap_or_default();
        let values: Vec<Secret> = state.found.values().flatten().cloned().chain(variables).chain(in_file).collect();
        let scrub = if last.scrub.is_of(&values) { last.scrub.clone() } else { Scrub::new(&values) };
        state.scrub_of_all = ScrubOfAll { changes: Some(state.changes), entries, scrub: scrub.clone() };
        scrub
    }

    fn state(&self) -> MutexGuard<'_, SecretsState> {
        self.state.lock()
    }
}

/// Never prints the secrets themselves.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
