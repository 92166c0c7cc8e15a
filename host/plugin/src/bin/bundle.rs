//! `patchbay-bundle FROM TO`: builds every plugin in the folders `skills` and `providers` of FROM and lays what the host embeds
//! into TO: `NAME.wasm` and `NAME.json`, what the component answers when it is asked for its tools; or, for a skill without
//! tools, `NAME.md`. Those of providers go into the folder `providers` of TO, and their answers are manifests. What is unchanged
//! is not written again, and what nobody builds any more is removed.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use patchbay_core::{Digest, ToolSpec};
use patchbay_plugin::{Inspector, Options, Report, build};
use patchbay_provider::ExchangeLimits;
use patchbay_sandbox::{Limits, adapter::AdapterManifest};
use serde::Serialize;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else { bail!("usage: patchbay-bundle FROM TO") };
    bundle_all(&from.join("skills"), to, skill).await?;
    bundle_all(&from.join("providers"), &to.join("providers"), provider).await
}

/// Builds the plugins in the folder `from`; `answer` gives what the host need not ask one of them again.
async fn bundle_all(from: &Path, to: &Path, answer: fn(&Report) -> Option<Answer<'_>>) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut folders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    let mut wanted = BTreeSet::new();
    for folder in folders {
        wanted.extend(bundle(&folder, to, answer).await?);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() && !wanted.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Builds one plugin; gives the names of its files.
async fn bundle(folder: &Path, to: &Path, answer: fn(&Report) -> Option<Answer<'_>>) -> Result<Vec<OsString>> {
    let name = folder.file_name().context("a folder without a name")?.to_os_string();
    let file = |extension: &str| Path::new(&name).with_extension(extension).into_os_string();
    let component = file("wasm");
    let built = build(folder, &Options { out: Some(to.join(&component)), ..Options::default() })?;
    if built.component.is_none() {
        let text = file("md");
        write_changed(&to.join(&text), &fs::read(folder.join("SKILL.md"))?)?;
        println!("{:<18} no tools", built.name);
        return Ok(vec![text]);
    }
    let limits = Limits::default();
    let inspector = Inspector::new(limits.clone(), ExchangeLimits::default().sandbox(&limits));
    let report = inspector.inspect(&to.join(&component)).await?;
    if !report.problems.is_empty() {
        bail!("{}: {}", name.display(), report.problems.join(" "));
    }
    let digest = report.digest.context("a component without a digest")?;
    let answer = answer(&report).with_context(|| format!("{} belongs elsewhere", folder.display()))?;
    println!("{:<18} {:>9} bytes  {}", built.name, built.size, answer.summary());
    let known = file("json");
    write_changed(&to.join(&known), &serde_json::to_vec(&Known { digest, answer })?)?;
    Ok(vec![component, known])
}

/// What the host need not ask a bundled component again.
#[derive(Serialize)]
struct Known<'a> {
    digest: Digest,
    #[serde(flatten)]
    answer: Answer<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<'a> {
    Tools(&'a [ToolSpec]),
    Manifest(&'a AdapterManifest),
}

fn skill(report: &Report) -> Option<Answer<'_>> {
    report.manifest.as_ref().map(|_| Answer::Tools(&report.tools))
}

fn provider(report: &Report) -> Option<Answer<'_>> {
    report.provider.as_ref().map(Answer::Manifest)
}

impl Answer<'_> {
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
