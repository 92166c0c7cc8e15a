//! The client's terminals as the tool `terminal__run`. `task` adds the tool to the session if the client offers terminals. The user
//! is asked before each call, unless an earlier answer covers it.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use patchbay_core::{CallId, Digest};
use patchbay_session::{
    Content, OutsideCall, OutsideDeclaration, OutsideError, OutsideOrigin, OutsideSpec, OutsideTool, PatternBudget,
    TerminalCommand, ToolDecision,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::params::ClientCapabilities;
use patchbay_jsonrpc::{Client, RpcError};

/// Limit of the output that the client keeps and the model receives, in bytes. The end is kept.
const OUTPUT_BYTES: usize = 64 << 10;
/// How long the client may take to respond to each request, except for running the command itself.
const ANSWER: Duration = Duration::from_secs(15);

/// The terminals of one session's client.
pub(super) struct ClientTerminal {
    client: Client,
    session: String,
    workspace: String,
    opened: mpsc::Sender<NewTerminal>,
    spec: OutsideSpec,
}

/// A terminal that the client has created. The session's task tells the client which call it belongs to.
pub(super) struct NewTerminal {
    /// The call that runs a program in it.
    pub(super) call: CallId,
    /// The id that the client chose.
    pub(super) id: String,
    /// Signalled once the update that shows the terminal is sent.
    pub(super) shown: oneshot::Sender<()>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedTerminal {
    terminal_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExitStatus {
    exit_code: Option<u32>,
    signal: Option<String>,
}

#[derive(Deserialize)]
struct TerminalOutput {
    output: String,
    truncated: bool,
}

impl ClientTerminal {
    /// Returns the tool for a session in `workspace`; `None` if the client offers no terminals. `opened` receives each terminal.
    pub(super) fn of(
        client: &Client,
        session: &str,
        workspace: &str,
        capabilities: &ClientCapabilities,
        opened: mpsc::Sender<NewTerminal>,
    ) -> Option<Arc<dyn OutsideTool>> {
        if !capabilities.has_terminals() {
            return None;
        }
        let declaration = OutsideDeclaration {
            name: TerminalCommand::TOOL.to_owned(),
            origin: OutsideOrigin::Client,
            group: "terminal".to_owned(),
            tool: "run".to_owned(),
            description: format!(
                "Runs a program on the user's machine, in a terminal of the user's editor, and returns the end of its output \
                 (at most {} KiB) and its exit code. There is no shell: give the program and its arguments, or run `sh` with \
                 `-c`. Standard input is the user's. The user is asked before each call.",
                OUTPUT_BYTES >> 10
            ),
            input_schema: TerminalCommand::schema(false),
            is_destructive: false,
            advice: "The editor asks the user before each call".to_owned(),
            identity: Digest::of(TerminalCommand::TOOL.as_bytes()),
            is_read_only: false,
            per_workspace: true,
            for_skills: false,
            time: Duration::from_secs(TerminalCommand::MOST_SECONDS) + 3 * ANSWER,
            time_key: "seconds of terminal__run".to_owned(),
        };
        // This cannot fail, because the schema is a constant.
        let spec = OutsideSpec::new(declaration, &mut PatternBudget::default()).ok()?;
        let (session, workspace) = (session.to_owned(), workspace.to_owned());
        Some(Arc::new(Self { client: client.clone(), session, workspace, opened, spec }))
    }

    async fn run(&self, call: CallId, command: TerminalCommand) -> Result<Content, OutsideError> {
        let limit = command.limit();
        let terminal = self.create(command).await?;
        self.show(call, &terminal.id).await;
        let exit = terminal.request::<ExitStatus>("terminal/wait_for_exit");
        let exit = match tokio::time::timeout(Duration::from_secs(limit), exit).await {
            Ok(exit) => Some(exit?),
            Err(_) => {
                terminal.request_in_time::<IgnoredAny>("terminal/kill").await?;
                None
            }
        };
        let TerminalOutput { output, truncated } = terminal.request_in_time("terminal/output").await?;
        terminal.release().await;
        let start = output.ceil_char_boundary(output.len().saturating_sub(OUTPUT_BYTES));
        let mut result = json!({"output": output[start..], "truncated": truncated || start > 0});
        match exit {
            Some(ExitStatus { exit_code, signal }) => {
                result["exit_code"] = exit_code.into();
                if let Some(signal) = signal {
                    result["signal"] = patchbay_core::text::excerpt(&signal, 40).into();
                }
            }
            None => result["stopped"] = format!("it ran for more than {limit} s and was killed").into(),
        }
        Ok(Content::Json(result))
    }

    /// Shows a terminal in its call, and waits until the update is sent: it must come before the terminal is released.
    async fn show(&self, call: CallId, id: &str) {
        let (shown, is_shown) = oneshot::channel();
        // Errors mean that the session is closed.
        if self.opened.send(NewTerminal { call, id: id.to_owned(), shown }).await.is_ok() {
            let _ = is_shown.await;
        }
    }

    /// Starts the command. If the call is stopped meanwhile, the terminal is released as soon as the client has created it.
    async fn create(&self, command: TerminalCommand) -> Result<OpenTerminal, OutsideError> {
        let TerminalCommand { command, args, cwd, env, .. } = command;
        let cwd = Path::new(&self.workspace).join(cwd.unwrap_or_default());
        let env: Vec<Value> = env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let params = json!({
            "sessionId": self.session, "command": command, "args": args, "cwd": cwd, "env": env,
            "outputByteLimit": OUTPUT_BYTES,
        });
        let (client, session) = (self.client.clone(), self.session.clone());
        let creating = tokio::spawn(async move {
            let created = client.request::<CreatedTerminal>("terminal/create", &params).await;
            created.map(|CreatedTerminal { terminal_id: id }| OpenTerminal { client, session, id, is_open: true })
        });
        match tokio::time::timeout(ANSWER, creating).await {
            Ok(Ok(created)) => created.map_err(failed),
            Ok(Err(error)) => Err(OutsideError::Unavailable(format!("cannot create the terminal: {error}"))),
            Err(_) => Err(late()),
        }
    }
}

impl OutsideTool for ClientTerminal {
    fn spec(&self) -> &OutsideSpec {
        &self.spec
    }

    fn decision(&self) -> ToolDecision {
        ToolDecision::Ask
    }

    fn input_for_question(&self, input: &Value) -> String {
        TerminalCommand::in_question(input)
    }

    fn is_shown_whole(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>> {
        Box::pin(async move {
            Ok(vec![self.run(call.id, TerminalCommand::read(call.input).map_err(OutsideError::Failed)?).await?])
        })
    }
}

/// A terminal of the client. Dropping it kills the command and releases the terminal.
struct OpenTerminal {
    client: Client,
    session: String,
    id: String,
    is_open: bool,
}

impl OpenTerminal {
    fn params(&self) -> Value {
        json!({"sessionId": self.session, "terminalId": self.id})
    }

    async fn request<T: serde::de::DeserializeOwned>(&self, method: &str) -> Result<T, OutsideError> {
        self.client.request(method, &self.params()).await.map_err(failed)
    }

    async fn request_in_time<T: serde::de::DeserializeOwned>(&self, method: &str) -> Result<T, OutsideError> {
        tokio::time::timeout(ANSWER, self.request(method)).await.unwrap_or_else(|_| Err(late()))
    }

    /// Releases the terminal. The client's response is ignored.
    async fn release(mut self) {
        let _ = self.request_in_time::<IgnoredAny>("terminal/release").await;
        self.is_open = false;
    }
}

impl Drop for OpenTerminal {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (client, params) = (self.client.clone(), self.params());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for method in ["terminal/kill", "terminal/release"] {
                    let _ = tokio::time::timeout(ANSWER, client.request::<IgnoredAny>(method, &params)).await;
                }
            });
        }
    }
}

fn failed(error: RpcError) -> OutsideError {
    if error.is_peer_left() {
        return OutsideError::ClientGone;
    }
    OutsideError::Failed(format!("the editor responded: {}", error.message))
}

fn late() -> OutsideError {
    OutsideError::Unavailable(format!("the editor did not respond within {} s", ANSWER.as_secs()))
}
