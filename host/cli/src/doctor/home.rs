//! Checks of the home: folders, settings, databases, sessions. Opens the host for the checks of plugins.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use patchbay_session::{Host, Paths, SessionError, Unobserved};
use patchbay_store::{DatabaseHealth, StoreError};
use serde_json::json;

use super::{
    edit,
    report::{DoctorReport, Fact},
    size, word,
};
use crate::{
    config::{self, ConfigFile},
    home::{self, HomeDirs},
    host_config, log,
};

/// A home that can be used, with its settings.
pub(super) struct OpenHome {
    pub(super) paths: Paths,
    pub(super) host: Arc<Host>,
    /// A second copy of the settings; the host owns the first.
    pub(super) config: ConfigFile,
    /// The folders of `skill_roots`, absolute.
    pub(super) skill_roots: Vec<PathBuf>,
}

/// Checks the home, and opens it if every part of it is usable.
pub(super) async fn check(report: &mut DoctorReport) -> Option<OpenHome> {
    let dirs = folders(report)?;
    let (config, again) = (settings(report, &dirs.paths.config)?, config::read(&dirs.paths.config).ok()?);
    let host = match host_config(&dirs, config, Unobserved) {
        Ok(config) => Host::open(config),
        Err(error) => {
            report.problem(error.to_string(), "mount -t proc proc /proc");
            return None;
        }
    };
    let data = &dirs.paths.data;
    match host {
        Ok(host) => {
            databases(report, &host, data).await;
            let skill_roots = again.skill_roots(dirs.home_folder.as_deref());
            Some(OpenHome { paths: dirs.paths, host, config: again, skill_roots })
        }
        Err(error) => {
            report.section("Databases", vec![Fact::new("state", "cannot be used")]);
            cannot_open(report, &error, &dirs.paths);
            None
        }
    }
}

/// Reports the folders. Returns them if they exist, or could be created, and are safe to use.
fn folders(report: &mut DoctorReport) -> Option<HomeDirs> {
    let paths = match home::paths() {
        Ok(paths) => paths,
        Err(error) => {
            report.problem(error.to_string(), "export PATCHBAY_HOME=/var/tmp/patchbay");
            return None;
        }
    };
    let found = HomeDirs::find();
    let folders =
        [("configuration", &paths.config), ("data", &paths.data), ("cache", &paths.cache), ("state", &paths.state)];
    let mut facts: Vec<Fact> = folders.iter().map(|(name, path)| Fact::new(name, path.to_string_lossy())).collect();
    facts.push(Fact::new("log", paths.state.join(log::NAME).to_string_lossy()));
    report.section("Folders", facts);
    let found = found.and_then(|dirs| log::start(&dirs.paths.state).map(|()| dirs));
    found.inspect_err(|error| report.problem(error.to_string(), mend_folder(&folders.map(|(_, path)| path)))).ok()
}

/// Returns the command that makes the first unusable folder usable.
fn mend_folder(folders: &[&PathBuf]) -> String {
    for folder in folders {
        // A file is in the place of the folder, or of one of its parents.
        if let Some(file) = folder.ancestors().find(|path| path.exists()).filter(|path| !path.is_dir()) {
            return format!("mv {0} {0}.old", word(file));
        }
        if fs::read_dir(folder).is_err() || is_foreign(folder) {
            return format!("sudo chown -R \"$(id -u)\" {0} && chmod u+rwx {0}", word(folder));
        }
    }
    "export PATCHBAY_HOME=/var/tmp/patchbay".to_owned()
}

/// Returns whether `folder` belongs to a different user than this process.
#[cfg(unix)]
fn is_foreign(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = tempfile::tempfile().and_then(|file| file.metadata());
    matches!((own, fs::metadata(folder)), (Ok(own), Ok(found)) if own.uid() != found.uid())
}

#[cfg(not(unix))]
fn is_foreign(_: &Path) -> bool {
    false
}

/// Reports the settings files. Returns the settings of `config.toml` if they are valid.
fn settings(report: &mut DoctorReport, folder: &Path) -> Option<ConfigFile> {
    let (file, secrets) = (folder.join("config.toml"), folder.join("credentials.json"));
    let config = config::read(folder);
    let state = match (&config, fs::metadata(&file)) {
        (Err(_), _) => "invalid",
        (Ok(_), Err(error)) if error.kind() == ErrorKind::NotFound => "not found; using defaults",
        (Ok(_), _) => "valid",
    };
    let secrets_state = credentials_state(report, &secrets);
    let facts =
        [("config.toml", &file, state), ("credentials.json", &secrets, secrets_state)].map(|(name, file, state)| {
            Fact::with(name, format!("{}, {state}", file.display()), json!({"path": file, "state": state}))
        });
    report.section("Settings", facts.into());
    config.inspect_err(|error| report.problem(error.to_string(), edit(&file))).ok()
}

/// Returns the state of `credentials.json`. A file that others may read is a problem. Its entries are checked with the keys.
fn credentials_state(report: &mut DoctorReport, file: &Path) -> &'static str {
    let Ok(found) = fs::metadata(file) else { return "not there" };
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o077 != 0 {
        report.problem(
            format!("Other users may read {}, which holds secrets.", file.display()),
            format!("chmod 600 {}", word(file)),
        );
        return "readable by others";
    }
    #[cfg(not(unix))]
    let _ = (found, report);
    "present"
}

async fn databases(report: &mut DoctorReport, host: &Host, data: &Path) {
    let mut facts = Vec::new();
    match host.database_health().await {
        Ok(databases) => {
            for DatabaseHealth { path, schema, bytes, damage, upgrade_copy } in databases {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let state = if damage.is_empty() { "intact" } else { "damaged" };
                let text = format!("{}, version {schema}, {}, {state}", path.display(), size(bytes));
                let value = json!({"path": path, "version": schema, "bytes": bytes, "damage": damage});
                facts.push(Fact::with(&name, text, value));
                if let Some(copy) = upgrade_copy {
                    facts.push(Fact::new(format!("{name} before its last upgrade"), copy.to_string_lossy()));
                }
                if let Some(first) = damage.first() {
                    let what = format!("The database {} is damaged: {first}.", path.display());
                    report.problem(what, set_aside(&path));
                }
            }
        }
        Err(error) => report.problem(error.to_string(), set_aside(&data.join("patchbay.db"))),
    }
    match host.store().sessions().await {
        Ok(sessions) => {
            let open = sessions.iter().filter(|session| host.session_holder(session.id).is_some()).count();
            let text = format!("{}, {open} of them open", sessions.len());
            facts.push(Fact::with("sessions", text, json!({"count": sessions.len(), "open": open})));
            if host.records() {
                let text = "on ([sessions] record): their inputs, answers and results are stored";
                facts.push(Fact::with("recording of calls", text, json!({"on": true})));
            }
        }
        Err(error) => report.problem(format!("{error}."), set_aside(&data.join("patchbay.db"))),
    }
    report.section("Databases", facts);
}

/// Returns the command that moves a database away, which makes the next start create an empty one. Nothing is deleted.
fn set_aside(database: &Path) -> String {
    format!("mv {0} {0}.damaged", word(database))
}

/// Reports why the host cannot be opened.
fn cannot_open(report: &mut DoctorReport, error: &SessionError, paths: &Paths) {
    let command = match error {
        SessionError::Store(StoreError::Newer { .. }) => {
            format!("export PATCHBAY_HOME=\"$HOME/patchbay-{}\"", env!("CARGO_PKG_VERSION"))
        }
        SessionError::Store(StoreError::UpgradeCopy { .. }) => format!("df -h {}", word(&paths.data)),
        SessionError::Store(StoreError::Unusable { path, .. }) => set_aside(path),
        SessionError::Store(StoreError::Io { path, .. }) => mend_folder(&[path]),
        _ => set_aside(&paths.data.join("patchbay.db")),
    };
    report.problem(error.to_string(), command);
}
