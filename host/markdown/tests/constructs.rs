//! Tests the exact lines of each construct, for a narrow, a usual and a wide terminal.

use patchbay_markdown::{MarkdownRenderer, Palette, RenderOptions, StyledLine, TerminalColour, WrapMode};

fn lines(source: &str, options: RenderOptions) -> Vec<StyledLine> {
    let mut renderer = MarkdownRenderer::new(options);
    let mut lines = renderer.push(source);
    lines.extend(renderer.finish());
    lines
}

fn text_at(columns: usize, source: &str) -> Vec<String> {
    let options = RenderOptions { columns, palette: Palette::NoColour, ..RenderOptions::default() };
    lines(source, options).iter().map(StyledLine::text).collect()
}

fn text(source: &str) -> Vec<String> {
    text_at(80, source)
}

const PROSE: &str = "The **scheduler** keeps `ready` tasks in a queue and wakes each of them when its \
deadline passes, which is cheap as long as the queue is short; see https://example.org/scheduler/queue.";

#[test]
fn prose_at_three_widths() {
    let narrow = [
        "The scheduler keeps `ready` tasks in a",
        "queue and wakes each of them when its",
        "deadline passes, which is cheap as long",
        "as the queue is short; see",
        "https://example.org/scheduler/queue.",
    ];
    assert_eq!(text_at(40, PROSE), narrow);
    let usual = [
        "The scheduler keeps `ready` tasks in a queue and wakes each of them when its",
        "deadline passes, which is cheap as long as the queue is short; see",
        "https://example.org/scheduler/queue.",
    ];
    assert_eq!(text_at(80, PROSE), usual);
    let wide = [
        "The scheduler keeps `ready` tasks in a queue and wakes each of them when its deadline passes, which is cheap as long as",
        "the queue is short; see https://example.org/scheduler/queue.",
    ];
    assert_eq!(text_at(120, PROSE), wide);
}

#[test]
fn terminal_wrap_keeps_paragraphs_whole() {
    let options = RenderOptions { columns: 40, wrap: WrapMode::Terminal, ..RenderOptions::default() };
    assert_eq!(lines(PROSE, options).len(), 1);
}

#[test]
fn lists_keep_marks_numbers_and_task_boxes() {
    let source = "* one\n* two\n    * deep\n\n1. first\n1. second\n   more\n\n7) x\n9) y\n\n- [x] done\n- [ ] open";
    let expected = [
        "- one",
        "- two",
        "  - deep",
        "",
        "1. first",
        "2. second more",
        "",
        "7) x",
        "9) y",
        "",
        "- [x] done",
        "- [ ] open",
    ];
    assert_eq!(text(source), expected);
}

#[test]
fn list_items_wrap_under_their_text() {
    let source = "10. The quick brown fox jumps over the lazy dog and runs";
    assert_eq!(text_at(40, source), ["10. The quick brown fox jumps over the", "    lazy dog and runs"]);
}

#[test]
fn loose_lists_keep_their_blank_lines() {
    assert_eq!(text("- a\n\n  b\n\n- c\n\n\n\nend"), ["- a", "", "  b", "", "- c", "", "end"]);
    assert_eq!(text("-\n- a\n-"), ["-", "- a", "-"]);
}

#[test]
fn quotes_keep_their_marks() {
    assert_eq!(text("> a\nlazy\n>\n> > b\n\nc"), ["> a lazy", ">", "> > b", "", "c"]);
    assert_eq!(text("- a\n\n> b"), ["- a", "", "> b"]);
    assert_eq!(text("> - a\n>   b\n> ```\n> code\n> ```"), ["> - a b", ">", "> code"]);
}

#[test]
fn headings_are_bold() {
    let lines = lines("# One *two*\ntext\n\nThree\n=====\n\nFour\n---\nend", RenderOptions::default());
    let text: Vec<String> = lines.iter().map(StyledLine::text).collect();
    assert_eq!(text, ["One two", "text", "", "Three", "", "Four", "end"]);
    let bold: Vec<bool> = lines.iter().map(|line| line.spans().iter().all(|span| span.style.bold)).collect();
    assert_eq!(bold, [true, false, true, true, true, true, false]);
}

#[test]
fn rules_html_images_and_footnotes() {
    let source = "a\n\n***\n<div>\n<b>x</b> y\n</div>\n\n![alt](a.png) and [^1]\n\n[^1]: note";
    assert_eq!(
        text(source),
        ["a", "", "---", "<div>", "<b>x</b> y </div>", "", "alt (a.png) and [^1]", "", "[^1]: note"]
    );
}

#[test]
fn hard_breaks_are_kept() {
    assert_eq!(text("a  \nb\\\nc\nd"), ["a", "b", "c d"]);
}

#[test]
fn code_is_at_column_zero_and_never_broken() {
    let long = "x".repeat(200);
    let source = format!(
        "Do:\n```rust\nfn main() {{\n\tlet a = 1;   \n\n{long}\n}}\n```\nand\n\n1. item\n   ```sh\n   ls\n     -l\n   ```\n2. next"
    );
    let expected = [
        "Do:",
        "",
        "fn main() {",
        "\tlet a = 1;",
        "",
        &long,
        "}",
        "",
        "and",
        "",
        "1. item",
        "",
        "ls",
        "  -l",
        "",
        "2. next",
    ];
    for columns in [40, 80, 120] {
        assert_eq!(text_at(columns, &source), expected);
    }
}

#[test]
fn code_without_its_end_and_other_fences() {
    assert_eq!(text("```\na\n~~~\nb"), ["a", "~~~", "b"]);
    assert_eq!(text("````md\n```\nx\n```\n````"), ["```", "x", "```"]);
    assert_eq!(text("```rust src/main.rs\nx\n```"), ["src/main.rs", "x"]);
    assert_eq!(text("a\n\n    b\n\n      c\nd"), ["a", "", "b", "", "  c", "", "d"]);
    assert_eq!(text("- ```\n  x\n  ```"), ["-", "x"]);
}

#[test]
fn code_has_colours_of_the_palette_or_none() {
    let source = "```rust\nlet x = \"a\"; // b\n```";
    let coloured = lines(source, RenderOptions::default());
    let green = coloured[0].spans().iter().find(|span| span.text.contains('a')).unwrap();
    assert_eq!(green.style.colour, Some(TerminalColour::Green));
    assert_eq!(coloured[0].text(), "let x = \"a\"; // b");
    let plain = lines(source, RenderOptions { palette: Palette::NoColour, ..RenderOptions::default() });
    assert_eq!(plain[0].to_ansi(), plain[0].text());
}

const TABLE: &str = "| Name | Meaning | Bytes |\n| :--- | :---: | ---: |\n| alpha | the first letter of the alphabet | 1 |\n| 日本 | two | 1234 |\n";

#[test]
fn tables_that_fit_are_aligned() {
    let expected = [
        "Name               Meaning               Bytes",
        "----------------------------------------------",
        "alpha  the first letter of the alphabet      1",
        "日本                 two                  1234",
    ];
    assert_eq!(text_at(80, TABLE), expected);
    assert_eq!(text_at(120, TABLE), expected);
}

#[test]
fn wide_tables_wrap_their_cells() {
    let expected = [
        "Name            Meaning            Bytes",
        "----------------------------------------",
        "alpha   the first letter of the        1",
        "                alphabet",
        "日本              two               1234",
    ];
    assert_eq!(text_at(40, TABLE), expected);
}

#[test]
fn very_narrow_tables_become_pairs() {
    let source = "| Option | Default value | Meaning of it |\n|---|---|---|\n| retries | three times | attempts per call |\n| wait | 2 s | pause |\n\nend";
    let expected = [
        "Option: retries",
        "Default value: three",
        "times",
        "Meaning of it:",
        "attempts per call",
        "",
        "Option: wait",
        "Default value: 2 s",
        "Meaning of it: pause",
        "",
        "end",
    ];
    assert_eq!(text_at(20, source), expected);
}

/// A name in the head is repeated for each row. A long name and many rows must not multiply into a huge output.
#[test]
fn names_and_missing_cells_of_pairs_do_not_multiply() {
    let head = "word ".repeat(3_000);
    let names = "| b ".repeat(62);
    let source = format!("| {head} {names}|\n{}|\n{}", "|---".repeat(63), "| 1\n".repeat(3_000));
    let rows = text_at(80, &source);
    let bytes: usize = rows.iter().map(String::len).sum();
    assert_eq!(rows.iter().filter(|row| row.ends_with(" 1")).count(), 3_000);
    assert!(rows.iter().any(|row| row.contains('\u{2026}')) && !rows.iter().any(|row| row.starts_with("b:")));
    assert!(bytes < 20 * source.len(), "{bytes} of {}", source.len());
}

#[test]
fn tables_need_their_row_of_dashes() {
    assert_eq!(text("a | b\nc | d"), ["a | b c | d"]);
    assert_eq!(
        text("Here:\n| a | b |\n|---|---|\n| 1 | 2 | 3 |\nend"),
        ["Here:", "a  b", "--------", "1  2 | 3", "end"]
    );
}

#[test]
fn escape_sequences_become_text() {
    let source = "a\u{1b}]0;OWNED\u{7} \u{202e}b\u{200b}c &#27;[2J\n```\n\u{9b}31m\u{1b}[2J\n```\n[x](https://a.example/\u{1b}y)";
    let ansi: String =
        lines(source, RenderOptions { links: false, palette: Palette::NoColour, ..RenderOptions::default() })
            .iter()
            .map(|line| line.text() + "\n")
            .collect();
    assert_eq!(ansi, "a]0;OWNED bc [2J\n\n31m[2J\n\nx (https://a.example/y)\n");
}

#[test]
fn blocks_are_committed_as_soon_as_they_are_final() {
    let mut renderer = MarkdownRenderer::new(RenderOptions { palette: Palette::NoColour, ..RenderOptions::default() });
    let mut push = |chunk: &str| renderer.push(chunk).iter().map(StyledLine::text).collect::<Vec<_>>();
    assert_eq!(push("# A\n"), ["A"]);
    assert_eq!(push("- one\n- two"), Vec::<String>::new());
    assert_eq!(push("\n"), ["- one"]);
    assert_eq!(push("\n```\nx"), ["- two"]);
    assert_eq!(push("\ny"), ["", "x"]);
    assert_eq!(push("\n```\n| a |\n|---|\n| b |\n"), ["y"]);
    assert_eq!(push("\n"), ["", "a", "-", "b"]);
}

#[test]
fn long_paragraphs_are_committed_row_by_row() {
    let mut renderer = MarkdownRenderer::new(RenderOptions { columns: 40, ..RenderOptions::default() });
    let mut count = 0;
    for _ in 0..100 {
        count += renderer.push("some words of a line ").len();
    }
    assert!(count > 40, "{count}");
    assert!(renderer.tail(100).len() <= 8, "{}", renderer.tail(100).len());
    assert_eq!(renderer.tail(2).len(), 2);
}

#[test]
fn resizing_affects_only_open_lines() {
    let mut renderer = MarkdownRenderer::new(RenderOptions { columns: 40, ..RenderOptions::default() });
    let done = renderer.push("one\n\ntwo three four five six seven");
    assert_eq!(done.len(), 1);
    renderer.set_columns(12);
    let rest: Vec<String> = renderer.finish().iter().map(StyledLine::text).collect();
    assert_eq!(rest, ["", "two three", "four five", "six seven"]);
}
