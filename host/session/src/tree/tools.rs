//! The tools that let a model work with other agents: `fork`, `kill`, `mail_*` and `set_agent_model`. Except for `set_agent_model`,
//! they behave like the commands `/fork`, `/kill` and `/mail-…`. A change is committed together with the tool's result. Skills
//! cannot call these tools. The mail tools are deferred: requests do not declare them, and models call them with `call_tool`,
//! because most sessions have one agent. The description of `fork` explains how to send mail.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use patchbay_agent::Agent;
use patchbay_core::{AgentId, Code, Outcome, ToolSpec};
use patchbay_store::StoreError;
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError};
use serde_json::{Value, json};

use super::{fork::ForkedBy, kill::KilledBy, model::MoveConsent};
use crate::{
    Session,
    prepared::{NotCommitted, Prepare},
    task_list,
};

struct TreeTool {
    spec: ToolSpec,
    action: TreeAction,
    session: Weak<Session>,
    agent: Arc<Agent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TreeAction {
    Fork,
    Kill,
    MailCheck,
    MailDelete,
    MailFilter,
    MailRead,
    MailSend,
    SetAgentModel,
}

/// The only optional key in the inputs of these tools. If it is true, the call of `fork` also ends the caller's turn, because the
/// caller has nothing to do until the report arrives.
const WAIT: &str = "wait";

const ALL: [TreeAction; 8] = [
    TreeAction::Fork,
    TreeAction::Kill,
    TreeAction::MailCheck,
    TreeAction::MailDelete,
    TreeAction::MailFilter,
    TreeAction::MailRead,
    TreeAction::MailSend,
    TreeAction::SetAgentModel,
];

impl Session {
    /// Returns the tools of the session for a turn of `agent`, including `task_list`. `set_agent_model` is only shown to
    /// foreground agents.
    pub(crate) fn tree_tools(self: &Arc<Self>, agent: &Arc<Agent>) -> Vec<Arc<dyn Internal>> {
        let tool = |action: TreeAction| {
            let spec = action.spec()?;
            let (session, agent) = (Arc::downgrade(self), Arc::clone(agent));
            Some(Arc::new(TreeTool { spec, action, session, agent }) as Arc<dyn Internal>)
        };
        ALL.into_iter().filter_map(tool).chain(task_list::tool(self, agent.id())).collect()
    }
}

impl TreeAction {
    /// Returns the name, the description and the input schema. The names are valid, so it is never `None`.
    fn spec(self) -> Option<ToolSpec> {
        let text = |description: &str| json!({"type": "string", "description": description});
        let number = json!({"type": "integer", "minimum": 1, "description": "The number of the message, as listed."});
        let (name, description, properties) = match self {
            Self::Fork => (
                "fork",
                "Creates a child agent, which works on the prompt while you continue. It has your conversation up to the \
                 last complete turn, but nothing of the current one. You get its result as mail; you need not wait or \
                 check. It then stays idle until you kill it or send it more work: call_tool with mail_send {to, message}.",
                json!({
                    "prompt": text("The task, with all that the child needs to know of the current turn."),
                    WAIT: {
                        "type": "boolean",
                        "description": "True ends your turn with this answer; the report begins the next turn.",
                    },
                }),
            ),
            Self::Kill => (
                "kill",
                "Ends an agent and all its descendants at once. You cannot end yourself or your ancestors.",
                json!({"uuid": {"type": "string"}}),
            ),
            Self::MailCheck => ("mail_check", "Lists your inbox, unread messages first.", json!({})),
            Self::MailDelete => ("mail_delete", "Deletes a message from your inbox.", json!({"number": number})),
            Self::MailFilter => (
                "mail_filter",
                "Lists the messages in your inbox from one agent.",
                json!({"from": text("The sender's UUID.")}),
            ),
            Self::MailRead => {
                ("mail_read", "Returns a message from your inbox and marks it as read.", json!({"number": number}))
            }
            Self::MailSend => (
                "mail_send",
                "Sends a message to another agent. If it is idle, it reads the message and works on it. Its report \
                 goes to its parent by mail.",
                json!({"to": text("The recipient's UUID."), "message": text("At most 64 KiB.")}),
            ),
            Self::SetAgentModel => (
                "set_agent_model",
                "Changes an agent's model from its next request on, until the user chooses another one.",
                json!({
                    "agentId": text("UUID of a living agent of this session; may be yourself."),
                    "model": text("\"small\", \"normal\" or \"big\" for a model of that size from the agent's \
                                   provider, or a model's name, which is tried first."),
                }),
            ),
        };
        let required: Vec<&String> = properties
            .as_object()
            .into_iter()
            .flat_map(|properties| properties.keys())
            .filter(|key| *key != WAIT)
            .collect();
        let input_schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        Some(ToolSpec {
            name: name.parse().ok()?,
            description: description.to_owned(),
            input_schema,
            extra: if self.is_mail() { vec![("deferred".to_owned(), "true".to_owned())] } else { Vec::new() },
        })
    }

    fn is_mail(self) -> bool {
        match self {
            Self::MailCheck | Self::MailDelete | Self::MailFilter | Self::MailRead | Self::MailSend => true,
            Self::Fork | Self::Kill | Self::SetAgentModel => false,
        }
    }
}

impl Internal for TreeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        matches!(self.action, TreeAction::MailCheck | TreeAction::MailFilter)
    }

    fn is_hidden(&self) -> bool {
        self.action == TreeAction::SetAgentModel && !self.agent.is_foreground()
    }

    fn ends_turn(&self, input: &Value) -> bool {
        self.action == TreeAction::Fork && input.get(WAIT) == Some(&Value::Bool(true))
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            let Some(session) = self.session.upgrade() else {
                return Err(InternalError { code: Code::SessionClosed, message: "the session is closed.".to_owned() });
            };
            let InternalCall { id, input, row, person, .. } = call;
            let refused = |outcome: Outcome| InternalError {
                code: outcome.code,
                message: outcome.message_for_models().to_owned(),
            };
            let mut consent = MoveConsent::new(person);
            loop {
                let prepare = match self.answer(&session, input, &mut consent).await.map_err(refused)? {
                    TreeAnswer::Shown(result) => return Ok(result.into()),
                    TreeAnswer::Change(prepare) => prepare,
                };
                match session.commit_for_tool(self.agent.id(), id, row.clone(), prepare).await {
                    // Since the change was prepared, an agent that it kills has begun another call with an effect. Prepared again,
                    // the change settles that call, too.
                    Err(NotCommitted::Store(StoreError::CallBegan(_))) => {}
                    committed => return Ok(committed?.into()),
                }
            }
        })
    }
}

enum TreeAnswer {
    Shown(Value),
    Change(Prepare),
}

impl TreeTool {
    async fn answer(
        &self,
        session: &Arc<Session>,
        input: &Value,
        consent: &mut MoveConsent<'_>,
    ) -> Result<TreeAnswer, Outcome> {
        let own = self.agent.id();
        let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = || input.get("number").and_then(Value::as_u64).unwrap_or_default();
        Ok(match self.action {
            TreeAction::Fork => {
                let prompt = text("prompt");
                if prompt.trim().is_empty() {
                    return Err(Outcome::error(Code::InvalidArgs, "the prompt cannot be empty."));
                }
                let model = self.agent.chosen().effective(session.host.providers.as_ref()).await?;
                TreeAnswer::Change(session.fork(
                    Arc::clone(&self.agent),
                    model,
                    Some(prompt.to_owned()),
                    ForkedBy::Tool,
                ))
            }
            TreeAction::Kill => {
                let target = session.find_agent(text("uuid")).await?;
                TreeAnswer::Change(session.kill(target, KilledBy::Agent(own)))
            }
            TreeAction::MailCheck => TreeAnswer::Shown(self.inbox(session, None).await?),
            TreeAction::MailFilter => {
                let from = session.find_agent(text("from")).await?.id;
                TreeAnswer::Shown(self.inbox(session, Some(from)).await?)
            }
            TreeAction::MailRead => TreeAnswer::Change(session.read_mail(own, number())),
            TreeAction::MailDelete => TreeAnswer::Change(session.delete_mail(own, number())),
            TreeAction::MailSend => {
                let to = session.find_agent(text("to")).await?;
                TreeAnswer::Change(session.send_mail(own, to, text("message").to_owned()))
            }
            TreeAction::SetAgentModel => {
                let target = session.find_agent(text("agentId")).await?;
                TreeAnswer::Change(session.set_agent_model(&self.agent, target.id, text("model"), consent).await?)
            }
        })
    }

    async fn inbox(&self, session: &Session, from: Option<AgentId>) -> Result<Value, Outcome> {
        Ok(session.list_mail(self.agent.id(), from).await?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_have_their_names_and_require_their_input() {
        let names: Vec<String> = ALL.into_iter().map(|action| action.spec().unwrap().name.to_string()).collect();
        let of_skills = ["call_tool", "find_skills", "find_tools", "skill_file", "task_list", "use_skill"];
        let expected: Vec<&str> =
            patchbay_agent::INTERNAL_TOOLS.iter().copied().filter(|name| !of_skills.contains(name)).collect();
        assert_eq!(names, expected);
        for action in ALL {
            let schema = action.spec().unwrap().input_schema;
            let mut properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
            properties.retain(|key| *key != WAIT);
            assert_eq!(schema["required"], json!(properties));
        }
    }

    /// Documented in `docs/agents.md`. If the first agent declared fewer tools than its children, they could not use its cached
    /// prompt.
    #[test]
    fn mail_waits_and_the_rest_is_declared() {
        let declared = ALL.into_iter().filter(|action| !action.spec().unwrap().is_deferred());
        let expected = [TreeAction::Fork, TreeAction::Kill, TreeAction::SetAgentModel];
        assert_eq!(declared.collect::<Vec<_>>(), expected);
        let fork = TreeAction::Fork.spec().unwrap().description;
        assert!(fork.contains("call_tool with mail_send {to, message}"), "{fork}");
    }
}
