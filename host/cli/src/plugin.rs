//! `patchbay plugin`.

use std::{path::Path, process::ExitCode};

use patchbay_core::{Code, text};
use patchbay_plugin::{Options, Report, build, inspect_path};

use crate::{FAILED, Failure, args::Plugin, blocks, home::Home, open, out::say};

pub(crate) async fn run(command: Plugin) -> Result<ExitCode, Failure> {
    match command {
        Plugin::Build { folder, out, wasm, target } => build_one(&folder, &Options { out, wasm, target }).await,
        Plugin::Inspect { path, json } => {
            let report = inspect_path(&path).await.map_err(Failure::io(&path))?;
            if json {
                say!("{}", serde_json::to_string(&report).unwrap_or_default());
            } else {
                print(&report);
            }
            Ok(code(&report))
        }
        Plugin::Block { digest } => blocks::block(&open(&Home::find()?)?, &digest).await,
        Plugin::Unblock { digest } => blocks::unblock(&open(&Home::find()?)?, &digest).await,
        Plugin::Blocked => blocks::list(&open(&Home::find()?)?),
    }
}

async fn build_one(folder: &Path, options: &Options) -> Result<ExitCode, Failure> {
    let built = build(folder, options).map_err(|error| Failure::new(Code::BuildFailed, error.to_string()))?;
    let Some(component) = built.component else {
        say!("{}: nothing to build, its SKILL.md is all of it.", built.name);
        return Ok(ExitCode::SUCCESS);
    };
    let report = inspect_path(&component).await.map_err(Failure::io(&component))?;
    say!("{}: {} bytes", component.display(), built.size);
    print_tools(&report);
    print_problems(&report);
    Ok(code(&report))
}

fn code(report: &Report) -> ExitCode {
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn print(report: &Report) {
    let field = |name: &str, value: &str| say!("{name:<16}{}", if value.is_empty() { "(none)" } else { value });
    field("name", &text::clean_line(&report.name));
    if let Some(manifest) = &report.manifest {
        field("summary", &manifest.summary);
        field("version", manifest.version.as_deref().unwrap_or_default());
        field("invocation_mode", manifest.invocation_mode.as_str());
        field("command", &manifest.command.as_ref().map(|alias| format!("/{alias}")).unwrap_or_default());
        field("command_tool", manifest.command_tool.as_deref().unwrap_or_default());
        let asked: Vec<_> = manifest
            .capabilities
            .iter()
            .map(|asked| match (&asked.reason, asked.optional) {
                (Some(reason), _) => format!("{} ({reason})", asked.capability),
                (None, true) => format!("{} (optional)", asked.capability),
                (None, false) => asked.capability.to_string(),
            })
            .collect();
        field("capabilities", &asked.join(", "));
    }
    field("size", &format!("{} bytes", report.size));
    field("digest", &report.digest.map(|digest| digest.to_string()).unwrap_or_default());
    field("imports", &text::clean_line(&report.imports.join(", ")));
    field("exports", &text::clean_line(&report.exports.join(", ")));
    print_tools(report);
    print_problems(report);
}

fn print_tools(report: &Report) {
    for tool in &report.tools {
        say!("tool {}: {}", tool.name, text::clean_line(&tool.description));
        say!("  {}", tool.input_schema);
        for (name, value) in &tool.extra {
            say!("  {}: {}", text::clean_line(name), text::clean_line(value));
        }
    }
}

fn print_problems(report: &Report) {
    for problem in &report.problems {
        say!("wrong: {}", text::clean_line(problem));
    }
}
