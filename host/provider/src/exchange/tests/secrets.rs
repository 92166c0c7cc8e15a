//! Tests of where a key is sent, and where it must not appear.

use patchbay_core::{
    Code,
    completion::{BlockKind, FailureKind, Finish, Stop, StreamEvent},
};
use patchbay_sandbox::{
    Auth, RequestedPlacement,
    adapter::{Action, AdapterRequest, Input, RetryHint},
};

use super::{
    Bench, SENTINEL, Script, bearer, delta, emit, end, fail, finish, get,
    server::{OPEN, Server, ok, piece},
    start, stored,
};

/// Whether `text` contains a recognisable part of the secret.
fn tells(text: &str) -> bool {
    text.to_lowercase().contains("sentinel")
}

fn asking() -> AdapterRequest {
    AdapterRequest { auth: vec![bearer()], ..get("/") }
}

#[tokio::test]
async fn key_is_sent_at_the_requested_placement() {
    let server = Server::answering(ok("", "")).await;
    let query = Auth { placement: RequestedPlacement::Query("key".to_owned()), ..bearer() };
    for auth in [bearer(), query] {
        let request = AdapterRequest { auth: vec![auth], ..get("/models?alt=sse") };
        Bench::at(&server.origin()).with_key(true).run(&Script::relaying(request)).await.unwrap();
    }
    let seen = server.requests();
    assert!(seen[0].contains(&format!("authorization: Bearer {SENTINEL}\r\n")), "{}", seen[0]);
    assert!(seen[1].starts_with("GET /models?alt=sse&key=sk-Sentinel%2F42%2B"), "{}", seen[1]);
    // Without `auth`, the request contains no key.
    Bench::at(&server.origin()).with_key(true).run(&Script::relaying(get("/"))).await.unwrap();
    assert!(!tells(&server.requests()[2]));
}

/// Another process or an earlier completion may have sent the key to the server, which could have stored it. It is
/// scrubbed although this completion sends no key.
#[tokio::test]
async fn response_is_scrubbed_although_no_key_was_sent() {
    let server = Server::answering(ok(&format!("X-Echo: {SENTINEL}\r\n"), format!("stored: {SENTINEL}"))).await;
    let mut bench = Bench::at(&server.origin()).with_key(true);
    let script = Script::relaying(get("/"));
    bench.run(&script).await.unwrap();
    assert_eq!(bench.heard.text(), "stored: [secret]");
    assert!(!tells(&server.requests()[0]) && !tells(&format!("{:?}", script.heard())), "the adapter heard it");
}

#[tokio::test]
async fn invalid_key_entry_is_named_with_its_file() {
    let server = Server::answering(ok("", "")).await;
    let mut bench = Bench::at(&server.origin()).with_key(false);
    bench.write_credentials(r#"{"test": {"key": "sk-secret"}, "other": {"api_key": "x"}}"#);
    let error = bench.run(&Script::relaying(asking())).await.unwrap_err();
    assert_eq!(error.code(), Code::MissingCredentials);
    let words = error.to_string();
    assert!(words.starts_with("/") && words.ends_with("\"test\": {\"api_key\": \"…\"}."), "{words}");
    assert!(words.contains("credentials.json: the entry 'test' has no key") && !words.contains("sk-"), "{words}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn missing_key_sends_nothing_and_names_its_page() {
    let server = Server::answering(ok("", "")).await;
    let told = async |page: Option<&str>, variable: &str| {
        let mut bench = Bench::at(&server.origin()).with_key(false);
        bench.provider = "anthropic".parse().unwrap();
        let credential = bench.credential.as_mut().unwrap();
        credential.obtain_url = page.map(str::to_owned);
        credential.secret = stored(&bench.provider, variable);
        let error = bench.run(&Script::relaying(asking())).await.unwrap_err();
        assert_eq!((error.code(), error.kind()), (Code::MissingCredentials, FailureKind::Authentication));
        assert!(bench.heard.retries.is_empty());
        error.to_string()
    };
    let (page, variable) = ("https://console.anthropic.com/settings/keys", "PATCHBAY_TEST_NO_SUCH_KEY");
    assert_eq!(
        told(Some(page), variable).await,
        "No credentials for anthropic. Set PATCHBAY_TEST_NO_SUCH_KEY or add to credentials.json\n\nGet your API key at: https://console.anthropic.com/settings/keys"
    );
    assert_eq!(
        told(None, variable).await,
        "No credentials for anthropic. Set PATCHBAY_TEST_NO_SUCH_KEY or add to credentials.json"
    );
    assert_eq!(told(None, "").await, "No credentials for anthropic. Add to credentials.json");
    assert!(server.requests().is_empty());
}

/// A local server needs no key, even if its adapter requests one.
#[tokio::test]
async fn provider_without_a_key_is_used_without_one() {
    let server = Server::answering(ok("", "hello")).await;
    let mut bench = Bench::at(&server.origin());
    bench.run(&Script::relaying(asking())).await.unwrap();
    assert_eq!(bench.heard.text(), "hello");
    assert!(!server.requests()[0].contains("authorization"), "{}", server.requests()[0]);
}

#[tokio::test]
async fn unknown_credential_or_invalid_placement_is_a_violation() {
    let server = Server::answering(ok("", "")).await;
    let auth = |auth: Auth| AdapterRequest { auth: vec![auth], ..get("/") };
    let header = |name: &str, prefix: &str| {
        let placement = RequestedPlacement::Header { name: name.to_owned(), prefix: prefix.to_owned() };
        auth(Auth { placement, ..bearer() })
    };
    let own = vec![("authorization".to_owned(), "Bearer mine".to_owned())];
    for (request, what) in [
        (
            auth(Auth { credential: "other".to_owned(), ..bearer() }),
            "requested the credential 'other', but may only use 'key'",
        ),
        (header("Host", ""), "the header 'host' is set by the host"),
        (header("X-Key", "a\r\nb: "), "the value of the header 'x-key' contains a control character"),
        (AdapterRequest { headers: own, ..asking() }, "the header 'authorization' carries a credential"),
        (
            AdapterRequest { auth: vec![bearer(); 2], ..get("/") },
            "requested its credential more than once in a request",
        ),
    ] {
        let error = Bench::at(&server.origin()).with_key(true).run(&Script::relaying(request)).await.unwrap_err();
        assert_eq!(error.code(), Code::AdapterViolation, "{error}");
        assert!(error.to_string().contains(what) && !tells(&format!("{error:?}")), "{error}");
    }
    assert!(server.requests().is_empty());
}

/// Unencrypted requests with a key go only to this machine, and with permission to the local network.
#[tokio::test]
async fn key_is_not_sent_unencrypted_over_the_network() {
    for (origin, private) in [
        ("http://api.example.com", false),
        ("http://192.168.1.5", false),
        ("http://10.0.0.1:8080", false),
        ("http://8.8.8.8", true),
    ] {
        let mut bench = Bench::at(origin).with_key(true);
        bench.base.as_mut().unwrap().allow_private = private;
        let error = bench.run(&Script::relaying(asking())).await.unwrap_err();
        assert_eq!(error.code(), Code::ProviderNetwork, "{origin}: {error}");
    }
    let server = Server::answering(ok("", "")).await;
    let mut bench = Bench::at(&server.origin()).with_key(true);
    bench.base.as_mut().unwrap().allow_private = true;
    bench.run(&Script::relaying(asking())).await.unwrap();
    assert!(tells(&server.requests()[0]), "the test's own eyes are open");
}

/// A redirect is not followed.
#[tokio::test]
async fn redirect_target_receives_no_key() {
    let elsewhere = Server::answering(ok("", "")).await;
    let answer = format!("HTTP/1.1 307 X\r\nLocation: {}/\r\nContent-Length: 0\r\n\r\n", elsewhere.origin());
    let server = Server::answering(answer).await;
    Bench::at(&server.origin()).with_key(true).run(&Script::relaying(asking())).await.unwrap();
    assert_eq!((server.requests().len(), elsewhere.requests().len()), (1, 0));
}

/// The server echoes the key in pieces that are harmless alone, and the adapter forwards everything.
#[tokio::test]
async fn echoed_key_is_removed_wherever_it_is_split() {
    let cut: String = SENTINEL.chars().map(|c| piece(&format!("{c}|"))).collect();
    let server = Server::answering(format!("{OPEN}{cut}0\r\n\r\n")).await;
    let mut bench = Bench::at(&server.origin()).with_key(true);
    // The adapter joins the pieces, as it does with the deltas of a stream.
    let script = Script::new(|input| match input {
        None => vec![Action::Send(asking()), start(0), delta(0, "key: ")],
        Some(Input::Chunk(bytes)) => {
            let text = String::from_utf8(bytes.clone()).unwrap();
            text.split('|').filter(|piece| !piece.is_empty()).map(|piece| delta(0, piece)).collect()
        }
        Some(Input::End) => vec![delta(0, " s"), end(0), finish()],
        Some(_) => vec![],
    });
    bench.run(&script).await.unwrap();
    assert_eq!(bench.heard.text(), "key: [secret] s", "what only began as one is told at the end");
}

/// An adapter that has received the key cannot reveal it by any event or error.
#[tokio::test]
async fn adapter_output_never_contains_the_key() {
    let server = Server::with(|request| {
        let echo = if tells(request) { SENTINEL } else { "nothing" };
        ok(&format!("X-Echo: {echo}\r\n"), echo)
    })
    .await;
    let all = |text: &str| {
        let text = text.to_owned();
        vec![
            emit(StreamEvent::Started(text.clone())),
            emit(StreamEvent::Extra { name: text.clone(), value: text.clone() }),
            emit(StreamEvent::BlockStart { index: 0, kind: BlockKind::Opaque(text.clone()) }),
            emit(StreamEvent::BlockEnd { index: 0, opaque: Some(text.clone()) }),
            emit(StreamEvent::BlockStart {
                index: 1,
                kind: BlockKind::ToolCall { id: text.clone(), name: text.clone() },
            }),
            delta(1, &text),
            emit(StreamEvent::BlockEnd { index: 1, opaque: None }),
        ]
    };
    let ends: Vec<fn(&str) -> Action> = vec![
        |text| Action::Finish(Finish { stop: Stop::Other, raw: text.to_owned() }),
        |text| fail(FailureKind::Unknown, text, RetryHint::Never),
        |text| Action::Send(get(&format!("/{text}"))),
        |text| Action::Send(get(&format!("/{text}/../"))),
        |text| {
            Action::Send(AdapterRequest { auth: vec![Auth { credential: text.to_owned(), ..bearer() }], ..get("/") })
        },
        |text| Action::Send(AdapterRequest { headers: vec![(text.to_owned(), String::new())], ..get("/") }),
        |text| Action::Send(AdapterRequest { method: text.to_owned(), ..get("/") }),
    ];
    for last in ends {
        let mut bench = Bench::at(&server.origin()).with_key(true);
        let script = Script::new(move |input| match input {
            None => vec![Action::Send(asking())],
            // As if the adapter had assembled the secret from pieces that were not scrubbed.
            Some(Input::Chunk(_)) => all(SENTINEL).into_iter().chain([last(SENTINEL)]).collect(),
            Some(_) => vec![],
        });
        let result = bench.run(&script).await;
        let text = format!(
            "{result:?} {:?} {}",
            bench.heard.events,
            result.as_ref().map_or_else(ToString::to_string, |_| String::new())
        );
        assert!(!tells(&text) && text.contains("[secret]"), "{text}");
        assert!(!tells(&format!("{:?}", script.heard())), "the adapter heard it");
    }
}
