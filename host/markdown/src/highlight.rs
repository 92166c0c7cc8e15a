//! Colours code by its grammar. The grammars are loaded when a fence first names a language.
//!
//! Colours are indices of the terminal's palette, which keeps code readable in every theme. White, black and yellow are
//! not used, because they are hard to read on either a light or a dark background.

use std::{str::FromStr as _, sync::LazyLock};

use syntect::{
    highlighting::{
        Color, FontStyle, HighlightIterator, HighlightState, Highlighter, ScopeSelectors, StyleModifier, Theme,
        ThemeItem,
    },
    parsing::{ParseState, ScopeStack, SyntaxSet},
};

use crate::style::{TerminalColour, TextSpan, TextStyle};

/// Code beyond this many bytes in one block has no colours.
const MAX_CODE: usize = 512 * 1024;

/// A line with more bytes ends the colours of its block, because a hostile line can make a grammar backtrack endlessly.
const MAX_CODE_LINE: usize = 1_000;

/// Values of [`Color::a`] that mark palette colours and faint text. Other values mean the terminal's own colour.
const INDEXED: u8 = 0;
const FAINT: u8 = 1;

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);
static THEME: LazyLock<Theme> = LazyLock::new(theme);
static HIGHLIGHTER: LazyLock<Highlighter<'static>> = LazyLock::new(|| Highlighter::new(&THEME));

fn theme() -> Theme {
    use TerminalColour::{Blue, Cyan, Green, Magenta, Red};
    let indexed = |colour: TerminalColour| Color { r: colour as u8, g: 0, b: 0, a: INDEXED };
    let rules = [
        ("comment", Color { r: 0, g: 0, b: 0, a: FAINT }),
        ("string, constant.character, markup.inserted", indexed(Green)),
        ("constant.numeric, constant.language, support.constant, constant.other", indexed(Cyan)),
        ("keyword - keyword.operator, storage, keyword.operator.word", indexed(Magenta)),
        ("entity.name, support.function, support.type, support.class, variable.function", indexed(Blue)),
        ("entity.other.attribute-name, variable.language", indexed(Cyan)),
        ("markup.deleted, invalid", indexed(Red)),
        ("meta.diff.range, meta.diff.header", indexed(Cyan)),
    ];
    let item = |(scope, colour): (&str, Color)| {
        let style = StyleModifier { foreground: Some(colour), background: None, font_style: None };
        Some(ThemeItem { scope: ScopeSelectors::from_str(scope).ok()?, style })
    };
    let mut theme = Theme { scopes: rules.into_iter().filter_map(item).collect(), ..Theme::default() };
    theme.settings.foreground = Some(Color { r: 0, g: 0, b: 0, a: u8::MAX });
    theme
}

/// The state of the grammar between two lines of one block.
#[derive(Clone)]
pub(crate) struct CodeColours {
    parse: ParseState,
    state: HighlightState,
    bytes: usize,
}

impl CodeColours {
    /// Returns `None` if `language` is plain text, or has no known grammar.
    pub(crate) fn new(language: &str) -> Option<Self> {
        let language = match language.to_ascii_lowercase().as_str() {
            "" | "text" | "txt" | "plain" | "plaintext" | "output" => return None,
            "shell" | "console" | "zsh" => "bash".to_owned(),
            "jsonc" | "json5" => "json".to_owned(),
            "golang" => "go".to_owned(),
            other => other.to_owned(),
        };
        let grammar = GRAMMARS.find_syntax_by_token(&language)?;
        let state = HighlightState::new(&HIGHLIGHTER, ScopeStack::new());
        Some(Self { parse: ParseState::new(grammar), state, bytes: 0 })
    }

    /// Returns the spans of one line, or `None` if the remainder of the block has no colours.
    pub(crate) fn line(&mut self, line: &str) -> Option<Vec<TextSpan>> {
        self.bytes += line.len();
        if self.bytes > MAX_CODE || line.len() > MAX_CODE_LINE {
            return None;
        }
        let text = format!("{line}\n");
        let changes = self.parse.parse_line(&text, &GRAMMARS).ok()?;
        let parts = HighlightIterator::new(&mut self.state, &changes, &text, &HIGHLIGHTER);
        let span = |(style, part): (syntect::highlighting::Style, &str)| TextSpan {
            text: part.trim_end_matches('\n').to_owned(),
            style: text_style(style.foreground, style.font_style),
            link: None,
        };
        Some(parts.map(span).collect())
    }
}

fn text_style(colour: Color, font: FontStyle) -> TextStyle {
    use TerminalColour::{Blue, Cyan, Green, Magenta, Red};
    let indexed = [Red, Green, Blue, Magenta, Cyan].into_iter().find(|known| *known as u8 == colour.r);
    TextStyle {
        bold: font.contains(FontStyle::BOLD),
        faint: colour.a == FAINT,
        colour: indexed.filter(|_| colour.a == INDEXED),
        ..TextStyle::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_kept_between_lines() {
        let mut colours = CodeColours::new("rust").unwrap();
        colours.line("/* one").unwrap();
        let second = colours.line("two */ let x = \"a\";").unwrap();
        assert!(second[0].style.faint, "{second:?}");
        assert!(second.iter().any(|span| span.style.colour == Some(TerminalColour::Green)), "{second:?}");
        assert!(second.iter().any(|span| span.style.colour == Some(TerminalColour::Magenta)), "{second:?}");
    }

    #[test]
    fn usual_names_of_languages_are_known() {
        for name in [
            "rust",
            "rs",
            "python",
            "py",
            "js",
            "ts",
            "typescript",
            "tsx",
            "sh",
            "bash",
            "console",
            "json",
            "toml",
            "yaml",
            "c",
            "c++",
            "cpp",
            "go",
            "java",
            "html",
            "css",
            "sql",
            "diff",
            "dockerfile",
            "makefile",
            "Kotlin",
        ] {
            assert!(CodeColours::new(name).is_some(), "{name}");
        }
        assert!(CodeColours::new("text").is_none() && CodeColours::new("no such").is_none());
    }

    #[test]
    fn long_lines_and_long_blocks_have_no_colours() {
        let mut colours = CodeColours::new("rust").unwrap();
        assert!(colours.line(&"x".repeat(MAX_CODE_LINE + 1)).is_none());
        colours.bytes = MAX_CODE;
        assert!(colours.line("x").is_none());
    }
}
