//! Signs `patchbay plugin` in to registries, with the credential of `config.toml` that is bound to the registry.

use std::path::Path;

use patchbay_core::Code;
use patchbay_egress::{CredentialError, Credentials};
use patchbay_plugin::{DownloadLimits, Downloads, FetchError, PackageRegistry, RegistryAddress, RegistryError, SignIn};

use super::packages::ask;
use crate::{CliError, args::RegistrySignIn, config::ConfigFile, out::note};

/// Returns how to sign in to the registry of `address`. `folder` contains `config.toml`. If another server issues the
/// registry's tokens, asks before the credential is sent there.
pub(super) async fn sign_in(
    folder: &Path,
    config: &ConfigFile,
    address: &RegistryAddress,
    arguments: &RegistrySignIn,
) -> Result<SignIn, CliError> {
    let (origin, issuers) = (address.origin(), arguments.sign_in_at.clone());
    let mut names = config.credentials.iter().filter(|(_, table)| table.origin == *origin).map(|(name, _)| name);
    let Some(name) = names.next() else { return Ok(SignIn { credential: None, issuers }) };
    if let Some(other) = names.next() {
        let message = format!("config.toml has the credentials '{name}' and '{other}' for {origin}; keep one of them.");
        return Err(CliError::new(Code::ConfigInvalid, message));
    }
    let credentials = Credentials::open(folder, config.credentials.clone());
    let credential = match credentials.get(name).await {
        Ok(credential) => credential.secret,
        // Continue without a credential, because most packages are public.
        Err(CredentialError::NoSecret { .. }) => return Ok(SignIn { credential: None, issuers }),
        Err(error) => return Err(CliError::new(Code::RegistryFailed, format!("{error}."))),
    };
    let mut sign_in = SignIn { credential: Some(credential), issuers };
    let registry = PackageRegistry::new(Downloads::new(DownloadLimits::default()), address.clone(), sign_in.clone());
    let issuer = registry.issuer().await.map_err(CliError::from)?;
    if let Some(issuer) = issuer.filter(|issuer| !sign_in.issuers.contains(issuer)) {
        // Without a terminal the answer is no.
        if ask(&format!("{origin} issues its tokens at {issuer}. Send the credential '{name}' there?")) == Some(true) {
            sign_in.issuers.push(issuer);
        } else {
            note(&format!(
                "note: the credential '{name}' is not sent to {issuer}, which issues the tokens of {origin}. To send it: --sign-in-at {issuer}"
            ));
        }
    }
    Ok(sign_in)
}

impl From<RegistryError> for CliError {
    fn from(error: RegistryError) -> Self {
        Self::new(error.code(), format!("{error}."))
    }
}

impl From<FetchError> for CliError {
    fn from(error: FetchError) -> Self {
        Self::new(error.code(), format!("{error}."))
    }
}
