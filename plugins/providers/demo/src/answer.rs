//! Computes the answer to a request, before `steps` splits it into words.

use patchbay_provider_sdk::{CompletionRequest, Failure, Finish, Retry, Usage};

use crate::{
    context, history, mail,
    own::{self, Own},
    script::{self, Fail, Retries, Round},
    variables::Variables,
};

/// The text of an answer that must break off and has no other text.
const BROKEN: &str = "This answer breaks off before its end.";

pub(crate) struct Answer {
    /// Time before the answer begins, in milliseconds.
    pub(crate) pause_ms: u32,
    /// A thought with its attached data.
    pub(crate) thought: Option<(String, String)>,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: Usage,
    pub(crate) end: End,
}

pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
}

pub(crate) enum End {
    Finish(Finish),
    /// A failure before the answer begins.
    Refuse(Failure),
    /// A failure in the middle of the text.
    Break(Failure),
    Hang,
}

/// Computes the answer to `request`.
pub(crate) fn answer(request: &CompletionRequest) -> Answer {
    let own = Own::of(&request.messages);
    let mut answer = Answer {
        pause_ms: 0,
        thought: thought(request),
        text: String::new(),
        calls: Vec::new(),
        usage: Usage {
            input_tokens: history::words(request),
            output_tokens: 0,
            thinking_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
        },
        end: End::Finish(finish("end-turn")),
    };
    match history::summary(&request.messages, &own) {
        Some(summary) => answer.text = summary,
        None => answer.follow(request, &own),
    }
    answer.shorten(request.max_output_tokens);
    answer.count();
    answer
}

impl Answer {
    /// Follows the commands in the user's last text, or, after a notification, the agent's `on mail` lines.
    fn follow(&mut self, request: &CompletionRequest, own: &Own<'_>) {
        let (mut texts, number) = history::last_said(&own.messages);
        let lines = mail::lines(own, &texts);
        match &lines {
            Some(lines) => texts = vec![lines],
            // The messages in a notification are not echoed.
            None => texts = texts.into_iter().map(|text| mail::notification(text).unwrap_or(text)).collect(),
        }
        let results = results(own);
        let round = script::round(&texts, number, &Variables::new(own));
        // Results are listed, unless this round has `then` lines.
        let echo = if number == 0 || round.is_none() { results } else { Vec::new() };
        let round = round.unwrap_or_default();
        self.text = text(request, &round, echo);
        self.calls = calls(request, &round);
        self.end =
            End::Finish(finish(round.stop.unwrap_or(if self.calls.is_empty() { "end-turn" } else { "tool-use" })));
        self.pause_ms = round.pause_ms;
        if let Some(fail) = &round.fail {
            self.fail(fail);
        } else if round.hang {
            self.calls.clear();
            self.end = End::Hang;
        }
    }

    fn fail(&mut self, fail: &Fail<'_>) {
        self.calls.clear();
        let failure = Failure {
            kind: fail.kind.to_owned(),
            message: format!("demo fails as requested: {}", fail.kind),
            http_status: None,
            code: None,
            retry: match fail.retries {
                Retries::HostDecides => Retry::Backoff,
                Retries::Never => Retry::Never,
                Retries::After { seconds } => Retry::AfterMs(seconds.saturating_mul(1000).max(1)),
            },
        };
        self.end = match fail.after {
            None => End::Refuse(failure),
            Some(words) => {
                self.text = first_words(&self.text, words);
                End::Break(failure)
            }
        };
    }

    /// Cuts the answer at the limit of output tokens.
    fn shorten(&mut self, most: Option<u32>) {
        let (Some(most), End::Finish(_)) = (most, &self.end) else { return };
        let thought = self.thought.as_ref().map_or(0, |(thought, _)| history::count(thought));
        let left = u64::from(most).saturating_sub(thought);
        if history::count(&self.text) > left {
            let end = self.text.split_whitespace().nth(usize::try_from(left).unwrap_or(usize::MAX));
            let end = end.map_or(self.text.len(), |word| word.as_ptr() as usize - self.text.as_ptr() as usize);
            self.text.truncate(end);
            self.calls.clear();
            self.end = End::Finish(finish("max-tokens"));
        }
    }

    fn count(&mut self) {
        let thinking = self.thought.as_ref().map_or(0, |(thought, _)| history::count(thought));
        let calls = self.calls.iter().map(|call| 1 + history::count(&call.input)).sum::<u64>();
        self.usage.thinking_tokens = thinking;
        self.usage.output_tokens = thinking + history::count(&self.text) + calls;
    }
}

fn thought(request: &CompletionRequest) -> Option<(String, String)> {
    let level = request.thinking.as_deref().filter(|level| ["low", "med", "high"].contains(level))?;
    let messages = request.messages.len();
    Some((history::thought(&request.model, level, messages), history::signature(messages)))
}

fn results(own: &Own<'_>) -> Vec<String> {
    let results = own.messages.last().into_iter().flat_map(|message| own::results(message.parts));
    let line = |result: &patchbay_provider_sdk::ToolResult| {
        let how = if result.is_error { "failed" } else { "said" };
        format!("{} {how}: {}", result.name, history::content(result))
    };
    results.map(line).collect()
}

/// Returns the text of an answer; `lines` come before the other texts.
fn text(request: &CompletionRequest, round: &Round<'_>, mut lines: Vec<String>) -> String {
    if let Some(said) = &round.say {
        return said.clone();
    }
    let echo = round.echo.join("\n");
    match (round.instructions, echo.trim()) {
        (0, "") => {}
        (0, echo) => lines.push(format!("You said: {echo}")),
        (count, "") if round.input.is_empty() => lines.push(format!("Skill instructions, {count} lines.")),
        (count, "") => lines.push(format!("Skill instructions, {count} lines, and: {}", round.input)),
        (count, echo) => lines.push(format!("Skill instructions, {count} lines, and: {echo}")),
    }
    if round.show_context {
        lines.extend(context::show(request));
    }
    let silent = round.calls.is_empty() && round.fail.is_none() && !round.hang;
    if lines.is_empty() && silent {
        let answer = if round.on_mail > 0 { "Waiting for mail." } else { "You said nothing." };
        lines.push(answer.to_owned());
    }
    if history::lost_a_signature(request) {
        lines.push("[thinking came back without its signature]".to_owned());
    }
    lines.join("\n")
}

fn calls(request: &CompletionRequest, round: &Round<'_>) -> Vec<Call> {
    let ids = history::next_call(&request.messages)..;
    let call = |(id, call): (u64, &script::Call<'_>)| Call {
        id: format!("call_{id}"),
        name: call.name.to_owned(),
        input: call.input.clone(),
    };
    ids.zip(&round.calls).map(call).collect()
}

/// Returns the first `words` words of `text`, which is repeated if it is too short.
fn first_words(text: &str, words: usize) -> String {
    let text = if text.trim().is_empty() { BROKEN } else { text };
    text.split_whitespace().cycle().take(words).collect::<Vec<_>>().join(" ")
}

fn finish(stop: &str) -> Finish {
    Finish { stop: stop.to_owned(), raw: stop.to_owned() }
}
