//! Questions to the user: `session/request_permission`. A refusal, a cancelled request and an error of the client mean no. `task`
//! names the tool call that a question belongs to.

use patchbay_session::{Approval, Approver, BoxFuture, Question};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{transcript::ShownQuestion, update::call_text};
use crate::wire::Client;

/// Passes questions to the task of the session.
pub(super) struct ClientApprover(pub(super) mpsc::Sender<PermissionMessage>);

/// A message for the task of the session.
pub(super) enum PermissionMessage {
    /// A question for the user.
    Asked(Box<AskedQuestion>),
    /// A grant could not be stored: the line that says so.
    NotStored(String),
}

/// A question that waits for its answer.
pub(super) struct AskedQuestion {
    pub(super) question: Question,
    answer: oneshot::Sender<Approval>,
}

impl Approver for ClientApprover {
    fn approve(&self, question: Question) -> BoxFuture<'_, Approval> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // An error means that the session is closed.
            match self.0.send(PermissionMessage::Asked(Box::new(AskedQuestion { question, answer }))).await {
                Ok(()) => answered.await.unwrap_or(Approval::No),
                Err(_) => Approval::No,
            }
        })
    }

    fn grant_stored(&self, question: &Question, stored: Result<(), String>) {
        let Err(error) = stored else { return };
        let allowed = question.subject.decided(true);
        let line = format!("Error: the grant is not stored: {error}. Only for this call, {allowed}.");
        // An error means that the session is closed, or that many questions wait.
        let _ = self.0.try_send(PermissionMessage::NotStored(line));
    }
}

#[derive(Deserialize)]
struct PermissionResponse {
    outcome: PermissionOutcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOutcome {
    option_id: Option<String>,
}

/// Asks the client, and passes the answer on. Returns whether it is yes. A question that is withdrawn is withdrawn from the client
/// as well.
pub(super) async fn ask(client: Client, session: &str, shown: &ShownQuestion, asked: AskedQuestion) -> bool {
    let AskedQuestion { question, mut answer } = asked;
    let params = params(session, shown, &question);
    let response = tokio::select! {
        response = client.request::<PermissionResponse>("session/request_permission", &params) => response,
        () = answer.closed() => return false,
    };
    let chosen = response.ok().and_then(|PermissionResponse { outcome }| outcome.option_id);
    let approval = choices(&question).into_iter().map(|(approval, _)| approval);
    let approval = approval.into_iter().find(|approval| chosen.as_deref() == Some(approval.as_str()));
    let approval = approval.unwrap_or(Approval::No);
    // An error means that the call was stopped.
    answer.send(approval).is_ok() && approval.is_yes()
}

/// Returns the request. Clients replace title and content of the call by those of the request, so it repeats what the call shows.
fn params(session: &str, ShownQuestion { title, call }: &ShownQuestion, question: &Question) -> Value {
    let mut lines = vec![title.clone()];
    lines.extend(question.subject.facts());
    lines.push(format!("for {}", question.chain.join(" > ")));
    lines.extend(question.reason.as_ref().map(|reason| format!("the skill's reason: {reason}")));
    if let Some(grant) = &question.grant {
        lines.push(format!("always is: {}", grant.what));
        lines.extend(grant.scope.clone());
    }
    let mut content = vec![call_text(&lines.join("\n"))];
    content.extend_from_slice(&call.content);
    let options: Vec<Value> = choices(question)
        .into_iter()
        .map(|(approval, name)| json!({"optionId": approval.as_str(), "name": name, "kind": kind(approval)}))
        .collect();
    json!({
        "sessionId": session,
        "toolCall": {"toolCallId": call.id, "title": call.title, "content": content},
        "options": options,
    })
}

/// Returns the answers to offer, with their names.
fn choices(question: &Question) -> Vec<(Approval, String)> {
    // Clients know one kind of always: the grant, or the session where no grant can be given.
    let always = [Approval::Always, Approval::Session].into_iter().find(|approval| question.allows(*approval));
    let all = [Some(Approval::Once), always, Some(Approval::No), Some(Approval::Never)];
    all.into_iter().flatten().map(|approval| (approval, name(approval, question))).collect()
}

fn name(approval: Approval, question: &Question) -> String {
    match approval {
        Approval::Once => "Allow for this call".to_owned(),
        Approval::Session => "Allow for this session".to_owned(),
        Approval::Always => format!("Always: {}", question.subject.decided(true)),
        Approval::No => "Do not allow".to_owned(),
        Approval::Never => "Do not allow in this session".to_owned(),
    }
}

fn kind(approval: Approval) -> &'static str {
    match approval {
        Approval::Once => "allow_once",
        Approval::Session | Approval::Always => "allow_always",
        Approval::No => "reject_once",
        Approval::Never => "reject_always",
    }
}
