//! `patchbay-bundle FROM TO`: builds every skill in the folder FROM and lays what the host embeds into TO: `NAME.wasm` and
//! `NAME.json`, what the component answers when it is asked for its tools; or, for a skill without tools, `NAME.md`. What is
//! unchanged is not written again.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use patchbay_core::{Digest, ToolSpec};
use patchbay_plugin::{Options, build, inspect_path};
use serde::Serialize;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else { bail!("usage: patchbay-bundle FROM TO") };
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
        wanted.extend(bundle(&folder, to).await?);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !wanted.contains(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Builds one skill; gives the names of its files.
async fn bundle(folder: &Path, to: &Path) -> Result<Vec<OsString>> {
    let name = folder.file_name().context("a folder without a name")?.to_os_string();
    let file = |extension: &str| Path::new(&name).with_extension(extension).into_os_string();
    let component = file("wasm");
    let built = build(folder, &Options { out: Some(to.join(&component)), ..Options::default() })?;
    if built.component.is_some() {
        let report = inspect_path(&to.join(&component)).await?;
        if !report.problems.is_empty() {
            bail!("{}: {}", name.display(), report.problems.join(" "));
        }
        let answer = file("json");
        let known = Known { digest: report.digest.context("a component without a digest")?, tools: &report.tools };
        write_changed(&to.join(&answer), &serde_json::to_vec(&known)?)?;
        println!("{:<14} {:>9} bytes  tools: {}", built.name, built.size, tools(&report));
        return Ok(vec![component, answer]);
    }
    let text = file("md");
    write_changed(&to.join(&text), &fs::read(folder.join("SKILL.md"))?)?;
    println!("{:<14} no tools", built.name);
    Ok(vec![text])
}

/// What the host need not ask a bundled component again.
#[derive(Serialize)]
struct Known<'a> {
    digest: Digest,
    tools: &'a [ToolSpec],
}

fn write_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if !fs::read(path).is_ok_and(|there| there == bytes) {
        fs::write(path, bytes)?;
    }
    Ok(())
}

fn tools(report: &patchbay_plugin::Report) -> String {
    report.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ")
}
