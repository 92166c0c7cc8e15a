//! `/context`: shows how full the context window of the agent in view is, by part.

use patchbay_agent::{Filling, TurnEnding};
use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, TurnCause, text};
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::line::context::LineContext;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "context",
            argument: Argument::None,
            summary: "Show what fills the context window, by part, in estimated tokens",
            completion: Completion::None,
        },
        |line, _| Box::pin(async move { context(line).await.into() }),
    )
};

async fn context(line: &LineContext) -> Result<Outcome, Outcome> {
    let ending = TurnEnding { agent: line.agent.id(), began: 0, report_to: None };
    let outside = line.session.outside_now(&line.client).await;
    let turn = line.session.turn(&line.agent, TurnCause::Person, ending, 0, line.stop.clone(), outside);
    let filling = line.agent.filling(&turn).await?;
    let data = json!({
        "model": filling.model, "window": filling.window, "sum": filling.sum(), "persona": filling.persona,
        "facts": filling.facts, "outer_instructions": filling.outer_instructions,
        "skills": filling.skills, "tools": filling.tools, "tool_count": filling.tool_count,
        "messages": filling.messages, "answers": filling.answers, "calls": filling.calls,
        "results": filling.results, "files": filling.files,
    });
    Ok(Outcome::ok(Code::ContextListed, rendered(&filling)).with_data(data))
}

/// Returns the lines of the command. Parts without tokens are left out.
fn rendered(filling: &Filling) -> String {
    let (sum, window) = (filling.sum(), filling.window);
    let percent = sum.saturating_mul(100).checked_div(window).unwrap_or_default();
    let (shown_sum, shown_window) = (text::with_commas(sum), text::with_commas(window));
    let head = format!(
        "About {shown_sum} of {shown_window} tokens are in use ({percent} %), estimated for {}:",
        filling.model
    );
    let tools = format!("{} tools", filling.tool_count);
    let parts = [
        ("persona and project instructions", filling.persona),
        ("date, system, workspace and repository", filling.facts),
        ("instructions of folders above the workspace", filling.outer_instructions),
        ("skill list", filling.skills),
        (&*tools, filling.tools),
        ("messages to the model", filling.messages),
        ("answers and thinking", filling.answers),
        ("tool calls", filling.calls),
        ("tool results", filling.results),
        ("images and PDFs", filling.files),
        ("free", window.saturating_sub(sum)),
    ];
    let shown = parts.into_iter().filter(|(_, tokens)| *tokens > 0);
    let shown: Vec<_> = shown.map(|(part, tokens)| (part, text::with_commas(tokens))).collect();
    let width = shown.iter().map(|(_, tokens)| tokens.len()).max().unwrap_or_default();
    let lines = shown.into_iter().map(|(part, tokens)| format!("  {tokens:>width$}  {part}"));
    [head].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_aligned_and_empty_ones_left_out() {
        let filling = Filling {
            model: "demo:demo-1".to_owned(),
            window: 32_000,
            persona: 60,
            tools: 1_200,
            tool_count: 15,
            messages: 340,
            ..Filling::default()
        };
        let expected = "About 1,600 of 32,000 tokens are in use (5 %), estimated for demo:demo-1:\n      60  persona and project \
                        instructions\n   1,200  15 tools\n     340  messages to the model\n  30,400  free";
        assert_eq!(rendered(&filling), expected);
        // More than fits in the window, and a window of unknown size.
        let over = rendered(&Filling { window: 1_000, ..filling.clone() });
        assert!(over.contains("(160 %)") && !over.contains("free"), "{over}");
        assert!(rendered(&Filling { window: 0, ..filling }).contains("(0 %)"));
    }
}
