//! Markdown of models as HTML: text and structure only. HTML in it is shown as text, images are their description, and only http(s)
//! addresses are links.

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
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
            Event::Start(Tag::Link { dest_url, link_type, id, .. }) => {
                let is_web = ["http://", "https://"]
                    .iter()
                    .any(|scheme| dest_url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
                dropped.push(!is_web);
                // Without the title, which could say something else than the address.
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
}
