//! Checks the plugins and their requirements: skills, grants, providers, models, keys.

use std::{collections::BTreeSet, path::Path};

use patchbay_core::{Code, Digest, Name};
use patchbay_egress::{CredentialError, SecretLookup, SecretRef, SecretSource, Secrets, Variables};
use patchbay_policy::Root;
use patchbay_provider::{ProviderSource, ProviderState, ProviderStatus};
use patchbay_session::workspace_path;
use patchbay_skill::{Diagnostic, Snapshot};
use serde_json::{Value, json};

use super::{
    edit,
    home::OpenHome,
    report::{DoctorReport, Fact},
    word,
};
use crate::authority;

/// Reports all plugins, with the skills of a new session on `workspace`.
pub(super) async fn check(report: &mut DoctorReport, home: &OpenHome, workspace: &Path) {
    skills(report, home, workspace).await;
    let blocked: BTreeSet<Digest> = match home.host.store().blocked().await {
        Ok(blocked) => blocked.into_iter().map(|blocked| blocked.component).collect(),
        Err(error) => {
            report
                .problem(format!("The list of blocked components cannot be read: {error}."), "patchbay plugin blocked");
            BTreeSet::new()
        }
    };
    let list = home.host.providers().list().await;
    providers(report, home, &list, &blocked);
    models(report, home, &list).await;
    keys(report, home, &list);
}

async fn skills(report: &mut DoctorReport, home: &OpenHome, workspace: &Path) {
    let snapshot = match home.host.preview_snapshot(workspace).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            let verb = if workspace.exists() { "ls -ld" } else { "mkdir -p" };
            report.problem(error.to_string(), format!("{verb} {}", word(workspace)));
            return;
        }
    };
    // The snapshot was built from the workspace, so its path exists.
    let path = workspace_path(workspace).unwrap_or_default();
    let is_trusted = home.host.store().is_trusted(&path).await.unwrap_or_default();
    let trust = if is_trusted { "trusted" } else { "not trusted" };
    let mut facts = vec![
        Fact::with("workspace", format!("{path}, {trust}"), json!({"path": path, "trusted": is_trusted})),
        Fact::list("bundled", &names(&snapshot, |root| root == Root::Bundled)),
        Fact::list("yours", &names(&snapshot, |root| root == Root::User)),
        Fact::list("of the workspace", &names(&snapshot, Root::is_workspace)),
    ];
    for (name, root) in [("of packages", Root::Package), ("of skill_roots", Root::Extra)] {
        let names = names(&snapshot, |other| other == root);
        facts.extend((!names.is_empty()).then(|| Fact::list(name, &names)));
    }
    let roots: Vec<String> = home.skill_roots.iter().map(|root| root.display().to_string()).collect();
    facts.extend((!roots.is_empty()).then(|| Fact::list("folders of skill_roots", &roots)));
    for root in home.skill_roots.iter().filter(|root| !root.exists()) {
        let what = format!("The folder {} of skill_roots in config.toml does not exist.", root.display());
        report.advise(what, format!("mkdir -p {}", word(root)));
    }
    let diagnostics = snapshot.diagnostics();
    let lines: Vec<String> =
        diagnostics.iter().map(|Diagnostic { name, code, message }| format!("{name} [{code}] {message}")).collect();
    facts.push(Fact::with(
        "diagnostics",
        if lines.is_empty() { "none".to_owned() } else { lines.join(" ") },
        json!(diagnostics),
    ));
    report.section("Skills", facts);
    for diagnostic in diagnostics.iter().filter(|diagnostic| is_problem(diagnostic.code)) {
        let Diagnostic { name, message, .. } = diagnostic;
        report.problem(format!("Skill '{name}': {message}"), mend_skill(home, Path::new(&path), diagnostic));
    }
    match authority::stale_grants(&home.host).await {
        Ok(stale) => {
            for grant in stale {
                report.problem(format!("A grant of skill '{}' is stale: {}", grant.skill, grant.why), grant.command);
            }
        }
        Err(error) => report.problem(error.to_string(), "patchbay grant list"),
    }
}

fn names(snapshot: &Snapshot, of: impl Fn(Root) -> bool) -> Vec<String> {
    snapshot.skills().filter(|skill| of(skill.root)).map(|skill| skill.name.to_string()).collect()
}

/// Returns whether a diagnostic needs fixing. Others report a decision, for example that a skill is for another operating system.
fn is_problem(code: Code) -> bool {
    !matches!(
        code,
        Code::Ineligible
            | Code::AliasShadowed
            | Code::NameShadowed
            | Code::UntrustedShadow
            | Code::FrontmatterMended
            | Code::SkillFileSkipped
            | Code::Blocked
    )
}

/// Returns a command that helps to fix a skill, usually by opening its SKILL.md in the editor or inspecting its component.
fn mend_skill(home: &OpenHome, workspace: &Path, diagnostic: &Diagnostic) -> String {
    let (own, of_workspace) = (home.paths.config.join("skills"), workspace.join(".patchbay/skills"));
    let name = Path::new(&diagnostic.name);
    // A diagnostic's name is cleaned for display, and may be the label of a root instead of a skill's name.
    if diagnostic.code == Code::FolderUnusable {
        let root = if diagnostic.name == "skills" { &own } else { &of_workspace };
        return format!("mv {0} {0}.old", word(root));
    }
    if diagnostic.code == Code::RootLimit {
        return edit(&home.paths.config.join("config.toml"));
    }
    let is_name = name.components().count() == 1;
    let folders = [of_workspace.join(name), own.join(name)];
    let files =
        folders.iter().flat_map(|folder| [folder.join("SKILL.md"), folder.with_extension("wasm"), folder.clone()]);
    let found = files.into_iter().find(|file| is_name && file.exists());
    match found {
        Some(file) if file.ends_with("SKILL.md") && diagnostic.code != Code::InvalidComponent => edit(&file),
        Some(file) if file.ends_with("SKILL.md") => {
            format!("patchbay plugin inspect {}", word(file.parent().unwrap_or(&file)))
        }
        Some(file) => format!("patchbay plugin inspect {}", word(&file)),
        None => "patchbay exec /skills".to_owned(),
    }
}

fn providers(report: &mut DoctorReport, home: &OpenHome, list: &[ProviderStatus], blocked: &BTreeSet<Digest>) {
    let facts = list.iter().map(|provider| {
        let reason = provider.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("{} ({}, {}){reason}", provider.state, provider.adapter, provider.source);
        let value = json!({
            "state": provider.state,
            "adapter": provider.adapter,
            "source": provider.source,
            "origin": provider.origin,
            "reason": provider.reason,
        });
        Fact::with(&provider.name, text, value)
    });
    report.section("Providers", facts.collect());
    let config = home.paths.config.join("config.toml");
    for provider in list {
        let reason = provider.reason.as_deref().unwrap_or("it cannot be used.");
        let what = format!("Provider '{}': {reason}", provider.name);
        let is_blocked = provider.digest.is_some_and(|digest| blocked.contains(&digest));
        match (provider.state, &provider.source) {
            // The operator blocked it, or it is a bundled provider that was never configured.
            (ProviderState::Refused, _) if is_blocked => {}
            (ProviderState::NeedsOrigin, ProviderSource::Bundled) => {}
            (ProviderState::Pending, _) => report.advise(what, format!("patchbay provider allow {}", provider.name)),
            (ProviderState::Refused, ProviderSource::File(file)) => {
                let file = home.host.providers().folder().join(file);
                report.problem(what, format!("patchbay provider check {}", word(&file)));
            }
            (ProviderState::Refused | ProviderState::NeedsOrigin, _) => report.problem(what, edit(&config)),
            // `models` and `keys` report missing keys.
            (ProviderState::Ready | ProviderState::NeedsKey, _) => {}
        }
    }
}

async fn models(report: &mut DoctorReport, home: &OpenHome, list: &[ProviderStatus]) {
    let config = edit(&home.paths.config.join("config.toml"));
    let (text, value) = match home.host.providers().default_choice().await {
        Ok(default) => {
            let model = default.choice.as_argument();
            if !default.configured {
                report.advise(
                    "No default model is set, so new sessions use demo-1, which only echoes. Set default_model.",
                    config,
                );
            } else if let Some(provider) =
                list.iter().find(|provider| provider.name == default.choice.provider.as_str())
                && provider.state == ProviderState::NeedsKey
            {
                let what = format!("The default model {model} cannot answer: provider '{}' has no key.", provider.name);
                report.problem(what, set_key(provider.variable.as_deref()));
            }
            (model.clone(), json!({"model": model, "configured": default.configured}))
        }
        Err(error) => {
            report.problem(error.to_string(), config);
            ("cannot be used".to_owned(), Value::Null)
        }
    };
    report.section("Models", vec![Fact::with("default model", text, value)]);
}

/// Reports which keys exist. Does not look for keys of providers that are unusable for a reason other than a missing key.
fn keys(report: &mut DoctorReport, home: &OpenHome, list: &[ProviderStatus]) {
    let secrets = Secrets::open(&home.paths.config);
    let mut facts = Vec::new();
    let mut faults = BTreeSet::new();
    for provider in list {
        if provider.key_command {
            facts.push(by_command(&provider.name));
            continue;
        }
        let (Some(variable), Ok(name)) = (&provider.variable, provider.name.parse::<Name>()) else { continue };
        let several = if provider.variables.is_empty() { std::slice::from_ref(variable) } else { &provider.variables };
        let variables = Variables::new(several.iter().cloned());
        if !matches!(provider.state, ProviderState::Ready | ProviderState::NeedsKey) {
            facts.push(Fact::with(
                &provider.name,
                format!("{variables}, not looked for"),
                json!({"variable": variable}),
            ));
            continue;
        }
        let found = secrets.locate(&SecretRef { name: name.clone(), lookup: SecretLookup::Stored(variables.clone()) });
        facts.push(key(&provider.name, &variables, &found));
        match found {
            Err(CredentialError::NoSecret { .. }) if provider.source != ProviderSource::Bundled => {
                report.problem(format!("Provider '{name}' has no key."), set_key(Some(variable)));
            }
            Ok(_) | Err(CredentialError::NoSecret { .. }) => {}
            Err(error) => fault(report, home, &error, &mut faults),
        }
    }
    for (name, config) in &home.config.credentials {
        let (label, secret) = (format!("credential {name}"), config.secret(name));
        let SecretLookup::Stored(variables) = &secret.lookup else {
            facts.push(by_command(&label));
            continue;
        };
        let found = secrets.locate(&secret);
        facts.push(key(&label, variables, &found));
        match found {
            Ok(_) => {}
            Err(CredentialError::NoSecret { .. }) => {
                report.problem(format!("Credential '{name}' has no secret."), set_key(Some(variables.first())));
            }
            Err(error) => fault(report, home, &error, &mut faults),
        }
    }
    report.section("Keys", facts);
}

/// Reports a key that cannot be used. A fault of the whole file is only reported once.
fn fault(report: &mut DoctorReport, home: &OpenHome, error: &CredentialError, faults: &mut BTreeSet<String>) {
    let command = match error {
        CredentialError::Unusable { place: SecretSource::Variable(variable), .. } => set_key(Some(variable)),
        _ => edit(&home.paths.config.join("credentials.json")),
    };
    if faults.insert(error.to_string()) {
        report.problem(format!("{error}."), command);
    }
}

fn key(name: &str, variables: &Variables, found: &Result<SecretSource, CredentialError>) -> Fact {
    let (text, present) = match found {
        Ok(place) => (format!("present in {place}"), true),
        Err(CredentialError::NoSecret { .. }) => (format!("missing; {variables} is not set"), false),
        Err(_) => ("cannot be used".to_owned(), false),
    };
    Fact::with(name, text, json!({"variable": variables.first(), "present": present}))
}

/// Reports a key that a command prints. The command is not run.
fn by_command(name: &str) -> Fact {
    Fact::with(name, "by command", json!({"key_command": true}))
}

fn set_key(variable: Option<&str>) -> String {
    format!("export {}=KEY", variable.unwrap_or("KEY_VARIABLE"))
}
