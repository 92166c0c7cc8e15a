//! The credentials that the operator named in `config.toml`: what each is bound to, and where its secret is.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use patchbay_core::Name;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use crate::{
    Origin, Secret, SecretError,
    address::Class,
    secrets::{Malformed, Place, Secrets},
};

/// One `[credentials.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct CredentialConfig {
    /// The one origin that may see the secret: scheme, host and port, without a path; https, or http to this machine.
    #[schemars(with = "String")]
    pub origin: Origin,
    /// The environment variable that may hold the secret. If it is not named, it is the credential's name in capitals, each
    /// `-` an `_`, and `_TOKEN`: `GITHUB_TOKEN`.
    pub env: Option<String>,
}

impl CredentialConfig {
    /// The environment variable of the credential `name`: `env`, else the name in capitals, each `-` an `_`, and `_TOKEN`.
    pub fn variable(&self, name: &Name) -> String {
        let made = || format!("{}_TOKEN", name.as_str().to_ascii_uppercase().replace('-', "_"));
        self.env.clone().unwrap_or_else(made)
    }
}

/// Why a credential cannot be used. No text holds a secret, or a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// `config.toml` does not have it.
    #[error(
        "there is no credential '{name}': config.toml needs a table [credentials.{name}] with the origin that it is for"
    )]
    NotConfigured {
        /// What was asked for.
        name: Name,
    },
    /// Neither the environment nor `credentials.json` has its secret.
    #[error(
        "credential '{name}' has no secret: set {variable}, or add \"{name}\": {{\"token\": \"…\"}} to credentials.json"
    )]
    NoSecret {
        /// The credential.
        name: Name,
        /// The environment variable that is looked at.
        variable: String,
    },
    /// Its secret cannot be sent.
    #[error("the secret of credential '{name}' in {place} cannot be used: {source}")]
    Unusable {
        /// The credential.
        name: Name,
        /// Where the secret is.
        place: Place,
        /// What is wrong with it.
        source: SecretError,
    },
    /// `credentials.json` is there and cannot be read.
    #[error("credentials.json cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// `credentials.json` is not of its form.
    #[error("credentials.json, {0}")]
    Malformed(#[from] Malformed),
}

impl CredentialError {
    /// The stable word for it, as plugins know it: `not-found` or `unavailable`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotConfigured { .. } => "not-found",
            Self::NoSecret { .. } | Self::Unusable { .. } | Self::Unreadable(_) | Self::Malformed(_) => "unavailable",
        }
    }
}

/// A secret, and the one origin that may see it.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The origin that it is bound to.
    pub origin: Origin,
    /// The secret.
    pub secret: Secret,
}

/// Every credential of the operator's.
#[derive(Debug)]
pub struct Credentials {
    table: BTreeMap<Name, CredentialConfig>,
    secrets: Arc<Secrets>,
}

impl Credentials {
    /// What `table` names, with secrets in the environment or in `credentials.json` of the folder `config`. Nothing is
    /// read yet.
    pub fn open(config: &Path, table: BTreeMap<Name, CredentialConfig>) -> Self {
        Self::new(table, Arc::new(Secrets::open(config)))
    }

    /// The same with secrets that others look up, too.
    pub fn new(table: BTreeMap<Name, CredentialConfig>, secrets: Arc<Secrets>) -> Self {
        Self { table, secrets }
    }

    /// The credential `name`. Its secret is read when it is first asked for, and held from then on.
    ///
    /// # Errors
    /// [`CredentialError`], which says what to do next. It is looked for anew the next time.
    pub fn get(&self, name: &Name) -> Result<Credential, CredentialError> {
        let not_configured = || CredentialError::NotConfigured { name: name.clone() };
        let config = self.table.get(name).ok_or_else(not_configured)?;
        let secret = self.secrets.get(name, &config.variable(name))?;
        Ok(Credential { origin: config.origin.clone(), secret })
    }
}

/// A text where a table should be is perhaps the secret itself: no error quotes it.
impl<'de> Deserialize<'de> for CredentialConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            #[serde(deserialize_with = "origin")]
            origin: Origin,
            #[serde(default, deserialize_with = "variable")]
            env: Option<String>,
        }
        struct TableAlone;
        impl<'de> Visitor<'de> for TableAlone {
            type Value = CredentialConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with `origin`")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CredentialConfig, A::Error> {
                let Table { origin, env } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(CredentialConfig { origin, env })
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<CredentialConfig, E> {
                Err(E::custom(
                    "a credential is a table with `origin`; its secret belongs into the environment or credentials.json",
                ))
            }
        }
        deserializer.deserialize_map(TableAlone)
    }
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    let origin: Origin = String::deserialize(deserializer)?.parse().map_err(D::Error::custom)?;
    let loopback = match origin.host().parse() {
        Ok(address) => matches!(Class::of(address), Class::Loopback),
        Err(_) => origin.host() == "localhost" || origin.host().ends_with(".localhost"),
    };
    if origin.is_plain() && !loopback {
        return Err(D::Error::custom(format!(
            "{origin} would get the secret without encryption: plain http is only for this machine. Use https"
        )));
    }
    Ok(origin)
}

/// Whether `text` can name an environment variable.
pub fn is_variable(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    text.bytes().next().is_some_and(letter) && text.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let variable = String::deserialize(deserializer)?;
    if !is_variable(&variable) {
        // What stands there may be the secret itself.
        return Err(D::Error::custom("this is not the name of an environment variable: use A-Z, 0-9 and '_'"));
    }
    Ok(Some(variable))
}

#[cfg(test)]
mod tests;
