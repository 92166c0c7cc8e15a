//! The window of one moment, and the comparison with its file: [`Stage`].

use std::{
    env, fs,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
};

use patchbay_tests::{binary::Patchbay, terminal::Terminal};

/// The height of each window.
const ROWS: u16 = 24;

/// What a moment runs in.
pub(crate) struct Stage {
    name: &'static str,
    pub(crate) columns: u16,
}

/// A terminal and its home, which is removed after it.
pub(crate) struct Window {
    terminal: Terminal,
    _patchbay: Patchbay,
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

/// The folder of the screens.
pub(crate) fn screens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("terminal/screens")
}

/// Returns the file of a screen.
pub(crate) fn screen_file(name: &str, columns: u16) -> PathBuf {
    screens().join(format!("{name}-{columns}.txt"))
}

impl Stage {
    pub(crate) fn new(name: &'static str, columns: u16) -> Self {
        Self { name, columns }
    }

    /// Creates a home in which the provider `demo` answers, without delays.
    pub(crate) fn demo(&self) -> Patchbay {
        self.home("[providers.demo]\noptions = { delay-ms = \"0\" }\n")
    }

    /// Creates a home with this `config.toml`, in which the terminal was started before. The workspace is `~/workspace`.
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
        Window { terminal, _patchbay: patchbay }
    }

    /// Runs a script of bash in a window of this moment.
    pub(crate) fn script(&self, patchbay: Patchbay, script: &str) -> Window {
        Window { terminal: Terminal::script(&patchbay, self.columns, ROWS, script), _patchbay: patchbay }
    }

    /// Asserts that the screen is that of the moment's file, or writes the file if `UPDATE_SCREENS` is set.
    pub(crate) fn screen(&self, terminal: &Terminal) {
        let mut rows = terminal.wait_for_stillness(masked);
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        let (row, column) = terminal.cursor();
        let shown = format!("{}\n[cursor: row {}, column {}]\n", rows.join("\n"), row + 1, column + 1);
        let file = screen_file(self.name, self.columns);
        if env::var_os("UPDATE_SCREENS").is_some() {
            fs::write(&file, &shown).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(
            shown == expected,
            "the screen is not {}; if it is right, run: make screens\n--- shown\n{shown}--- expected\n{expected}",
            file.display()
        );
    }
}

/// Replaces what differs between two runs: ids of sessions and seconds.
fn masked(row: &str) -> String {
    let mut parts = row.split("session ");
    let mut row = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let id = part.get(..8).filter(|id| id.chars().all(|c| c.is_ascii_hexdigit()));
        row.push_str("session ");
        row.push_str(if id.is_some() { "25ac03e6" } else { "" });
        row.push_str(if id.is_some() { &part[8..] } else { part });
    }
    let words: Vec<&str> = row.split(' ').collect();
    let seconds = |index: usize| {
        let is_number = !words[index].is_empty() && words[index].bytes().all(|byte| byte.is_ascii_digit());
        is_number && words.get(index + 1).is_some_and(|unit| *unit == "s")
    };
    let masked: Vec<&str> = (0..words.len()).map(|index| if seconds(index) { "0" } else { words[index] }).collect();
    masked.join(" ")
}

#[test]
fn masks_hide_ids_and_seconds() {
    assert_eq!(masked("Patchbay 0.1.0 - session deadbeef, 7 skills"), "Patchbay 0.1.0 - session 25ac03e6, 7 skills");
    assert_eq!(masked("The session goes on: --session deadbeef"), "The session goes on: --session 25ac03e6");
    assert_eq!(masked("thought 14 s (/show thinking)"), "thought 0 s (/show thinking)");
    assert_eq!(masked("30 lines"), "30 lines");
}
