//! Tests of fetching, with simulated servers.

use std::collections::BTreeMap;

use patchbay_sdk::http::Pair;

use super::*;

/// The response of each address.
#[derive(Default)]
struct Fake {
    answers: BTreeMap<String, Result<Response, Error>>,
    asked: Vec<String>,
}

impl Http for Fake {
    fn get(&mut self, url: &str) -> Result<Response, Error> {
        self.asked.push(url.to_owned());
        self.answers.get(url).cloned().unwrap_or_else(|| Ok(response(404, &[], "nothing here")))
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
    let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
    Response { status, headers: headers.iter().map(pair).collect(), body: body.as_ref().to_vec() }
}

fn serving(answers: &[(&str, Response)]) -> Fake {
    let answers = answers.iter().map(|(url, response)| ((*url).to_owned(), Ok(response.clone()))).collect();
    Fake { answers, asked: Vec::new() }
}

fn fetched(http: &mut Fake, url: &str) -> Result<String, (String, String)> {
    fetch(http, url, 0, 1_000).map_err(|failure| (failure.kind().to_owned(), failure.message().to_owned()))
}

/// Returns the view of `https://a.example/` with this response.
fn one(content_type: &str, body: impl AsRef<[u8]>) -> Result<String, (String, String)> {
    let answer = response(200, &[("Content-Type", content_type)], body);
    fetched(&mut serving(&[("https://a.example/", answer)]), "a.example")
}

fn redirect(location: &str) -> Response {
    response(302, &[("Location", location)], "moved")
}

#[test]
fn page_is_shown_with_title_and_address() {
    let shown = one("text/html", "<title>T</title><h1>A</h1><p>b <a href=/c>d</a>");
    assert_eq!(shown.as_deref(), Ok("Title: T\nURL: https://a.example/\n\n# A\n\nb [d](https://a.example/c)"));
}

#[test]
fn other_types_are_shown_unchanged_or_named() {
    let url = "URL: https://a.example/\n\n";
    assert_eq!(one("text/plain", "<b>\n  x\n"), Ok(format!("{url}<b>\n  x")));
    assert_eq!(one("application/json", "{\"a\":1}"), Ok(format!("{url}{{\n  \"a\": 1\n}}")));
    assert_eq!(one("application/xml", "<a/>"), Ok(format!("{url}<a/>")));
    assert_eq!(one("text/plain; charset=latin1", b"\xe9"), Ok(format!("{url}é")));
    assert_eq!(
        one("image/png", "12345"),
        Ok(format!("{url}[This is image/png, 5 bytes, which cannot be shown as text.]"))
    );
    assert_eq!(one("", b"\0\x01"), Ok(format!("{url}[This is no text, 2 bytes, which cannot be shown as text.]")));
    assert_eq!(one("text/html", ""), Ok(format!("{url}[The answer is empty.]")));
    assert_eq!(one("text/plain; charset=none", b"\xe9").expect_err("a failure").0, "not-text");
}

#[test]
fn page_without_text_is_reported() {
    let shown = one("text/html", "<title>App</title><meta name=description content='An app'><script>x</script>");
    assert_eq!(
        shown.as_deref(),
        Ok(
            "Title: App\nURL: https://a.example/\n\nAn app\n\n[The page has no text of its own; it may need a browser that runs its \
            scripts.]"
        )
    );
}

#[test]
fn redirects_are_requests_of_their_own() {
    let mut http = serving(&[
        ("https://a.example/", redirect("/x#y")),
        ("https://a.example/x", redirect("//b.example/z")),
        ("https://b.example/z", response(200, &[("content-type", "text/plain")], "end")),
    ]);
    assert_eq!(fetched(&mut http, "a.example").as_deref(), Ok("URL: https://b.example/z\n\nend"));
    assert_eq!(http.asked, ["https://a.example/", "https://a.example/x", "https://b.example/z"]);
}

#[test]
fn circular_redirects_end() {
    let mut http = serving(&[("https://a.example/", redirect("https://a.example/"))]);
    let (kind, message) = fetched(&mut http, "a.example").expect_err("a failure");
    assert_eq!(kind, "too-many-redirects");
    assert_eq!(
        message,
        "a.example redirects more than 5 times, at last to https://a.example/; fetch that if it is what you want"
    );
    assert_eq!(http.asked.len(), MAX_REDIRECTS + 1);
}

#[test]
fn invalid_redirects_are_reported() {
    let (kind, message) = fetched(&mut serving(&[("https://a.example/", redirect("file:///etc/passwd"))]), "a.example")
        .expect_err("a failure");
    assert_eq!(kind, "bad-redirect");
    assert!(
        message.starts_with("https://a.example/ redirects to 'file:///etc/passwd', which is no address"),
        "{message}"
    );
    // A redirect without a target is shown as a page.
    let (kind, message) =
        fetched(&mut serving(&[("https://a.example/", response(302, &[], "x"))]), "a.example").expect_err("a failure");
    assert_eq!((&*kind, &*message), ("http-status", "https://a.example/ answered 302: x"));
}

#[test]
fn error_status_is_a_failure() {
    let html = response(500, &[("content-type", "text/html")], format!("<h1>Oops</h1><p>{}", "x".repeat(10_000)));
    let (kind, message) = fetched(&mut serving(&[("https://a.example/", html)]), "a.example").expect_err("a failure");
    assert_eq!(kind, "http-status");
    let begin = "https://a.example/ answered 500 (the server failed; try again later): # Oops xxx";
    assert!(message.starts_with(begin) && message.len() < 700, "{message}");
    let (_, message) = fetched(&mut Fake::default(), "a.example/none").expect_err("a failure");
    assert_eq!(message, "https://a.example/none answered 404 (not found): nothing here");
    let bare = response(403, &[("content-type", "text/html; charset=none")], b"\xff");
    let (_, message) = fetched(&mut serving(&[("https://a.example/", bare)]), "a.example").expect_err("a failure");
    assert_eq!(message, "https://a.example/ answered 403 (forbidden)");
}

#[test]
fn errors_of_the_host_keep_their_kind() {
    let denied = || Error { kind: "denied".to_owned(), message: "not granted".to_owned() };
    let mut http = Fake::default();
    http.answers.insert("https://a.example/".to_owned(), Err(denied()));
    assert_eq!(fetched(&mut http, "a.example"), Err(("denied".to_owned(), "not granted".to_owned())));
    http.answers.insert("https://b.example/".to_owned(), Ok(redirect("https://a.example/")));
    let message = "redirected to https://a.example/: not granted".to_owned();
    assert_eq!(fetched(&mut http, "b.example"), Err(("denied".to_owned(), message)));
}

#[test]
fn invalid_address_sends_no_request() {
    let mut http = Fake::default();
    assert_eq!(fetched(&mut http, "two words").expect_err("a failure").0, "invalid-input");
    assert!(http.asked.is_empty());
}
