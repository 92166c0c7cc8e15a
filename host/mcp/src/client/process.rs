//! Runs an MCP server as a process: without a shell, with a limited environment, and in its own process group. Its messages are
//! lines of standard input and output.

use std::{env, fmt, future::Future, io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use patchbay_egress::{ProcessGroup, Scrub, Secret, find_program};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    inbox::{Inbox, Judged},
    package_files::PackageFiles,
    secret_names::names_secret,
};
use patchbay_jsonrpc::{BoundedLines, ReadLine, is_parsable};

/// The variables that every server receives if they are set, because programs often need them to start. None contains a secret.
pub(super) const VARIABLES: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// How long a server may take to exit after its input is closed. Then it is killed together with the processes that it
/// started.
const CLOSE_TIME: Duration = Duration::from_millis(500);
/// How long a server may take to read a message.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Size limit of a line of standard error, in bytes.
const ERROR_LINE_BYTES: usize = 4 << 10;

/// How the process of a server is started.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, then its arguments.
    pub words: Vec<String>,
    /// Variables in addition to the defaults for every server. If a variable's name suggests a secret, such as
    /// `GITHUB_TOKEN`, its value is removed from messages and from everything that the server prints.
    pub variables: Vec<(String, String)>,
    /// The working directory of the process.
    pub folder: PathBuf,
    /// The package that the server belongs to; `None` for any other program.
    pub package: Option<PackageFiles>,
    /// A variable that the program needs but that is not set, which prevents the start.
    pub unset: Option<String>,
}

/// Leaves out the values of variables, which can be secrets.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("words", &self.words).finish_non_exhaustive()
    }
}

impl Launch {
    /// Checks the variables that the server needs and the package that it belongs to, right before a start.
    ///
    /// # Errors
    /// Why the server may not be started.
    pub(super) async fn prepare(&self) -> Result<(), String> {
        if let Some(name) = &self.unset {
            return Err(format!("the variable {name} is not set"));
        }
        let Some(package) = self.package.clone() else { return Ok(()) };
        let (program, folder) = (PathBuf::from(self.words.first().cloned().unwrap_or_default()), self.folder.clone());
        let prepared = tokio::task::spawn_blocking(move || package.prepare(&program, &folder)).await;
        prepared.unwrap_or_else(|_| Err("its package could not be checked".to_owned()))
    }

    /// Returns a scrubber for the secrets among the variables. A value that is too short for a secret or consists of digits stays,
    /// because removing it would remove other text, too.
    fn scrub(&self) -> Scrub {
        let is_number = |value: &str| value.bytes().all(|byte| byte.is_ascii_digit());
        let secrets = self.variables.iter().filter(|(name, value)| names_secret(name) && !is_number(value));
        let secrets: Vec<Secret> = secrets.filter_map(|(_, value)| Secret::new(value).ok()).collect();
        Scrub::new(&secrets)
    }
}

/// Why a server cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The program was not found in PATH.
    #[error("no absolute folder in PATH has the program '{0}'")]
    NotFound(String),
    /// The operating system cannot start the program.
    #[error("cannot start the program '{program}': {problem}")]
    Start {
        /// The program that should start the server.
        program: String,
        /// The error reported by the operating system.
        problem: String,
    },
}

/// A connection over standard input and output. Dropping it kills the server with all processes that it started.
pub(super) struct ProcessTransport {
    group: ProcessGroup,
    lines: BoundedLines<ChildStdout>,
    input: Arc<ServerInput>,
    inbox: Arc<Inbox>,
    scrub: Scrub,
    /// Size limit of a message in bytes, for the error message.
    limit: usize,
    /// How long the server may take to read a message.
    write_time: Duration,
}

/// Standard input of the server, which tasks share.
struct ServerInput {
    pipe: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Cancelled when writing to the server fails.
    broken: CancellationToken,
}

impl ProcessTransport {
    /// Starts the server. Messages of more than `limit` bytes end the connection.
    pub(super) fn launch(launch: &Launch, inbox: Arc<Inbox>, limit: usize) -> Result<Self, LaunchError> {
        let (name, arguments) = launch.words.split_first().ok_or_else(|| LaunchError::NotFound(String::new()))?;
        let shown = patchbay_core::text::excerpt(name, 120);
        let program = find_program(name, env::var_os("PATH").as_deref());
        let program = program.ok_or_else(|| LaunchError::NotFound(shown.clone()))?;
        let inherited = VARIABLES.iter().filter_map(|name| Some((*name, env::var_os(name)?)));
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(inherited).envs(launch.variables.iter().cloned());
        command.current_dir(&launch.folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| LaunchError::Start { program: shown.clone(), problem: error.to_string() };
        let mut group = ProcessGroup::spawn(&mut command).map_err(failed)?;
        let process = group.process();
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(LaunchError::Start { program: shown, problem: "it has no pipes".to_owned() });
        };
        let scrub = launch.scrub();
        tokio::spawn(keep_errors(stderr, Arc::clone(&inbox), scrub.clone()));
        let input = ServerInput { pipe: tokio::sync::Mutex::new(Some(stdin)), broken: CancellationToken::new() };
        let lines = BoundedLines::new(stdout, limit);
        Ok(Self { group, lines, input: Arc::new(input), inbox, scrub, limit, write_time: WRITE_TIME })
    }

    /// Reads the rest of standard output. Otherwise the server could block on a full pipe and never end.
    async fn drain(&mut self) {
        while !matches!(self.lines.next().await, Ok(ReadLine::End) | Err(_)) {}
    }
}

/// Removes secrets from the strings and the member names of a message. Numbers, the envelope, the protocol's own names, and names
/// in tool schemas stay, because a secret that is also an ordinary word must not break a message. A line that is not a message is
/// scrubbed as a whole.
fn scrub_message(scrub: &Scrub, line: Vec<u8>) -> Vec<u8> {
    let message = is_parsable(&line).then(|| serde_json::from_slice::<Value>(&line).ok()).flatten();
    let Some(Value::Object(mut message)) = message else { return scrub.bytes(&line) };
    let mut has_secret = false;
    for (part, place) in
        [("params", MessagePosition::Data), ("result", MessagePosition::Result), ("error", MessagePosition::Data)]
    {
        if let Some(value) = message.get_mut(part) {
            has_secret |= scrub_value(scrub, value, place);
        }
    }
    if has_secret { Value::Object(message).to_string().into_bytes() } else { line }
}

/// Names in the protocol's own objects that are long enough to be mistaken for a secret. Without them, a message could not be read.
const PROTOCOL_NAMES: [&str; 32] = [
    "annotations",
    "audience",
    "capabilities",
    "completions",
    "description",
    "destructiveHint",
    "execution",
    "experimental",
    "extensions",
    "idempotentHint",
    "inputSchema",
    "instructions",
    "lastModified",
    "listChanged",
    "mimeType",
    "nextCursor",
    "openWorldHint",
    "outputSchema",
    "priority",
    "progress",
    "progressToken",
    "protocolVersion",
    "readOnlyHint",
    "requestId",
    "resource",
    "resources",
    "serverInfo",
    "structuredContent",
    "subscribe",
    "supportedVersions",
    "taskSupport",
    "websiteUrl",
];

/// Where a value is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePosition {
    Result,
    /// The list of tools in a result, or one of them.
    Tools,
    Schema,
    Data,
}

impl MessagePosition {
    /// Returns the position of the member `name` of an object at this position.
    fn member(self, name: &str) -> Self {
        match (self, name) {
            (Self::Result, "tools") => Self::Tools,
            (Self::Schema, _) | (Self::Tools, "inputSchema" | "outputSchema") => Self::Schema,
            _ => Self::Data,
        }
    }

    /// Returns whether a member name at this position is kept even if it contains a secret.
    fn keeps_name(self, name: &str) -> bool {
        self == Self::Schema || PROTOCOL_NAMES.contains(&name)
    }

    /// Returns whether the member `name` is a list of property names, which are kept.
    fn is_list_of_names(self, name: &str, value: &Value) -> bool {
        self == Self::Schema && name == "required" && value.is_array()
    }
}

/// Removes secrets from all strings in `value`, and from names that need not be kept. Returns whether a secret was found.
fn scrub_value(scrub: &Scrub, value: &mut Value, place: MessagePosition) -> bool {
    match value {
        Value::String(text) => {
            let clean = scrub.text(text);
            let has_secret = clean != *text;
            *text = clean;
            has_secret
        }
        Value::Array(values) => values.iter_mut().fold(false, |found, value| scrub_value(scrub, value, place) | found),
        Value::Object(members) => {
            let has_secret = |name: &String| !place.keeps_name(name) && scrub.text(name) != *name;
            let mut found = members.keys().any(has_secret);
            if found {
                let clean = |name: String| if place.keeps_name(&name) { name } else { scrub.text(&name) };
                *members = std::mem::take(members).into_iter().map(|(name, value)| (clean(name), value)).collect();
            }
            for (name, value) in members.iter_mut() {
                if !place.is_list_of_names(name, value) {
                    found |= scrub_value(scrub, value, place.member(name));
                }
            }
            found
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Keeps the last lines of standard error, until it is closed.
async fn keep_errors(stderr: ChildStderr, inbox: Arc<Inbox>, scrub: Scrub) {
    let mut lines = BoundedLines::new(stderr, ERROR_LINE_BYTES);
    loop {
        match lines.next().await {
            Ok(ReadLine::Line(line)) => inbox.prints(&scrub.bytes(&line)),
            Ok(ReadLine::TooLong) => inbox.prints(b"[a line that is too long]"),
            Ok(ReadLine::End) | Err(_) => break,
        }
    }
    inbox.errors_closed().cancel();
}

impl Transport<RoleClient> for ProcessTransport {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (input, inbox, write_time) = (Arc::clone(&self.input), Arc::clone(&self.inbox), self.write_time);
        inbox.sends(&message);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let writing = async {
                let mut pipe = input.pipe.lock().await;
                let pipe = pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            let written = timeout(write_time, writing).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            if let Err(error) = &written {
                inbox.note_end(match error.kind() {
                    io::ErrorKind::TimedOut => format!("did not read its input for {} s", write_time.as_secs()),
                    _ => "ended".to_owned(),
                });
                input.broken.cancel();
            }
            written
        }
    }

    /// Cancel safe, because `rmcp` drops the future when it has something else to do. Only a wait can be cut short.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let broken = self.input.broken.clone();
        loop {
            let line = match broken.run_until_cancelled(self.lines.next()).await {
                Some(Ok(ReadLine::Line(line))) => line,
                Some(Ok(ReadLine::TooLong)) => {
                    self.inbox.note_end(format!("sent a message of more than {} bytes", self.limit));
                    return None;
                }
                Some(Ok(ReadLine::End) | Err(_)) | None => {
                    self.inbox.note_end("ended".to_owned());
                    return None;
                }
            };
            // Most servers have no secrets. Their messages are then parsed only once.
            let line = if self.scrub.is_empty() { line } else { scrub_message(&self.scrub, line) };
            match self.inbox.judge(&line) {
                Judged::Message(message) => return Some(*message),
                Judged::Handled(wait) if wait.is_zero() => {}
                Judged::Handled(wait) => sleep(wait).await,
                Judged::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // Closing a server's input tells it to exit.
        let closing = async {
            self.input.pipe.lock().await.take();
        };
        let _ = timeout(CLOSE_TIME, closing).await;
        let _ = timeout(CLOSE_TIME, self.drain()).await;
        Ok(())
    }
}

impl Drop for ProcessTransport {
    fn drop(&mut self) {
        tracing::debug!(process = ?self.group.process().id(), "stopping an MCP server");
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use serde_json::json;

    use super::*;

    fn launch(script: &str, variables: &[(&str, &str)]) -> Launch {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        Launch { words, variables: variables.collect(), folder: std::env::temp_dir(), package: None, unset: None }
    }

    fn request(id: u32, text: &str) -> ClientJsonRpcMessage {
        let params = json!({"name": "echo", "arguments": {"text": text}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        serde_json::from_value(message).unwrap()
    }

    #[tokio::test]
    async fn server_that_never_reads_is_ended() {
        let inbox = Arc::<Inbox>::default();
        let mut transport = ProcessTransport::launch(&launch("sleep 600", &[]), Arc::clone(&inbox), 1 << 20).unwrap();
        transport.write_time = Duration::from_secs(1);
        // The message is larger than the pipe's buffer.
        let error = transport.send(request(1, &"x".repeat(1 << 20))).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(transport.receive().await.is_none());
        assert_eq!(inbox.ended().unwrap(), "did not read its input for 1 s");
    }

    #[tokio::test]
    async fn secrets_of_variables_are_removed_from_output_and_errors() {
        let inbox = Arc::<Inbox>::default();
        let script = r#"
            echo "$A_TOKEN $A_HOST $A_KEY" >&2
            read line
            printf '{"jsonrpc": "2.0", "id": 1, "result": {"is": "%s %s %s"}}\n' "$A_TOKEN" "$A_HOST" "$A_KEY"
        "#;
        let variables = [("A_TOKEN", "secret-token"), ("A_HOST", "host.example.org"), ("A_KEY", "short")];
        let mut transport = ProcessTransport::launch(&launch(script, &variables), Arc::clone(&inbox), 1 << 20).unwrap();
        transport.send(request(1, "x")).await.unwrap();
        let message = format!("{:?}", transport.receive().await.unwrap());
        assert!(message.contains("[secret] host.example.org short"), "{message}");
        inbox.errors_closed().cancelled().await;
        assert_eq!(inbox.printed(), ["[secret] host.example.org short"]);
    }

    /// Nothing depends on the names in a tool's result.
    #[test]
    fn secrets_are_removed_from_names_outside_of_schemas() {
        let scrub = launch("", &[("A_TOKEN", "tok_SENTINEL0123")]).scrub();
        let scrubbed = |message: Value| {
            let line = scrub_message(&scrub, message.to_string().into_bytes());
            serde_json::from_slice::<Value>(&line).unwrap()
        };
        let data = |secret: &str| {
            let schema = json!({"properties": {secret: {}}, "required": [secret]});
            json!({"required": [secret], "names": {secret: 1}, "plain": secret, "tools": [{"inputSchema": schema}]})
        };
        let (secret, clean) = (data("tok_SENTINEL0123"), data("[secret]"));
        let result = |data: &Value| json!({"id": 1, "result": {"content": [{"type": "text", "text": "x", "_meta": data}], "structuredContent": data}});
        assert_eq!(scrubbed(result(&secret)), result(&clean));
        let error = |data: &Value| json!({"id": 1, "error": {"code": 1, "message": "no", "data": data}});
        assert_eq!(scrubbed(error(&secret)), error(&clean));
        let list = |data: &Value, schema: &Value| {
            let tool = json!({"name": "t", "_meta": data, "inputSchema": schema, "outputSchema": {"anyOf": [schema]}});
            json!({"id": 1, "result": {"tools": [tool]}})
        };
        let schema = &secret["tools"][0]["inputSchema"];
        assert_eq!(scrubbed(list(&secret, schema)), list(&clean, schema));
    }

    /// A secret can be an ordinary word.
    #[test]
    fn names_of_the_protocol_stay() {
        let scrub = launch("", &[("AUTH_KIND", "structuredContent"), ("AUTH_TYPE", "resource")]).scrub();
        let message =
            json!({"id": 1, "result": {"structuredContent": {"a": 1}, "content": [{"resource": {"uri": "x"}}]}});
        let line = message.to_string().into_bytes();
        assert_eq!(scrub_message(&scrub, line.clone()), line);
    }

    #[test]
    fn secrets_are_removed_from_texts_only() {
        let variables = [("AUTH_TYPE", "password"), ("A_KEY", "12345678"), ("A_TOKEN", "a\"b\\c-token")];
        let scrub = launch("", &variables).scrub();
        let scrubbed = |message: &Value| {
            let line = scrub_message(&scrub, message.to_string().into_bytes());
            serde_json::from_slice::<Value>(&line).unwrap()
        };
        let schema =
            json!({"type": "object", "properties": {"password": {"default": 12_345_678}}, "required": ["password"]});
        let list =
            json!({"jsonrpc": "2.0", "id": "password", "result": {"tools": [{"name": "t", "inputSchema": schema}]}});
        assert_eq!(scrubbed(&list), list);
        let error = json!({"id": 1, "error": {"code": 12_345_678, "message": "PASSWORD a\"b\\c-token 12345678"}});
        assert_eq!(
            scrubbed(&error),
            json!({"id": 1, "error": {"code": 12_345_678, "message": "[secret] [secret] 12345678"}})
        );
        let progress =
            json!({"method": "notifications/progress", "params": {"message": ["x password", {"a": "password"}]}});
        assert_eq!(scrubbed(&progress)["params"], json!({"message": ["x [secret]", {"a": "[secret]"}]}));
        let line = |text: &str| String::from_utf8(scrub_message(&scrub, text.as_bytes().to_vec())).unwrap();
        assert_eq!(line("the password is 12345678"), "the [secret] is 12345678");
        assert_eq!(line("{\"id\": 1, \"result\": {\"x\":  1.50}}"), "{\"id\": 1, \"result\": {\"x\":  1.50}}");
    }
}
