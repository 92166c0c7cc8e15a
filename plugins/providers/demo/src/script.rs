//! What a person's text tells the demo to do: its lines, read into rounds.

/// Words and bytes that one answer has at most: enough to try a long one.
pub(crate) const MAX_WORDS: usize = 1_000_000;
const MAX_BYTES: usize = 8 << 20;

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

/// A call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: &'a str,
}

/// When a failure may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    AsTheHostSees,
    Never,
    After { seconds: u64 },
}

/// A failure to end with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fail<'a> {
    pub(crate) kind: &'a str,
    pub(crate) again: Again,
    /// Words to say first; none: not even that the answer has begun.
    pub(crate) after: Option<usize>,
}

/// What to do in one round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round<'a> {
    /// Lines that are no words of ours.
    pub(crate) echo: Vec<&'a str>,
    /// Lines of texts that are skills' instructions, which are counted and not echoed.
    pub(crate) instructions: usize,
    /// What such a text was given as its input.
    pub(crate) input: &'a str,
    /// What to answer instead of an echo.
    pub(crate) say: Option<String>,
    pub(crate) calls: Vec<Call<'a>>,
    pub(crate) fail: Option<Fail<'a>>,
    pub(crate) stop: Option<&'a str>,
    pub(crate) show_context: bool,
}

enum Word<'a> {
    Say(&'a str),
    Repeat(usize, &'a str),
    Call(Call<'a>),
    Fail(Fail<'a>),
    Stop(&'a str),
    ShowContext,
}

/// The round number `number` of what `texts` say, which are one message: 0 is its answer, 1 what comes after the results of
/// that, and so on. None: they say nothing of such a round. Round 0 is always.
pub(crate) fn round<'a>(texts: &[&'a str], number: usize) -> Option<Round<'a>> {
    let mut round = Round::default();
    let mut later = 0;
    for (index, text) in texts.iter().enumerate() {
        // A text that was answered by a failure may come again, in one message with the next: it is not to fail once more.
        let is_over = |word: &Word<'_>| index + 1 < texts.len() && matches!(word, Word::Fail(_));
        let instructions = is_instructions(text);
        if instructions && number == 0 {
            round.instructions += text.lines().count();
            round.input = input(text);
        }
        for line in text.lines() {
            let then = line.trim_start().strip_prefix("then ").and_then(word);
            later += usize::from(then.is_some());
            let wanted = if then.is_some() { later == number } else { number == 0 };
            match then.or_else(|| word(line)) {
                _ if !wanted => {}
                Some(word) if is_over(&word) => {}
                Some(word) => round.add(word),
                None if instructions => {}
                None => round.echo.push(line),
            }
        }
    }
    (number <= later).then_some(round)
}

/// Lines from which on a text that begins with a heading is taken for a skill's instructions.
const LONG: usize = 20;

fn is_instructions(text: &str) -> bool {
    text.trim_start().starts_with("# ") && text.lines().count() >= LONG
}

/// The input within a skill's instructions: what stands between the first line that is a tag, such as `<goal>`, and the line
/// that closes it.
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
    fn add(&mut self, word: Word<'a>) {
        match word {
            Word::Say(text) => self.say_too(text, 1),
            Word::Repeat(times, text) => self.say_too(text, times),
            Word::Call(call) => self.calls.push(call),
            Word::Fail(fail) => self.fail = Some(fail),
            Word::Stop(stop) => self.stop = Some(stop),
            Word::ShowContext => self.show_context = true,
        }
    }

    fn say_too(&mut self, text: &str, times: usize) {
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

fn word(line: &str) -> Option<Word<'_>> {
    let line = line.trim_start();
    let (first, rest) = line.split_once(' ')?;
    match first {
        "say" => Some(Word::Say(rest)),
        "repeat" => {
            let (times, text) = rest.split_once(' ')?;
            Some(Word::Repeat(times.parse().ok().filter(|times| *times > 0)?, text))
        }
        "call" => {
            let (name, input) = rest.trim().split_once(' ')?;
            let input = input.trim_start();
            input.starts_with('{').then_some(Word::Call(Call { name, input }))
        }
        "fail" => fail(rest).map(Word::Fail),
        "stop" => STOPS.contains(&rest.trim()).then_some(Word::Stop(rest.trim())),
        "show" => (rest.trim() == "context").then_some(Word::ShowContext),
        _ => None,
    }
}

/// `KIND [SECONDS|never] [after N [words]]`, and nothing else: what only begins so is text.
fn fail(rest: &str) -> Option<Fail<'_>> {
    let mut words = rest.split_whitespace().peekable();
    let kind = words.next().filter(|kind| KINDS.contains(kind))?;
    let again = match words.peek() {
        Some(&"never") => Again::Never,
        Some(seconds) => seconds.parse().map_or(Again::AsTheHostSees, |seconds| Again::After { seconds }),
        None => Again::AsTheHostSees,
    };
    if again != Again::AsTheHostSees {
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
    words.next().is_none().then_some(Fail { kind, again, after })
}
