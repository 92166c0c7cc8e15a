//! Any text as a model's answer, cut into chunks at random. The first two bytes choose the options and the cuts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patchbay_core::text;
use patchbay_markdown::{MarkdownRenderer, Palette, RenderOptions, StyledLine, WrapMode};

fuzz_target!(|bytes: &[u8]| {
    let [choice, step, rest @ ..] = bytes else { return };
    let Ok(answer) = std::str::from_utf8(rest) else { return };
    let options = RenderOptions {
        columns: usize::from(choice >> 2) * 2,
        wrap: if choice & 1 == 0 { WrapMode::Words } else { WrapMode::Terminal },
        links: true,
        palette: if choice & 2 == 0 { Palette::Colour } else { Palette::NoColour },
    };
    let whole = render(answer, answer.len(), options);
    for line in &whole {
        let text = line.text();
        assert_eq!(text, text::clean(&text), "lines are clean");
        assert!(!text.ends_with([' ', '\t']) && !text.contains('\n'), "{text:?}");
        let links = line.spans().iter().filter_map(|span| span.link.as_ref());
        links.for_each(|link| assert!(link.bytes().all(|byte| byte.is_ascii_graphic()), "{link:?}"));
        assert!(line.cut(10).width() <= 10, "{text:?}");
    }
    let cut = render(answer, 1 + usize::from(*step), options);
    assert_eq!(written(&whole), written(&cut), "chunks change nothing");
});

/// Returns the lines of `answer`, which arrives in chunks of about `step` bytes.
fn render(answer: &str, step: usize, options: RenderOptions) -> Vec<StyledLine> {
    let mut renderer = MarkdownRenderer::new(options);
    let mut lines = Vec::new();
    let mut rest = answer;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.ceil_char_boundary(step.min(rest.len())));
        lines.extend(renderer.push(chunk));
        rest = after;
    }
    assert!(renderer.tail(3).len() <= 3);
    lines.extend(renderer.finish());
    lines
}

fn written(lines: &[StyledLine]) -> Vec<String> {
    lines.iter().map(StyledLine::to_ansi).collect()
}
