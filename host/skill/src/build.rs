//! From candidates to a snapshot: who wins a name, who counts, and what is said of the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use patchbay_core::{Code, Digest, Name, ToolSpec};
use patchbay_policy::Root;

use crate::{
    Candidate, Component, Diagnostic, Eligibility, Found, InvocationMode, Manifest, Problem, Skill, Snapshot,
    Surroundings,
    snapshot::{Body, claims},
};

/// What tools a component has, or why it is none.
pub type Answer = Result<Arc<[ToolSpec]>, Problem>;

/// What decides about candidates, besides what they say themselves.
pub struct Rules<'a> {
    /// Whether the person trusts the workspace. Until then its skills take no lower root's name or alias.
    pub trusted: bool,
    /// Names of built-in commands.
    pub built_ins: &'a [&'a str],
    /// The system.
    pub surroundings: &'a dyn Surroundings,
    /// What tools a component has, or why it is none.
    pub tools: &'a dyn Fn(&Digest) -> Answer,
}

/// Builds a snapshot of all that was found. The order of `found` does not matter.
///
/// What cannot even be read never takes part. Among the rest the highest root wins a name, and then the winner is
/// judged, with no way back to a lower root: a skill that somebody replaced must not come back in silence.
pub fn build(found: &[Found], version: u64, rules: &Rules<'_>) -> Snapshot {
    let mut builder = Builder { rules, skills: BTreeMap::new(), diagnostics: BTreeSet::new() };
    for (name, by_root) in by_name(found, &mut builder) {
        builder.judge(name, by_root);
    }
    builder.exclude_shadowing_aliases();
    builder.exclude_what_lacks_tools();
    builder.mark_ambiguous_aliases();
    let Builder { skills, diagnostics, .. } = builder;
    Snapshot::new(Body { skills, diagnostics: diagnostics.into_iter().collect() }, version)
}

struct Builder<'a> {
    rules: &'a Rules<'a>,
    skills: BTreeMap<Name, Skill>,
    diagnostics: BTreeSet<Diagnostic>,
}

/// The readable candidates of each name, the lowest root first.
fn by_name<'f>(found: &'f [Found], builder: &mut Builder<'_>) -> BTreeMap<&'f Name, BTreeMap<Root, &'f Candidate>> {
    let mut names = BTreeMap::<&Name, BTreeMap<Root, &Candidate>>::new();
    for Found { label, root, candidate } in found {
        match candidate {
            Ok(candidate) => {
                names.entry(&candidate.name).or_default().insert(*root, candidate);
            }
            Err(problem) => builder.diagnose(label, problem.clone()),
        }
    }
    names
}

impl Builder<'_> {
    fn diagnose(&mut self, name: &str, problem: Problem) {
        let Problem { code, message } = problem;
        self.diagnostics.insert(Diagnostic { name: name.to_owned(), code, message });
    }

    fn judge(&mut self, name: &Name, mut by_root: BTreeMap<Root, &Candidate>) {
        if !self.rules.trusted && by_root.len() > 1 && by_root.remove(&Root::Workspace).is_some() {
            let lower = by_root.keys().next_back().map_or("", |root| root.as_str());
            let message = format!(
                "The workspace is not trusted, so that its '{name}' does not take the place of the {lower} one; \
                 'patchbay trust add DIR' lets it."
            );
            self.diagnose(name.as_str(), Problem::new(Code::UntrustedShadow, message));
        }
        let Some((root, winner)) = by_root.pop_last() else { return };
        match accept(root, winner, self.rules) {
            Ok(skill) => {
                self.skills.insert(name.clone(), skill);
            }
            Err(problem) => self.diagnose(name.as_str(), problem),
        }
    }

    /// Before a workspace is trusted, its skills take no alias that a lower root's skill has.
    fn exclude_shadowing_aliases(&mut self) {
        if self.rules.trusted {
            return;
        }
        let taken: BTreeSet<Name> = self
            .skills
            .values()
            .filter(|skill| skill.root < Root::Workspace)
            .filter_map(|skill| skill.manifest.command.clone())
            .collect();
        let shadowing = |skill: &Skill| {
            let alias = skill.manifest.command.as_ref().filter(|alias| taken.contains(alias.as_str()))?;
            (skill.root == Root::Workspace).then(|| {
                let message = format!(
                    "The workspace is not trusted, so that its skill does not take the alias '/{alias}'; \
                     'patchbay trust add DIR' lets it."
                );
                (skill.name.clone(), Problem::new(Code::UntrustedShadow, message))
            })
        };
        let excluded = self.skills.values().filter_map(shadowing).collect();
        self.exclude_all(excluded);
    }

    /// Again and again, for each skill that goes may have brought a tool that another one needs.
    fn exclude_what_lacks_tools(&mut self) {
        loop {
            let lacking = |skill: &Skill| {
                let missing = skill.manifest.requires_tools.iter().find(|tool| !self.has_tool(tool));
                if let Some(tool) = missing {
                    return Some((skill.name.clone(), missing_tool(tool)));
                }
                let command_tool = skill.command_tool().filter(|tool| !self.has_tool(tool))?;
                Some((skill.name.clone(), no_command_tool(&command_tool)))
            };
            let excluded = self.skills.values().filter_map(lacking).collect();
            if !self.exclude_all(excluded) {
                return;
            }
        }
    }

    /// Whether one of the skills has the tool of this full name.
    fn has_tool(&self, full_name: &str) -> bool {
        let own = |(skill, tool): (&str, &str)| self.skills.get(skill)?.tool(tool);
        full_name.split_once("__").and_then(own).is_some()
    }

    /// Excludes skills; whether there was one.
    fn exclude_all(&mut self, excluded: Vec<(Name, Problem)>) -> bool {
        let any = !excluded.is_empty();
        for (name, problem) in excluded {
            self.skills.remove(&name);
            self.diagnose(name.as_str(), problem);
        }
        any
    }

    fn mark_ambiguous_aliases(&mut self) {
        for (alias, skills) in claims(&self.skills).into_iter().filter(|(_, skills)| skills.len() > 1) {
            let names: Vec<_> = skills.iter().map(Name::as_str).collect();
            let message =
                format!("Alias '/{alias}' is claimed by {}; it works for none, '/skill NAME' does.", names.join(", "));
            for skill in &skills {
                self.diagnose(skill.as_str(), Problem::new(Code::AliasAmbiguous, message.clone()));
            }
        }
    }
}

/// Judges one candidate by itself.
fn accept(root: Root, candidate: &Candidate, rules: &Rules<'_>) -> Result<Skill, Problem> {
    let Candidate { name, manifest, digest, component } = candidate;
    if let Some(reason) = manifest.eligibility.judge(rules.surroundings) {
        return Err(Problem::new(Code::Ineligible, reason));
    }
    if let Some(alias) = &manifest.command
        && rules.built_ins.contains(&alias.as_str())
    {
        let message = format!("Alias '/{alias}' is a built-in command; skill excluded.");
        return Err(Problem::new(Code::CommandAliasCollision, message));
    }
    let tools = match component {
        Some(component) => sorted((rules.tools)(&component.digest())?),
        None => Arc::default(),
    };
    if let Some(tool) = tools.iter().find(|tool| name.tool(&tool.name).len() > Name::MAX_LEN) {
        let message = format!("'{}' is longer than {} characters.", name.tool(&tool.name), Name::MAX_LEN);
        return Err(Problem::new(Code::InvalidName, message));
    }
    let component = component.as_ref().map(Component::digest);
    let skill = Skill { name: name.clone(), root, manifest: Arc::clone(manifest), component, tools, digest: *digest };
    check_command_tool(&skill)?;
    Ok(skill)
}

/// What a skill is by itself, wherever it is loaded.
#[derive(Clone, Debug)]
pub struct Alone {
    /// The skill.
    pub skill: Skill,
    /// Why this system does not have what it demands; `None` if it does.
    pub ineligible: Option<String>,
    /// Full names of the tools that it needs from elsewhere.
    pub needs: BTreeSet<String>,
}

/// Judges one skill as [`build`] does, apart from what depends on the place: other skills, trust, and the system.
///
/// # Errors
/// The problem that keeps the skill out of every snapshot.
pub fn judge_alone(root: Root, candidate: &Candidate, rules: &Rules<'_>) -> Result<Alone, Problem> {
    let ineligible = candidate.manifest.eligibility.judge(rules.surroundings);
    let manifest = Manifest { eligibility: Eligibility::default(), ..Manifest::clone(&candidate.manifest) };
    let anywhere = Candidate { manifest: Arc::new(manifest), ..candidate.clone() };
    let skill = Skill { manifest: Arc::clone(&candidate.manifest), ..accept(root, &anywhere, rules)? };
    let mut needs: BTreeSet<String> =
        skill.manifest.requires_tools.iter().cloned().chain(skill.command_tool()).collect();
    let own: BTreeSet<String> = skill.tools.iter().map(|tool| skill.name.tool(&tool.name)).collect();
    needs.retain(|tool| !own.contains(tool));
    // No other skill can have a tool of this name.
    let prefix = format!("{}__", skill.name);
    match needs.iter().find(|tool| tool.starts_with(&prefix)) {
        Some(tool) if skill.command_tool().as_ref() == Some(tool) => Err(no_command_tool(tool)),
        Some(tool) => Err(missing_tool(tool)),
        None => Ok(Alone { skill, ineligible, needs }),
    }
}

fn missing_tool(tool: &str) -> Problem {
    Problem::new(Code::MissingRequiredTools, format!("Missing required tool: {tool}."))
}

fn no_command_tool(tool: &str) -> Problem {
    Problem::new(Code::CommandToolMissing, format!("Command tool '{tool}' is no tool of the snapshot."))
}

/// Tools by their names. A component may list them in any order.
fn sorted(tools: Arc<[ToolSpec]>) -> Arc<[ToolSpec]> {
    if tools.is_sorted_by(|a, b| a.name <= b.name) {
        return tools;
    }
    let mut tools = tools.to_vec();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools.into()
}

/// A bare `command_tool` is one of the skill's own; a full name is judged when all skills are known.
fn check_command_tool(skill: &Skill) -> Result<(), Problem> {
    let missing = |message: String| Err(Problem::new(Code::CommandToolMissing, message));
    match &skill.manifest.command_tool {
        None if skill.manifest.invocation_mode == InvocationMode::ToolDispatch => {
            missing("invocation_mode is tool_dispatch, and no command_tool is named.".to_owned())
        }
        Some(tool) if !tool.contains("__") && skill.tool(tool).is_none() => {
            let tools: Vec<_> = skill.tools.iter().map(|tool| tool.name.as_str()).collect();
            let tools = if tools.is_empty() { "none".to_owned() } else { tools.join(", ") };
            missing(format!("Command tool '{tool}' is not among the skill's tools: {tools}."))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
