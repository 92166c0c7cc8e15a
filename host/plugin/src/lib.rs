//! Tools for plugin authors: the implementation of `patchbay plugin`.
//!
//! - [`create`]: writes the folder of a new plugin from a template, with SDK and contract; [`write_contract`] writes the contract
//!   alone, [`write_c_bindings`] the C bindings.
//! - [`Toolchains`]: installs the compilers that authors usually don't have.
//! - [`build`]: turns a folder with sources, or a `.wasm` from another compiler, into one `NAME.wasm`: a skill with its SKILL.md and
//!   its files embedded, or the adapter of a provider.
//! - [`write_agent_plugin`]: turns skills into an Agent Plugin, a folder that other clients can also load.
//! - [`Inspector`]: reports manifest, tools, imports, exports and digest of a plugin, and each reason why loading would
//!   refuse it.
//! - [`PluginWatch`]: reports which files of a plugin were saved.
//! - [`locate`]: finds the plugin that an author names, for `call` and `add`. [`link()`] links a skill into a skills folder, and
//!   [`uninstall`] removes one.
//! - [`package`]: copies plugins with a record of their origin, and updates them.
//! - [`PackageAddress`]: where a package comes from: a path, a URL, a registry. [`PackageRegistry`] also pushes packages.
//! - [`PackageRules`]: the operator's rules about sources and signers.
//!
//! The binary `patchbay-bundle` of this package builds the bundled plugins, which the binary `patchbay` then embeds.

mod agent_plugin;
mod build;
mod build_error;
mod compile;
mod contract;
mod create;
mod download;
mod embedded;
mod fetch;
mod files;
mod inspect;
mod install;
mod language;
mod located;
pub mod package;
mod printing;
mod publishers;
mod registry;
mod strip;
#[cfg(test)]
mod stub;
mod system_calls;
mod toolchain;
mod watch;
mod zig;

pub use agent_plugin::{AgentPluginOptions, WrittenAgentPlugin, write_agent_plugin};
pub use build::{BuildOptions, BuiltPlugin, build, has_sources};
pub use build_error::BuildError;
pub use compile::write_c_bindings;
pub use contract::write_contract;
pub use create::{CreateError, ZIG_INSTALL, create};
pub use download::{Download, DownloadError, DownloadLimits, Downloads, ExpectedFile};
pub use fetch::{AddressError, FetchError, FetchOptions, FetchedPackage, PackageAddress, WebAddress};
pub use inspect::{InspectionReport, Inspector};
pub use install::{InstallError, InstalledPlugin, link, uninstall};
pub use language::{Language, PluginKind, UnknownLanguage};
pub use located::{LocateError, LocatedPlugin, PluginForm, locate, locate_folder};
pub use publishers::{
    PackageRules, PluginRules, PublisherConfig, RuleError, RuledPackage, SignerChanged, SourcePattern, check_signer,
};
pub use registry::{PackageRegistry, Pushed, Reference, RegistryAddress, RegistryAddressError, RegistryError, SignIn};
pub use toolchain::{Toolchain, ToolchainError, Toolchains};
pub use watch::PluginWatch;
