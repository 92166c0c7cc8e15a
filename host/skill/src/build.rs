//! Builds a snapshot from candidates: decides which candidate gets a name and which skills are usable, and adds a diagnostic for
//! each of the others.
//!
//! Called by the crate `session` at the start of a session and at each reload. The crate `plugin` calls [`check_skill`], and the
//! crate `tools` provides [`DescribedTools`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use patchbay_core::{Code, Digest, Name, RootLimits, ToolSpec};
use patchbay_policy::Root;

use crate::{
    Candidate, Component, Diagnostic, Eligibility, FoundSkill, InvocationMode, Manifest, Platform, Problem, Skill,
    Snapshot,
    limit::RootBudget,
    snapshot::{SnapshotBody, claims, split_tool},
};

/// The tools of a component in any order, or why the component cannot be used.
pub type DescribedTools = Result<Arc<[ToolSpec]>, Problem>;

/// The inputs of [`build`] besides the candidates.
pub struct SnapshotRules<'a> {
    /// True if the user trusts the workspace. Otherwise its skills cannot replace a name or alias of a lower root.
    pub trusted: bool,
    /// Names of built-in commands and internal tools, present and planned. A skill with such an alias is left out.
    pub reserved: &'a [&'a str],
    /// Internal tools, which `requires_tools` can also name.
    pub internal_tools: &'a [&'a str],
    /// The limits that the skills of one root share.
    pub limits: &'a RootLimits,
    /// The running system, for eligibility.
    pub platform: &'a dyn Platform,
    /// Returns the tools of the component with this digest. Called once for each candidate that wins its name.
    pub tools: &'a dyn Fn(&Digest) -> DescribedTools,
}

/// Builds a snapshot from the results of discovery in all roots. Their order does not matter, with two exceptions: a later extra
/// root takes precedence over an earlier one, and among packages the first to use a name or an alias keeps it.
///
/// Unreadable candidates become diagnostics and are then ignored. Among the others, the highest root wins each name. If the winner
/// turns out to be unusable, the candidate of a lower root is *not* used instead, because a skill that was replaced must not return
/// unnoticed.
pub fn build(found: &[FoundSkill], version: u64, rules: &SnapshotRules<'_>) -> Snapshot {
    let budget = |root: Root| {
        let trusted = !root.is_workspace() || rules.trusted;
        (root, Some(RootBudget::new(root, rules.limits.allowance(trusted))))
    };
    let budgets = Root::ALL.into_iter().filter(|root| *root != Root::Bundled).map(budget).collect();
    let mut builder = SnapshotBuilder {
        rules,
        budgets,
        packaged: Vec::new(),
        skills: BTreeMap::new(),
        texts: BTreeMap::new(),
        diagnostics: BTreeSet::new(),
    };
    for (name, by_root) in by_name(found, &mut builder) {
        builder.add_winner(name, by_root);
    }
    builder.exclude_shadowing_aliases();
    builder.exclude_missing_tools();
    builder.drop_later_aliases();
    builder.mark_aliases();
    let SnapshotBuilder { skills, mut texts, mut diagnostics, .. } = builder;
    let used: BTreeSet<Digest> = skills.values().map(|skill| skill.manifest.instructions.digest).collect();
    texts.retain(|digest, _| used.contains(digest));
    let mut body = SnapshotBody::new(skills, Vec::new(), rules.trusted, rules.reserved);
    diagnostics.extend(body.shadowing().map(|skill| {
        let name = skill.name.to_string();
        let alias = skill.manifest.command.as_ref().map_or("", Name::as_str);
        let message = format!(
            "The workspace is not trusted, so '/{alias}' still runs the skill '{alias}'. To trust it: patchbay \
             trust add DIR"
        );
        Diagnostic { name, code: Code::UntrustedShadow, message }
    }));
    body.diagnostics = diagnostics.into_iter().collect();
    Snapshot::new(body, version, texts)
}

struct SnapshotBuilder<'a> {
    rules: &'a SnapshotRules<'a>,
    /// The remaining limits on tools, for each root except the bundled one. `None` after a skill exceeded them; the root then gets
    /// no more skills.
    budgets: BTreeMap<Root, Option<RootBudget>>,
    /// The names of the packages' skills, in the order in which the packages were added.
    packaged: Vec<Name>,
    skills: BTreeMap<Name, Skill>,
    /// Instructions of skills whose SKILL.md was just read, by digest.
    texts: BTreeMap<Digest, Arc<str>>,
    diagnostics: BTreeSet<Diagnostic>,
}

/// Groups the readable candidates by name and root, lowest root first. The others become diagnostics.
fn by_name<'f>(
    found: &'f [FoundSkill],
    builder: &mut SnapshotBuilder<'_>,
) -> BTreeMap<&'f Name, BTreeMap<Root, &'f Candidate>> {
    let mut names = BTreeMap::<&Name, BTreeMap<Root, &Candidate>>::new();
    let mut lowest_first: Vec<&FoundSkill> = found.iter().collect();
    lowest_first.sort_by_key(|found| found.root);
    let mut folders = BTreeSet::new();
    for FoundSkill { label, root, candidate } in lowest_first {
        match candidate {
            // Several roots can link to one folder, which is still one skill.
            Ok(candidate) if candidate.folder_id.is_some_and(|folder| !folders.insert(folder)) => {}
            Ok(candidate) if *root == Root::Package => {
                builder.packaged.push(candidate.name.clone());
                let by_root = names.entry(&candidate.name).or_default();
                if by_root.contains_key(root) {
                    builder.diagnose(label, package_shadowed(candidate, "a package that was added earlier"));
                } else {
                    by_root.insert(*root, candidate);
                }
            }
            Ok(candidate) => {
                let earlier = names.entry(&candidate.name).or_default().insert(*root, candidate);
                if earlier.is_some() {
                    builder.diagnose(label, name_shadowed(*root, &candidate.name));
                }
            }
            Err(problem) => builder.diagnose(label, problem.clone()),
        }
    }
    names
}

impl SnapshotBuilder<'_> {
    fn diagnose(&mut self, name: &str, problem: Problem) {
        let Problem { code, message } = problem;
        self.diagnostics.insert(Diagnostic { name: name.to_owned(), code, message });
    }

    /// Adds the candidate of the highest root that is allowed to have `name`, or a diagnostic if it is unusable.
    fn add_winner(&mut self, name: &Name, mut by_root: BTreeMap<Root, &Candidate>) {
        by_root.retain(|root, _| self.budgets.get(root).is_none_or(Option::is_some));
        let lower = by_root.keys().rfind(|root| !root.is_workspace()).copied();
        let shadows = by_root.keys().any(|root| root.is_workspace());
        if let Some(lower) = lower.filter(|_| shadows && !self.rules.trusted) {
            by_root.retain(|root, _| !root.is_workspace());
            let message = format!(
                "The workspace is not trusted, so its '{name}' does not replace the {lower} one. To trust it: \
                 patchbay trust add DIR"
            );
            self.diagnose(name.as_str(), Problem::new(Code::UntrustedShadow, message));
        }
        let Some((root, winner)) = by_root.pop_last() else { return };
        if by_root.contains_key(&Root::Extra) {
            self.diagnose(name.as_str(), name_shadowed(root, name));
        }
        if let Some(packaged) = by_root.get(&Root::Package) {
            self.diagnose(name.as_str(), package_shadowed(packaged, &format!("a {root} skill")));
        }
        match accept(root, winner, self.rules) {
            Ok(skill) => {
                if let Err(problem) = self.count_tools(&skill) {
                    return self.diagnose(name.as_str(), problem);
                }
                for note in &winner.notes {
                    self.diagnose(name.as_str(), note.clone());
                }
                let text = winner.instructions.clone();
                self.texts.extend(text.map(|text| (skill.manifest.instructions.digest, text)));
                self.skills.insert(name.clone(), skill);
            }
            Err(problem) => {
                // This skill exceeds a limit of its root, so all later skills of the root are left out, too.
                if problem.code == Code::RootLimit {
                    self.budgets.insert(root, None);
                }
                self.diagnose(name.as_str(), problem);
                // A file limit may be the reason that the component was not found.
                for note in winner.notes.iter().filter(|note| note.code == Code::SkillFilesLimited) {
                    self.diagnose(name.as_str(), note.clone());
                }
            }
        }
    }

    /// Counts a skill's tools against the limits of its root. The first skill over a limit closes the root.
    fn count_tools(&mut self, skill: &Skill) -> Result<(), Problem> {
        let Some(Some(budget)) = self.budgets.get_mut(&skill.root) else { return Ok(()) };
        let bytes = skill.tools.iter().map(|tool| tool.description.len() + tool.input_schema.to_string().len());
        let counted = budget.count_tools(skill.tools.len() as u64, bytes.sum::<usize>() as u64);
        if counted.is_err() {
            self.budgets.insert(skill.root, None);
        }
        counted
    }

    /// Excludes skills of an untrusted workspace whose alias belongs to a skill of a lower root.
    fn exclude_shadowing_aliases(&mut self) {
        if self.rules.trusted {
            return;
        }
        let taken: BTreeSet<Name> = self
            .skills
            .values()
            .filter(|skill| !skill.root.is_workspace())
            .filter_map(|skill| skill.manifest.command.clone())
            .collect();
        let shadowing = |skill: &Skill| {
            let alias = skill.manifest.command.as_ref().filter(|alias| taken.contains(alias.as_str()))?;
            skill.root.is_workspace().then(|| {
                let message = format!(
                    "The workspace is not trusted, so its skill does not take the alias '/{alias}'. To trust it: \
                     patchbay trust add DIR"
                );
                (skill.name.clone(), Problem::new(Code::UntrustedShadow, message))
            })
        };
        let excluded = self.skills.values().filter_map(shadowing).collect();
        self.exclude_all(excluded);
    }

    /// Excludes skills with missing required tools or a missing command tool. Repeats until nothing changes, because an excluded
    /// skill may have had a tool that another skill needs.
    fn exclude_missing_tools(&mut self) {
        loop {
            let missing_tool_of = |skill: &Skill| {
                let internal = |tool: &String| self.rules.internal_tools.contains(&tool.as_str());
                let missing = skill.manifest.requires_tools.iter().find(|tool| !internal(tool) && !self.has_tool(tool));
                if let Some(tool) = missing {
                    return Some((skill.name.clone(), missing_tool(tool)));
                }
                let command_tool = skill.command_tool().filter(|tool| !self.has_tool(tool))?;
                Some((skill.name.clone(), no_command_tool(&command_tool)))
            };
            let excluded = self.skills.values().filter_map(missing_tool_of).collect();
            if !self.exclude_all(excluded) {
                return;
            }
        }
    }

    /// Returns true if a skill in the snapshot has the tool with this full name.
    fn has_tool(&self, full_name: &str) -> bool {
        let own = |(skill, tool): (&str, &str)| self.skills.get(skill)?.tool(tool);
        split_tool(full_name).and_then(own).is_some()
    }

    /// Replaces skills with diagnostics. Returns true if any skill was excluded.
    fn exclude_all(&mut self, excluded: Vec<(Name, Problem)>) -> bool {
        let any = !excluded.is_empty();
        for (name, problem) in excluded {
            self.skills.remove(&name);
            self.diagnose(name.as_str(), problem);
        }
        any
    }

    /// Removes an alias from a package's skill if a skill of an earlier package has it.
    fn drop_later_aliases(&mut self) {
        let mut taken = BTreeMap::<Name, Name>::new();
        for name in std::mem::take(&mut self.packaged) {
            let Some(skill) = self.skills.get_mut(&name).filter(|skill| skill.root == Root::Package) else { continue };
            let Some(alias) = skill.manifest.command.clone() else { continue };
            match taken.get(&alias) {
                Some(owner) if *owner != name => {
                    let message =
                        format!("Alias '/{alias}' belongs to the package skill '{owner}', which was added earlier.");
                    Arc::make_mut(&mut skill.manifest).command = None;
                    self.diagnose(name.as_str(), Problem::new(Code::AliasShadowed, message));
                }
                _ => drop(taken.insert(alias, name)),
            }
        }
    }

    /// Adds diagnostics for aliases that several skills claim: the highest root wins, and two skills of the same root
    /// make the alias ambiguous.
    fn mark_aliases(&mut self) {
        for (alias, owners) in claims(&self.skills) {
            let root =
                owners.first().and_then(|owner| self.skills.get(owner)).map_or(Root::Bundled, |skill| skill.root);
            let names: Vec<_> = owners.iter().map(Name::as_str).collect();
            if let [owner] = &owners[..] {
                self.shadow(&alias, root, format!("the {root} skill '{owner}'"));
                continue;
            }
            self.shadow(&alias, root, format!("the {root} skills {}", names.join(", ")));
            // Stored snapshots contain this text, so rewording it would be reported as a change.
            let message =
                format!("Alias '/{alias}' is claimed by {}; it works for none, '/skill NAME' does.", names.join(", "));
            for skill in &owners {
                self.diagnose(skill.as_str(), Problem::new(Code::AliasAmbiguous, message.clone()));
            }
        }
    }

    /// Adds a diagnostic for each skill below `root` that claims the alias of `owner`.
    fn shadow(&mut self, alias: &Name, root: Root, owner: String) {
        let claims = |skill: &&Skill| skill.root < root && skill.manifest.command.as_ref() == Some(alias);
        let shadowed: Vec<Name> = self.skills.values().filter(claims).map(|skill| skill.name.clone()).collect();
        for name in shadowed {
            let message = format!("Alias '/{alias}' belongs to {owner}.");
            self.diagnose(name.as_str(), Problem::new(Code::AliasShadowed, message));
        }
    }
}

/// Names that skills with tools cannot have, each with the reason.
const RESERVED: [(&str, &str); 3] = [
    ("find", "a program of 'code' could not call its tools"),
    ("mcp", "a program of 'code' could not call its tools"),
    ("terminal", "'terminal__run' is the tool of an editor's terminal"),
];

/// Checks one candidate without regard to other skills and turns it into a skill.
fn accept(root: Root, candidate: &Candidate, rules: &SnapshotRules<'_>) -> Result<Skill, Problem> {
    let Candidate { name, manifest, component, .. } = candidate;
    if let Some(reason) = manifest.eligibility.unmet(rules.platform) {
        return Err(Problem::new(Code::Ineligible, reason));
    }
    if let Some(alias) = &manifest.command
        && rules.reserved.contains(&alias.as_str())
    {
        let message = format!("Alias '/{alias}' is a built-in command; skill excluded.");
        return Err(Problem::new(Code::CommandAliasCollision, message));
    }
    let tools = match component {
        Some(component) => sorted((rules.tools)(&component.digest())?),
        None => Arc::default(),
    };
    if !tools.is_empty()
        && let Some((_, reason)) = RESERVED.iter().find(|(reserved, _)| *reserved == name.as_str())
    {
        let message = format!("'{name}' is reserved: {reason}. Give the skill another name.");
        return Err(Problem::new(Code::InvalidName, message));
    }
    if let Some(tool) = tools.iter().find(|tool| name.tool(&tool.name).len() > Name::MAX_LEN) {
        let message = format!("'{}' is longer than {} characters.", name.tool(&tool.name), Name::MAX_LEN);
        return Err(Problem::new(Code::InvalidName, message));
    }
    let component = component.as_ref().map(Component::digest);
    let skill = Skill {
        name: name.clone(),
        root,
        root_path: candidate.root_path.as_deref().map(str::to_owned),
        manifest: Arc::clone(manifest),
        component,
        tools,
        digest: candidate.digest(),
        files: Some(candidate.totals),
        digest_of_files: true,
    };
    check_command_tool(&skill)?;
    if root.is_workspace() && !rules.trusted && skill.borrows_tool() {
        let tool = skill.manifest.command_tool.as_deref().unwrap_or_default();
        let message = format!(
            "Command tool '{tool}' belongs to another skill. The workspace is not trusted, so its skills can only \
             call their own tools. To trust it: patchbay trust add DIR"
        );
        return Err(Problem::new(Code::CommandToolMissing, message));
    }
    Ok(skill)
}

/// The result of [`check_skill`].
#[derive(Clone, Debug)]
pub struct CheckedSkill {
    /// The skill as a snapshot would contain it.
    pub skill: Skill,
    /// The requirement that this system does not meet; `None` if it meets all.
    pub ineligible: Option<String>,
    /// Full names of the other skills' tools that this skill needs.
    pub needs: BTreeSet<String>,
}

/// Checks one skill like [`build`] does, except for conditions that depend on the environment: other skills, trust and the system.
///
/// # Errors
/// The problem that excludes the skill from every snapshot.
pub fn check_skill(root: Root, candidate: &Candidate, rules: &SnapshotRules<'_>) -> Result<CheckedSkill, Problem> {
    let ineligible = candidate.manifest.eligibility.unmet(rules.platform);
    let manifest = Manifest { eligibility: Eligibility::default(), ..Manifest::clone(&candidate.manifest) };
    let anywhere = Candidate { manifest: Arc::new(manifest), ..candidate.clone() };
    let skill = Skill { manifest: Arc::clone(&candidate.manifest), ..accept(root, &anywhere, rules)? };
    let mut needs: BTreeSet<String> =
        skill.manifest.requires_tools.iter().cloned().chain(skill.command_tool()).collect();
    let own: BTreeSet<String> = skill.tools.iter().map(|tool| skill.name.tool(&tool.name)).collect();
    needs.retain(|tool| !own.contains(tool) && !rules.internal_tools.contains(&tool.as_str()));
    // Only this skill could have a tool with this prefix, but it has no such tool.
    let prefix = format!("{}__", skill.name);
    match needs.iter().find(|tool| tool.starts_with(&prefix)) {
        Some(tool) if skill.command_tool().as_ref() == Some(tool) => Err(no_command_tool(tool)),
        Some(tool) => Err(missing_tool(tool)),
        None => Ok(CheckedSkill { skill, ineligible, needs }),
    }
}

/// Creates the problem of an extra root's skill if the skill of `root` has the same name.
fn name_shadowed(root: Root, name: &Name) -> Problem {
    Problem::new(Code::NameShadowed, format!("The {root} skill '{name}' already has this name."))
}

/// Creates the problem of a package's skill if `owner` has the same name.
fn package_shadowed(candidate: &Candidate, owner: &str) -> Problem {
    let (name, package) = (&candidate.name, candidate.root_path.as_deref().unwrap_or_default());
    let message = format!(
        "'{name}' of the package '{package}' is left out: {owner} already has this name. To use both, remove the \
         package, and add it again \
         with --rename {name}=NEW."
    );
    Problem::new(Code::NameShadowed, message)
}

fn missing_tool(tool: &str) -> Problem {
    Problem::new(Code::MissingRequiredTools, format!("Missing required tool: {tool}."))
}

fn no_command_tool(tool: &str) -> Problem {
    Problem::new(Code::CommandToolMissing, format!("Command tool '{tool}' is not a tool of the snapshot."))
}

/// Sorts tools by name. A component may list them in any order.
fn sorted(tools: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
    if tools.is_sorted_by(|a, b| a.name <= b.name) {
        return tools;
    }
    let mut tools = tools.to_vec();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools.into()
}

/// Checks `command_tool`: a bare name must be a tool of this skill. A full name is checked when all skills are known.
fn check_command_tool(skill: &Skill) -> Result<(), Problem> {
    let missing = |message: String| Err(Problem::new(Code::CommandToolMissing, message));
    match &skill.manifest.command_tool {
        None if skill.manifest.invocation_mode == InvocationMode::ToolDispatch => {
            missing("invocation_mode is tool_dispatch, but no command_tool is set.".to_owned())
        }
        Some(tool) if !tool.contains("__") && skill.tool(tool).is_none() => {
            if skill.component.is_none() {
                return missing(format!(
                    "Command tool '{tool}' needs a component, but the skill's folder has none (*.wasm). To build \
                     one: patchbay plugin \
                     build DIR"
                ));
            }
            let tools: Vec<_> = skill.tools.iter().map(|tool| tool.name.as_str()).collect();
            let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
            missing(format!("Command tool '{tool}' is not among the skill's tools: {tools}."))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
