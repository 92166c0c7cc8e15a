//! `patchbay-bundle FROM TO`: builds the bundled plugins. `make` runs it before it builds `patchbay`, which embeds the
//! result.
//!
//! It builds every plugin in the folders `skills` and `providers` of FROM and writes into TO:
//!
//! - for a skill with tools, `NAME.wasm` and `NAME.json` with the component's tools;
//! - for a skill without tools, `NAME.md`;
//! - for a provider, `providers/NAME.wasm` and `providers/NAME.json` with the adapter's manifest.
//!
//! Unchanged files are not written again, and a component whose digest is in its `NAME.json` is not inspected again: compiling it
//! takes seconds. If you change how the host reads descriptions, remove TO first; a test of `patchbay` fails if they are stale.
//! Files of plugins that no longer exist are removed.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use patchbay_core::{Digest, ToolSpec};
use patchbay_plugin::{BuildOptions, InspectionReport, Inspector, build};
use patchbay_provider::ExchangeLimits;
use patchbay_sandbox::{Limits, adapter::AdapterManifest};
use serde::{Deserialize, Serialize};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else { bail!("usage: patchbay-bundle FROM TO") };
    bundle_all(&from.join("skills"), to, skill).await?;
    bundle_all(&from.join("providers"), &to.join("providers"), provider).await
}

/// Builds the plugins in the folder `from`, and removes the files of other plugins from `to`.
async fn bundle_all(from: &Path, to: &Path, contents: ContentsOf) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    let mut built = BTreeSet::new();
    for folder in folders {
        built.extend(bundle(&folder, to, contents).await?);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() && !built.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Builds one plugin and returns the names of its files in `to`.
async fn bundle(folder: &Path, to: &Path, contents: ContentsOf) -> Result<Vec<OsString>> {
    let name = folder.file_name().context("a folder without a name")?.to_os_string();
    let file = |extension: &str| Path::new(&name).with_extension(extension).into_os_string();
    let component = file("wasm");
    let built = build(folder, &BuildOptions { out: Some(to.join(&component)), ..BuildOptions::default() })?;
    if built.component.is_none() {
        let text = file("md");
        write_changed(&to.join(&text), &fs::read(folder.join("SKILL.md"))?)?;
        println!("{:<18} no tools", built.name);
        return Ok(vec![text]);
    }
    let description = file("json");
    if described_digest(&to.join(&description)).is_some_and(|digest| Some(digest) == built.digest) {
        return Ok(vec![component, description]);
    }
    let limits = Limits::default();
    let inspector = Inspector::new(limits.clone(), ExchangeLimits::default().sandbox(&limits));
    let report = inspector.inspect(&to.join(&component)).await?;
    if !report.problems.is_empty() {
        bail!("{}: {}", name.display(), report.problems.join(" "));
    }
    let digest = report.component.context("a component without a digest")?;
    let contents = contents(&report).with_context(|| {
        format!("{}: skills belong in the folder 'skills', providers in 'providers'", folder.display())
    })?;
    println!("{:<18} {:>9} bytes  {}", built.name, built.size, contents.summary());
    write_changed(&to.join(&description), &serde_json::to_vec(&BundledDescription { digest, contents })?)?;
    Ok(vec![component, description])
}

/// Returns the digest in a `NAME.json`, or `None` if the file does not exist or is invalid.
fn described_digest(file: &Path) -> Option<Digest> {
    #[derive(Deserialize)]
    struct Described {
        digest: Digest,
    }
    serde_json::from_slice::<Described>(&fs::read(file).ok()?).ok().map(|described| described.digest)
}

/// The content of `NAME.json`: the component's description of itself. It lets the host start without running the component.
#[derive(Serialize)]
struct BundledDescription<'a> {
    digest: Digest,
    #[serde(flatten)]
    contents: BundledContents<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum BundledContents<'a> {
    Tools(&'a [ToolSpec]),
    Manifest(&'a AdapterManifest),
}

/// Selects the part of a report that goes into `NAME.json`. Returns `None` for a plugin of the other kind.
type ContentsOf = fn(&InspectionReport) -> Option<BundledContents<'_>>;

fn skill(report: &InspectionReport) -> Option<BundledContents<'_>> {
    report.manifest.as_ref().map(|_| BundledContents::Tools(&report.tools))
}

fn provider(report: &InspectionReport) -> Option<BundledContents<'_>> {
    report.provider.as_ref().map(BundledContents::Manifest)
}

impl BundledContents<'_> {
    fn summary(&self) -> String {
        match self {
            Self::Tools(tools) => {
                let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
                format!("tools: {}", names.join(", "))
            }
            Self::Manifest(manifest) => format!("models: {}", manifest.models.len()),
        }
    }
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if !fs::read(path).is_ok_and(|there| there == bytes) {
        fs::write(path, bytes)?;
    }
    Ok(())
}
