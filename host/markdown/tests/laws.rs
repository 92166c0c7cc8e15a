//! Properties for any text: splitting it into chunks changes nothing, no input panics, nothing hidden comes out, and
//! the time is linear.

use std::time::{Duration, Instant};

use patchbay_markdown::{MarkdownRenderer, Palette, RenderOptions, StyledLine, WrapMode};
use proptest::prelude::*;

fn ansi(lines: &[StyledLine]) -> String {
    lines.iter().map(|line| line.to_ansi() + "\n").collect()
}

fn whole(source: &str, options: RenderOptions) -> String {
    let mut renderer = MarkdownRenderer::new(options);
    let mut lines = renderer.push(source);
    lines.extend(renderer.finish());
    ansi(&lines)
}

/// Pieces that open, close and confuse blocks and marks.
fn pieces() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        " ",
        "  ",
        "    ",
        "\t",
        "# ",
        "## ",
        "- ",
        "* ",
        "1. ",
        "2) ",
        "> ",
        ">",
        "```",
        "```rust\n",
        "~~~",
        "---",
        "===",
        "***",
        "**",
        "*",
        "_",
        "__",
        "~~",
        "`",
        "``",
        "[",
        "]",
        "(",
        ")",
        "](https://a.example)",
        "![",
        "<",
        ">",
        "<b>",
        "<https://a.example>",
        "|",
        "| a | b |\n|---|:-:|\n",
        "\\",
        "\\|",
        "&amp;",
        "&#27;",
        "&#x202E;",
        "word ",
        "some longer words of a sentence ",
        "日本語",
        "🙂",
        "👩\u{200d}🚀",
        "❤\u{fe0f}",
        "می\u{200c}خواهم ",
        "\u{200d}",
        "\u{fe0f}",
        "e\u{301}",
        "\u{1b}[31m",
        "\u{202e}",
        "\u{FFFF}",
        "https://a.example/x_(y) ",
        "let x = \"a\"; // b\n",
        "[x] ",
        "[^1]: ",
        "a\u{a0}b",
    ]);
    let long = prop::sample::select(vec!["word ", "x", "*a ", "[", "日", "> ", "- ", "`", "|", "_", "**b** "]);
    prop::collection::vec(
        prop_oneof![
            20 => pieces.prop_map(str::to_owned),
            1 => (long, 50..400_usize).prop_map(|(piece, times)| piece.repeat(times)),
            1 => any::<String>(),
        ],
        0..60,
    )
    .prop_map(|pieces| pieces.concat())
}

fn options() -> impl Strategy<Value = RenderOptions> {
    (0..130_usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(columns, words, links, colour)| {
        RenderOptions {
            columns,
            wrap: if words { WrapMode::Words } else { WrapMode::Terminal },
            links,
            palette: if colour { Palette::Colour } else { Palette::NoColour },
        }
    })
}

/// Cuts `source` at the given places.
fn chunks<'s>(source: &'s str, cuts: &[prop::sample::Index]) -> Vec<&'s str> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| source.floor_char_boundary(cut.index(source.len() + 1))).collect();
    ends.push(source.len());
    ends.sort_unstable();
    let mut begin = 0;
    ends.into_iter().map(|end| &source[std::mem::replace(&mut begin, end)..end]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_do_not_change_the_lines(
        source in pieces(), options in options(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let expected = whole(&source, options);
        let mut renderer = MarkdownRenderer::new(options);
        let mut lines = Vec::new();
        for (index, chunk) in chunks(&source, &cuts).into_iter().enumerate() {
            lines.extend(renderer.push(chunk));
            if index % 7 == 0 {
                prop_assert!(renderer.tail(5).len() <= 5);
            }
        }
        lines.extend(renderer.finish());
        prop_assert_eq!(ansi(&lines), expected.clone());
        let mut renderer = MarkdownRenderer::new(options);
        let mut lines: Vec<StyledLine> = Vec::new();
        let mut buffer = [0; 4];
        for c in source.chars() {
            lines.extend(renderer.push(c.encode_utf8(&mut buffer)));
        }
        lines.extend(renderer.finish());
        prop_assert_eq!(ansi(&lines), expected);
    }

    #[test]
    fn nothing_hidden_comes_out(source in pieces(), options in options()) {
        let mut renderer = MarkdownRenderer::new(options);
        let mut lines = renderer.push(&source);
        lines.extend(renderer.finish());
        for line in lines {
            let text = line.text();
            prop_assert!(!text.contains(['\n', '\r', '\u{FFFF}']), "{:?}", text);
            prop_assert_eq!(&patchbay_core::text::clean(&text), &text);
            prop_assert_eq!(text.trim_end_matches([' ', '\t']), &text);
            for span in line.spans() {
                prop_assert!(!span.text.is_empty());
                prop_assert!(span.link.as_ref().is_none_or(|link| link.bytes().all(|byte| byte.is_ascii_graphic())));
            }
            prop_assert!(line.cut(20).width() <= 20);
        }
    }

    #[test]
    fn the_tail_is_what_finish_returns(source in pieces(), options in options()) {
        // The tail always wraps at words, because a preview cannot be wider than the window.
        let options = RenderOptions { wrap: WrapMode::Words, ..options };
        let mut renderer = MarkdownRenderer::new(options);
        renderer.push(&source);
        renderer.push("\n");
        let tail = renderer.tail(usize::MAX);
        prop_assert_eq!(ansi(&tail), ansi(&renderer.finish()));
    }

    #[test]
    fn no_word_of_prose_is_lost(
        words in prop::collection::vec("[a-z]{1,12}|\\*\\*[a-z]{1,5}\\*\\*|日本語|`[a-z]`|2 \\* 3", 1..200), columns in 20..120_usize,
    ) {
        let source = format!("a {}", words.join(" "));
        let options = RenderOptions { columns, palette: Palette::NoColour, ..RenderOptions::default() };
        let mut renderer = MarkdownRenderer::new(options);
        let mut lines = renderer.push(&source);
        lines.extend(renderer.finish());
        prop_assert!(lines.iter().all(|line| line.width() <= columns));
        let letters = |text: &str| text.replace([' ', '\n'], "");
        let text: Vec<String> = lines.iter().map(StyledLine::text).collect();
        prop_assert_eq!(letters(&text.concat()), letters(&source.replace("**", "")));
        if !source.contains('日') {
            prop_assert_eq!(text.join(" "), source.replace("**", ""));
        }
    }

    #[test]
    fn resizing_never_panics(source in pieces(), columns in prop::collection::vec(0..200_usize, 1..10)) {
        let mut renderer = MarkdownRenderer::new(RenderOptions::default());
        for chunk in source.split_inclusive(' ') {
            renderer.set_columns(columns[chunk.len() % columns.len()]);
            renderer.push(chunk);
        }
        renderer.finish();
    }
}

/// Returns the time to render `source` in small chunks, with an occasional tail, as a front would request it.
fn time(source: &str, options: RenderOptions) -> Duration {
    let begin = Instant::now();
    let mut renderer = MarkdownRenderer::new(options);
    let mut rest = source;
    let mut index = 0;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(40.min(rest.len())));
        renderer.push(chunk);
        rest = after;
        index += 1;
        if index % 1_000 == 0 {
            renderer.tail(10);
        }
    }
    renderer.finish();
    begin.elapsed()
}

/// Large blocks, ordinary and hostile. Quadratic time would take minutes.
#[test]
fn large_blocks_take_linear_time() {
    const SIZE: usize = 60_000;
    let quotes: String = "> ".repeat(1_000) + "x\n";
    let code_line = "let a = (((((((\"\\\"{}[]<<>> /* \n".to_owned();
    let patterns = [
        "some words of a paragraph ",
        "x",
        "*",
        "**a",
        "_a",
        "[",
        "[a](",
        "[]",
        "`",
        "`a ",
        "![",
        "<a ",
        "&amp;",
        "\\",
        "日",
        "https://a.example/)))) ",
        "- item\n",
        "- ",
        "> ",
        ">",
        "1. a\n",
        "| a | b |\n",
        "|",
        "\n",
        "a  \n",
        "~~",
        "e\u{301}",
        "\u{301}",
        "#",
        "# a\n",
        "    a\n",
        "a *b **c [d `e` ",
        &quotes,
        "- a\n\n  - b\n\n",
        "\t",
        " ",
        "a\n",
        "=",
        "- - ",
    ];
    let mut slow = Vec::new();
    for wrap in [WrapMode::Words, WrapMode::Terminal] {
        for pattern in patterns {
            let heads: &[&str] = if wrap == WrapMode::Words { &["", "| a | b |\n|---|---|\n"] } else { &[""] };
            for head in heads {
                let source = (*head).to_owned() + &pattern.repeat(SIZE / pattern.len());
                let took = time(&source, RenderOptions { wrap, ..RenderOptions::default() });
                slow.push((took, pattern.chars().take(20).collect::<String>(), wrap, head.len()));
            }
        }
    }
    for language in ["rust", "python", "markdown", "html"] {
        let source = format!("```{language}\n{}", code_line.repeat(50_000 / code_line.len()));
        slow.push((time(&source, RenderOptions::default()), language.to_owned(), WrapMode::Words, 0));
    }
    slow.sort_by_key(|entry| std::cmp::Reverse(entry.0));
    slow.truncate(8);
    assert!(slow[0].0 < Duration::from_secs(15), "{slow:#?}");
}

/// Breaking a paragraph into rows neither loses nor adds blanks, wherever its marks are.
#[test]
fn all_words_of_a_paragraph_stay_apart() {
    let words = ["plain", "**bold**", "a", "[link](https://a.example/x)", "`code`", "*it*", "(see", "that),", "and"];
    let shown = ["plain", "bold", "a", "link (https://a.example/x)", "code", "it", "(see", "that),", "and"];
    for rotation in 0..words.len() {
        let join = |words: &[&str]| -> String {
            (0..60).map(|index| words[(index * (rotation + 1) + rotation) % words.len()]).collect::<Vec<_>>().join(" ")
        };
        for columns in [20, 33, 47, 79, 120] {
            let mut renderer = MarkdownRenderer::new(RenderOptions { columns, ..RenderOptions::default() });
            let mut lines = renderer.push(&join(&words));
            lines.extend(renderer.finish());
            let text: Vec<String> = lines.iter().map(StyledLine::text).collect();
            assert_eq!(text.join(" "), join(&shown), "at {columns} columns, rotation {rotation}");
        }
    }
}
