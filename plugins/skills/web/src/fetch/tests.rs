//! Tests of fetching, with simulated servers.

use patchbay_sdk::testing::{Host, Reaction, response};

use super::*;

/// Returns a host with these responses.
fn serving(responses: &[(&str, Response)]) -> Host {
    responses.iter().fold(Host::new(), |host, (url, response)| host.with_response(url, response.clone()))
}

fn fetched(host: &Host, url: &str) -> Result<String, (String, String)> {
    let answer = host.run(|| fetch(url, 0, 1_000));
    answer.map_err(|failure| (failure.kind().to_owned(), failure.message().to_owned()))
}

/// Returns the addresses of all requests.
fn requested(host: &Host) -> Vec<String> {
    host.requests().into_iter().map(|request| request.url).collect()
}

/// Returns the view of `https://a.example/` with this response.
fn one(content_type: &str, body: impl AsRef<[u8]>) -> Result<String, (String, String)> {
    let answer = response(200, &[("Content-Type", content_type)], body);
    fetched(&serving(&[("https://a.example/", answer)]), "a.example")
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
    assert_eq!(one("text/html", ""), Ok(format!("{url}[The response is empty.]")));
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
    let http = serving(&[
        ("https://a.example/", redirect("/x#y")),
        ("https://a.example/x", redirect("//b.example/z")),
        ("https://b.example/z", response(200, &[("content-type", "text/plain")], "end")),
    ]);
    assert_eq!(fetched(&http, "a.example").as_deref(), Ok("URL: https://b.example/z\n\nend"));
    assert_eq!(requested(&http), ["https://a.example/", "https://a.example/x", "https://b.example/z"]);
}

#[test]
fn circular_redirects_end() {
    let http = serving(&[("https://a.example/", redirect("https://a.example/"))]);
    let (kind, message) = fetched(&http, "a.example").expect_err("a failure");
    assert_eq!(kind, "too-many-redirects");
    assert_eq!(
        message,
        "a.example redirects more than 5 times, at last to https://a.example/; fetch that if it is what you want"
    );
    assert_eq!(requested(&http).len(), MAX_REDIRECTS + 1);
}

#[test]
fn invalid_redirects_are_reported() {
    let (kind, message) = fetched(&serving(&[("https://a.example/", redirect("file:///etc/passwd"))]), "a.example")
        .expect_err("a failure");
    assert_eq!(kind, "bad-redirect");
    assert!(
        message.starts_with("https://a.example/ redirects to 'file:///etc/passwd', which is not an address"),
        "{message}"
    );
    // A redirect without a target is shown as a page.
    let (kind, message) =
        fetched(&serving(&[("https://a.example/", response(302, &[], "x"))]), "a.example").expect_err("a failure");
    assert_eq!((&*kind, &*message), ("http-status", "https://a.example/ responded with 302: x"));
}

#[test]
fn error_status_is_a_failure() {
    let html = response(500, &[("content-type", "text/html")], format!("<h1>Oops</h1><p>{}", "x".repeat(10_000)));
    let (kind, message) = fetched(&serving(&[("https://a.example/", html)]), "a.example").expect_err("a failure");
    assert_eq!(kind, "http-status");
    let begin = "https://a.example/ responded with 500 (the server failed; try again later): # Oops xxx";
    assert!(message.starts_with(begin) && message.len() < 700, "{message}");
    let none = serving(&[("https://a.example/none", response(404, &[], "nothing here"))]);
    let (_, message) = fetched(&none, "a.example/none").expect_err("a failure");
    assert_eq!(message, "https://a.example/none responded with 404 (not found): nothing here");
    let bare = response(403, &[("content-type", "text/html; charset=none")], b"\xff");
    let (_, message) = fetched(&serving(&[("https://a.example/", bare)]), "a.example").expect_err("a failure");
    assert_eq!(message, "https://a.example/ responded with 403 (forbidden)");
}

#[test]
fn errors_of_the_host_keep_their_kind() {
    let http = serving(&[("https://b.example/", redirect("https://a.example/"))]);
    let http = http.on_call(|call| match call.target.as_str() {
        "https://a.example/" => Reaction::Fail("denied"),
        _ => Reaction::Proceed,
    });
    assert_eq!(fetched(&http, "a.example"), Err(("denied".to_owned(), "simulated denied".to_owned())));
    let message = "redirected to https://a.example/: simulated denied".to_owned();
    assert_eq!(fetched(&http, "b.example"), Err(("denied".to_owned(), message)));
}

#[test]
fn invalid_address_sends_no_request() {
    let http = Host::new();
    assert_eq!(fetched(&http, "two words").expect_err("a failure").0, "invalid-input");
    assert_eq!(requested(&http), [""; 0]);
}
