//! Compares a new version of a package with the installed one.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_core::{ToolSpec, text};
use patchbay_skill::{LockedPackage, LockedSkill, RequestedCapability, agent_plugin::PackageServer};
use patchbay_tools::{DiffLine, FileDiff};

use super::{
    LeftOut, PackageReport,
    report::{SkillReport, asked_line, server_line},
};

/// The most changed files that a diff lists.
const FILES: usize = 20;

/// The difference between two versions of a package.
#[derive(Debug, Default)]
pub struct PackageDiff {
    /// Capabilities and servers that only the new version requests. If empty, an update needs no decision by the user.
    asks: Vec<String>,
    /// Whether the new version number is lower, by SemVer.
    is_lower: bool,
    /// The skills that cannot be used in the new version and were not left out before.
    left_out: Vec<String>,
    lines: Vec<String>,
    texts: Vec<(String, FileDiff)>,
}

impl PackageDiff {
    /// Compares two versions.
    pub fn new(old: &PackageReport, new: &PackageReport) -> Self {
        let mut diff = Self::default();
        let version =
            |report: &PackageReport| report.version.as_deref().map_or("no version".to_owned(), text::clean_line);
        diff.is_lower = is_lower(old.version.as_deref(), new.version.as_deref());
        diff.lines.push(format!("{}: {} to {}", new.name, version(old), version(new)));
        let by_name = |report: &PackageReport| -> BTreeMap<String, SkillReport> {
            report.skills.iter().map(|skill| (skill.name.to_string(), skill.clone())).collect()
        };
        let (before, after) = (by_name(old), by_name(new));
        for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            match (before.get(name), after.get(name)) {
                // Different skills that used the same name in sessions are not versions of each other.
                (Some(old), Some(new)) if old.inspected.name != new.inspected.name => {
                    diff.skill(name, Some(old), None);
                    diff.skill(name, None, Some(new));
                }
                (old, new) => diff.skill(name, old, new),
            }
        }
        diff.servers(old, new);
        let files = old.sums.differences(&new.sums);
        let more = files.len().saturating_sub(FILES);
        diff.lines.extend(files.into_iter().take(FILES).map(|file| format!("file {file}")));
        diff.lines.extend((more > 0).then(|| format!("and {more} more files")));
        let is_new = |skill: &&LeftOut| !old.left_out.iter().any(|before| before.path == skill.path);
        let newly = new.left_out.iter().filter(is_new);
        diff.left_out = newly.map(|skill| format!("{}: {}", skill.path, skill.why)).collect();
        let left_out = new.left_out.iter().map(|skill| format!("not used: {}: {}", skill.path, skill.why));
        diff.lines.extend(left_out.chain(new.notes.iter().map(|note| format!("note: {}", text::clean_line(note)))));
        diff
    }

    /// Compares with the lock entry of an installed version, for when its files were changed. All of the new version is shown.
    pub(crate) fn from_entry(old: &LockedPackage, new: &PackageReport) -> Self {
        let mut diff = Self { lines: new.lines(), ..Self::default() };
        diff.is_lower = is_lower(old.version.as_deref(), new.version.as_deref());
        for skill in &new.skills {
            let own_name = skill.inspected.name.as_str();
            let is_same = |before: &&LockedSkill| before.is_version_of(&skill.name, own_name);
            let before = old.skills.iter().find(is_same).map(|before| &*before.asks).unwrap_or_default();
            let more = skill.asks().iter().filter(|asked| !before.iter().any(|had| had.includes(&asked.capability)));
            diff.asks.extend(more.map(|asked| format!("skill {} now asks for {}", skill.name, asked_line(asked))));
        }
        let is_there = |server: &PackageServer| {
            old.servers.iter().any(|before| before.name == server.name && before.digest == server.digest)
        };
        let changed = new.servers.iter().filter(|server| !is_there(server));
        diff.asks.extend(changed.map(|server| {
            format!("server {} is new or changed: {}", text::clean_line(&server.name), server_line(server))
        }));
        diff.lines.extend(diff.asks.iter().cloned());
        diff
    }

    /// Returns the capabilities and servers that only the new version requests, one line each. If there are none, the version can
    /// be installed without asking the user.
    pub fn newly_asked(&self) -> &[String] {
        &self.asks
    }

    /// Returns the skills that cannot be used in the new version and were not left out before, each with the reason.
    pub fn newly_left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns whether the new version number is lower. Versions that are not SemVer are not compared.
    pub fn is_lower(&self) -> bool {
        self.is_lower
    }

    /// Returns the lines for the user, including the changed lines of each SKILL.md if `with_text` is set. Invisible characters are
    /// escaped.
    pub fn lines(&self, with_text: bool) -> Vec<String> {
        let mut lines = self.lines.clone();
        for (skill, diff) in &self.texts {
            lines.push(format!("instructions of {skill}: {}", diff.counts()));
            let changed = diff.lines.iter().filter(|_| with_text);
            lines.extend(changed.map(|line| match line {
                DiffLine::Added(_, text) => format!("  + {text}"),
                DiffLine::Removed(_, text) => format!("  - {text}"),
                DiffLine::Same(_, text) => format!("    {text}"),
                DiffLine::Gap => "  …".to_owned(),
                DiffLine::Heading(text) => format!("  {text}"),
            }));
            lines.extend((with_text && diff.more > 0).then(|| format!("  and {} more changed lines", diff.more)));
        }
        lines
    }

    fn skill(&mut self, name: &str, old: Option<&SkillReport>, new: Option<&SkillReport>) {
        let asks = |skill: Option<&SkillReport>| skill.map(SkillReport::asks).unwrap_or_default().to_vec();
        let (before, after) = (asks(old), asks(new));
        match (old, new) {
            (None, _) => self.lines.push(format!("skill {name}: new")),
            (_, None) => self.lines.push(format!("skill {name}: gone")),
            _ => {}
        }
        let is_covered =
            |asked: &RequestedCapability| before.iter().any(|had| had.capability.includes(&asked.capability));
        for asked in after.iter().filter(|asked| !is_covered(asked)) {
            let line = format!("skill {name} now asks for {}", asked_line(asked));
            self.asks.push(line.clone());
            self.lines.push(line);
        }
        let is_kept = |had: &&RequestedCapability| after.iter().any(|asked| asked.capability == had.capability);
        let dropped = before.iter().filter(|had| !is_kept(had));
        self.lines.extend(dropped.map(|had| format!("skill {name} no longer asks for {}", had.capability)));
        let imports = |skill: Option<&SkillReport>| -> BTreeSet<&'static str> {
            skill.into_iter().flat_map(SkillReport::imports).map(|(interface, _)| interface).collect()
        };
        let (imported, imports) = (imports(old), imports(new));
        self.lines.extend(imports.difference(&imported).map(|import| format!("skill {name} now imports {import}")));
        self.tools(name, old, new);
        let text = |skill: Option<&SkillReport>| skill.map(|skill| skill.skill_md.clone()).unwrap_or_default();
        let (old, new) = (text(old), text(new));
        if old != new {
            self.texts.push((name.to_owned(), FileDiff::new(&old, &new)));
        }
    }

    fn tools(&mut self, skill: &str, old: Option<&SkillReport>, new: Option<&SkillReport>) {
        let by_name = |skill: Option<&SkillReport>| -> BTreeMap<String, ToolSpec> {
            let tools = skill.into_iter().flat_map(|skill| skill.inspected.tools.clone());
            tools.map(|tool| (tool.name.to_string(), tool)).collect()
        };
        let (before, after) = (by_name(old), by_name(new));
        for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            let tool = format!("tool {skill}__{name}");
            match (before.get(name), after.get(name)) {
                (None, Some(new)) => self.lines.push(format!("{tool} is new: {}", text::clean_line(&new.description))),
                (Some(_), None) => self.lines.push(format!("{tool} is gone")),
                (Some(old), Some(new)) => {
                    let annotations = |tool: &ToolSpec| format!("{:?}", tool.extra);
                    let parts = [
                        ("description", old.description.clone(), new.description.clone()),
                        ("schema", old.input_schema.to_string(), new.input_schema.to_string()),
                        ("annotations", annotations(old), annotations(new)),
                    ];
                    for (what, old, new) in parts.into_iter().filter(|(_, old, new)| old != new) {
                        let [old, new] = [old, new].map(|text| text::clean_line(&text));
                        self.lines.extend([
                            format!("{tool} changes its {what}:"),
                            format!("  - {old}"),
                            format!("  + {new}"),
                        ]);
                    }
                }
                (None, None) => {}
            }
        }
    }

    fn servers(&mut self, old: &PackageReport, new: &PackageReport) {
        for server in &new.servers {
            let before = old.servers.iter().find(|before| before.name == server.name);
            if before.is_some_and(|before| before.digest == server.digest) {
                continue;
            }
            let how = if before.is_some() { "changed" } else { "new" };
            let line = format!("server {} is {how}: {}", text::clean_line(&server.name), server_line(server));
            self.asks.push(line.clone());
            self.lines.push(line);
        }
        let is_gone = |server: &&PackageServer| !new.servers.iter().any(|after| after.name == server.name);
        let gone = old.servers.iter().filter(is_gone);
        self.lines.extend(gone.map(|server| format!("server {} is gone", text::clean_line(&server.name))));
    }
}

/// Returns whether `new` is a lower version by SemVer.
fn is_lower(old: Option<&str>, new: Option<&str>) -> bool {
    let number = |version: Option<&str>| semver::Version::parse(version?).ok();
    number(old).zip(number(new)).is_some_and(|(old, new)| new < old)
}
