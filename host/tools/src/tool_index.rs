//! The index of the tools of a turn: those of a snapshot and those outside of the sandbox. Lists them by name, and searches them.
//! Kept for the last sets of tools, so that the calls of a session share it.

use std::{cmp::Ordering, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::{Asker, Digest};
use patchbay_sandbox::CallableTool;
use patchbay_skill::{ResultLimit, SearchIndex, SearchTexts, ShownRank, Snapshot};
use serde_json::Value;

use crate::{CallContext, OutsideTool, Tools, call::is_person};

/// Number of sets of tools whose index is kept.
const KEPT: usize = 4;

/// Fuel of one step of a search, about its instructions.
const STEP_FUEL: u64 = 16;

/// The tools of one snapshot and one list of tools outside of the sandbox.
pub(crate) struct ToolIndex {
    snapshot: Digest,
    /// The digests of the tools outside of the sandbox, in the order of their list.
    outside: Vec<Digest>,
    /// In the order of [`ShownRank`], then by full name; `search` has the same order.
    tools: Vec<IndexedTool>,
    /// Indices into `tools`, sorted by full name.
    by_name: Vec<usize>,
    search: SearchIndex,
}

struct IndexedTool {
    name: String,
    rank: ShownRank,
    /// The place in the list of tools outside of the sandbox; `None` for a tool of a skill.
    outside: Option<usize>,
    for_models: bool,
    for_skills: bool,
}

/// Who is to call the tools that an index returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexReader {
    Model,
    /// A skill that was called for a model, or for the program of one, such as an MCP client.
    SkillOfModel,
    /// A skill that was called for a person.
    SkillOfPerson,
}

impl IndexReader {
    /// Returns the reader for a tool whose outermost caller is `asker`.
    fn of_caller(asker: &Asker) -> Self {
        if is_person(asker) { Self::SkillOfPerson } else { Self::SkillOfModel }
    }

    fn may_call(self, tool: &IndexedTool) -> bool {
        match self {
            Self::Model => tool.for_models,
            Self::SkillOfModel => tool.for_models && tool.for_skills,
            Self::SkillOfPerson => tool.for_skills,
        }
    }
}

impl ToolIndex {
    fn new(snapshot: &Snapshot, outside: &[Arc<dyn OutsideTool>]) -> Self {
        let of_skills = snapshot.skills().filter(|skill| skill.component.is_some()).flat_map(|skill| {
            let rank = snapshot.shown_rank(skill);
            skill.tools.iter().map(move |tool| {
                let indexed = IndexedTool {
                    name: format!("{}__{}", skill.name, tool.name),
                    rank,
                    outside: None,
                    for_models: skill.manifest.audience.models,
                    for_skills: true,
                };
                (indexed, arguments(&tool.input_schema), tool.description.as_str())
            })
        });
        // A name that a tool of a skill has finds that tool.
        let others = outside.iter().enumerate().filter(|(_, tool)| snapshot.tool(tool.spec().name()).is_none());
        let others = others.map(|(at, tool)| {
            let spec = tool.spec();
            let indexed = IndexedTool {
                name: spec.name().to_owned(),
                rank: ShownRank::Outside,
                outside: Some(at),
                for_models: true,
                for_skills: spec.is_for_skills(),
            };
            (indexed, arguments(spec.input_schema()), spec.description())
        });
        let mut tools: Vec<_> = of_skills.chain(others).collect();
        tools.sort_by(|(tool, ..), (other, ..)| (tool.rank, &tool.name).cmp(&(other.rank, &other.name)));
        let texts =
            tools.iter().map(|(tool, arguments, description)| SearchTexts { name: &tool.name, arguments, description });
        let search = SearchIndex::new(texts);
        let tools: Vec<IndexedTool> = tools.into_iter().map(|(tool, ..)| tool).collect();
        let mut by_name: Vec<usize> = (0..tools.len()).collect();
        by_name.sort_by(|a, b| match (tools.get(*a), tools.get(*b)) {
            (Some(a), Some(b)) => a.name.cmp(&b.name),
            _ => Ordering::Equal,
        });
        let outside = outside.iter().map(|tool| tool.spec().digest()).collect();
        Self { snapshot: snapshot.digest(), outside, tools, by_name, search }
    }

    fn is_of(&self, snapshot: &Snapshot, outside: &[Arc<dyn OutsideTool>]) -> bool {
        self.snapshot == snapshot.digest()
            && self.outside.len() == outside.len()
            && self.outside.iter().zip(outside).all(|(digest, tool)| *digest == tool.spec().digest())
    }

    /// Returns the tools for `reader` whose names follow `after`, sorted by name.
    fn entries(&self, reader: IndexReader, after: Option<&str>) -> impl Iterator<Item = &IndexedTool> {
        let is_before = |at: &usize| {
            let name = self.tools.get(*at).map(|tool| tool.name.as_str());
            after.is_some_and(|after| name.is_some_and(|name| name <= after))
        };
        let first = self.by_name.partition_point(is_before);
        let names = self.by_name.iter().skip(first).filter_map(|at| self.tools.get(*at));
        names.filter(move |tool| reader.may_call(tool))
    }

    /// Returns the tools for `reader` that match `query`, the best first, and the fuel of the search.
    fn find(&self, reader: IndexReader, query: &str) -> (impl Iterator<Item = &IndexedTool>, u64) {
        let mut limit = ResultLimit::default();
        let matches = self.search.matches(query);
        let fuel = matches.steps().saturating_mul(STEP_FUEL);
        let found = matches.filter_map(|at| self.tools.get(at));
        (found.filter(move |tool| reader.may_call(tool) && limit.admits(tool.rank)), fuel)
    }
}

/// Returns the names of a tool's arguments.
fn arguments(input_schema: &Value) -> String {
    let properties = input_schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn callable(snapshot: &Snapshot, outside: &[Arc<dyn OutsideTool>], tool: &IndexedTool) -> Option<CallableTool> {
    let name = tool.name.clone();
    if let Some(at) = tool.outside {
        let spec = outside.get(at)?.spec();
        return Some(CallableTool {
            name,
            description: spec.description().to_owned(),
            input_schema: spec.input_schema().to_string(),
            extra: Vec::new(),
        });
    }
    let (_, spec) = snapshot.tool(&name)?;
    Some(CallableTool {
        name,
        description: spec.description.clone(),
        input_schema: spec.input_schema.to_string(),
        extra: spec.extra.clone(),
    })
}

/// The indices of the sets of tools that were used last, the latest at the end.
#[derive(Default)]
pub(crate) struct ToolIndexCache(Mutex<Vec<Arc<ToolIndex>>>);

impl ToolIndexCache {
    fn get(&self, snapshot: &Snapshot, outside: &[Arc<dyn OutsideTool>]) -> Arc<ToolIndex> {
        let found = {
            let mut kept = self.0.lock();
            let at = kept.iter().position(|index| index.is_of(snapshot, outside));
            at.map(|at| {
                let index = kept.remove(at);
                kept.push(Arc::clone(&index));
                index
            })
        };
        found.unwrap_or_else(|| {
            let index = Arc::new(ToolIndex::new(snapshot, outside));
            let mut kept = self.0.lock();
            if kept.len() >= KEPT {
                kept.remove(0);
            }
            kept.push(Arc::clone(&index));
            index
        })
    }
}

impl Tools {
    /// Returns at most `limit` of the tools that a model may call, besides those of the host: the ones that match `query` best,
    /// the best first. An untrusted workspace has at most two of them. The same query has the same answer for the same snapshot
    /// and the same tools outside of the sandbox.
    pub fn find_tools(
        &self,
        snapshot: &Snapshot,
        outside: &[Arc<dyn OutsideTool>],
        query: &str,
        limit: usize,
    ) -> Vec<CallableTool> {
        let index = self.tool_index.get(snapshot, outside);
        let (found, _) = index.find(IndexReader::Model, query);
        found.take(limit).filter_map(|tool| callable(snapshot, outside, tool)).collect()
    }

    /// Returns one page of the tools that a tool of `context` may call and whose names follow `after`, sorted by name: at most
    /// `limit`.
    pub(crate) fn callable_tools(&self, context: &CallContext, after: Option<&str>, limit: usize) -> Vec<CallableTool> {
        let (snapshot, outside) = (&context.snapshot, &context.outside);
        let index = self.tool_index.get(snapshot, outside);
        let entries = index.entries(IndexReader::of_caller(&context.asker), after).take(limit);
        CallableTool::page(entries.filter_map(|tool| callable(snapshot, outside, tool)))
    }

    /// Like [`Tools::find_tools`], for a tool of `context`. Returns one page, and the fuel that the search costs.
    pub(crate) fn find_callable_tools(
        &self,
        context: &CallContext,
        query: &str,
        limit: usize,
    ) -> (Vec<CallableTool>, u64) {
        let (snapshot, outside) = (&context.snapshot, &context.outside);
        let index = self.tool_index.get(snapshot, outside);
        let (found, fuel) = index.find(IndexReader::of_caller(&context.asker), query);
        (CallableTool::page(found.take(limit).filter_map(|tool| callable(snapshot, outside, tool))), fuel)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, PrincipalId};

    use super::*;

    #[test]
    fn only_skills_of_a_person_are_shown_tools_for_people() {
        let tool = IndexedTool {
            name: "deploy__run".to_owned(),
            rank: ShownRank::User,
            outside: None,
            for_models: false,
            for_skills: true,
        };
        let is_shown = |asker: Asker| IndexReader::of_caller(&asker).may_call(&tool);
        assert!(is_shown(Asker::Person(PrincipalId::LOCAL)));
        assert!(!is_shown(Asker::Agent(AgentId::from_bytes([1; 16]))));
        assert!(!is_shown(Asker::mcp_client("client")));
    }
}
