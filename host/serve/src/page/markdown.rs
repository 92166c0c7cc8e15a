//! Converts the Markdown of models to HTML: text and structure only. HTML in it is shown as text, images are replaced by their
//! descriptions, and only http(s) addresses become links.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

/// Returns `text` as HTML.
pub(crate) fn html(text: &str) -> Markup {
    let mut dropped = Vec::new();
    let events =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).filter_map(|event| match event {
            Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(html)),
            Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
            // The alignment of columns would become inline styles, which the page's policy forbids.
            Event::Start(Tag::Table(_)) => Some(Event::Start(Tag::Table(Vec::new()))),
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
            Event::Start(Tag::Link { dest_url, link_type, id, .. }) => {
                let is_web = ["http://", "https://"]
                    .iter()
                    .any(|scheme| dest_url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
                dropped.push(!is_web);
                // The title is left out, because it could claim another address.
                is_web.then(|| Event::Start(Tag::Link { link_type, dest_url, title: "".into(), id }))
            }
            Event::End(TagEnd::Link) => (!dropped.pop().unwrap_or_default()).then_some(event),
            other => Some(other),
        });
    let mut written = String::with_capacity(text.len() * 3 / 2);
    html::push_html(&mut written, events);
    PreEscaped(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_images_and_other_links_are_inert() {
        for (text, shown) in [
            ("**a** <b>", "<p><strong>a</strong> &lt;b&gt;</p>\n"),
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
            ("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>\n"),
            ("[a](javascript:alert(1))", "<p>a</p>\n"),
            ("[a](JaVaScRiPt:alert(1)) <javascript:alert(1)>", "<p>a javascript:alert(1)</p>\n"),
            ("[a](data:text/html,x) [b](/v1) [c](//x)", "<p>a b c</p>\n"),
            ("![a](data:image/png;base64,x)", "<p>a</p>\n"),
            ("[![a](https://x/y.png)](https://x)", "<p><a href=\"https://x\">a</a></p>\n"),
            ("[a](https://x \"t\")", "<p><a href=\"https://x\">a</a></p>\n"),
            ("[a](<https://x/\"onclick=alert(1)>)", "<p><a href=\"https://x/%22onclick=alert(1)\">a</a></p>\n"),
            ("```\" onclick=\"x\n<i>\n```", "<pre><code class=\"language-&quot;\">&lt;i&gt;\n</code></pre>\n"),
        ] {
            assert_eq!(html(text).into_string(), shown, "{text}");
        }
    }

    /// Asserts that every tag is one that Markdown makes, without attributes other than the address of a link and the language of
    /// a block.
    fn assert_inert(text: &str) {
        let written = html(text).into_string();
        for tag in written.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("{text}: {written}"));
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            let name = name.trim_start_matches('/');
            let known =
                "p strong em del a code pre ul ol li blockquote hr br h1 h2 h3 h4 h5 h6 table thead tbody tr th td";
            assert!(known.split(' ').any(|known| known == name), "<{tag}>: {text}: {written}");
            let value =
                |start: &str| attributes.strip_prefix(start)?.strip_suffix('"').filter(|value| !value.contains('"'));
            let is_known = match name {
                "a" => value("href=\"").is_some_and(|url| {
                    let url = url.to_ascii_lowercase();
                    url.starts_with("http://") || url.starts_with("https://")
                }),
                "code" => value("class=\"language-").is_some(),
                "ol" => value("start=\"").is_some(),
                "hr" | "br" => attributes == "/",
                _ => false,
            };
            assert!(attributes.is_empty() || is_known, "<{tag}>: {text}: {written}");
        }
    }

    #[test]
    fn no_combination_becomes_a_script_an_image_or_another_link() {
        let parts = [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "<a href=javascript:alert(1)>x</a>",
            "<!-- <b> -->",
            "<![CDATA[<b>]]>",
            "<?php ?>",
            "[a](javascript:alert(1))",
            "[a](java\tscript:alert(1))",
            "[a](&#106;avascript:alert(1))",
            "[a](vbscript:x \"t\")",
            "[a](<data:text/html,<script>alert(1)</script>>)",
            "[a]: javascript:alert(1)\n\n[a] [a][] [b][a]",
            "[a]: data:text/html,x \"onclick=alert(1)\"\n\n![a]",
            "![a](data:image/png;base64,x)",
            "![<b>](https://x/\"onerror=alert(1))",
            "[![a](data:image/png;base64,x)](https://x)",
            "<javascript:alert(1)> <https://x> <a@b.example>",
            "| a | b |\n|:-:|--:|\n| <b> | [x](javascript:y) |",
            "```html\" onclick=\"x\n<i>\n```",
            "    <i>\n",
            "# a {#id .class onclick=x}",
            "3. a\n4. <b>",
            "> [!NOTE]\n> <b>",
            "- [ ] `<b>` ~~x~~ a  \nb\n\n---\n",
            "[^1]\n\n[^1]: <b>",
            "$x$ \u{202e} \0 &lt;b&gt;",
            "[a](https://x/<b>?\"'`)",
            "*[a*](HTTPS://x)",
        ];
        for first in parts {
            for second in parts {
                for between in ["", " ", "\n", "\n\n", "\n> ", "[", "](", "<"] {
                    assert_inert(&[first, between, second].concat());
                }
            }
        }
    }
}
