//! Tests with whole pages.

use super::*;

fn page(html: &str) -> Page {
    read(html, &"https://example.com/a/b?c".parse().expect("an address"))
}

fn text(html: &str) -> String {
    page(html).text
}

#[test]
fn blocks_are_separated_and_lines_are_joined() {
    assert_eq!(
        text("<h1> A <b>big</b>\n title</h1>text <p>one\ntwo<p>three<div>four<div>five</div>six</div>"),
        "# A big title\n\ntext\n\none two\n\nthree\n\nfour\nfive\nsix"
    );
    assert_eq!(text("a<br>b<br/>c</br>d<hr>e"), "a\nb\nc\nd\n\n---\n\ne");
    assert_eq!(text("<h2>a</h3>b<h3>c<h4>d</h4>"), "## a\n\nb\n\n### c\n\n#### d");
    assert_eq!(text("x</p>y"), "x\n\ny");
    assert_eq!(text("<p>&lt;b&gt; &amp; &eacute;&nbsp;&#8364;"), "<b> & é €");
}

#[test]
fn marks_become_markdown() {
    assert_eq!(
        text(
            "<p>a <strong>b</strong> <em>c</em> <code>d()</code> <del>e</del> <q>f</q> x<sup>2</sup> H<sub>2</sub>O <kbd>g</kbd>"
        ),
        "a **b** *c* `d()` ~~e~~ \"f\" x^2 H_2O `g`"
    );
    assert_eq!(text("<b>a<p>b</p>c</b>d"), "**a**\n\nb\n\ncd");
    assert_eq!(text("<code>a <b>b</b></code> <b><b>c</b></b><i></i>"), "`a b` **c**");
}

#[test]
fn links_are_absolute() {
    assert_eq!(text("<a href='../x?y=1&amp;z'>up</a>"), "[up](https://example.com/x?y=1&z)");
    assert_eq!(text("<base href='//other.example/d/'><a href=e>f</a>"), "[f](https://other.example/d/e)");
    assert_eq!(
        text("<a href='#top'>top</a> <a href='/a/b?c#top'>same</a> <a href='/z#t'>z</a>"),
        "top same [z](https://example.com/z#t)"
    );
    assert_eq!(
        text("<a href='javascript:x()'>a</a> <a href='data:text/html,x'>b</a> <a>c</a> <a href='http://['>d</a>"),
        "a b c d"
    );
    assert_eq!(text(&format!("<a href='/{}'>long</a>", "x".repeat(1_500))), "long");
    assert_eq!(text("<a href=/1>a<a href=/2>b</a>c"), "[a](https://example.com/1)[b](https://example.com/2)c");
    assert_eq!(text("<a href=/1><div><h3>Card</h3><p>more</p></div></a>"), "### [Card](https://example.com/1)\n\nmore");
    assert_eq!(
        text("<a href=/1><img src=x alt='A  cat'></a><img src=y><img alt=''>"),
        "[[image: A cat]](https://example.com/1)"
    );
}

#[test]
fn lists_become_markdown_lists() {
    assert_eq!(
        text("a<ul><li>b<li><p>c</p><p>d</p><ol start=9><li>e</li><li>f</ol><li>g</ul>h"),
        "a\n\n- b\n- c\n\n  d\n\n  9. e\n  10. f\n- g\n\nh"
    );
    assert_eq!(text("<ol><li><li> <li>x</ol>"), "3. x");
    assert_eq!(text("<li>a<li>b"), "- a\n- b");
    assert_eq!(text("<dl><dt>a<dd>b<dd>c<dt>d<dd>e</dl>"), "a\n: b\n: c\nd\n: e");
    assert_eq!(text("<blockquote>a<p>b</blockquote>c"), "> a\n>\n> b\n\nc");
}

#[test]
fn code_is_unchanged() {
    assert_eq!(
        text("<p>a</p><pre><code class='hl language-rust'>\nfn <b>x</b>() {\n\n    1 &lt; 2\n}\n</code></pre>b"),
        "a\n\n```rust\nfn x() {\n\n    1 < 2\n}\n```\n\nb"
    );
    assert_eq!(text("<pre>a ``` b<br>c</pre>"), "````\na ``` b\nc\n````");
    assert_eq!(text("<pre><div>a</div><div>b</div></pre>"), "```\na\nb\n```");
    assert_eq!(text("<ul><li>x<pre>a\n\nb</pre></ul>"), "- x\n\n  ```\n  a\n\n  b\n  ```");
    assert_eq!(text("<pre>a<pre>b</pre>c</pre>d"), "```\na\nbc\n```\n\nd");
    assert_eq!(text("<pre> \n </pre>x"), "x");
}

#[test]
fn data_tables_become_tables() {
    assert_eq!(
        text(
            "<table><caption>Sizes</caption><thead><tr><th>a<th>b</thead><tr><td>1|<td><b>2</b><br>3<tr><td colspan=2>4</table>x"
        ),
        "Sizes\n\n| a | b |\n| --- | --- |\n| 1\\| | **2** 3 |\n| 4 |  |\n\nx"
    );
    assert_eq!(text("<table><td>a</table>"), "a");
    assert_eq!(text("<table><tr><td>a<td>b</table>"), "a b");
}

#[test]
fn layout_tables_become_text() {
    let inner = "<table><tr><td>a<td>b<tr><td>c<td>d</table>";
    assert_eq!(
        text(&format!("<table><tr><td>menu<td>{inner}<tr><td>x<td>y</table>z")),
        "menu\n\n| a | b |\n| --- | --- |\n| c | d |\n\nx y\n\nz"
    );
    // An end tag in a cell cannot close an element around the table.
    assert_eq!(text("<ul><li>a<table><tr><td>b</li></ul></div>c</table><li>d</ul>e"), "- a\n\n  bc\n- d\n\ne");
}

#[test]
fn scripts_navigation_and_hidden_parts_are_left_out() {
    let html = "<head><title> A\n page </title><style>x{}</style><script>if (a<b) '</p>'</script></head>\
        <nav><ul><li>menu</ul></nav><p>text<noscript><b>no</b></noscript><svg><title>t</title><path/>s</svg>\
        <template>t</template><select><option>o</select><button>press</button>\
        <span hidden>h<span>i</span></span><i style='display : none'>d<b>d</b></i>\
        <a aria-hidden=true href=#x>#</a><x-y hidden>k<x-z>l</x-z>m</x-y> end</p><footer>foot</footer>\
        <aside>beside</aside><div role=navigation>roles</div><!-- c --><ul><li hidden>a<li>b</ul>";
    let page = page(html);
    assert_eq!(page.title.as_deref(), Some("A page"));
    assert_eq!(page.text, "text end\n\n- b");
    assert_eq!(text("<article><aside>note</aside>a<footer>by x</footer></article>"), "note\na\nby x");
    assert_eq!(text("<p>a <span class='x noprint'>b</span>c<ul><li class=interlanguage-link>d</ul>"), "a c");
    assert_eq!(text("<title>a</title>b<title>c</title>d"), "bd");
    assert_eq!(text("<div><nav>never closed</div>text"), "text");
}

#[test]
fn main_part_is_used_if_it_is_long_enough() {
    let long = "word ".repeat(50);
    let long = long.trim();
    assert_eq!(text(&format!("before<main><p>{long}</main>after")), long);
    assert_eq!(text(&format!("before<div role=main>{long}</div>after")), long);
    assert_eq!(text("before<main>short</main>after"), "before\n\nshort\n\nafter");
    assert_eq!(text(&format!("before<article>{long}</article>after")), long);
    let two = format!("<article>{long}</article><article>{long}</article>");
    assert_eq!(text(&two), format!("{long}\n\n{long}"));
}

#[test]
fn page_without_text_shows_its_description() {
    let page = page("<meta name=Description content=' What it\n is '><div id=root></div><script>run()</script>");
    assert_eq!((page.text.as_str(), page.description.as_deref()), ("", Some("What it is")));
}

#[test]
fn hostile_pages_are_converted() {
    let n = 100_000;
    assert_eq!(text(&format!("{}x{}", "<div>".repeat(n), "</div>".repeat(n))), "x");
    let n = 40_000;
    let deep = |open: &str, close: &str| text(&format!("{}x{}", open.repeat(n), close.repeat(n)));
    assert_eq!(deep("<div><span>", ""), "x");
    assert_eq!(deep("<b>", "</i></div>"), "**x**");
    assert_eq!(deep("<p><b><a href=x>", ""), "**[x](https://example.com/a/x)**");
    assert!(deep("<blockquote>", "</blockquote>").ends_with("> x"));
    assert!(deep("<ul><li>", "").ends_with("- x"));
    assert_eq!(deep("<table><tr><td>", ""), "x");
    assert_eq!(deep("<table>", "</table>"), "x");
    assert!(deep("<pre>", "</pre>").contains('x'));
    assert_eq!(deep("<svg><title><nav>", ""), "");
    assert_eq!(deep("<section>", "</div></p></li></b>"), "x");
    assert_eq!(deep("<font a=b>", "<tr></td></table>"), "x");
    let attributes: String = (0..n).map(|number| format!(" a{number}=b")).collect();
    assert_eq!(text(&format!("<p{attributes} hidden{attributes}>x</p>y")), "y");
    assert!(text(&"<".repeat(n)).len() >= n - 9);
    assert_eq!(text("<!--<script><title>"), "");
    assert_eq!(text("<table><tr><td>a<pre>b<table><td>c"), "a\n\n```\nb\nc\n```");
}

#[test]
fn too_large_pages_are_cut_and_marked() {
    let links = page(&"<a href=xxxxxxxx>y</a>\n".repeat(200_000));
    assert!(links.is_cut && links.text.starts_with("[y](https://example.com/a/xxxxxxxx) [y]"));
    let long = format!("<base href='https://example.com/{}/'>", "x".repeat(900));
    let amplified = page(&format!("{long}{}", "<table><tr><td><a href=a>y</a></table>".repeat(50_000)));
    assert!(amplified.is_cut && amplified.text.len() < flow::MAX_TEXT + 4_096);
    let cells = page(&format!("{long}<table>{}", "<td><a href=a>y</a>".repeat(100_000)));
    assert!(cells.is_cut && cells.text.len() < flow::MAX_TEXT + 4_096);
    let text = page(&"x".repeat(MAX_BYTES + 1));
    assert!(text.is_cut && text.text.len() == MAX_BYTES);
    assert!(!page(&"<p>text</p>".repeat(50_000)).is_cut);
}

proptest::proptest! {
    /// Random tags in random order.
    #[test]
    fn random_pages_are_converted(parts in proptest::collection::vec("<(/?(p|div|b|a href=x|li|ul|ol|dl|dd|table|tr|td|caption|thead|pre|code|nav|h1|h2|blockquote|main|article|title|svg|span hidden|br|script|select))>|a b|\n|&lt;", 0..60)) {
        let page = page(&parts.concat());
        proptest::prop_assert!(!page.is_cut);
        for line in page.text.lines() {
            proptest::prop_assert!(!line.ends_with(' '), "{line:?}");
        }
    }

    /// Every visible word appears once and in order.
    #[test]
    fn no_word_is_lost(parts in proptest::collection::vec("</?(p|div|b|i|em|li|ul|ol|dl|dt|dd|table|tr|td|th|caption|tbody|pre|code|h1|h2|blockquote|section|a|br|sup|q)>", 0..60)) {
        let html: String = parts.iter().enumerate().map(|(number, part)| format!("{part} w{number}w ")).collect();
        let text = text(&html);
        let found: Vec<usize> = text
            .split('w')
            .filter_map(|part| part.parse().ok())
            .collect();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        proptest::prop_assert_eq!(sorted, (0..parts.len()).collect::<Vec<_>>(), "{}\n{}", html, text);
    }
}
