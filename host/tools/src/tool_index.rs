//! The index behind `find_tools` and `tool-index`: lists a turn's tools by name, and searches them. It covers the snapshot, tools
//! outside the sandbox and, for models, the host's deferred tools. The indices of the last few sets are cached, because all calls
//! of a session use the same one.

use std::{cmp::Ordering, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::{Asker, Digest, Name, ToolSpec};
use patchbay_sandbox::CallableTool;
use patchbay_skill::{ResultLimit, SearchIndex, SearchTexts, ShownRank, Snapshot};
use serde_json::Value;

use crate::{CallContext, Internal, OutsideTool, Tools, call::is_person};

/// Number of sets of tools whose index is kept. A session uses two: models also find tools of the host, skills do not.
const KEPT: usize = 8;

/// Fuel of one step of a search, about one unit for each of its instructions.
const STEP_FUEL: u64 = 16;

/// The tools that can be searched.
#[derive(Clone, Copy)]
pub struct SearchedTools<'a> {
    /// Tools of the host, which only models find.
    pub host: &'a [Arc<dyn Internal>],
    /// The skills whose tools are searched.
    pub snapshot: &'a Snapshot,
    /// Tools outside of the sandbox. If one has the same name as a skill's tool, only the skill's tool is found.
    pub outside: &'a [Arc<dyn OutsideTool>],
}

impl<'a> SearchedTools<'a> {
    /// Returns the tools that a tool of `context` can find.
    fn of_context(context: &'a CallContext) -> Self {
        Self { host: &[], snapshot: &context.snapshot, outside: &context.outside }
    }

    fn callable(self, tool: &IndexedTool) -> Option<CallableTool> {
        let name = tool.name.clone();
        let of_spec = |name: String, spec: &ToolSpec| CallableTool {
            name,
            description: spec.description.clone(),
            input_schema: spec.input_schema.to_string(),
            extra: spec.extra.clone(),
        };
        match tool.source {
            IndexedSource::Host(at) => Some(of_spec(name, self.host.get(at)?.spec())),
            IndexedSource::Skill => {
                let (_, spec) = self.snapshot.tool(&name)?;
                Some(of_spec(name, spec))
            }
            IndexedSource::Outside(at) => {
                let spec = self.outside.get(at)?.spec();
                Some(CallableTool {
                    name,
                    description: spec.description().to_owned(),
                    input_schema: spec.input_schema().to_string(),
                    extra: Vec::new(),
                })
            }
        }
    }
}

/// The index of one set of tools.
pub(crate) struct ToolIndex {
    /// The names of the host's tools. Their declarations are the same in the whole process.
    host: Vec<Name>,
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
    source: IndexedSource,
    for_models: bool,
    for_skills: bool,
}

/// Where the declaration of a tool is.
#[derive(Clone, Copy, Debug)]
enum IndexedSource {
    /// In the list of the host's tools, at this index.
    Host(usize),
    Skill,
    /// In the list of tools outside of the sandbox, at this index.
    Outside(usize),
}

/// The caller of the tools that an index returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexReader {
    Model,
    /// A skill that was called for a model, or for the program of one, such as an MCP client.
    SkillOfModel,
    /// A skill that was called for the user.
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
    fn new(set: SearchedTools<'_>) -> Self {
        let SearchedTools { host, snapshot, outside } = set;
        let of_host = host.iter().enumerate().map(|(at, tool)| {
            let spec = tool.spec();
            let indexed = IndexedTool {
                name: spec.name.to_string(),
                rank: ShownRank::Host,
                source: IndexedSource::Host(at),
                for_models: true,
                for_skills: false,
            };
            (indexed, arguments(&spec.input_schema), spec.description.as_str())
        });
        let of_skills = snapshot.skills().filter(|skill| skill.component.is_some()).flat_map(|skill| {
            let rank = snapshot.shown_rank(skill);
            skill.tools.iter().map(move |tool| {
                let indexed = IndexedTool {
                    name: format!("{}__{}", skill.name, tool.name),
                    rank,
                    source: IndexedSource::Skill,
                    for_models: skill.manifest.audience.models,
                    for_skills: true,
                };
                (indexed, arguments(&tool.input_schema), tool.description.as_str())
            })
        });
        // A name that both have belongs to the skill's tool.
        let others = outside.iter().enumerate().filter(|(_, tool)| snapshot.tool(tool.spec().name()).is_none());
        let others = others.map(|(at, tool)| {
            let spec = tool.spec();
            let indexed = IndexedTool {
                name: spec.name().to_owned(),
                rank: ShownRank::Outside,
                source: IndexedSource::Outside(at),
                for_models: true,
                for_skills: spec.is_for_skills(),
            };
            (indexed, arguments(spec.input_schema()), spec.description())
        });
        let mut tools: Vec<_> = of_host.chain(of_skills).chain(others).collect();
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
        let host = host.iter().map(|tool| tool.spec().name.clone()).collect();
        let outside = outside.iter().map(|tool| tool.spec().digest()).collect();
        Self { host, snapshot: snapshot.digest(), outside, tools, by_name, search }
    }

    fn is_of(&self, set: SearchedTools<'_>) -> bool {
        let SearchedTools { host, snapshot, outside } = set;
        self.snapshot == snapshot.digest()
            && self.host.len() == host.len()
            && self.host.iter().zip(host).all(|(name, tool)| *name == tool.spec().name)
            && self.outside.len() == outside.len()
            && self.outside.iter().zip(outside).all(|(digest, tool)| *digest == tool.spec().digest())
    }

    /// Returns the tools for `reader` whose names come after `after`, sorted by name.
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

/// The indices of the sets of tools that were used last, the latest at the end.
#[derive(Default)]
pub(crate) struct ToolIndexCache(Mutex<Vec<Arc<ToolIndex>>>);

impl ToolIndexCache {
    fn get(&self, set: SearchedTools<'_>) -> Arc<ToolIndex> {
        let found = {
            let mut kept = self.0.lock();
            let at = kept.iter().position(|index| index.is_of(set));
            at.map(|at| {
                let index = kept.remove(at);
                kept.push(Arc::clone(&index));
                index
            })
        };
        found.unwrap_or_else(|| {
            let index = Arc::new(ToolIndex::new(set));
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
    /// Returns at most `limit` of the tools of `set` that a model may call: the best matches for `query`, best first. At most two
    /// come from an untrusted workspace. The same query on the same set always returns the same tools.
    pub fn find_tools(&self, set: SearchedTools<'_>, query: &str, limit: usize) -> Vec<CallableTool> {
        let index = self.tool_index.get(set);
        let (found, _) = index.find(IndexReader::Model, query);
        found.take(limit).filter_map(|tool| set.callable(tool)).collect()
    }

    /// Returns one page of the tools that a tool of `context` may call and whose names come after `after`, sorted by name: at most
    /// `limit`.
    pub(crate) fn callable_tools(&self, context: &CallContext, after: Option<&str>, limit: usize) -> Vec<CallableTool> {
        let set = SearchedTools::of_context(context);
        let index = self.tool_index.get(set);
        let entries = index.entries(IndexReader::of_caller(&context.asker), after).take(limit);
        CallableTool::page(entries.filter_map(|tool| set.callable(tool)))
    }

    /// Like [`Tools::find_tools`], for a tool of `context`. Returns one page, and the fuel that the search costs.
    pub(crate) fn find_callable_tools(
        &self,
        context: &CallContext,
        query: &str,
        limit: usize,
    ) -> (Vec<CallableTool>, u64) {
        let set = SearchedTools::of_context(context);
        let index = self.tool_index.get(set);
        let (found, fuel) = index.find(IndexReader::of_caller(&context.asker), query);
        (CallableTool::page(found.take(limit).filter_map(|tool| set.callable(tool))), fuel)
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
            source: IndexedSource::Skill,
            for_models: false,
            for_skills: true,
        };
        let is_shown = |asker: Asker| IndexReader::of_caller(&asker).may_call(&tool);
        assert!(is_shown(Asker::Person(PrincipalId::LOCAL)));
        assert!(!is_shown(Asker::Agent(AgentId::from_bytes([1; 16]))));
        assert!(!is_shown(Asker::mcp_client("client")));
    }
}
