//! `patchbay policy`: explains how a call would be decided, and checks a file of such cases. `main` calls it.

use std::{fs, path::Path, process::ExitCode, sync::Arc};

use patchbay_core::{Code, Outcome, text::clean_line};
use patchbay_session::{Explanation, Host, Mode};
use serde::Deserialize;

use crate::{CliError, FAILED, args::PolicyCommand, out::say};

/// Size limit of a file of cases, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// One line of a file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyCase {
    /// The tool by its full name, or a line that begins with `/`.
    call: String,
    capability: String,
    #[serde(default)]
    mode: Option<String>,
    /// `allow`, `ask` or `deny`.
    expect: String,
}

pub(crate) async fn run(host: &Arc<Host>, command: PolicyCommand) -> Result<ExitCode, CliError> {
    match command {
        PolicyCommand::Explain { what, mode, workspace, json } => {
            let workspace = workspace.as_deref().unwrap_or(Path::new("."));
            let explained = host.explain(workspace, &what, read_mode(mode.as_deref())?).await.map_err(refused)?;
            if json {
                say!("{}", serde_json::to_string(&explained).unwrap_or_default());
            } else {
                print(&explained);
            }
            Ok(ExitCode::SUCCESS)
        }
        PolicyCommand::Test { file, workspace } => {
            test(host, &file, workspace.as_deref().unwrap_or(Path::new("."))).await
        }
    }
}

fn print(Explanation { subject, verdicts }: &Explanation) {
    say!("{}", clean_line(subject));
    for verdict in verdicts {
        say!("{}: {}. {}", verdict.capability, verdict.fate.as_str(), clean_line(&verdict.why));
    }
}

/// Checks each case of `file`, and prints the cases with an unexpected decision.
async fn test(host: &Arc<Host>, file: &Path, workspace: &Path) -> Result<ExitCode, CliError> {
    let size = fs::metadata(file).map_err(CliError::io(file))?.len();
    if size > FILE_BYTES {
        let message = format!("{}: a file of cases has at most {FILE_BYTES} bytes, not {size}.", file.display());
        return Err(CliError::new(Code::InvalidArgs, message));
    }
    let lines = fs::read_to_string(file).map_err(CliError::io(file))?;
    let (mut cases, mut wrong) = (0, 0);
    for (number, line) in (1..).zip(lines.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let invalid = |why: String| {
            CliError::new(Code::InvalidArgs, format!("{}, line {number}: {}.", file.display(), clean_line(&why)))
        };
        let case: PolicyCase = serde_json::from_str(line).map_err(|error| invalid(error.to_string()))?;
        if !["allow", "ask", "deny"].contains(&&*case.expect) {
            return Err(invalid(format!("'{}' is not allow, ask or deny", case.expect)));
        }
        let mode = read_mode(case.mode.as_deref())?;
        let explained = host
            .explain(workspace, &case.call, mode)
            .await
            .map_err(|outcome| invalid(outcome.message.trim_end_matches('.').to_owned()))?;
        let verdict = explained.verdicts.iter().find(|verdict| verdict.capability == case.capability);
        let verdict = verdict.ok_or_else(|| invalid(format!("the skill does not ask for '{}'", case.capability)))?;
        cases += 1;
        if verdict.fate.as_str() != case.expect {
            wrong += 1;
            let found = verdict.fate.as_str();
            say!(
                "line {number}: {} is '{found}' and not '{}'. {}",
                case.capability,
                case.expect,
                clean_line(&verdict.why)
            );
        }
    }
    let noun = if cases == 1 { "case" } else { "cases" };
    say!("{cases} {noun}, {wrong} not as expected.");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn read_mode(word: Option<&str>) -> Result<Mode, CliError> {
    let word = word.unwrap_or(Mode::Ask.as_str());
    word.parse().map_err(|_| {
        let message = format!("unknown mode '{}'; use ask, edits or plan.", clean_line(word));
        CliError::new(Code::InvalidArgs, message)
    })
}

fn refused(outcome: Outcome) -> CliError {
    CliError::new(outcome.code, outcome.message)
}
