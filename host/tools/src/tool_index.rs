//! The index of the tools that a call may call: their names in order, and a search over them. Kept for the last snapshot, so
//! that the calls of one session share it.

use std::sync::Arc;

use parking_lot::Mutex;
use patchbay_core::{Digest, ToolSpec};
use patchbay_policy::Root;
use patchbay_sandbox::CallableTool;
use patchbay_skill::{SearchIndex, SearchTexts, Snapshot};

/// Maximum tools of an untrusted workspace that one search returns: a repository can write any words into its skills.
const UNTRUSTED: usize = 2;

/// The tools of one snapshot.
pub(crate) struct ToolIndex {
    snapshot: Digest,
    /// Full names, sorted by bytes.
    sorted: Vec<String>,
    /// The same names in the order of `search`: those of the user's skills first, those of a workspace last.
    ranked: Vec<(String, Root)>,
    search: SearchIndex,
}

impl ToolIndex {
    fn new(snapshot: &Snapshot) -> Self {
        let mut tools: Vec<_> = snapshot
            .skills()
            .filter(|skill| skill.component.is_some())
            .flat_map(|skill| {
                skill.tools.iter().map(move |tool| (skill.root, format!("{}__{}", skill.name, tool.name), tool))
            })
            .collect();
        tools.sort_by(|(root, name, _), (other, other_name, _)| (rank(*root), name).cmp(&(rank(*other), other_name)));
        let arguments: Vec<String> = tools.iter().map(|(_, _, tool)| arguments(tool)).collect();
        let texts = tools.iter().zip(&arguments).map(|((_, name, tool), arguments)| SearchTexts {
            name,
            arguments,
            description: &tool.description,
        });
        let search = SearchIndex::new(texts);
        let ranked: Vec<(String, Root)> = tools.into_iter().map(|(root, name, _)| (name, root)).collect();
        let mut sorted: Vec<String> = ranked.iter().map(|(name, _)| name.clone()).collect();
        sorted.sort();
        Self { snapshot: snapshot.digest(), sorted, ranked, search }
    }

    /// Returns at most `limit` tools that follow `after`.
    pub(crate) fn entries(&self, snapshot: &Snapshot, after: Option<&str>, limit: usize) -> Vec<CallableTool> {
        let first = after.map_or(0, |after| self.sorted.partition_point(|name| name.as_str() <= after));
        let names = self.sorted.iter().skip(first).take(limit);
        names.filter_map(|name| callable(snapshot, name)).collect()
    }

    /// Returns at most `limit` tools that match `query` best.
    pub(crate) fn find(&self, snapshot: &Snapshot, query: &str, limit: usize, trusted: bool) -> Vec<CallableTool> {
        let mut of_workspace = 0;
        let found = self.search.find(query).into_iter().filter_map(|number| self.ranked.get(number));
        let allowed = found.filter(|(_, root)| {
            of_workspace += usize::from(root.is_workspace());
            trusted || !root.is_workspace() || of_workspace <= UNTRUSTED
        });
        allowed.take(limit).filter_map(|(name, _)| callable(snapshot, name)).collect()
    }
}

/// Returns the place of a root among tools that match equally well.
fn rank(root: Root) -> u8 {
    match root {
        Root::User => 0,
        Root::Bundled => 1,
        Root::Extra => 2,
        Root::WorkspaceClaude | Root::WorkspaceAgents | Root::Workspace => 3,
    }
}

/// Returns the names of a tool's arguments.
fn arguments(tool: &ToolSpec) -> String {
    let properties = tool.input_schema.get("properties").and_then(serde_json::Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn callable(snapshot: &Snapshot, name: &str) -> Option<CallableTool> {
    let (_, tool) = snapshot.tool(name)?;
    Some(CallableTool {
        name: name.to_owned(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
        extra: tool.extra.clone(),
    })
}

/// The index of the snapshot that was searched last.
#[derive(Default)]
pub(crate) struct ToolIndexCache(Mutex<Option<Arc<ToolIndex>>>);

impl ToolIndexCache {
    /// Returns the index of `snapshot`.
    pub(crate) fn get(&self, snapshot: &Snapshot) -> Arc<ToolIndex> {
        let kept = self.0.lock().as_ref().filter(|index| index.snapshot == snapshot.digest()).cloned();
        kept.unwrap_or_else(|| {
            let index = Arc::new(ToolIndex::new(snapshot));
            *self.0.lock() = Some(Arc::clone(&index));
            index
        })
    }
}
