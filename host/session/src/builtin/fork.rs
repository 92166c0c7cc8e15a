//! `/fork [--model MODEL[/THINKING]] ["PROMPT"]`: creates a child of the agent in view, and moves the view to it.

use std::sync::Arc;

use patchbay_command::{Argument, Completion, Spec, quoted};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, Effect};
use crate::{line::context::LineContext, tree::fork::ForkedBy};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    moves_view: true,
    needs_living_agent: true,
    ..BuiltIn::new(
        Spec {
            name: "fork",
            argument: Argument::Optional { usage: "[--model MODEL[/THINKING]] [\"PROMPT\"]" },
            summary: "Make a child agent that knows the conversation so far, and talk to it",
            completion: Completion::None,
        },
        |line, argument| Box::pin(async move { fork(line, argument).await.into() }),
    )
};

async fn fork(line: &LineContext, argument: &str) -> Result<Effect, Outcome> {
    let ForkArguments { model, prompt } = parse(argument)?;
    let session = &line.session;
    if prompt.is_some() && session.is_capturing_agent(line.agent.id()) {
        return Err(invalid("a prompt cannot be given while capturing; the captured text is the prompt."));
    }
    let providers = &session.host.providers;
    let (model, cautions) = match model {
        Some(text) => {
            let model = providers.resolve(text).await?;
            let cautions = providers.cautions(text, &model).await?;
            (model, cautions)
        }
        None => (line.agent.chosen().effective(providers.as_ref()).await?, Vec::new()),
    };
    let prompt = prompt.map(str::to_owned);
    let by = ForkedBy::Person { line_ended: line.ended.clone() };
    let fork = session.fork(Arc::clone(&line.agent), model, prompt, by);
    Ok(Effect::Prepare(Box::pin(async move {
        let mut prepared = fork.await?;
        let lines = cautions.into_iter().map(|caution| format!("\n  ⚠ {caution}"));
        prepared.outcome.message.extend(lines);
        Ok(prepared)
    })))
}

#[derive(Debug, PartialEq, Eq)]
struct ForkArguments<'a> {
    model: Option<&'a str>,
    prompt: Option<&'a str>,
}

fn parse(argument: &str) -> Result<ForkArguments<'_>, Outcome> {
    if argument.starts_with("--model=") {
        return Err(invalid("put a space, not '=', after --model: /fork --model MODEL."));
    }
    let after_flag = argument
        .strip_prefix("--model")
        .filter(|after| after.is_empty() || after.starts_with(|c: char| c.is_whitespace() || c == '"'));
    let (model, rest) = match after_flag {
        None => (None, argument),
        Some(after) => {
            let after = after.trim_start();
            let end = after.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(after.len());
            let (model, rest) = after.split_at(end);
            if model.is_empty() {
                return Err(invalid("--model requires an argument."));
            }
            (Some(model), rest.trim_start())
        }
    };
    let prompt = match rest {
        "" => None,
        rest if rest.starts_with('"') => Some(quoted(rest, "the prompt")?),
        rest if rest.starts_with("--model=") => {
            return Err(invalid("put a space, not '=', after --model: /fork --model MODEL."));
        }
        _ => return Err(invalid("the prompt must be quoted: /fork \"prompt\".")),
    };
    if prompt.is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(invalid("the prompt cannot be empty."));
    }
    Ok(ForkArguments { model, prompt })
}

fn invalid(message: &str) -> Outcome {
    Outcome::error(Code::InvalidArgs, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_model_and_a_quoted_prompt() {
        let parsed = |argument: &'static str| match parse(argument) {
            Ok(ForkArguments { model, prompt }) => (model, prompt, String::new()),
            Err(error) => (None, None, error.line().into_owned()),
        };
        let ok = |model, prompt| (model, prompt, String::new());
        let failed = |message: &str| (None, None, format!("Error: {message}"));
        for (argument, expected) in [
            ("", ok(None, None)),
            ("\"Investigate the bug\"", ok(None, Some("Investigate the bug"))),
            ("--model o3-mini/high", ok(Some("o3-mini/high"), None)),
            ("--model o3-mini/high \"Solve this\"", ok(Some("o3-mini/high"), Some("Solve this"))),
            ("--model\to3-mini\"Solve\"", ok(Some("o3-mini"), Some("Solve"))),
            ("\"say \"hi\"\"", ok(None, Some("say \"hi\""))),
            ("--model", failed("--model requires an argument.")),
            ("--model \"Solve\"", failed("--model requires an argument.")),
            ("\"Investigate", failed("unclosed quote in '\"Investigate'.")),
            ("Investigate", failed("the prompt must be quoted: /fork \"prompt\".")),
            ("--model=o3", failed("put a space, not '=', after --model: /fork --model MODEL.")),
            ("--model=o3 \"Solve\"", failed("put a space, not '=', after --model: /fork --model MODEL.")),
            ("--models x", failed("the prompt must be quoted: /fork \"prompt\".")),
            ("--model a b", failed("the prompt must be quoted: /fork \"prompt\".")),
            ("\"a\" --model b", failed("unexpected text after the prompt: '--model b'.")),
            ("\" \"", failed("the prompt cannot be empty.")),
        ] {
            assert_eq!(parsed(argument), expected, "{argument}");
        }
    }
}
