//! Input that was typed before raw mode was on: while the program started, or while another program had the
//! terminal. The terminal has turned Enter into a newline, which would be Ctrl+J in raw mode. The loop in
//! `terminal` handles these keys before all others.

use std::{collections::VecDeque, io};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How many bytes are read. The line buffer of a terminal is not larger.
const BYTES: u64 = 4_096;

/// Reads the keys typed so far, without waiting. Must be called after raw mode was turned on, before keys are read.
pub(super) fn take() -> VecDeque<KeyEvent> {
    let input = io::stdin();
    let count = rustix::io::ioctl_fionread(&input).unwrap_or(0).min(BYTES);
    if count == 0 {
        return VecDeque::new();
    }
    let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
    let read = rustix::io::read(&input, &mut *bytes).unwrap_or(0);
    keys(&String::from_utf8_lossy(&bytes[..read]))
}

/// Returns the keys of a text that was typed while the terminal was in line mode. Skips control characters, and arrows and other
/// keys that send sequences, because they had no effect in line mode.
fn keys(typed: &str) -> VecDeque<KeyEvent> {
    let mut keys = VecDeque::new();
    let mut characters = typed.chars();
    while let Some(character) = characters.next() {
        let code = match character {
            '\r' | '\n' => KeyCode::Enter,
            '\x1b' => {
                skip_sequence(&mut characters);
                continue;
            }
            character if character.is_control() || character == char::REPLACEMENT_CHARACTER => continue,
            character => KeyCode::Char(character),
        };
        keys.push_back(KeyEvent::new(code, KeyModifiers::NONE));
    }
    keys
}

/// Skips the rest of a sequence whose escape character was read: `[` with parameters up to the final byte, `O` with a character,
/// or another single character.
fn skip_sequence(characters: &mut impl Iterator<Item = char>) {
    match characters.next() {
        Some('[') => drop(characters.find(|character| ('@'..='~').contains(character))),
        Some('O') => drop(characters.next()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(typed: &str) -> String {
        let text = |key: KeyEvent| match key.code {
            KeyCode::Char(character) => character.to_string(),
            code => format!("<{code}>"),
        };
        keys(typed).into_iter().map(text).collect()
    }

    #[test]
    fn lines_end_with_enter_and_sequences_are_skipped() {
        assert_eq!(shown("héllo\nnext\r"), "héllo<Enter>next<Enter>");
        assert_eq!(shown("a\x1b[Ab\x1b[1;5Cc\x1bOPd\x1bxe"), "abcde");
        assert_eq!(shown("a\tb\0c\x04\u{fffd}\x1b["), "abc");
    }
}
