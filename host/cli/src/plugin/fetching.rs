//! Fetches packages for `patchbay plugin add` and `update`, under the operator's rules.

use patchbay_core::{Code, Digest};
use patchbay_plugin::{FetchOptions, FetchedPackage, PackageAddress, PackageRules, RuleError, RuledPackage, SignIn};
use patchbay_policy::Capability;
use patchbay_skill::{Fingerprint, LockedPackage};

use super::registries::sign_in;
use crate::{
    CliError,
    args::RegistrySignIn,
    config::{self, ConfigFile},
    home::HomeDirs,
};

/// The settings of the home that fetching needs.
pub(super) struct Fetching {
    home: HomeDirs,
    config: ConfigFile,
    rules: PackageRules,
}

/// Parses the address of a package.
pub(super) fn parse_address(written: &str) -> Result<PackageAddress, CliError> {
    written
        .parse()
        .map_err(|error: patchbay_plugin::AddressError| CliError::new(Code::InvalidArgs, format!("{error}.")))
}

impl Fetching {
    pub(super) fn new() -> Result<Self, CliError> {
        let home = HomeDirs::find()?;
        let config = config::read(&home.paths.config)?;
        let rules = config.package_rules();
        Ok(Self { home, config, rules })
    }

    /// Checks that a package may come from `address`, before anything is sent there.
    pub(super) fn check_source(&self, address: &PackageAddress) -> Result<(), CliError> {
        Ok(self.rules.check_source(&address.source())?)
    }

    /// Checks the rules for a package, and returns a line about its signer.
    pub(super) fn judge(
        &self,
        address: &PackageAddress,
        signer: Option<Fingerprint>,
        asks: &[Capability],
    ) -> Result<String, CliError> {
        let publisher = self.rules.judge(&RuledPackage { from: &address.source(), signer, asks })?;
        Ok(match (signer, publisher) {
            (None, _) => "signer: none, so nothing proves who made it".to_owned(),
            (Some(signer), Some(publisher)) => format!("signer: {signer}, a key of [publishers.{publisher}]"),
            (Some(signer), None) => format!("signer: {signer}; compare it with the one that its publisher names"),
        })
    }

    /// Fetches the package at `address`.
    pub(super) async fn fetch(
        &self,
        address: &PackageAddress,
        sha256: Option<Digest>,
        sign_in: SignIn,
    ) -> Result<FetchedPackage, CliError> {
        Ok(address.fetch(&FetchOptions { sha256, sign_in }).await?)
    }

    /// Returns the address of the version that `update` would install.
    pub(super) async fn newest(
        &self,
        address: &PackageAddress,
        package: &LockedPackage,
        wanted: Option<&str>,
        sign_in: &SignIn,
    ) -> Result<PackageAddress, CliError> {
        Ok(address.newest(package.version.as_deref(), wanted, sign_in).await?)
    }

    /// Returns how to sign in, if `address` is in a registry.
    pub(super) async fn sign_in(
        &self,
        address: &PackageAddress,
        arguments: &RegistrySignIn,
    ) -> Result<SignIn, CliError> {
        match address {
            PackageAddress::Registry(address) => {
                sign_in(&self.home.paths.config, &self.config, address, arguments).await
            }
            _ => Ok(SignIn::default()),
        }
    }
}

impl From<RuleError> for CliError {
    fn from(error: RuleError) -> Self {
        Self::new(error.code(), format!("{error}."))
    }
}
