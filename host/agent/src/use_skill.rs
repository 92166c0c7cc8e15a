//! The tool `use_skill`, which returns the instructions of a skill to the model. `toolbox` offers it.

use std::sync::Arc;

use patchbay_core::{Code, ToolSpec};
use patchbay_sandbox::BoxFuture;
use patchbay_skill::{InvocationMode, Snapshot};
use patchbay_tools::{Internal, InternalCall, InternalError, Tools};
use serde_json::{Value, json};

/// The tool's name.
pub(crate) const USE_SKILL: &str = "use_skill";

pub(crate) struct UseSkill {
    spec: ToolSpec,
    tools: Arc<Tools>,
    snapshot: Arc<Snapshot>,
}

impl UseSkill {
    /// Returns the tool for the skills of `snapshot`; `None` if none has instructions.
    pub(crate) fn over(tools: &Arc<Tools>, snapshot: &Arc<Snapshot>) -> Option<Self> {
        let names: Vec<&str> = crate::context::instructed(snapshot).map(|(name, ..)| name).collect();
        if names.is_empty() {
            return None;
        }
        let spec = ToolSpec {
            name: USE_SKILL.parse().ok()?,
            description: "Gives the instructions of a skill, which you then follow.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names, "description": "The skill."},
                    "input": {"type": "string", "description": "What the skill is to work on."},
                },
                "required": ["name", "input"],
                "additionalProperties": false,
            }),
            extra: Vec::new(),
        };
        Some(Self { spec, tools: Arc::clone(tools), snapshot: Arc::clone(snapshot) })
    }
}

impl Internal for UseSkill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<Value, InternalError>> {
        Box::pin(async move {
            let word = |key: &str| call.input.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = word("name");
            let skill = self.snapshot.skill(name);
            match skill.filter(|skill| skill.manifest.invocation_mode == InvocationMode::LlmOrchestration) {
                Some(skill) => match self.tools.instructions(&self.snapshot, skill).await {
                    Ok(template) => Ok(instructions(&template, word("input")).into()),
                    Err(error) => Err(InternalError { code: error.code(), message: error.to_string() }),
                },
                None => {
                    let message = format!("there is no skill '{name}' with instructions.");
                    Err(InternalError { code: Code::SkillNotFound, message })
                }
            }
        })
    }
}

/// Inserts the input at `$INPUT`, or appends it if the instructions do not contain `$INPUT`.
fn instructions(template: &str, input: &str) -> String {
    if template.contains("$INPUT") || input.is_empty() {
        return template.replace("$INPUT", input);
    }
    format!("{template}\n\nThe input:\n\n{input}")
}
