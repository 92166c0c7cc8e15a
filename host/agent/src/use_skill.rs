//! The tool `use_skill`, which returns the instructions of a skill to the model. `toolbox` offers it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{Code, ToolSpec, text};
use patchbay_skill::{ArgumentsError, INPUT_BYTES, InvocationMode, Skill, Snapshot, with_arguments};
use patchbay_tools::{InstructionsError, Internal, InternalAnswer, InternalCall, InternalError, OutsideTools, Tools};
use serde_json::{Value, json};

use crate::{
    listing::instructed,
    shown::{LastShown, ToolSources},
    supplement::{supplement, undeclared},
};

pub(crate) const USE_SKILL: &str = "use_skill";

pub(crate) struct UseSkill {
    spec: ToolSpec,
    tools: Arc<Tools>,
    /// The tools of the host that are not declared.
    host: Vec<Arc<dyn Internal>>,
    snapshot: Arc<Snapshot>,
    outside: OutsideTools,
    shown: Arc<LastShown>,
}

impl UseSkill {
    /// Returns the tool for the skills of `snapshot`; `None` if none has instructions. `host` contains the host's tools that
    /// are not declared, and `shown` knows which other tools are declared.
    pub(crate) fn over(
        tools: &Arc<Tools>,
        host: Vec<Arc<dyn Internal>>,
        snapshot: &Arc<Snapshot>,
        outside: &OutsideTools,
        shown: &Arc<LastShown>,
    ) -> Option<Self> {
        instructed(snapshot).next()?;
        let spec = ToolSpec {
            name: USE_SKILL.parse().ok()?,
            description: "Returns the instructions of a skill, which you then follow.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "As listed."},
                    "input": {
                        "type": "string", "maxLength": INPUT_BYTES, "description": "What the skill should work on.",
                    },
                },
                "required": ["name", "input"],
                "additionalProperties": false,
            }),
            extra: Vec::new(),
        };
        let (outside, shown) = (Arc::clone(outside), Arc::clone(shown));
        Some(Self { spec, tools: Arc::clone(tools), host, snapshot: Arc::clone(snapshot), outside, shown })
    }
}

impl Internal for UseSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            let word = |key: &str| call.input.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = word("name");
            let skill = find(&self.snapshot, name)?;
            if skill.manifest.invocation_mode != InvocationMode::LlmOrchestration {
                let message = format!("no skill '{name}' with instructions found.");
                return Err(InternalError { code: Code::SkillNotFound, message });
            }
            let failed = |error: InstructionsError| InternalError { code: error.code(), message: error.to_string() };
            let template = self.tools.instructions(&self.snapshot, skill).await.map_err(failed)?;
            let too_long = |error: ArgumentsError| InternalError { code: error.code(), message: error.to_string() };
            let mut text = with_arguments(&template, word("input")).map_err(too_long)?;
            let sources =
                ToolSources { snapshot: &self.snapshot, internal: &self.host, hidden: &[], outside: &self.outside };
            let undeclared = undeclared(sources, skill, |name| self.shown.declares(name));
            text.push_str(&supplement(&self.tools, &self.snapshot, skill, undeclared).await);
            Ok(Value::from(text).into())
        })
    }
}

/// Finds a skill that a model named.
pub(crate) fn find<'s>(snapshot: &'s Snapshot, name: &str) -> Result<&'s Skill, InternalError> {
    let shown = text::excerpt(name, 80);
    match snapshot.skill(name) {
        Some(skill) if skill.manifest.audience.models => Ok(skill),
        Some(_) => {
            let message = format!("skill '{shown}' can only be invoked by a user.");
            Err(InternalError { code: Code::SkillNotForModels, message })
        }
        None => {
            let message = format!("skill '{shown}' not found in snapshot.");
            Err(InternalError { code: Code::SkillNotFound, message })
        }
    }
}
