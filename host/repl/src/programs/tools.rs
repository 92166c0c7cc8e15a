//! The terminal's tools for models: `terminal__run`, and the tools for programs in the background. `programs` runs the programs.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use patchbay_core::{Digest, text};
use patchbay_session::{
    CallTerms, Content, OutsideCall, OutsideDeclaration, OutsideError, OutsideOrigin, OutsideSpec, OutsideTool,
    PatternBudget, TerminalCommand, ToolDecision,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{OUTPUT, Programs, REFUSALS, REPORTS, end_line, shown_output};

/// Bytes of output that one call reads.
const PAGE: usize = 16 << 10;
/// How long a program is watched before it continues in the background. The result of the call reports a program that
/// fails within this time.
const FIRST: Duration = Duration::from_millis(500);

/// The effect of a program tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramJob {
    Run,
    Output,
    Stop,
}

struct ProgramTool {
    programs: Arc<Programs>,
    job: ProgramJob,
    spec: OutsideSpec,
}

/// The input of a tool for programs in the background.
#[derive(Deserialize)]
struct OfProgram {
    id: u32,
    #[serde(default)]
    offset: u64,
}

/// Returns the tools.
pub(super) fn all(programs: &Arc<Programs>) -> Vec<Arc<dyn OutsideTool>> {
    let tool = |job| {
        // This cannot fail, because the schemas are constants.
        let spec = OutsideSpec::new(declaration(job), &mut PatternBudget::default()).ok()?;
        Some(Arc::new(ProgramTool { programs: Arc::clone(programs), job, spec }) as Arc<dyn OutsideTool>)
    };
    [ProgramJob::Run, ProgramJob::Output, ProgramJob::Stop].into_iter().filter_map(tool).collect()
}

fn declaration(job: ProgramJob) -> OutsideDeclaration {
    let (tool, description, input_schema) = match job {
        ProgramJob::Run => (
            "run",
            format!(
                "Runs a program on the user's machine, in the workspace, and returns its exit code and the end of its output (at most \
                 {} KiB). There is no shell: give the program and its arguments, or run `sh` with `-c`. It has no input. It runs in a \
                 cage: it can read the system, toolchains and the workspace, and change the workspace and its own temporary folder; it \
                 has no network. If it needs more, say so in `network`, `read` or `write`. The user is asked before each call.",
                OUTPUT >> 10
            ),
            TerminalCommand::schema(true),
        ),
        ProgramJob::Output => (
            "output",
            "Reads the output of a program that terminal__run left in the background, from a position in bytes."
                .to_owned(),
            json!({
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "The id of the program."},
                    "offset": {"type": "integer", "minimum": 0, "description": "Where to begin; by default 0."},
                },
                "required": ["id"],
                "additionalProperties": false,
            }),
        ),
        ProgramJob::Stop => (
            "stop",
            "Kills a program that terminal__run left in the background, and all that it started.".to_owned(),
            json!({
                "type": "object",
                "properties": {"id": {"type": "integer", "minimum": 1, "maximum": u32::MAX}},
                "required": ["id"],
                "additionalProperties": false,
            }),
        ),
    };
    OutsideDeclaration {
        name: format!("terminal__{tool}"),
        origin: OutsideOrigin::Client,
        group: "terminal".to_owned(),
        tool: tool.to_owned(),
        description,
        input_schema,
        is_destructive: false,
        advice: "The terminal asks the user before each call".to_owned(),
        identity: Digest::of(b"a program in a cage"),
        is_read_only: job == ProgramJob::Output,
        per_workspace: true,
        for_skills: false,
        time: Duration::from_secs(TerminalCommand::MOST_SECONDS + 30),
        time_key: "seconds of terminal__run".to_owned(),
    }
}

impl OutsideTool for ProgramTool {
    fn spec(&self) -> &OutsideSpec {
        &self.spec
    }

    fn decision(&self) -> ToolDecision {
        match self.job {
            ProgramJob::Run => ToolDecision::Ask,
            // These concern programs that the user has already allowed.
            ProgramJob::Output | ProgramJob::Stop => ToolDecision::Allow,
        }
    }

    fn input_for_question(&self, input: &Value) -> String {
        TerminalCommand::in_question(input)
    }

    fn is_shown_whole(&self) -> bool {
        self.job == ProgramJob::Run
    }

    fn terms<'a>(&'a self, input: &'a Value) -> BoxFuture<'a, CallTerms> {
        Box::pin(async {
            let Ok(command) = TerminalCommand::read(input) else { return CallTerms::default() };
            self.programs.terms(&command).await
        })
    }

    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>> {
        Box::pin(async move {
            let text = match self.job {
                ProgramJob::Run => run(&self.programs, &call).await?,
                ProgramJob::Output => {
                    let OfProgram { id, offset } = of_program(call.input)?;
                    let program = self.programs.background(id)?;
                    let page = program.running.output(|output| output.page(offset, PAGE));
                    let state = program.running.end().map_or_else(|| "running".to_owned(), |end| end_line(&end));
                    let place = format!("bytes {} to {} of {}", page.start, page.end, page.total);
                    format!("{state}; {place}\n{}", text::clean(&page.text))
                }
                ProgramJob::Stop => {
                    let program = self.programs.background(of_program(call.input)?.id)?;
                    program.running.stop();
                    end_line(&program.running.ended().await)
                }
            };
            Ok(vec![Content::Text(text)])
        })
    }
}

fn of_program(input: &Value) -> Result<OfProgram, OutsideError> {
    OfProgram::deserialize(input).map_err(|error| OutsideError::Failed(format!("cannot read the input: {error}")))
}

async fn run(programs: &Arc<Programs>, call: &OutsideCall<'_>) -> Result<String, OutsideError> {
    let command = TerminalCommand::read(call.input).map_err(OutsideError::Failed)?;
    let watched = programs.start(&command, &call.terms).await?;
    let running = Arc::clone(watched.running());
    let limit = if command.background { FIRST } else { Duration::from_secs(command.limit()) };
    let ended = tokio::select! {
        end = running.ended() => Some(end),
        () = tokio::time::sleep(limit) => None,
        () = report(&running, call) => None,
    };
    let (end, late) = match ended {
        None if command.background => {
            let id = programs.keep(command.line(), watched)?;
            return Ok(format!("running in the background as program {id}; terminal__output reads its output"));
        }
        None => {
            running.stop();
            (running.ended().await, true)
        }
        Some(end) => (end, false),
    };
    let changed = watched.changed().await;
    if let Some(why) = end.failed {
        return Err(OutsideError::Failed(why));
    }
    let output = shown_output(&running);
    let mut said = match late {
        true => format!("killed: it ran for more than {} s", command.limit()),
        false => end_line(&end),
    };
    let has_failed = end.exit_code != Some(0);
    said = format!("{said}\n{output}");
    if let Some(changed) = changed {
        said = format!("{}\n{changed}", said.trim_end());
    }
    if has_failed && REFUSALS.iter().any(|words| output.contains(words)) {
        said = format!(
            "{}\nThe cage may have refused something: programs have no network, and can neither read nor change files outside of the \
             workspace. A call with \"network\": true, or with the paths in \"read\" or \"write\", asks the user for it.",
            said.trim_end()
        );
    }
    Ok(said)
}

/// Reports a program's output until the call ends. Never returns.
async fn report(running: &patchbay_cage::RunningProgram, call: &OutsideCall<'_>) {
    let mut growth = running.growth();
    loop {
        if growth.changed().await.is_err() {
            return std::future::pending().await;
        }
        let page = running.output(|output| output.tail(400));
        if let Some(line) = page.text.lines().rfind(|line| !line.trim().is_empty()) {
            call.progress.report(line);
        }
        tokio::time::sleep(REPORTS).await;
    }
}
