//! The credentials that the operator named in `config.toml`: what each is bound to, and where its secret is.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use patchbay_core::{Name, text};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::{
    Binding, CommandLine, Origin, Placement, RequestError, Secret, SecretError, Variables, headers,
    key_command::KEY_COMMAND_MS,
    secrets::{KeyCommandError, Malformed, SecretLookup, SecretRef, SecretSource, Secrets},
};

/// One table `[credentials.NAME]` of `config.toml`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct CredentialConfig {
    /// The only origin that may receive the secret: scheme, host and port, without a path; https, or http to this
    /// machine.
    #[schemars(with = "String")]
    pub origin: Origin,
    /// The environment variable of the secret, or a list of variables, of which the first that is not empty is used. The default is
    /// the credential's name in capitals, with `_` for `-`, and `_TOKEN`: `GITHUB_TOKEN`.
    pub env: Option<Variables>,
    /// A command that prints the secret: a list of a program and its arguments, instead of `env`. It is run without
    /// a shell when a request needs the secret: [providers.md](providers.md#a-key-from-a-command).
    pub key_command: Option<CommandLine>,
    /// Time limit of one run of `key_command`, in milliseconds; 10 seconds if it is not set.
    #[schemars(range(min = 1, max = KEY_COMMAND_MS))]
    pub key_command_ms: Option<u64>,
    /// The only header that may contain the secret, such as `"private-token"`. If neither `header` nor `query` is
    /// set, the skill chooses the header.
    pub header: Option<String>,
    /// The only parameter of the query that may contain the secret, such as `"key"`. Servers log and store URLs, so no
    /// secret is sent in a query unless this is set.
    pub query: Option<String>,
}

/// Why a credential cannot be sent in the place that a skill chose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The operator did not allow the query.
    #[error(
        "credential '{name}' may not be sent in the query; to allow it, write query = {parameter:?} in \
         [credentials.{name}] of config.toml"
    )]
    Query {
        /// The name of the credential.
        name: Name,
        /// The parameter that the skill names.
        parameter: String,
    },
    /// The operator allowed only another place.
    #[error(
        "credential '{name}' may not be sent in {asked}; [credentials.{name}] of config.toml only allows \
        {allowed}"
    )]
    Elsewhere {
        /// The name of the credential.
        name: Name,
        /// The place that the skill names.
        asked: String,
        /// The place that `config.toml` names.
        allowed: String,
    },
    /// The request contains the credential already.
    #[error("credential '{name}' is placed more than once in a request; place it once")]
    Twice {
        /// The name of the credential.
        name: Name,
    },
}

impl CredentialConfig {
    /// Checks that the secret of the credential `name` may be placed at `placement`.
    ///
    /// # Errors
    /// [`PlacementError::Query`], [`PlacementError::Elsewhere`].
    pub fn check(&self, name: &Name, placement: &Placement) -> Result<(), PlacementError> {
        let words = |placement: &Placement| match placement {
            Placement::Header { name, .. } => format!("the header '{}'", text::excerpt(name, 40)),
            Placement::Query(name) => format!("the query parameter '{}'", text::excerpt(name, 40)),
        };
        let allowed = match (&self.header, &self.query) {
            (Some(header), _) => Placement::Header { name: header.clone(), prefix: String::new() },
            (None, Some(parameter)) => Placement::Query(parameter.clone()),
            (None, None) => {
                return match placement {
                    Placement::Header { .. } => Ok(()),
                    Placement::Query(parameter) => {
                        let parameter = text::excerpt(parameter, 40);
                        Err(PlacementError::Query { name: name.clone(), parameter })
                    }
                };
            }
        };
        let fits = match (&allowed, placement) {
            (Placement::Header { name: allowed, .. }, Placement::Header { name, .. }) => {
                allowed.eq_ignore_ascii_case(name)
            }
            (Placement::Query(allowed), Placement::Query(name)) => allowed == name,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let (asked, allowed) = (words(placement), words(&allowed));
        Err(PlacementError::Elsewhere { name: name.clone(), asked, allowed })
    }

    /// Returns where the secret of the credential `name` is looked up: in the output of `key_command` if it is set,
    /// otherwise in [`Self::variables`] and then in `credentials.json`.
    pub fn secret(&self, name: &Name) -> SecretRef {
        let lookup = match &self.key_command {
            Some(line) => SecretLookup::Command(line.within(self.key_command_ms)),
            None => SecretLookup::Stored(self.variables(name)),
        };
        SecretRef { name: name.clone(), lookup }
    }

    /// Returns the environment variables in which the secret of the credential `name` is looked up if there is no
    /// `key_command`: the configured `env`, or the name in capitals, with `_` for `-`, and `_TOKEN`.
    pub fn variables(&self, name: &Name) -> Variables {
        let made = || format!("{}_TOKEN", name.as_str().to_ascii_uppercase().replace('-', "_"));
        self.env.clone().unwrap_or_else(|| Variables::new([made()]))
    }
}

/// Why a credential cannot be used. No message contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// `config.toml` has no such credential.
    #[error("credential '{name}' not found: add a table [credentials.{name}] with its origin to config.toml")]
    NotConfigured {
        /// The name that the skill requested.
        name: Name,
    },
    /// Neither the environment nor `credentials.json` has its secret.
    #[error(
        "credential '{name}' has no secret: set {variables}, or add \"{name}\": {{\"api_key\": \"…\"}} to credentials.json"
    )]
    NoSecret {
        /// The name of the credential.
        name: Name,
        /// The environment variables that were checked.
        variables: Variables,
    },
    /// Its key command produced no key.
    #[error(transparent)]
    KeyCommand(#[from] KeyCommandError),
    /// The secret cannot be sent.
    #[error("the secret of credential '{name}' in {place} cannot be used: {source}")]
    Unusable {
        /// The name of the credential.
        name: Name,
        /// Where the secret was looked up.
        place: SecretSource,
        /// Why the secret or file cannot be used.
        source: SecretError,
    },
    /// `credentials.json` exists but cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Unreadable {
        /// The path of `credentials.json`.
        file: PathBuf,
        /// The error reported by the operating system.
        source: std::io::Error,
    },
    /// `credentials.json` as a whole cannot be used.
    #[error("{}, {source}", file.display())]
    Malformed {
        /// The path of `credentials.json`.
        file: PathBuf,
        /// Why the secret or file cannot be used.
        source: Malformed,
    },
    /// The credential's entry in `credentials.json` cannot be used.
    #[error("{}: the entry '{name}' has no key; write \"{name}\": {{\"api_key\": \"…\"}}", file.display())]
    Entry {
        /// The path of `credentials.json`.
        file: PathBuf,
        /// The name of the credential.
        name: Name,
    },
}

impl CredentialError {
    /// Returns the kind of the error in the plugin contract: `not-found` or `unavailable`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } => "not-found",
            Self::NoSecret { .. }
            | Self::KeyCommand(_)
            | Self::Unusable { .. }
            | Self::Unreadable { .. }
            | Self::Malformed { .. }
            | Self::Entry { .. } => "unavailable",
        }
    }

    /// Returns the message for a plugin. It contains neither paths of the operator's files nor a key command.
    pub fn for_plugin(&self) -> String {
        match self {
            Self::KeyCommand(error) => error.without_command(),
            Self::Unreadable { source, .. } => format!("cannot read credentials.json: {source}"),
            Self::Malformed { source, .. } => format!("credentials.json, {source}"),
            Self::Entry { name, .. } => {
                format!("credentials.json: the entry '{name}' has no key; write \"{name}\": {{\"api_key\": \"…\"}}")
            }
            error => error.to_string(),
        }
    }
}

/// A secret, and the only origin that may receive it.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The origin that the secret is bound to.
    pub origin: Origin,
    /// The secret that a request may use.
    pub secret: Secret,
}

/// All credentials in the operator's configuration.
#[derive(Debug)]
pub struct Credentials {
    table: BTreeMap<Name, CredentialConfig>,
    secrets: Arc<Secrets>,
}

impl Credentials {
    /// Returns the credentials of `table`, with secrets in the environment or in the `credentials.json` of the folder
    /// `config`. Reads nothing yet.
    pub fn open(config: &Path, table: BTreeMap<Name, CredentialConfig>) -> Self {
        Self::new(table, Arc::new(Secrets::open(config)))
    }

    /// Like [`Credentials::open`], but looks secrets up in `secrets`, which can be shared. Binds each secret to its
    /// origin.
    pub fn new(table: BTreeMap<Name, CredentialConfig>, secrets: Arc<Secrets>) -> Self {
        let bindings = table.iter();
        secrets.bind(
            bindings.map(|(name, config)| Binding { secret: config.secret(name), origin: config.origin.clone() }),
        );
        Self { table, secrets }
    }

    /// Returns the secrets of the home.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the operator's configuration of the credential `name`.
    ///
    /// # Errors
    /// [`CredentialError::NotConfigured`].
    pub fn config(&self, name: &Name) -> Result<&CredentialConfig, CredentialError> {
        self.table.get(name).ok_or_else(|| CredentialError::NotConfigured { name: name.clone() })
    }

    /// Returns the credential `name`. Runs its key command, if it has one and no key from it is cached.
    ///
    /// # Errors
    /// [`CredentialError`], with the next step. The next call searches for the secret again.
    pub async fn get(&self, name: &Name) -> Result<Credential, CredentialError> {
        let config = self.config(name)?;
        let secret = self.secrets.get(&config.secret(name)).await?;
        Ok(Credential { origin: config.origin.clone(), secret })
    }

    /// Runs the key command of the credential `name` again after a server rejected `secret`, and returns the new
    /// secret; `None` if the credential has no key command.
    ///
    /// # Errors
    /// Every failure is reported as [`CredentialError`].
    pub async fn renew(&self, name: &Name, secret: &Secret) -> Result<Option<Secret>, CredentialError> {
        let found = self.config(name)?.secret(name);
        if found.command().is_none() {
            return Ok(None);
        }
        self.secrets.discard(&found, secret).await;
        self.secrets.get(&found).await.map(Some)
    }
}

/// A string in place of a table may be the secret itself. Errors therefore never quote it.
impl<'de> Deserialize<'de> for CredentialConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(deserialize_with = "origin")]
            origin: Origin,
            #[serde(default, deserialize_with = "variables")]
            env: Option<Variables>,
            #[serde(default)]
            key_command: Option<CommandLine>,
            #[serde(default)]
            key_command_ms: Option<u64>,
            #[serde(default, deserialize_with = "header")]
            header: Option<String>,
            #[serde(default, deserialize_with = "query")]
            query: Option<String>,
        }
        struct TableAlone;
        impl<'de> Visitor<'de> for TableAlone {
            type Value = CredentialConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with `origin`")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CredentialConfig, A::Error> {
                let Table { origin, env, key_command, key_command_ms, header, query } =
                    Table::deserialize(MapAccessDeserializer::new(map))?;
                if env.is_some() && key_command.is_some() {
                    return Err(A::Error::custom("a secret has one source: set `env` or `key_command`, not both"));
                }
                if header.is_some() && query.is_some() {
                    return Err(A::Error::custom(
                        "a credential goes into one place: set `header` or `query`, not both",
                    ));
                }
                Ok(CredentialConfig { origin, env, key_command, key_command_ms, header, query })
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<CredentialConfig, E> {
                Err(E::custom(
                    "a credential is a table with `origin`; its secret belongs in the environment or in \
                     credentials.json",
                ))
            }
        }
        deserializer.deserialize_map(TableAlone)
    }
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    let origin: Origin = String::deserialize(deserializer)?.parse().map_err(D::Error::custom)?;
    if origin.is_plain() && !origin.is_this_machine() {
        return Err(D::Error::custom(format!(
            "{origin} would receive the secret unencrypted: plain http is only allowed for this machine. Use https"
        )));
    }
    Ok(origin)
}

fn header<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let header = String::deserialize(deserializer)?;
    // Do not quote the value, which may be the secret itself.
    match headers::checked(&header, "") {
        Ok(_) => Ok(Some(header)),
        Err(RequestError::ReservedHeader(name)) => {
            Err(D::Error::custom(format!("the header '{name}' is set by the host")))
        }
        Err(_) => Err(D::Error::custom("invalid header name: use letters, digits and '-'")),
    }
}

fn query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let parameter = String::deserialize(deserializer)?;
    let fits = (1..=64).contains(&parameter.len()) && parameter.bytes().all(|byte| byte.is_ascii_graphic());
    match fits {
        true => Ok(Some(parameter)),
        false => Err(D::Error::custom("invalid query parameter: use 1 to 64 ASCII characters without white space")),
    }
}

/// Parses `env`. An empty string is an error, because a credential needs at least one variable.
fn variables<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Variables>, D::Error> {
    let variables = Variables::deserialize(deserializer)?;
    match variables.is_empty() {
        true => Err(D::Error::custom("invalid name of an environment variable: use A-Z, 0-9 and '_'")),
        false => Ok(Some(variables)),
    }
}

#[cfg(test)]
mod tests;
