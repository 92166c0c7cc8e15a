//! Tests of which requests share a connection.

use crate::{
    Request, Target,
    pools::Key,
    tests::{
        egress, get, limits, rule,
        server::{Server, ok},
    },
};

#[tokio::test]
async fn connection_serves_one_owner_and_one_rule() {
    let server = Server::answering(ok("", "hello")).await;
    let egress = egress(limits());
    let url = server.url("/");
    let by = |owner: &str| Request { owner: owner.to_owned(), ..get(&url) };
    for expected in [1, 1, 1] {
        egress.send(by("one")).await.unwrap();
        assert_eq!(server.connections(), expected);
    }
    egress.send(by("two")).await.unwrap();
    assert_eq!(server.connections(), 2);
    egress.clone().send(by("one")).await.unwrap();
    assert_eq!(server.connections(), 2);
    // Another name for the same machine.
    let target = Target::parse(&format!("http://127.0.0.1:{}/", server.address.port())).unwrap();
    let exact = rule(&format!("127.0.0.1:{}", server.address.port()));
    egress.send(Request::get("one", target.allow(exact).unwrap())).await.unwrap();
    assert_eq!(server.connections(), 3);
}

#[test]
fn connection_key_contains_the_rule() {
    let key = |url: &str, granted: &str| {
        Key::of(&Request::get("one", Target::parse(url).unwrap().allow(rule(granted)).unwrap()))
    };
    let one = key("https://a.example.com/", "a.example.com");
    assert_eq!(one, key("https://a.example.com/other?path", "a.example.com"));
    for granted in ["a.example.com:443", "*.example.com", "*"] {
        assert_ne!(one, key("https://a.example.com/", granted));
    }
    // The same host and port, but without TLS.
    assert_ne!(key("https://localhost/", "localhost"), key("http://localhost/", "localhost"));
}

#[tokio::test]
async fn least_recently_used_connections_are_evicted() {
    let server = Server::answering(ok("", "hello")).await;
    let egress = egress(limits());
    for owner in 0..40 {
        egress.send(Request { owner: owner.to_string(), ..get(&server.url("/")) }).await.unwrap();
    }
    assert_eq!(server.connections(), 40);
    egress.send(Request { owner: "39".to_owned(), ..get(&server.url("/")) }).await.unwrap();
    assert_eq!(server.connections(), 40);
    egress.send(Request { owner: "0".to_owned(), ..get(&server.url("/")) }).await.unwrap();
    assert_eq!(server.connections(), 41);
}
