//! The provider `demo`: deterministic answers without a network, a key or a model, for trying and testing Patchbay.
//!
//! It follows the commands in the last text of the user, one per line. Lines without a command are text, which is
//! echoed as `You said: TEXT`. Without text it answers `You said nothing.`
//!
//! | line | effect |
//! | --- | --- |
//! | `say TEXT` | answers exactly TEXT instead of the echo |
//! | `repeat N TEXT` | answers TEXT N times with spaces between, instead of the echo; at most 1,000,000 words or 8 MiB |
//! | `call NAME {…}` | calls the tool NAME after the text; the input is everything from `{` to the end of the line, JSON or not; several calls keep their order |
//! | `then LINE` | LINE is for the next round, after the results of the calls; LINE is any command except `then`; several `then` lines make several rounds |
//! | `fail KIND` | fails immediately with a kind of the contract such as `rate-limit`; the host decides about retries |
//! | `fail KIND S` | the same, with a retry after S seconds; 0 is one millisecond, since a delay of zero counts as none |
//! | `fail KIND never` | the same, without a retry |
//! | `fail … after N` | fails after N words, in the middle of the answer |
//! | `stop WORD` | finishes with this stop word of the contract, such as `refusal` |
//! | `show context` | describes the request: model, level, messages with their parts and sizes, system blocks, tools, options |
//! | `pause MS` | waits MS milliseconds before the answer begins; at most 60,000 together |
//! | `hang` | never ends the answer: no calls and no end follow the text |
//! | `on mail LINE` | LINE is for later, when mail wakes the agent; LINE is any command, or `then` with one. If a text has nothing else: `Waiting for mail.` |
//!
//! If the last text is a notification (`[Notification: You have 2 unread messages in your inbox]`, with the mails on the
//! lines after it), the agent follows the `on mail` lines of its most recent text that has any, instead of echoing the
//! notification's first line.
//!
//! `say`, `repeat` and the input of `call` may contain variables. In the input of a call values are escaped for JSON;
//! an unknown variable is `none`. At most 8 MiB of values are inserted into an answer; further values are `none`.
//!
//! | variable | value |
//! | --- | --- |
//! | `$self`, `$parent` | UUID of the agent and of its parent |
//! | `$child1`, `$child2` … | UUIDs of its children, from its successful calls of `fork`, in order |
//! | `$mail1` …, `$from1` … | number and sender of the mails in its last successful `mail_check` or `mail_filter`, in order |
//! | `$message1` … | texts of its successful calls of `mail_read` in this turn, in order; without any, the mails that notifications have shown since the user's last text |
//! | `$$` | a `$`: with `call fork {"prompt": "say $$parent"}` the child says its parent's UUID |
//!
//! The host tells the agent who it is in a separate text before the agent's first text (see `own`). That text is never
//! echoed. Calls, results and `on mail` lines before it belong to the agent's ancestors, and do not count.
//!
//! A text of 20 lines or more that begins with a heading (`# `) is taken as the instructions of a skill and counted
//! instead of echoed: `Skill instructions, N lines, and: TEXT`. TEXT is any other text, otherwise the text in the
//! instructions between two lines with a tag, such as `<goal>` and `</goal>`.
//!
//! A message may have several texts, because a failed or stopped text is sent again before the next one. So `fail`,
//! `pause` and `hang` only have an effect in the last text.
//!
//! Tool results are answered with a line each, `NAME said: CONTENT` or `NAME failed: CONTENT`, unless there is a
//! `then`. If the last message begins with `Summarise the conversation so far.`, the answer is `Summary: N messages,
//! last: TEXT`, with the last text of the user before it, cut at 60 characters.
//!
//! With a thinking level (`low`, `med`, `high`) it first thinks `Thinking at level med about 3 messages.` (`Thinking
//! small at …` and `Thinking big at …` for the other two models), with a signature that must be sent back. If a thought
//! of the same model is sent back without it, the echo ends with the line `[thinking came back without its signature]`.
//!
//! An answer is sent word by word, 20 ms apart. The option `delay-ms` changes that; 0 means no delays (except one of 0
//! ms every 1,000 words, to keep steps small). Tokens are words: input tokens of all texts, calls, results and tools;
//! output tokens of texts, thoughts, and names and inputs of calls. Answers end at `max-output-tokens`. Models other
//! than these three fail with `not-found`.

mod answer;
mod context;
mod history;
mod mail;
mod own;
mod script;
mod steps;
#[cfg(test)]
mod tests;
mod variables;

use patchbay_provider_sdk::{
    Action, Adapter, CompletionRequest, Failure, Input, Manifest, Model, Retry, ThinkingPlan, provider,
};

use crate::steps::Steps;

/// Name of the option for the delay between two words in milliseconds.
const DELAY: &str = "delay-ms";
/// The default delay: about a reader's speed.
const DEFAULT_DELAY_MS: u32 = 20;
/// The longest delay: one word per minute.
const MAX_DELAY_MS: u32 = 60_000;

/// The models: id, size, context window in words, suggested levels. The small one has a
/// small window, to try compaction.
const MODELS: [(&str, &str, u64, &[&str]); 3] = [
    ("demo-1", "normal", 32_000, &["low", "med", "high"]),
    ("demo-small", "small", 4_000, &[]),
    ("demo-big", "large", 32_000, &[]),
];

/// Accepted media types besides text. Their contents are never read.
const MEDIA: [&str; 3] = ["image/png", "image/jpeg", "text/plain"];

/// The adapter: the remaining steps of the answer.
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

    /// Only a timer can be pending, because no request is ever sent.
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
