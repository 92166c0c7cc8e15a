//! `patchbay provider`: adds, allows, lists, refreshes, checks, removes and forgets adapters. `main` runs it.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::Arc,
};

use patchbay_core::{Code, Digest, Name, text};
use patchbay_provider::{CheckedAdapter, ModelError, ProviderSource, ProviderState, ProviderStatus, render};
use patchbay_session::Host;

use crate::{CliError, FAILED, args::Provider, out::say};

pub(crate) async fn run(host: &Arc<Host>, command: Provider) -> Result<ExitCode, CliError> {
    match command {
        Provider::Add { file, name } => add(host, &file, name.as_ref()).await?,
        Provider::Allow { name } => allow(host, &name).await?,
        Provider::Remove { name } => remove(host, &name).await?,
        Provider::Forget { name } => forget(host, &name).await?,
        Provider::List { json } => {
            let list = host.providers().list().await;
            if json {
                for provider in list {
                    say!("{}", serde_json::to_string(&provider).unwrap_or_default());
                }
            } else {
                say!("{}", render(&list));
            }
        }
        Provider::Refresh { name } => return refresh(host, name.as_ref()).await,
        Provider::Check { file } => return check(host, &file).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn refresh(host: &Arc<Host>, name: Option<&Name>) -> Result<ExitCode, CliError> {
    let refreshed = host.providers().refresh(name).await?;
    if refreshed.is_empty() {
        say!("No provider can list its models.");
    }
    for of in &refreshed {
        say!("{}: {}", of.provider, of.text);
    }
    Ok(if refreshed.iter().any(|of| of.failed) { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Adds or replaces the adapter in `file`, under its own name or as `name`.
pub(crate) async fn add(host: &Arc<Host>, file: &Path, name: Option<&Name>) -> Result<(), CliError> {
    let checked = host.providers().check(file, name).await.map_err(CliError::io(file))?;
    let (Some(name), Some(provider), []) = (&checked.name, &checked.status, &checked.problems[..]) else {
        let code = if checked.manifest.is_some() { Code::ProviderUnusable } else { Code::InvalidComponent };
        let why = text::clean_line(&checked.problems.join("; "));
        // A valid adapter has no status if another provider uses its name.
        let taken = checked.manifest.is_some() && checked.status.is_none();
        let hint =
            if taken { format!(": patchbay provider add {} --name NAME", file.display()) } else { ".".to_owned() };
        let message = format!("{} was not added: {}{hint}", file.display(), why.trim_end_matches('.'));
        return Err(CliError::new(code, message));
    };
    let before = named(host, name).await;
    let place = place(host, name);
    let there = place.exists();
    put(&place, &checked.bytes).map_err(CliError::io(&place))?;
    match before.as_ref().filter(|_| there) {
        None if there => say!("Replaced the file {}, which was not a provider.", place.display()),
        None => say!("Added provider '{name}' ({}).", provider.adapter),
        Some(before) if before.digest == Some(checked.digest) => {
            say!("Provider '{name}' is already installed ({}).", provider.adapter);
        }
        Some(before) => {
            say!("Replaced provider '{name}': it was {}, it is {}.", of(before), of(provider));
        }
    }
    print(provider);
    match &provider.reason {
        Some(reason) if provider.state == ProviderState::Pending => say!("It cannot be used yet: {reason}"),
        _ if provider.state == ProviderState::NeedsKey => {
            say!("It can be used once it has its key: {}", missing_key(provider))
        }
        _ => say!("It is ready. To use one of its models: /model {name}:MODEL"),
    }
    Ok(())
}

/// Returns the adapter with the start of its digest.
fn of(provider: &ProviderStatus) -> String {
    let digits: String = provider.digest.as_ref().map(Digest::to_hex).unwrap_or_default().chars().take(8).collect();
    format!("{} (sha256:{digits}…)", provider.adapter)
}

/// Writes a component atomically: readers see the previous file or the complete new one.
fn put(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // The watcher ignores the temporary name because it does not end in `.wasm`.
    let growing = place.with_extension(format!("wasm.{}", process::id()));
    let written = write(&growing, bytes).and_then(|()| fs::rename(&growing, place));
    written.inspect_err(|_| drop(fs::remove_file(&growing)))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.sync_all()
}

fn place(host: &Host, name: &Name) -> PathBuf {
    host.providers().folder().join(format!("{name}.wasm"))
}

async fn named(host: &Host, name: &Name) -> Option<ProviderStatus> {
    host.providers().list().await.into_iter().find(|provider| provider.name == name.as_str())
}

async fn allow(host: &Arc<Host>, name: &Name) -> Result<(), CliError> {
    let providers = host.providers();
    let Some(provider) = named(host, name).await else { return Err(unknown(name)) };
    if provider.digest.is_none() {
        let why = provider.reason.unwrap_or_default();
        return Err(ModelError::Refused { provider: name.clone(), why }.into());
    }
    match providers.asks(name).await? {
        Some(wanted) => {
            providers.allow(name, wanted).await?;
            say!("Provider '{name}' is allowed:");
        }
        None if provider.source == ProviderSource::Bundled => {
            say!("Provider '{name}' is bundled and needs no approval. It uses:");
        }
        None if provider.source == ProviderSource::Config => {
            say!("Provider '{name}' is configured in config.toml, which allows it. It uses:");
        }
        None => say!("Provider '{name}' is allowed already:"),
    }
    // The key of a pending provider was not looked up. After approval, the status reports whether it exists.
    let provider = named(host, name).await.unwrap_or(provider);
    match &provider.origin {
        Some(origin) => say!("  origin    {origin}, and nothing else"),
        None => say!("  origin    none: it has no network access"),
    }
    match provider.key_variables() {
        _ if provider.key_command => say!("  key       by command; sent to that origin only"),
        Some(variables) => {
            say!("  key       {variables}, or \"{name}\" in credentials.json; sent to that origin only");
            if !provider.credential {
                say!("The key is missing: {}", missing_key(&provider));
            }
        }
        None => say!("  key       none"),
    }
    Ok(())
}

/// Returns how to set the provider's key.
fn missing_key(provider: &ProviderStatus) -> String {
    provider.credential_problem.clone().unwrap_or_else(|| provider.how_to_set_key())
}

async fn remove(host: &Arc<Host>, name: &Name) -> Result<(), CliError> {
    let place = place(host, name);
    let provider = named(host, name).await;
    let had_file = match fs::remove_file(&place) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(CliError::io(&place)(error)),
    };
    let stays = match provider.as_ref().map(|provider| &provider.source) {
        Some(ProviderSource::Bundled) => Some(format!("provider '{name}' comes with Patchbay and cannot be removed.")),
        Some(ProviderSource::Config) => Some(format!(
            "provider '{name}' is configured in config.toml: remove its table [providers.{name}] there ({}).",
            host.providers().folder().with_file_name("config.toml").display()
        )),
        Some(ProviderSource::File(_)) | None => None,
    };
    if let Some(why) = stays {
        if had_file {
            say!("Removed the file {}, which was not a provider; '{name}' itself is unchanged.", place.display());
            return Ok(());
        }
        return Err(CliError::new(Code::InvalidArgs, why));
    }
    let forgotten = host.providers().forget(name).await?;
    match (had_file, forgotten) {
        (true, true) => {
            say!("Removed provider '{name}': its file, its approval, its prefixes and the names listed by its API.")
        }
        (true, false) => say!("Removed the file {}. It was never allowed anything.", place.display()),
        (false, true) => {
            say!(
                "Provider '{name}' no longer exists. Its approval, its prefixes and the names listed by its API are free."
            )
        }
        (false, false) => return Err(unknown(name)),
    }
    Ok(())
}

/// Frees the names of a provider that no longer exists. Names of an existing provider never move to another one.
async fn forget(host: &Arc<Host>, name: &Name) -> Result<(), CliError> {
    let config = host.providers().folder().with_file_name("config.toml");
    // The list includes files that are not valid adapters.
    let exists = match named(host, name).await.map(|provider| provider.source) {
        Some(ProviderSource::Bundled) => Some("it comes with Patchbay.".to_owned()),
        Some(ProviderSource::Config) => {
            Some(format!("remove its table [providers.{name}] from {} first.", config.display()))
        }
        Some(ProviderSource::File(_)) => Some(format!("to remove it: patchbay provider remove {name}")),
        None => None,
    };
    if let Some(why) = exists {
        let message = format!("provider '{name}' still exists and keeps its names: {why}");
        return Err(CliError::new(Code::InvalidArgs, message));
    }
    if !host.providers().forget(name).await? {
        let message = format!("nothing is stored about provider '{name}'. To list providers: patchbay provider list");
        return Err(CliError::new(Code::ProviderUnusable, message));
    }
    say!("Forgot provider '{name}': its approval, its prefixes and the names listed by its API are free.");
    Ok(())
}

async fn check(host: &Arc<Host>, file: &Path) -> Result<ExitCode, CliError> {
    let CheckedAdapter { name, bytes, digest, manifest, status, problems, printed } =
        host.providers().check(file, None).await.map_err(CliError::io(file))?;
    if manifest.is_some() {
        field("world", "patchbay:provider@0.1");
    }
    field("name", &name.as_ref().map(Name::to_string).unwrap_or_default());
    if let Some(manifest) = &manifest {
        field("adapter", &format!("{} {} ({})", manifest.name, manifest.version, manifest.display_name));
    }
    field("digest", &digest.to_string());
    field("size", &format!("{} bytes", bytes.len()));
    if let Some(status) = &status {
        print(status);
    }
    for problem in &problems {
        say!("wrong: {}", text::clean_line(problem));
    }
    for line in &printed {
        say!("  printed: {line}");
    }
    if !problems.is_empty() {
        return Ok(ExitCode::from(FAILED));
    }
    say!("It works. To add it: patchbay provider add {}", file.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints the origin, key, prefixes and models of a provider.
fn print(provider: &ProviderStatus) {
    field("origin", provider.origin.as_deref().unwrap_or_default());
    let key = if provider.key_command { Some("by command".to_owned()) } else { provider.key_variables() };
    field("key", &key.unwrap_or_default());
    field("prefixes", &provider.prefixes.join(", "));
    field("models", &provider.models.join(", "));
}

fn field(name: &str, value: &str) {
    say!("  {name:<9} {}", if value.is_empty() { "(none)" } else { value });
}

fn unknown(name: &Name) -> CliError {
    let message = format!("provider '{name}' not found. To list providers: patchbay provider list");
    CliError::new(Code::ProviderUnusable, message)
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
