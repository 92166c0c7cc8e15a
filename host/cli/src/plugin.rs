//! `patchbay plugin`: creates, builds, inspects and blocks plugins. `main` calls it.

mod add;
mod agent_plugin;
mod allow;
mod authoring;
mod bench;
mod call;
mod dev;
mod fetching;
mod list;
mod log;
mod packages;
mod push;
mod registries;
mod remove;
mod sync;
mod test;
mod update;

use std::{fs::File, io, path::Path, process::ExitCode, time::SystemTime};

use patchbay_core::{Code, Digest, text};
use patchbay_plugin::{AgentPluginOptions, BuildOptions, InspectionReport, Inspector, build, locate};
use patchbay_sandbox::{
    Artefacts, Compiler,
    adapter::{AdapterManifest, ModelEntry},
};
use patchbay_store::Store;

use crate::{
    CliError, FAILED,
    args::{Plugin, PluginBuild, ToolsCommand},
    blocks,
    compile::compiler,
    config::{self, ConfigFile},
    home::{self, HomeDirs},
    open,
    out::say,
};

pub(crate) use packages::{installed_servers, packages};

/// Limit of `plugin log --lines`.
const LOG_LINES: usize = 100_000;

pub(crate) async fn run(command: Plugin) -> Result<ExitCode, CliError> {
    match command {
        Plugin::New(new) => authoring::new(&new),
        Plugin::Wit { folder, kind } => authoring::wit(&folder, kind),
        Plugin::Bindings { language: _, folder, wit } => authoring::bindings(&wit, &folder),
        Plugin::Tools { command: ToolsCommand::Install { language } } => authoring::install(&language),
        Plugin::Build(arguments) => build_all(arguments).await,
        Plugin::Call(arguments) => call::run(&arguments).await,
        Plugin::Log { skill, follow, lines } => log::run(&skill, lines.clamp(1, LOG_LINES), follow),
        Plugin::Add(arguments) => add::run(&arguments).await,
        Plugin::Update(arguments) => update::run(&arguments).await,
        Plugin::Diff(arguments) => update::diff(&arguments).await,
        Plugin::Remove(arguments) => remove::run(&arguments).await,
        Plugin::Allow(arguments) => allow::allow(&arguments).await,
        Plugin::Deny(arguments) => allow::deny(&arguments).await,
        Plugin::Verify(arguments) => sync::verify(&arguments.names, arguments.json),
        Plugin::Sums(arguments) => sync::sums(&arguments.path),
        Plugin::Sync(arguments) => sync::run(&arguments).await,
        Plugin::Export(arguments) => sync::export(&arguments.folder),
        Plugin::Push(arguments) => push::run(&arguments).await,
        Plugin::List(arguments) => list::run(&arguments).await,
        Plugin::Test(arguments) => test::run(&arguments).await,
        Plugin::Dev(arguments) => dev::run(&arguments).await,
        Plugin::Inspect { path, json } => {
            let report = inspector(false)?.inspect(&path).await.map_err(CliError::io(&path))?;
            if json {
                say!("{}", serde_json::to_string(&report).unwrap_or_default());
            } else {
                print(&report);
            }
            Ok(code(&report))
        }
        Plugin::Block { digest } => blocks::block(&open(&HomeDirs::find()?)?, &digest).await,
        Plugin::Unblock { digest } => blocks::unblock(&open(&HomeDirs::find()?)?, &digest).await,
        Plugin::Blocked => blocks::list(&open(&HomeDirs::find()?)?).await,
    }
}

async fn build_all(arguments: PluginBuild) -> Result<ExitCode, CliError> {
    let PluginBuild { folders, out, wasm, target, agent_plugin, marketplace, claude } = arguments;
    let (toolchains, symbols) = (authoring::toolchains()?, Some(home::paths()?.symbols()));
    let build = BuildOptions { out, wasm, target, toolchains, symbols };
    match (agent_plugin, &folders[..]) {
        (Some(out), folders) => agent_plugin::build(folders, &AgentPluginOptions { out, marketplace, claude, build }),
        (None, [folder]) => build_one(folder, &build).await,
        (None, _) => {
            let message = "several folders are built together only with --agent-plugin OUT.".to_owned();
            Err(CliError::new(Code::InvalidArgs, message))
        }
    }
}

async fn build_one(folder: &Path, options: &BuildOptions) -> Result<ExitCode, CliError> {
    let built = build(folder, options).map_err(|error| CliError::new(Code::BuildFailed, error.to_string()))?;
    let inspector = inspector(true)?;
    let Some(component) = built.component else {
        let report = inspector.inspect(folder).await.map_err(CliError::io(folder))?;
        say!("{}: nothing to build: the skill is only its SKILL.md.", built.name);
        print_problems(&report);
        return Ok(code(&report));
    };
    let report = inspector.inspect(&component).await.map_err(CliError::io(&component))?;
    touch_outdated(folder, &component);
    say!("{}: {} bytes", component.display(), built.size);
    let (files, bytes, names) = (built.embedded_files, built.embedded_bytes, named(&built.embedded_names));
    match files {
        0 => {}
        1 => say!("embedded beside SKILL.md: 1 file, {bytes} bytes: {names}"),
        _ => say!("embedded beside SKILL.md: {files} files, {bytes} bytes: {names}"),
    }
    if let Some(provider) = &report.provider {
        say!("provider {}: {}", provider.name, provider.display_name);
    }
    print_contents(&report);
    if !built.left_out.is_empty() {
        say!("note: not embedded because they are sources of the component: {}", named(&built.left_out));
    }
    for note in &built.notes {
        say!("note: {}", text::clean_line(note));
    }
    print_problems(&report);
    Ok(code(&report))
}

/// Sets the modification time of a component that the build did not write again because it is unchanged.
fn touch_outdated(folder: &Path, component: &Path) {
    if locate(folder).is_ok_and(|located| located.newer.is_some()) {
        // Otherwise, 'plugin call' and 'add' would report that the component may be outdated.
        let _ = File::options().append(true).open(component).and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// How many file names are printed in one line.
const NAMED: usize = 10;

/// Quotes file names of a skill, and counts those beyond [`NAMED`].
fn named(names: &[String]) -> String {
    let mut shown: Vec<String> =
        names.iter().take(NAMED).map(|name| format!("'{}'", text::excerpt(name, 80))).collect();
    if names.len() > NAMED {
        shown.push(format!("{} more", names.len() - NAMED));
    }
    shown.join(", ")
}

/// Returns an inspector with the limits, the block list and the compiled components of the home, if a home exists. Does not create
/// a home. `keeps_functions` makes compiling faster for a plugin that is built here repeatedly.
fn inspector(keeps_functions: bool) -> Result<Inspector, CliError> {
    let home = HomeDirs::existing();
    let config = match &home {
        Some(home) => config::read(&home.paths.config)?,
        None => ConfigFile::default(),
    };
    let adapters = config.exchange.sandbox(&config.limits);
    let compiler = Compiler { keeps_functions, ..compiler()? };
    let Some(home) = home else {
        let artefacts = || Artefacts::not_kept(compiler.clone());
        return Ok(Inspector::with_artefacts(config.limits, adapters, artefacts, &home::paths()?.symbols()));
    };
    let store = Store::open(&home.paths.data)?;
    let artefacts = || home.paths.artefacts(&store, &compiler);
    let inspector = Inspector::with_artefacts(config.limits, adapters, artefacts, &home.paths.symbols());
    Ok(inspector.blocking(move |digest| {
        let store = store.clone();
        async move { store.is_blocked(&digest).await.map_err(io::Error::other) }
    }))
}

fn code(report: &InspectionReport) -> ExitCode {
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn field(name: &str, value: &str) {
    say!("{name:<16}{}", if value.is_empty() { "(none)" } else { value });
}

fn print(report: &InspectionReport) {
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
    if let Some(provider) = &report.provider {
        print_provider(provider);
    }
    field("size", &format!("{} bytes", report.size));
    let digest = |digest: Option<Digest>| digest.map(|digest| digest.to_string()).unwrap_or_default();
    field("digest", &digest(report.digest));
    if report.provider.is_none() {
        field("component", &digest(report.component));
    }
    field("imports", &text::clean_line(&report.imports.join(", ")));
    field("exports", &text::clean_line(&report.exports.join(", ")));
    print_contents(report);
    print_problems(report);
}

/// Prints an adapter's manifest without its models. The texts are already cleaned.
fn print_provider(provider: &AdapterManifest) {
    field("display_name", &provider.display_name);
    field("version", &provider.version);
    field("prefixes", &provider.model_prefixes.join(", "));
    field("base_url", provider.default_base_url.as_deref().unwrap_or_default());
    let credential = provider.credential.as_ref();
    field("credential", &credential.map(|asked| format!("{} ({})", asked.id, asked.scheme)).unwrap_or_default());
    let variables: Vec<_> =
        credential.iter().flat_map(|asked| asked.env.iter().chain(&asked.env_also)).map(String::as_str).collect();
    field("variable", &variables.join(" or "));
    field("obtain_url", credential.and_then(|asked| asked.obtain_url.as_deref()).unwrap_or_default());
    for (name, value) in &provider.extra {
        say!("extra {name}: {value}");
    }
}

fn print_model(model: &ModelEntry) {
    let levels: Vec<_> = model.suggested_levels.iter().map(|level| level.as_str()).collect();
    let parts = [
        model.size.as_str().to_owned(),
        levels.join(" "),
        model.context_window.map(|tokens| format!("{tokens} tokens")).unwrap_or_default(),
        model.input_media.join(" "),
        if model.deprecated { "deprecated".to_owned() } else { String::new() },
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    say!("model {}: {}", model.id, parts.join(", "));
}

/// Prints the tools of a skill, or the models of a provider.
fn print_contents(report: &InspectionReport) {
    for tool in &report.tools {
        say!("tool {}: {}", tool.name, text::clean_line(&tool.description));
        say!("  {}", tool.input_schema);
        for (name, value) in &tool.extra {
            say!("  {}: {}", text::clean_line(name), text::clean_line(value));
        }
    }
    for model in report.provider.iter().flat_map(|provider| &provider.models) {
        print_model(model);
    }
}

fn print_problems(report: &InspectionReport) {
    for note in &report.notes {
        say!("note: {}", text::clean_line(note));
    }
    for problem in &report.problems {
        say!("wrong: {}", text::clean_line(problem));
    }
    for place in &report.places {
        say!("  at {place}");
    }
    for line in &report.printed {
        say!("  printed: {line}");
    }
}
