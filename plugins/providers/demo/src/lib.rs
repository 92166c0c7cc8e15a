//! The provider `demo`: answers without a network, a key or a model, and the same every time.
//!
//! With it everything else can be tried and tested. It does what the last text of the person says, line by line. A line that
//! is none of these words is text, and text is echoed: `You said: TEXT`. Nothing said: `You said nothing.`
//!
//! | line | what it does |
//! | --- | --- |
//! | `say TEXT` | answers exactly TEXT, instead of the echo |
//! | `repeat N TEXT` | answers TEXT N times with spaces between, instead of the echo; 1,000,000 words or 8 MiB at most |
//! | `call NAME {…}` | calls the tool NAME, with what stands from `{` to the end of the line as its input, be it JSON or not; behind the text, several in order |
//! | `then LINE` | LINE is for the next round: when the results of the calls have come. LINE is any of these words but `then`; several `then` are several rounds |
//! | `fail KIND` | fails at once, with a kind of the contract such as `rate-limit`; the host is to retry as it sees fit |
//! | `fail KIND S` | the same, and the host is to retry after S seconds |
//! | `fail KIND never` | the same, and the host is not to retry |
//! | `fail … after N` | says N words first; the answer breaks in its middle |
//! | `stop WORD` | finishes with that stop word of the contract, such as `refusal` |
//! | `show context` | says what came with the request: model, level, messages with their parts and sizes, system blocks, tools, options |
//!
//! A text of 20 lines or more that begins with a heading (`# `) is taken for a skill's instructions, and counted instead of
//! echoed: `Skill instructions, N lines, and: TEXT`. TEXT is what else was said, else what the instructions hold between two
//! lines that are a tag, such as `<goal>` and `</goal>`.
//!
//! A message may hold several texts; one that failed comes again in front of the next. So `fail` counts in the last text alone.
//!
//! Results of tools are answered by `NAME said: CONTENT` or `NAME failed: CONTENT`, a line each, unless a `then` says what to
//! do. A last message that begins with `Summarise the conversation so far.` is answered by
//! `Summary: N messages, last: TEXT`: of what comes before it, the last text of the person, cut at 60 characters.
//!
//! Asked to think (`low`, `med`, `high`), it first thinks `Thinking at level med about 3 messages.` (`Thinking small at …`
//! and `Thinking big at …` by the other two models), with a signature that it wants back. If a thought of the same model comes
//! back without it, the echo ends in the line `[thinking came back without its signature]`.
//!
//! An answer comes word by word, 20 ms apart; the option `delay-ms` changes that, and 0 means no waits (but for one of 0 ms
//! every 1,000 words, so that a step stays small). Tokens are words: of the input all texts, calls, results and tools, of the
//! output texts, thoughts, and names and inputs of calls. Answers end at `max-output-tokens`, as with any provider.
//! A model that is none of the three fails with `not-found`.

mod answer;
mod context;
mod history;
mod script;
mod steps;
#[cfg(test)]
mod tests;

use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Failure, Input, Manifest, Model, Retry, ThinkingPlan, provider,
};

use crate::steps::Steps;

/// What says how many milliseconds lie between two words.
const DELAY: &str = "delay-ms";
/// As fast as a person reads along.
const DEFAULT_DELAY_MS: u32 = 20;
/// A word a minute: slower is no answer.
const MAX_DELAY_MS: u32 = 60_000;

/// The models: id, size, words that fit in, suggested levels. The small one holds little, so that compaction can be tried.
const MODELS: [(&str, &str, u64, &[&str]); 3] = [
    ("demo-1", "normal", 32_000, &["low", "med", "high"]),
    ("demo-small", "small", 4_000, &[]),
    ("demo-big", "large", 32_000, &[]),
];

/// What input may be besides text in messages: it is never looked into.
const MEDIA: [&str; 3] = ["image/png", "image/jpeg", "text/plain"];

/// The adapter: what is left to say.
pub struct Demo {
    steps: Steps,
}

impl Adapter for Demo {
    fn describe() -> Manifest {
        Manifest {
            name: "demo".to_owned(),
            display_name: "Demo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_prefixes: vec!["demo-".to_owned()],
            models: MODELS.map(model).to_vec(),
            default_base_url: None,
            credentials: Vec::new(),
            extra: Vec::new(),
        }
    }

    fn explain_thinking(_model: &str, level: Option<&str>) -> ThinkingPlan {
        let level = match level {
            Some("none") => "off",
            Some("med") => "medium",
            Some(level @ ("low" | "high")) => level,
            _ => "provider default",
        };
        ThinkingPlan { description: vec![format!("Thinking: {level}")], warning: None }
    }

    fn begin(request: CompletionRequest) -> (Self, Vec<Action>) {
        let mut steps = if MODELS.iter().any(|(id, ..)| *id == request.model) {
            Steps::new(&request.model, answer::answer(&request), delay(&request))
        } else {
            Steps::failing(Failure {
                kind: "not-found".to_owned(),
                message: format!("There is no model '{}'.", history::clip(&request.model, 100)),
                http_status: None,
                code: None,
                retry: Retry::Never,
            })
        };
        let actions = steps.next();
        (Self { steps }, actions)
    }

    /// Nothing but a timer can come, since nothing is ever sent.
    fn resume(&mut self, _: Input) -> Vec<Action> {
        self.steps.next()
    }
}

provider!(Demo);

fn model((id, size, window, levels): (&str, &str, u64, &[&str])) -> Model {
    Model {
        id: id.to_owned(),
        size: size.to_owned(),
        suggested_levels: levels.iter().map(|level| (*level).to_owned()).collect(),
        input_media: MEDIA.map(str::to_owned).to_vec(),
        context_window: Some(window),
        deprecated: false,
        extra: Vec::new(),
    }
}

fn delay(request: &CompletionRequest) -> u32 {
    let option = request.options.iter().find(|option| option.name == DELAY);
    option.and_then(|option| option.value.trim().parse().ok()).unwrap_or(DEFAULT_DELAY_MS).min(MAX_DELAY_MS)
}
