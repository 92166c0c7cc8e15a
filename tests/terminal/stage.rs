//! The window of a moment, and the comparison with its file: [`Stage`].

use std::{
    env, fs,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    time::Instant,
};

use patchbay_tests::{PATIENCE, binary::Patchbay, terminal::Terminal};

/// The height of each window.
const ROWS: u16 = 24;

pub(crate) struct Stage {
    name: &'static str,
    pub(crate) columns: u16,
}

/// A terminal and its home, which is removed after it.
pub(crate) struct Window {
    terminal: Terminal,
    pub(crate) patchbay: Patchbay,
}

impl Deref for Window {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl DerefMut for Window {
    fn deref_mut(&mut self) -> &mut Terminal {
        &mut self.terminal
    }
}

/// The folder of the recorded screens.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("terminal/screens")
}

/// Returns the recorded screen of a moment, or `None` if there is none yet.
pub(crate) fn recorded(name: &str, columns: u16) -> Option<String> {
    let snapshot = fs::read_to_string(folder().join(format!("{name}-{columns}.snap"))).ok()?;
    // insta writes a header between two lines of dashes.
    let (_, screen) = snapshot.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(screen.trim_end().to_owned())
}

impl Stage {
    pub(crate) fn new(name: &'static str, columns: u16) -> Self {
        Self { name, columns }
    }

    /// Creates a home in which the provider `demo` answers, without delays.
    pub(crate) fn demo(&self) -> Patchbay {
        self.home("[providers.demo]\noptions = { delay-ms = \"0\" }\n")
    }

    /// Creates a home with this `config.toml`, in which the terminal has been started once. The workspace is `~/workspace`.
    pub(crate) fn home(&self, config: &str) -> Patchbay {
        let mut patchbay = Patchbay::new();
        let home = patchbay.folder().to_str().unwrap().to_owned();
        patchbay.set("HOME", &home);
        patchbay.write("home/config/config.toml", config);
        patchbay.write("home/state/history", "");
        patchbay
    }

    /// Opens the terminal and waits for its composer.
    pub(crate) fn open(&self, patchbay: Patchbay) -> Window {
        self.open_with(patchbay, &[])
    }

    pub(crate) fn open_with(&self, patchbay: Patchbay, arguments: &[&str]) -> Window {
        let terminal = Terminal::sized(&patchbay, self.columns, ROWS, arguments);
        terminal.wait_for_prompt();
        Window { terminal, patchbay }
    }

    /// Runs a bash script in a window of this moment.
    pub(crate) fn script(&self, patchbay: Patchbay, script: &str) -> Window {
        Window { terminal: Terminal::script(&patchbay, self.columns, ROWS, script), patchbay }
    }

    /// Asserts that the screen equals the recorded one. `INSTA_UPDATE=always` records it instead.
    pub(crate) fn screen(&self, terminal: &Terminal) {
        let expected = recorded(self.name, self.columns);
        let mut shown = self.shown(terminal);
        if env::var_os("INSTA_UPDATE").is_none() {
            // On a busy machine, a program can seem settled before it is.
            let start = Instant::now();
            while expected.as_ref() != Some(&shown) && start.elapsed() < PATIENCE {
                shown = self.shown(terminal);
            }
        }
        insta::with_settings!({
            snapshot_path => "screens", prepend_module_to_snapshot => false, omit_expression => true,
        }, {
            insta::assert_snapshot!(format!("{}-{}", self.name, self.columns), shown);
        });
    }

    /// Returns the settled screen with the cursor's position, as it is recorded.
    fn shown(&self, terminal: &Terminal) -> String {
        let rows = with_broken_masked(terminal.wait_for_stillness(masked));
        let mut rows = with_agents_masked(rows, self.columns.into());
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        let (row, column) = terminal.cursor();
        format!("{}\n[cursor: row {}, column {}]", rows.join("\n"), row + 1, column + 1)
    }
}

/// The number that [`masked`] writes before each of these units. Counts are masked because a changed prompt or a new bundled skill
/// would otherwise change screens that show neither.
const UNITS: [(&str, &str); 4] = [("s", "0"), ("%", "5"), ("tokens", "1,000"), ("skills", "8")];

/// Replaces text that differs between runs or builds: session ids, the version, seconds, and numbers with a unit of [`UNITS`].
fn masked(row: &str) -> String {
    let mut parts = row.split("session ");
    let mut row = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part.get(..8).filter(|id| id.chars().all(|c| c.is_ascii_hexdigit()));
        row.push_str("session ");
        row.push_str(if id.is_some() { SESSION } else { "" });
        row.push_str(if id.is_some() { &part[8..] } else { part });
    }
    let row = row.replace(concat!("Patchbay ", env!("CARGO_PKG_VERSION"), " "), "Patchbay 0.1.0 ");
    let words: Vec<&str> = row.split(' ').collect();
    let masked = |index: usize| {
        let word = words[index];
        let is_number = word.starts_with(|c: char| c.is_ascii_digit())
            && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b',');
        let unit = words.get(index + 1).map(|unit| unit.trim_end_matches([':', ';', ',', '.']));
        match UNITS.iter().find(|(of, _)| is_number && unit == Some(of)) {
            Some(("s", _)) if word.contains('.') => "0.1",
            Some((_, number)) => number,
            None => word,
        }
    };
    let masked: Vec<&str> = (0..words.len()).map(masked).collect();
    masked.join(" ")
}

/// Replaces the numbers of [`UNITS`] whose unit is on the next row.
fn with_broken_masked(mut rows: Vec<String>) -> Vec<String> {
    for index in 1..rows.len() {
        let unit = rows[index].split_whitespace().next().unwrap_or_default().to_owned();
        if let Some(row) = masked(&format!("{} {unit}", rows[index - 1])).strip_suffix(&format!(" {unit}")) {
            rows[index - 1] = row.to_owned();
        }
    }
    rows
}

/// The ids of agents in screens, in the order in which they appear.
const AGENTS: [&str; 4] = ["a1b2c3d4", "b2c3d4e5", "c3d4e5f6", "d4e5f6a7"];
const TAIL: &str = "-0000-4000-8000-000000000000";
const UUID: usize = 36;
const SHORT: usize = 8;
/// The text that [`masked`] writes for sessions.
const SESSION: &str = "25ac03e6";

/// Replaces the ids of agents, in full or shortened, even where the edge of the window breaks them. Columns do not move, because
/// ids always have the same length.
fn with_agents_masked(rows: Vec<String>, columns: usize) -> Vec<String> {
    // The text without the breaks at the edge, and the position of each character.
    let mut shown: Vec<Vec<char>> = rows.iter().map(|row| row.chars().collect()).collect();
    let mut text: Vec<(char, usize, usize)> = Vec::new();
    for (row, characters) in shown.iter().enumerate() {
        text.extend(characters.iter().enumerate().map(|(column, character)| (*character, row, column)));
        if characters.len() < columns {
            text.push(('\n', row, characters.len()));
        }
    }
    let is_id = |at: usize| text.get(at).is_some_and(|(c, ..)| c.is_ascii_hexdigit() || *c == '-');
    let mut known: Vec<String> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let length = (at..).take_while(|index| is_id(*index)).count();
        let word: String = text[at..at + length].iter().map(|(c, ..)| c).collect();
        let begins_word = at == 0 || !text[at - 1].0.is_alphanumeric();
        let ends_word = text.get(at + length).is_none_or(|(c, ..)| !c.is_alphanumeric());
        let is_whole = length == UUID && word.matches('-').count() == 4;
        let is_short = length == SHORT && !word.contains('-') && word != SESSION;
        if begins_word && ends_word && (is_whole || is_short) {
            let short = word[..SHORT].to_owned();
            let index = known.iter().position(|id| *id == short).unwrap_or_else(|| {
                known.push(short);
                known.len() - 1
            });
            let replaced: Vec<char> = AGENTS[index % AGENTS.len()].chars().chain(TAIL.chars()).take(length).collect();
            for (offset, character) in replaced.into_iter().enumerate() {
                let (_, row, column) = text[at + offset];
                shown[row][column] = character;
            }
        }
        at += length.max(1);
    }
    shown.into_iter().map(|row| row.into_iter().collect()).collect()
}

#[test]
fn masks_hide_agents_also_at_the_edge() {
    let rows = ["Forked child 0123", "4567-89ab-4cde-8f", "01-23456789abcd.", "01234567 is done."];
    let masked = with_agents_masked(rows.map(str::to_owned).to_vec(), 17);
    assert_eq!(masked, ["Forked child a1b2", "c3d4-0000-4000-80", "00-000000000000.", "a1b2c3d4 is done."]);
}

#[test]
fn masks_hide_ids_and_seconds() {
    assert_eq!(masked("Patchbay 0.1.0 - session deadbeef, 8 skills"), "Patchbay 0.1.0 - session 25ac03e6, 8 skills");
    assert_eq!(masked("The session goes on: --session deadbeef"), "The session goes on: --session 25ac03e6");
    assert_eq!(masked("thought 14 s (/show thinking)"), "thought 0 s (/show thinking)");
    assert_eq!(masked("✓ 3  run x · 30 lines · 2.7 s: 1 2"), "✓ 3  run x · 30 lines · 0.1 s: 1 2");
    assert_eq!(
        masked("Stopped after 3 s; the partial answer is kept."),
        "Stopped after 0 s; the partial answer is kept."
    );
    assert_eq!(masked("30 lines"), "30 lines");
}

#[test]
fn masks_hide_counts_that_other_changes_move() {
    assert_eq!(masked("demo:demo-1 · 7 % of 32k · 1,799 tokens"), "demo:demo-1 · 5 % of 32k · 1,000 tokens");
    assert_eq!(masked("session deadbeef, 12 skills"), "session 25ac03e6, 8 skills");
    let rows = ["0 unread, 923", "tokens", "12", "lines"].map(str::to_owned).to_vec();
    assert_eq!(with_broken_masked(rows), ["0 unread, 1,000", "tokens", "12", "lines"]);
}
