//! What a model is shown of skills and tools: the list of skills, and the declarations of tools. A pure function of the snapshot,
//! the tools of the turn and the model's context window, so that it stays the same in a conversation. Tools that are left out are
//! found by `find_tools` and called by `call_tool`. `toolbox` calls it.

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
};

/// What a model is shown besides its conversation and the persona.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The list of skills for the system context; `None` without skills.
    pub(crate) listing: Option<String>,
    /// The declared tools, sorted by full name.
    pub(crate) tools: Vec<ToolDeclaration>,
}

/// What the model was shown in the last request of a turn, with the window that it depends on.
#[derive(Default)]
pub(crate) struct LastShown(Mutex<Option<(u64, Arc<Shown>)>>);

impl LastShown {
    /// Returns what a model with a window of `window` tokens is shown; `make` computes it if the last request had another window.
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
    /// Tools of the host that the agent does not have, but others of the session do.
    pub(crate) hidden: &'a [Arc<dyn Internal>],
    pub(crate) outside: &'a [Arc<dyn OutsideTool>],
}

impl Shown {
    /// Returns what a model with a window of `window` tokens is shown.
    pub(crate) fn new(sources: ToolSources<'_>, settings: &ContextSettings, window: u64) -> Self {
        let listing = listing(sources.snapshot, settings.listing_bytes(window));
        let room = settings.tool_room(window);
        let hidden: Vec<_> =
            sources.hidden.iter().map(|tool| DeclaredTool::of_host(tool.spec()).declaration()).collect();
        let declared = |with_search: bool| {
            let is_declared = |name: &str| match name {
                FIND_SKILLS => listing.left_out > 0,
                FIND_TOOLS | CALL_TOOL => with_search,
                _ => true,
            };
            let internal = sources.internal.iter().filter(|tool| is_declared(tool.spec().name.as_str()));
            let internal = internal.map(|tool| DeclaredTool::of_host(tool.spec()).declaration()).collect();
            select(internal, &hidden, sources.groups(), room)
        };
        let (mut tools, left_out) = declared(false);
        if left_out > 0 {
            (tools, _) = declared(true);
        }
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Self { listing: listing.text, tools }
    }

    /// Returns whether the request declares a tool.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).is_ok()
    }
}

/// A tool with what its declaration says.
struct DeclaredTool<'a> {
    /// The full name.
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

/// Tools that are declared together or not at all: those of one skill, or one tool outside of the sandbox.
struct ToolGroup<'a> {
    rank: ShownRank,
    /// The name of the skill, or of the tool.
    name: &'a str,
    tools: Vec<DeclaredTool<'a>>,
}

impl<'a> ToolSources<'a> {
    /// Returns the declaration of a tool of a skill or outside of the sandbox that a model may call.
    pub(crate) fn declaration(self, name: &str) -> Option<ToolDeclaration> {
        let tool = match self.snapshot.tool(name) {
            Some((skill, spec)) if skill.manifest.audience.models => DeclaredTool::of_skill(skill, spec),
            Some(_) => return None,
            None => DeclaredTool::of_outside(&**self.outside.iter().find(|tool| tool.spec().name() == name)?),
        };
        Some(tool.declaration())
    }

    /// Returns the tools for models besides those of the host, in the order in which they are kept.
    fn groups(self) -> Vec<ToolGroup<'a>> {
        let skills = self.snapshot.skills().filter(|skill| skill.manifest.audience.models && !skill.tools.is_empty());
        let mut groups: Vec<ToolGroup<'a>> = skills
            .map(|skill| ToolGroup {
                rank: self.snapshot.shown_rank(skill),
                name: skill.name.as_str(),
                tools: skill.tools.iter().map(|tool| DeclaredTool::of_skill(skill, tool)).collect(),
            })
            .collect();
        // A name that an earlier tool has finds that tool.
        let mut names: HashSet<&str> = self.internal.iter().map(|tool| tool.spec().name.as_str()).collect();
        for tool in self.outside {
            let name = tool.spec().name();
            if self.snapshot.tool(name).is_none() && names.insert(name) {
                groups.push(ToolGroup {
                    rank: ShownRank::Outside,
                    name,
                    tools: vec![DeclaredTool::of_outside(&**tool)],
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
    groups: Vec<ToolGroup<'_>>,
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
    /// Returns the declarations and their size, if they fit into `room`.
    fn within(&self, room: ToolRoom) -> Option<(Vec<ToolDeclaration>, ToolRoom)> {
        // Schemas are not written out for a group that does not fit anyway.
        let least: usize = self.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
        if self.tools.len() > room.tools || least > room.bytes {
            return None;
        }
        let tools: Vec<ToolDeclaration> = self.tools.iter().map(DeclaredTool::declaration).collect();
        let used = taken(&tools);
        (used.bytes <= room.bytes).then_some((tools, used))
    }
}

/// Returns the room that declarations take.
fn taken(tools: &[ToolDeclaration]) -> ToolRoom {
    ToolRoom { bytes: tools.iter().map(bytes).sum(), tools: tools.len() }
}

/// Returns the bytes of a declaration that count.
fn bytes(tool: &ToolDeclaration) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.len()
}

#[cfg(test)]
mod tests;
