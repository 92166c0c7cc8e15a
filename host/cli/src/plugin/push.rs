//! `patchbay plugin push`: publishes a component in a registry.

use std::{path::PathBuf, process::ExitCode};

use patchbay_core::{Code, text};
use patchbay_plugin::{DownloadLimits, Downloads, FetchOptions, PackageAddress, PackageRegistry, Pushed, Reference};
use patchbay_skill::PushedComponent;

use super::{inspector, registries::sign_in};
use crate::{CliError, args::PluginPush, config, home, out::say};

pub(super) async fn run(push: &PluginPush) -> Result<ExitCode, CliError> {
    let (file, address) = (&push.file, &push.address);
    let refused = |why: String| CliError::new(Code::InvalidArgs, format!("cannot push {}: {why}", file.display()));
    let Reference::Version(version) = address.reference() else {
        let message = format!("a push needs a version: {}:VERSION", address.repository());
        return Err(CliError::new(Code::InvalidArgs, message));
    };
    // This also checks a signature beside the file.
    let local = PackageAddress::Local(PathBuf::from(file)).fetch(&FetchOptions::default()).await?;
    let report = inspector(false)?.inspect(file).await.map_err(CliError::io(file))?;
    if report.component.is_none() || !file.is_file() {
        return Err(refused(
            "it is not a component; 'patchbay plugin build' builds a folder into one file.".to_owned(),
        ));
    }
    if !report.problems.is_empty() {
        let problems: Vec<String> = report.problems.iter().map(|problem| text::clean_line(problem)).collect();
        return Err(refused(problems.join("; ")));
    }
    let own = match (&report.manifest, &report.provider) {
        (Some(manifest), _) => manifest.version.clone(),
        (None, Some(provider)) => Some(provider.version.clone()),
        (None, None) => return Err(refused("it has no SKILL.md, and is not an adapter.".to_owned())),
    };
    if let Some(own) = own.filter(|own| *own != version.to_string()) {
        return Err(refused(format!("its version is {}, and the address says {version}.", text::excerpt(&own, 40))));
    }
    let package = PushedComponent {
        title: format!("{}.wasm", report.name),
        component: std::fs::read(file).map_err(CliError::io(file))?,
        imports: report.imports.clone(),
        exports: report.exports.clone(),
        signature: local.signature.and_then(|signature| String::from_utf8(signature).ok()),
    };
    let folder = home::paths()?.config;
    let config = config::read(&folder)?;
    let sign_in = sign_in(&folder, &config, address, &push.sign_in).await?;
    let registry = PackageRegistry::new(Downloads::new(DownloadLimits::default()), address.clone(), sign_in);
    let (verb, digest) = match registry.push(version, &package).await? {
        Pushed::New(digest) => ("Pushed", digest),
        Pushed::Unchanged(digest) => ("Already published:", digest),
    };
    let signer = local.signer.map_or_else(|| "not signed".to_owned(), |signer| format!("signed by {signer}"));
    say!("{verb} {address} ({}; {signer})", text::size(package.component.len() as u64));
    say!("To add exactly this version: patchbay plugin add {}@{digest}", address.repository());
    Ok(ExitCode::SUCCESS)
}
