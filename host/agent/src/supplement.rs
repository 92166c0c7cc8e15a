//! The text after a skill's instructions for a model: the list of the skill's files, and the declarations of its tools
//! that the model's request leaves out. `use_skill` adds it when a model invokes the skill, the crate `session` when the
//! user does.

use std::sync::Arc;

use patchbay_core::completion::ToolDeclaration;
use patchbay_skill::{Skill, Snapshot};
use patchbay_tools::{Internal, OutsideTools, Tools};
use serde_json::Value;

use crate::{
    Agent,
    call_tool::CALL_TOOL,
    found_tools::described,
    shown::{Shown, ToolSources},
    skill_file,
    toolbox::Toolbox,
    undeclared::deferred,
};

impl Agent {
    /// Returns the text after the instructions of `skill`, a skill of `snapshot`, when the user invokes it: the same
    /// text as after a call of `use_skill`. Empty if the model needs nothing more. `internal` and `outside` are the
    /// tools of the next turn; which of them are declared depends on the model that is chosen now.
    pub async fn skill_supplement(
        &self,
        snapshot: &Arc<Snapshot>,
        internal: Vec<Arc<dyn Internal>>,
        outside: &OutsideTools,
        skill: &Skill,
    ) -> String {
        let undeclared = if has_tools(skill) {
            let host = deferred(&internal);
            let shown = self.next_shown(snapshot, internal, outside).await;
            let sources = ToolSources { snapshot, internal: &host, hidden: &[], outside };
            undeclared(sources, skill, |name| shown.declares(name))
        } else {
            Vec::new()
        };
        supplement(&self.tools, snapshot, skill, undeclared).await
    }

    /// Returns the tools that the next request would show the model, given these tools.
    async fn next_shown(
        &self,
        snapshot: &Arc<Snapshot>,
        internal: Vec<Arc<dyn Internal>>,
        outside: &OutsideTools,
    ) -> Arc<Shown> {
        // If no model is usable, the next turn reports why.
        let window = self.next_window().await.unwrap_or(self.settings.compaction.context_window);
        Toolbox::new(Arc::clone(&self.tools), snapshot, internal, outside).shown(&self.settings.context, window)
    }

    /// Returns the context window of the next request in tokens, if it is known.
    async fn next_window(&self) -> Option<u64> {
        let chosen = self.chosen();
        let choice = chosen.effective(&*self.model).await.ok()?;
        let provider = choice.provider.to_string();
        let kept = self.log.store().agent_window(self.place.agent, &provider, &choice.model).await;
        match kept.ok().flatten() {
            Some(tokens) => Some(tokens),
            None => self.model.about(&choice).await.context_window,
        }
    }
}

/// Returns whether a skill has tools of its own or requires others.
pub fn has_tools(skill: &Skill) -> bool {
    !skill.tools.is_empty() || !skill.manifest.requires_tools.is_empty()
}

/// Returns the declarations of the skill's own tools and of the tools that it requires, if `sources` contains them and
/// `is_declared` returns false.
pub(crate) fn undeclared(
    sources: ToolSources<'_>,
    skill: &Skill,
    is_declared: impl Fn(&str) -> bool,
) -> Vec<ToolDeclaration> {
    let own = skill.tools.iter().map(|tool| skill.name.tool(&tool.name));
    let mut names: Vec<String> = own.chain(skill.manifest.requires_tools.iter().cloned()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !is_declared(name));
    names.iter().filter_map(|name| sources.declaration(name)).collect()
}

/// Returns a note for the model about a skill that only users can invoke: its instructions may name files and tools
/// that the model cannot use.
fn out_of_reach(has_files: bool, has_tools: bool) -> Option<&'static str> {
    match (has_files, has_tools) {
        (true, true) => {
            Some("The files and the tools of this skill are only for the user: you can neither read nor call them.")
        }
        (true, false) => Some("The files of this skill are only for the user: you cannot read them."),
        (false, true) => Some("The tools of this skill are only for the user: you cannot call them."),
        (false, false) => None,
    }
}

/// Returns the text about the files of `skill`, a skill of `snapshot`, and about the tools `undeclared`.
pub(crate) async fn supplement(
    tools: &Tools,
    snapshot: &Snapshot,
    skill: &Skill,
    undeclared: Vec<ToolDeclaration>,
) -> String {
    let files = files(tools, snapshot, skill).await;
    let mut text = files.map(|files| format!("\n\n{files}")).unwrap_or_default();
    let declarations = described(undeclared);
    if !declarations.is_empty() {
        let declarations: Vec<String> = declarations.iter().map(Value::to_string).collect();
        let declarations = declarations.join("\n");
        text.push_str(&format!("\n\nTools for this, to be called with {CALL_TOOL}:\n{declarations}"));
    }
    text
}

/// Returns the list of the skill's files, or why they cannot be read; `None` if there are none.
async fn files(tools: &Tools, snapshot: &Snapshot, skill: &Skill) -> Option<String> {
    if !skill.manifest.audience.models {
        let has_files = skill.files.is_some_and(|files| files.count > 0);
        return out_of_reach(has_files, !skill.tools.is_empty()).map(str::to_owned);
    }
    if let Some(problem) = snapshot.files_problem(skill) {
        return Some(format!("The files of this skill are left out. {problem}"));
    }
    skill.files.filter(|files| files.count > 0)?;
    // Without the list the instructions still work.
    match tools.skill_files(skill).await {
        Ok(files) => skill_file::list(skill.name.as_str(), &files),
        Err(error) => Some(error.to_string()),
    }
}
