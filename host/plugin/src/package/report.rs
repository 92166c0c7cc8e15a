//! The content of a package, as it is shown when the user is asked to approve it.

use std::{collections::BTreeMap, path::Path};

use patchbay_core::{Code, Digest, Name, PackageName, text};
use patchbay_policy::{Capability, allow_server_command};
use patchbay_skill::{
    LockedPackage, LockedServer, LockedSkill, PACKAGE_SERVERS, PACKAGE_SKILLS, PackageKind, RequestedCapability,
    SKILL_MD_BYTES,
    agent_plugin::{AgentPlugin, PackageServer, PackageSkill, ServerTransport, Sums},
    embedded_skill_md,
};
use patchbay_tools::command_line;
use serde_json::{Value, json};

use super::{
    PackageError,
    staged::{PackageContent, only_entry},
};
use crate::{InspectionReport, Inspector, inspect};

/// The content of a copy of a package.
#[derive(Clone, Debug)]
pub struct PackageReport {
    /// The name in the lock.
    pub name: PackageName,
    /// The form.
    pub kind: PackageKind,
    /// The version that the package states.
    pub version: Option<String>,
    /// The digest of the package.
    pub digest: Digest,
    /// All files, with their digests.
    pub sums: Sums,
    /// The skills that can be used, sorted by path.
    pub skills: Vec<SkillReport>,
    /// The skills that cannot be used.
    pub left_out: Vec<LeftOut>,
    /// The servers that the package declares.
    pub servers: Vec<PackageServer>,
    /// Other parts of the package that are not used, with the reason.
    pub notes: Vec<String>,
}

/// A skill of a package.
#[derive(Clone, Debug)]
pub struct SkillReport {
    /// The name in sessions.
    pub name: Name,
    /// The folder or file in the package.
    pub path: String,
    /// The result of inspecting the skill. It has no problems, or the skill would be left out.
    pub inspected: InspectionReport,
    /// The unchanged text of SKILL.md.
    pub skill_md: String,
}

/// A skill of a package that cannot be used.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The folder or file in the package, cleaned.
    pub path: String,
    /// The reasons, cleaned.
    pub why: String,
}

/// Inspects the copy of a package in `folder`. `renames` maps a skill's own name to its name in sessions.
///
/// # Errors
/// The copy cannot be read, has an invalid manifest, too many skills, or two skills with the same name.
pub async fn report(
    inspector: &Inspector,
    folder: &Path,
    kind: PackageKind,
    name: PackageName,
    renames: &BTreeMap<Name, Name>,
) -> Result<PackageReport, PackageError> {
    let PackageContent { sums, digest } = PackageContent::of_copy(kind, folder)?;
    let mut report = PackageReport {
        name,
        kind,
        version: None,
        digest,
        sums,
        skills: Vec::new(),
        left_out: Vec::new(),
        servers: Vec::new(),
        notes: Vec::new(),
    };
    let paths = if kind == PackageKind::AgentPlugin {
        let AgentPlugin { version, skills, servers, notes, .. } = AgentPlugin::read(folder)?;
        (report.version, report.servers) = (version, servers);
        report.notes = notes.iter().map(|note| format!("[{}] {note}", note.code)).collect();
        let mut usable = Vec::new();
        for PackageSkill { path, found } in skills {
            match found.candidate {
                Ok(_) => usable.push(path),
                Err(problem) => report.leave_out(&path, format!("[{}] {problem}", problem.code)),
            }
        }
        usable
    } else {
        let only = only_entry(folder)?;
        vec![only.file_name().unwrap_or_default().to_string_lossy().into_owned()]
    };
    if paths.len() > PACKAGE_SKILLS || report.servers.len() > PACKAGE_SERVERS {
        let message = format!("the package has more than {PACKAGE_SKILLS} skills or {PACKAGE_SERVERS} servers.");
        return Err(PackageError::new(Code::PackageLimit, message));
    }
    for path in paths {
        report.add_skill(inspector, folder, path, renames).await?;
    }
    Ok(report)
}

/// Inspects the copy of a package that a lock describes, with its renames. If a package from a registry does not state a version,
/// its version is the tag, which only the lock contains.
///
/// # Errors
/// The same as for [`report`].
pub async fn report_locked(
    inspector: &Inspector,
    folder: &Path,
    package: &LockedPackage,
) -> Result<PackageReport, PackageError> {
    let mut report = report(inspector, folder, package.kind, package.name.clone(), &renames(package)).await?;
    if package.found.starts_with("oci://") {
        report.version = report.version.or_else(|| package.version.clone());
    }
    Ok(report)
}

/// Returns the renames of a locked package, from each skill's own name to its name in sessions.
pub fn renames(package: &LockedPackage) -> BTreeMap<Name, Name> {
    package.skills.iter().filter_map(|skill| Some((skill.own_name()?, skill.name.clone()))).collect()
}

impl PackageReport {
    fn leave_out(&mut self, path: &str, why: String) {
        self.left_out.push(LeftOut { path: text::excerpt(path, 80), why: text::clean_line(&why) });
    }

    async fn add_skill(
        &mut self,
        inspector: &Inspector,
        folder: &Path,
        path: String,
        renames: &BTreeMap<Name, Name>,
    ) -> Result<(), PackageError> {
        let at = folder.join(&path);
        let inspected = inspector.inspect(&at).await.map_err(PackageError::io(&at))?;
        let own_name = inspected.name.parse::<Name>().ok().filter(|_| inspected.problems.is_empty());
        let Some(name) = own_name else {
            let why = inspected.problems.iter().map(|problem| text::clean_line(problem)).collect::<Vec<_>>().join("; ");
            self.leave_out(&path, why);
            return Ok(());
        };
        let name = renames.get(&name).cloned().unwrap_or(name);
        if self.skills.iter().any(|skill| skill.name == name) {
            let message = format!("two skills of the package would be called '{name}'. Rename one: --rename OLD=NEW");
            return Err(PackageError::new(Code::InvalidArgs, message));
        }
        if self.kind != PackageKind::AgentPlugin {
            self.version = inspected.manifest.as_ref().and_then(|manifest| manifest.version.clone());
        }
        let skill_md = match path.ends_with(".wasm") {
            true => {
                let bytes = inspect::read(&at).map_err(PackageError::io(&at))?;
                embedded_skill_md(&bytes).ok().flatten().unwrap_or_default().to_owned()
            }
            false => {
                let file = if at.is_dir() { at.join("SKILL.md") } else { at.clone() };
                let bytes = inspect::read_at_most(&file, SKILL_MD_BYTES).map_err(PackageError::io(&at))?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        self.skills.push(SkillReport { name, path, inspected, skill_md });
        Ok(())
    }

    /// Returns the lock entry. `before` is the entry of the installed version; its `added` and `order` are kept.
    pub fn locked(
        &self,
        from: &str,
        found: &str,
        today: &str,
        order: u64,
        before: Option<&LockedPackage>,
    ) -> LockedPackage {
        LockedPackage {
            name: self.name.clone(),
            kind: self.kind,
            from: from.to_owned(),
            found: found.to_owned(),
            version: self.version.clone(),
            digest: self.digest,
            order: before.map_or(order, |before| before.order),
            added: before.map_or(today, |before| &before.added).to_owned(),
            updated: today.to_owned(),
            signer: before.and_then(|before| before.signer),
            skills: self.skills.iter().filter_map(SkillReport::locked).collect(),
            servers: self
                .servers
                .iter()
                .map(|server| LockedServer { name: server.name.clone(), digest: server.digest })
                .collect(),
        }
    }

    /// Returns why nothing in the package can be used; `None` if it has a usable skill or a server.
    pub fn unusable(&self) -> Option<String> {
        if !self.skills.is_empty() || !self.servers.is_empty() {
            return None;
        }
        let why: Vec<&str> = self.left_out.iter().map(|skill| &*skill.why).collect();
        Some(if why.is_empty() { "it has no skills and no servers.".to_owned() } else { why.join("; ") })
    }

    /// Returns the capabilities that the skills ask for.
    pub fn asks(&self) -> Vec<Capability> {
        let asks = self.skills.iter().flat_map(SkillReport::asks);
        asks.map(|asked| asked.capability.clone()).collect()
    }

    /// Returns the lines that describe the package, without control characters.
    pub fn lines(&self) -> Vec<String> {
        let version = self.version.as_deref().map(|version| format!(" {}", text::clean_line(version)));
        let files = if self.sums.len() == 1 { "1 file".to_owned() } else { format!("{} files", self.sums.len()) };
        let mut lines = vec![format!("{}{} ({files}, {})", self.name, version.unwrap_or_default(), self.digest)];
        for skill in &self.skills {
            lines.extend(skill.lines());
        }
        for server in &self.servers {
            lines.push(format!("server {}: {}", text::clean_line(&server.name), server_line(server)));
            lines.push(format!(
                "  off until you allow it: {}",
                allow_server_command(self.name.as_str(), &server.name, None)
            ));
        }
        lines.extend(self.left_out.iter().map(|skill| format!("not used: {}: {}", skill.path, skill.why)));
        lines.extend(self.notes.iter().map(|note| format!("note: {}", text::clean_line(note))));
        lines
    }

    /// Returns the content as JSON.
    pub fn to_json(&self) -> Value {
        let skill = |skill: &SkillReport| {
            json!({
                "name": skill.name,
                "path": skill.path,
                "digest": skill.inspected.digest,
                "component": skill.inspected.component,
                "version": skill.inspected.manifest.as_ref().and_then(|manifest| manifest.version.as_ref()),
                "command": skill.inspected.manifest.as_ref().and_then(|manifest| manifest.command.as_ref()),
                "tools": skill.inspected.tools,
                "asks": skill.asks(),
                "imports": skill.inspected.imports,
            })
        };
        json!({
            "name": self.name,
            "kind": self.kind,
            "version": self.version,
            "digest": self.digest,
            "files": self.sums.len(),
            "skills": self.skills.iter().map(skill).collect::<Vec<_>>(),
            "servers": self.servers.iter().map(|server| json!({"name": server.name, "runs": server_line(server)})).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(|skill| json!({"path": skill.path, "why": skill.why})).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl SkillReport {
    /// Returns the capabilities that the skill asks for.
    pub fn asks(&self) -> &[RequestedCapability] {
        self.inspected.manifest.as_ref().map_or(&[], |manifest| &manifest.capabilities)
    }

    fn locked(&self) -> Option<LockedSkill> {
        let tools = serde_json::to_string(&self.inspected.tools).unwrap_or_default();
        let mut asks: Vec<Capability> = self.asks().iter().map(|asked| asked.capability.clone()).collect();
        asks.sort();
        asks.dedup();
        Some(LockedSkill {
            name: self.name.clone(),
            path: self.path.clone(),
            digest: self.inspected.digest?,
            component: self.inspected.component,
            text: self.inspected.manifest.as_ref()?.instructions.digest,
            tools: Digest::of(tools.as_bytes()),
            asks,
        })
    }

    fn lines(&self) -> Vec<String> {
        let manifest = self.inspected.manifest.as_ref();
        let summary =
            manifest.map(|manifest| text::clean_line(&manifest.summary)).filter(|summary| !summary.is_empty());
        let renamed = if self.name.as_str() == self.inspected.name {
            String::new()
        } else {
            format!(" (in the package: {})", self.inspected.name)
        };
        let mut lines =
            vec![format!("skill {}{renamed}{}", self.name, summary.map(|it| format!(": {it}")).unwrap_or_default())];
        lines
            .extend(manifest.and_then(|manifest| manifest.command.as_ref()).map(|alias| format!("  command /{alias}")));
        for tool in &self.inspected.tools {
            lines.push(format!("  tool {}: {}", self.name.tool(&tool.name), text::clean_line(&tool.description)));
        }
        lines.extend(self.asks().iter().map(|asked| format!("  asks for {}", asked_line(asked))));
        lines.extend(
            self.unasked_imports().map(|import| format!("  imports {import}, but requests no capability for it")),
        );
        lines.extend(self.inspected.notes.iter().map(|note| format!("  note: {}", text::clean_line(note))));
        lines
    }

    /// Returns the interfaces that the component imports without requesting the capability for them.
    fn unasked_imports(&self) -> impl Iterator<Item = &'static str> {
        let asks = |needed: Needed| self.asks().iter().any(|asked| needed(&asked.capability));
        self.imports().filter(move |(_, needed)| !asks(*needed)).map(|(interface, _)| interface)
    }

    /// Returns the imported interfaces of the host that need a capability.
    pub(crate) fn imports(&self) -> impl Iterator<Item = (&'static str, Needed)> {
        let imports = |interface: &str| {
            let mut names = self.inspected.imports.iter().filter_map(|import| import.split('@').next());
            names.any(|name| match name {
                "wasi:http/outgoing-handler" => interface == "http",
                name => name.strip_prefix("patchbay:host/") == Some(interface),
            })
        };
        INTERFACES.into_iter().filter(move |(interface, _)| imports(interface))
    }
}

/// A predicate that returns whether a capability is the one that an interface needs.
pub(crate) type Needed = fn(&Capability) -> bool;

/// The host's interfaces that need a capability.
const INTERFACES: [(&str, Needed); 6] = [
    ("http", |asked| matches!(asked, Capability::Http(_))),
    ("inference", |asked| *asked == Capability::Inference),
    ("kv", |asked| *asked == Capability::Kv),
    ("tools", |asked| *asked == Capability::Tools),
    ("workspace-read", |asked| *asked == Capability::WorkspaceRead),
    ("workspace-write", Capability::changes_workspace),
];

/// The warning about servers whose program downloads code that the package's digests do not cover.
pub(crate) const FETCHES: &str = "fetches its code at each start";

/// Returns a server's whole command with its variables and folder, or its whole address with its headers, followed by the variables
/// that the user must set. Invisible characters are escaped. A command that is known to download code is marked.
pub fn server_line(server: &PackageServer) -> String {
    let needs = server.variables.iter().map(|(name, default)| match default {
        Some(default) => format!("{name} or {}", command_line([default.as_str()])),
        None => name.clone(),
    });
    let needs: Vec<String> = needs.collect();
    let needs = if needs.is_empty() { String::new() } else { format!(" (needs {})", needs.join(", ")) };
    match &server.transport {
        ServerTransport::Stdio { command, args, env, cwd } => {
            let variables: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let words = variables.iter().chain([command]).chain(args).map(String::as_str);
            let folder = cwd.as_ref().map(|cwd| format!(" (in {})", command_line([cwd.as_str()])));
            let fetches = if server.fetches_code() { format!(" ({FETCHES})") } else { String::new() };
            format!("{}{}{fetches}{needs}", command_line(words), folder.unwrap_or_default())
        }
        ServerTransport::StreamableHttp { url, headers } => {
            let headers =
                headers.iter().map(|(name, value)| format!(" (header {})", command_line([name.as_str(), value])));
            format!("{}{}{needs}", command_line([url.as_str()]), headers.collect::<String>())
        }
    }
}

/// Returns a capability with its reason.
pub(crate) fn asked_line(asked: &RequestedCapability) -> String {
    let optional = if asked.optional { " (optional)" } else { "" };
    let reason = asked.reason.as_deref().map(|reason| format!(": {}", text::clean_line(reason)));
    format!("{}{optional}{}", asked.capability, reason.unwrap_or_default())
}
