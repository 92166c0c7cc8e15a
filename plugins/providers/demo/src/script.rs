//! Parses the commands in the user's text into rounds.

use crate::variables::{Target, Variables};

/// The most words and bytes of one answer.
pub(crate) const MAX_WORDS: usize = 1_000_000;
const MAX_BYTES: usize = 8 << 20;
/// The longest pause before an answer.
pub(crate) const MAX_PAUSE_MS: u32 = 60_000;

const KINDS: [&str; 9] = [
    "authentication",
    "rate-limit",
    "invalid-request",
    "not-found",
    "server",
    "timeout",
    "content-filter",
    "network",
    "unknown",
];
const STOPS: [&str; 7] = ["end-turn", "tool-use", "max-tokens", "context-window", "refusal", "content-filter", "other"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: String,
}

/// When a failure may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    HostDecides,
    Never,
    After { seconds: u64 },
}

/// A failure that ends an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail<'a> {
    pub(crate) kind: &'a str,
    pub(crate) retries: Retries,
    /// Words before the failure; `None`: fails before the answer begins.
    pub(crate) after: Option<usize>,
}

/// The commands of one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    pub(crate) echo: Vec<&'a str>,
    /// Number of lines of skill instructions, which are counted instead of echoed.
    pub(crate) instructions: usize,
    /// The input in skill instructions.
    pub(crate) input: &'a str,
    /// The answer instead of the echo.
    pub(crate) say: Option<String>,
    pub(crate) calls: Vec<Call<'a>>,
    pub(crate) fail: Option<Fail<'a>>,
    pub(crate) stop: Option<&'a str>,
    pub(crate) show_context: bool,
    /// Number of `on mail` lines, which have no effect in this round.
    pub(crate) on_mail: usize,
    /// Time before the answer begins, in milliseconds.
    pub(crate) pause_ms: u32,
    pub(crate) hang: bool,
}

enum Command<'a> {
    Say(&'a str),
    Repeat(usize, &'a str),
    Call { name: &'a str, input: &'a str },
    Fail(Fail<'a>),
    Stop(&'a str),
    ShowContext,
    Pause { ms: u32 },
    Hang,
}

/// Parses the texts of one message and returns round `number`: 0 is the answer, 1 the answer after the results of its
/// calls, and so on. `None` if the round does not exist; round 0 always does.
pub(crate) fn round<'a>(texts: &[&'a str], number: usize, variables: &Variables<'_>) -> Option<Round<'a>> {
    let mut round = Round::default();
    let mut later = 0;
    for (index, text) in texts.iter().enumerate() {
        // A text whose turn failed, or was stopped, may be sent again in one message with the next
        // text, and must not fail or wait again.
        let is_repeated = |word: &Command<'_>| {
            index + 1 < texts.len() && matches!(word, Command::Fail(_) | Command::Pause { .. } | Command::Hang)
        };
        let instructions = is_instructions(text);
        if instructions && number == 0 {
            round.instructions += text.lines().count();
            round.input = input(text);
        }
        for line in text.lines() {
            if on_mail(line).is_some() {
                round.on_mail += usize::from(number == 0);
                continue;
            }
            let then = line.trim_start().strip_prefix("then ").and_then(command);
            later += usize::from(then.is_some());
            let wanted = if then.is_some() { later == number } else { number == 0 };
            match then.or_else(|| command(line)) {
                _ if !wanted => {}
                Some(word) if is_repeated(&word) => {}
                Some(word) => round.add(word, variables),
                None if instructions => {}
                None => round.echo.push(line),
            }
        }
    }
    (number <= later).then_some(round)
}

/// The minimum number of lines of a text with a heading that counts as skill instructions.
const LONG: usize = 20;

fn is_instructions(text: &str) -> bool {
    text.trim_start().starts_with("# ") && text.lines().count() >= LONG
}

/// Returns the input in skill instructions: the text between the first line with a tag, such as
/// `<goal>`, and its closing line.
fn input(text: &str) -> &str {
    let tagged = |line: &str| {
        let name = line.strip_prefix('<')?.strip_suffix('>')?;
        let (_, rest) = text.split_once(&format!("<{name}>\n"))?;
        let (input, _) = rest.split_once(&format!("\n</{name}>"))?;
        Some(input.trim())
    };
    text.lines().find_map(tagged).unwrap_or_default()
}

impl<'a> Round<'a> {
    fn add(&mut self, word: Command<'a>, variables: &Variables<'_>) {
        match word {
            Command::Say(text) => self.append_text(&variables.fill(text, Target::Text), 1),
            Command::Repeat(times, text) => self.append_text(&variables.fill(text, Target::Text), times),
            Command::Call { name, input } => {
                self.calls.push(Call { name, input: variables.fill(input, Target::Json) });
            }
            Command::Fail(fail) => self.fail = Some(fail),
            Command::Stop(stop) => self.stop = Some(stop),
            Command::ShowContext => self.show_context = true,
            Command::Pause { ms } => self.pause_ms = self.pause_ms.saturating_add(ms).min(MAX_PAUSE_MS),
            Command::Hang => self.hang = true,
        }
    }

    fn append_text(&mut self, text: &str, times: usize) {
        let said = match &mut self.say {
            Some(said) => {
                said.push('\n');
                said
            }
            None => self.say.insert(String::new()),
        };
        let words = text.split_whitespace().count().max(1);
        let times = times.min(MAX_WORDS / words).min(MAX_BYTES / (text.len() + 1)).max(1);
        for time in 0..times {
            if said.len() > MAX_BYTES {
                return;
            }
            if time > 0 {
                said.push(' ');
            }
            said.push_str(text);
        }
    }
}

/// Returns LINE of a line `on mail LINE`, if LINE is a command or `then` with a command.
pub(crate) fn on_mail(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("on mail ")?.trim_start();
    command(line.strip_prefix("then ").unwrap_or(line)).map(|_| line)
}

fn command(line: &str) -> Option<Command<'_>> {
    let line = line.trim_start();
    if line.trim_end() == "hang" {
        return Some(Command::Hang);
    }
    let (first, rest) = line.split_once(' ')?;
    match first {
        "say" => Some(Command::Say(rest)),
        "repeat" => {
            let (times, text) = rest.split_once(' ')?;
            Some(Command::Repeat(times.parse().ok().filter(|times| *times > 0)?, text))
        }
        "call" => {
            let (name, input) = rest.trim().split_once(' ')?;
            let input = input.trim_start();
            input.starts_with('{').then_some(Command::Call { name, input })
        }
        "fail" => fail(rest).map(Command::Fail),
        "stop" => STOPS.contains(&rest.trim()).then_some(Command::Stop(rest.trim())),
        "pause" => {
            let ms: u64 = rest.trim().parse().ok()?;
            Some(Command::Pause { ms: u32::try_from(ms).unwrap_or(MAX_PAUSE_MS) })
        }
        "show" => (rest.trim() == "context").then_some(Command::ShowContext),
        _ => None,
    }
}

/// Parses `KIND [SECONDS|never] [after N [words]]`. If any other word follows, the line is plain text.
fn fail(rest: &str) -> Option<Fail<'_>> {
    let mut words = rest.split_whitespace().peekable();
    let kind = words.next().filter(|kind| KINDS.contains(kind))?;
    let retries = match words.peek() {
        Some(&"never") => Retries::Never,
        Some(seconds) => seconds.parse().map_or(Retries::HostDecides, |seconds| Retries::After { seconds }),
        None => Retries::HostDecides,
    };
    if retries != Retries::HostDecides {
        words.next();
    }
    let after = match words.next() {
        Some("after") => Some(words.next()?.parse::<usize>().ok()?.min(MAX_WORDS)),
        Some(_) => return None,
        None => None,
    };
    if words.peek().is_some_and(|word| ["word", "words"].contains(word)) && after.is_some() {
        words.next();
    }
    words.next().is_none().then_some(Fail { kind, retries, after })
}
