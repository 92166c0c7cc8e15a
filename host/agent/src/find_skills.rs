//! The tool `find_skills`, with which a model searches the skills that have instructions for it. `toolbox` offers the tool, and
//! `shown` declares it if the list of skills lacks a description.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use patchbay_core::ToolSpec;
use patchbay_skill::{ResultLimit, SearchIndex, SearchTexts, ShownRank, Skill, Snapshot};
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError};
use serde_json::{Map, Value, json};

use crate::{
    find_tools::{FOUND, query, query_schema},
    listing::instructed,
};

pub(crate) const FIND_SKILLS: &str = "find_skills";

pub(crate) struct FindSkills {
    spec: ToolSpec,
    snapshot: Arc<Snapshot>,
    /// Built by the first search of the turn.
    index: OnceLock<SearchIndex>,
}

impl FindSkills {
    /// Returns the tool for the skills of `snapshot`; `None` if none has instructions.
    pub(crate) fn over(snapshot: &Arc<Snapshot>) -> Option<Self> {
        instructed(snapshot).next()?;
        let spec = ToolSpec {
            name: FIND_SKILLS.parse().ok()?,
            description:
                "Searches all skills and returns their descriptions. use_skill returns the instructions of one."
                    .to_owned(),
            input_schema: query_schema("What the skill should help with, or its name."),
            extra: Vec::new(),
        };
        Some(Self { spec, snapshot: Arc::clone(snapshot), index: OnceLock::new() })
    }

    /// Returns the skills that match best.
    fn find(&self, query: &str) -> Vec<Value> {
        let mut skills: Vec<(ShownRank, &Skill)> =
            instructed(&self.snapshot).map(|skill| (self.snapshot.shown_rank(skill), skill)).collect();
        skills.sort_by_key(|(rank, skill)| (*rank, &skill.name));
        let index = self.index.get_or_init(|| {
            SearchIndex::new(skills.iter().map(|(_, skill)| SearchTexts {
                name: skill.name.as_str(),
                arguments: skill.manifest.input_hint.as_deref().unwrap_or_default(),
                description: &skill.manifest.summary,
            }))
        });
        let mut limit = ResultLimit::default();
        let found =
            index.find(query).into_iter().filter_map(|at| skills.get(at)).filter(|(rank, _)| limit.admits(*rank));
        found.take(FOUND).map(|(_, skill)| described(skill)).collect()
    }
}

fn described(skill: &Skill) -> Value {
    let mut described = Map::new();
    described.insert("name".to_owned(), skill.name.as_str().into());
    described.insert("summary".to_owned(), skill.manifest.summary.as_str().into());
    if let Some(hint) = &skill.manifest.input_hint {
        described.insert("input".to_owned(), hint.as_str().into());
    }
    described.into()
}

impl Internal for FindSkills {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move { Ok(json!({"skills": self.find(query(&call))}).into()) })
    }
}
