//! Selects the skills and tools that a model is shown: the list of skills, and the declarations of tools. The selection
//! depends only on the snapshot, the tools of the turn and the model's context window, so it stays the same during a
//! conversation. `undeclared` has the rule for tools that are left out. Called by `toolbox`.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::{ToolSpec, completion::ToolDeclaration};
use patchbay_skill::{ShownRank, Skill, Snapshot};
use patchbay_tools::{Internal, OutsideTool};
use serde_json::Value;

use crate::{
    budget::{ContextSettings, ToolRoom},
    call_tool::CALL_TOOL,
    find_skills::FIND_SKILLS,
    find_tools::FIND_TOOLS,
    listing::listing,
    undeclared::{NAMES_BYTES, left_out, names},
};

/// The skills and tools that a model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The list of skills for the system context; `None` without skills.
    pub(crate) listing: Option<String>,
    /// The declared tools, sorted by full name.
    pub(crate) tools: Vec<ToolDeclaration>,
}

/// The skills and tools shown in the last request of a turn, with the window that they depend on.
#[derive(Default)]
pub(crate) struct LastShown(Mutex<Option<(u64, Arc<Shown>)>>);

impl LastShown {
    /// Returns the skills and tools shown to a model with a window of `window` tokens. `make` computes them if the last
    /// request had another window.
    pub(crate) fn get_or(&self, window: u64, make: impl FnOnce() -> Shown) -> Arc<Shown> {
        let mut last = self.0.lock();
        match &*last {
            Some((of, shown)) if *of == window => Arc::clone(shown),
            _ => {
                let shown = Arc::new(make());
                *last = Some((window, Arc::clone(&shown)));
                shown
            }
        }
    }

    /// Returns whether the last request declared a tool.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.0.lock().as_ref().is_some_and(|(_, shown)| shown.declares(name))
    }
}

/// The tools of a turn, and the skills that they belong to.
#[derive(Clone, Copy)]
pub(crate) struct ToolSources<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) internal: &'a [Arc<dyn Internal>],
    /// Tools of the host that this agent does not have, but other agents of the session do.
    pub(crate) hidden: &'a [Arc<dyn Internal>],
    pub(crate) outside: &'a [Arc<dyn OutsideTool>],
}

impl Shown {
    /// Selects the tools for a model with a window of `window` tokens.
    pub(crate) fn new(sources: ToolSources<'_>, settings: &ContextSettings, window: u64) -> Self {
        let listing = listing(sources.snapshot, settings.listing_bytes(window));
        let room = settings.tool_room(window);
        let groups = sources.groups();
        let hidden = of_host(sources.hidden);
        let declared = |with_search: bool| {
            let mut internal = of_host(sources.internal);
            internal.retain(|tool| match tool.name.as_str() {
                FIND_SKILLS => listing.left_out > 0,
                FIND_TOOLS | CALL_TOOL => with_search,
                _ => true,
            });
            let names = ToolRoom { bytes: if with_search { NAMES_BYTES } else { 0 }, tools: 0 };
            select(internal, &hidden, &groups, room.without(names)).0
        };
        let mut tools = declared(false);
        if !left_out(sources.internal, &groups, &tools).is_empty() {
            tools = declared(true);
            let names = names(&left_out(sources.internal, &groups, &tools));
            if let Some(find_tools) = tools.iter_mut().find(|tool| tool.name == FIND_TOOLS) {
                find_tools.description.push_str(&names);
            }
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Self { listing: listing.text, tools }
    }

    /// Returns whether the request declares a tool.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).is_ok()
    }
}

/// Returns the declarations of tools of the host, without the deferred ones.
fn of_host(tools: &[Arc<dyn Internal>]) -> Vec<ToolDeclaration> {
    let declared = tools.iter().filter(|tool| !tool.spec().is_deferred());
    declared.map(|tool| DeclaredTool::of_host(tool.spec()).declaration()).collect()
}

/// A tool with the text of its declaration.
struct DeclaredTool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: &'a Value,
}

impl<'a> DeclaredTool<'a> {
    fn of_host(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, input_schema, .. } = spec;
        Self { name: name.as_str().into(), description, input_schema }
    }

    fn of_skill(skill: &Skill, spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, input_schema, .. } = spec;
        Self { name: format!("{}__{name}", skill.name).into(), description, input_schema }
    }

    fn of_outside(tool: &'a dyn OutsideTool) -> Self {
        let spec = tool.spec();
        Self { name: spec.name().into(), description: spec.description(), input_schema: spec.input_schema() }
    }

    fn declaration(&self) -> ToolDeclaration {
        ToolDeclaration {
            name: self.name.clone().into_owned(),
            description: self.description.to_owned(),
            input_schema: self.input_schema.to_string(),
        }
    }
}

/// Tools that are declared together or not at all: one skill's tools, or one tool outside of the sandbox.
pub(crate) struct ToolGroup<'a> {
    pub(crate) rank: ShownRank,
    /// The name of the skill, or of the tool.
    name: &'a str,
    tools: Vec<DeclaredTool<'a>>,
    /// The full names of the skill's deferred tools, which are never declared.
    deferred: Vec<String>,
}

impl<'a> ToolSources<'a> {
    /// Returns the declaration of a tool that a model may call.
    pub(crate) fn declaration(self, name: &str) -> Option<ToolDeclaration> {
        if let Some(tool) = self.internal.iter().find(|tool| tool.spec().name.as_str() == name) {
            return Some(DeclaredTool::of_host(tool.spec()).declaration());
        }
        let tool = match self.snapshot.tool(name) {
            Some((skill, spec)) if skill.manifest.audience.models => DeclaredTool::of_skill(skill, spec),
            Some(_) => return None,
            None => DeclaredTool::of_outside(&**self.outside.iter().find(|tool| tool.spec().name() == name)?),
        };
        Some(tool.declaration())
    }

    /// Returns the tools that models may call, except the host's own, in the order in which they are kept.
    fn groups(self) -> Vec<ToolGroup<'a>> {
        let skills = self.snapshot.skills().filter(|skill| skill.manifest.audience.models && !skill.tools.is_empty());
        let mut groups: Vec<ToolGroup<'a>> = skills
            .map(|skill| {
                let (deferred, tools): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
                    skill.tools.iter().partition(|tool| tool.is_deferred());
                ToolGroup {
                    rank: self.snapshot.shown_rank(skill),
                    name: skill.name.as_str(),
                    tools: tools.into_iter().map(|tool| DeclaredTool::of_skill(skill, tool)).collect(),
                    deferred: deferred.into_iter().map(|tool| skill.name.tool(&tool.name)).collect(),
                }
            })
            .collect();
        // If two tools have the same name, calls reach the earlier one, so the later one is not declared.
        let mut names: HashSet<&str> = self.internal.iter().map(|tool| tool.spec().name.as_str()).collect();
        for tool in self.outside {
            let name = tool.spec().name();
            if self.snapshot.tool(name).is_none() && names.insert(name) {
                groups.push(ToolGroup {
                    rank: ShownRank::Outside,
                    name,
                    tools: vec![DeclaredTool::of_outside(&**tool)],
                    deferred: Vec::new(),
                });
            }
        }
        groups.sort_by_key(|group| (group.rank, group.name));
        groups
    }
}

/// Adds to `declared` the groups that fit into `room` beside `hidden`, in their order; a group that does not fit is passed over.
/// Returns the declarations and the number of groups that are left out.
fn select(
    mut declared: Vec<ToolDeclaration>,
    hidden: &[ToolDeclaration],
    groups: &[ToolGroup<'_>],
    room: ToolRoom,
) -> (Vec<ToolDeclaration>, usize) {
    let mut all = room.without(taken(&declared)).without(taken(hidden));
    let mut untrusted = room.untrusted();
    let mut left_out = 0;
    for group in groups {
        let is_untrusted = group.rank == ShownRank::UntrustedWorkspace;
        let left = if is_untrusted { all.least(untrusted) } else { all };
        let Some((tools, used)) = group.within(left) else {
            left_out += 1;
            continue;
        };
        all = all.without(used);
        if is_untrusted {
            untrusted = untrusted.without(used);
        }
        declared.extend(tools);
    }
    (declared, left_out)
}

impl ToolGroup<'_> {
    /// Returns the full names of all tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let declared = self.tools.iter().map(|tool| &*tool.name);
        declared.chain(self.deferred.iter().map(String::as_str))
    }

    /// Returns the declarations and their size, if they fit into `room`.
    fn within(&self, room: ToolRoom) -> Option<(Vec<ToolDeclaration>, ToolRoom)> {
        // Schemas are not serialised for a group that does not fit anyway.
        let least: usize = self.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
        if self.tools.len() > room.tools || least > room.bytes {
            return None;
        }
        let tools: Vec<ToolDeclaration> = self.tools.iter().map(DeclaredTool::declaration).collect();
        let used = taken(&tools);
        (used.bytes <= room.bytes).then_some((tools, used))
    }
}

/// Returns the room that declarations use.
fn taken(tools: &[ToolDeclaration]) -> ToolRoom {
    ToolRoom { bytes: tools.iter().map(bytes).sum(), tools: tools.len() }
}

/// Returns the size of a declaration, as the limits count it.
fn bytes(tool: &ToolDeclaration) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.len()
}

#[cfg(test)]
mod tests;
