//! Tests of requests that try to reach this machine, its network, or another address than the checked one.

use std::net::IpAddr;

use crate::{
    Egress, EgressError, Request, Target,
    tests::{
        Script, egress, get, limits, rule, send,
        server::{Server, ok},
    },
    tls::Trust,
};

/// Addresses that neither a public name nor a pattern with a `*` can reach.
const OUT_OF_REACH: &[&str] = &[
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "100.100.100.200",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "ff02::1",
];

#[tokio::test]
async fn name_with_a_private_address_is_refused_before_connecting() {
    let server = Server::answering(ok("", "inside")).await;
    let port = server.address.port();
    for address in OUT_OF_REACH {
        // As the only address, and after a public one.
        for addresses in [(*address).to_owned(), format!("93.184.215.14 {address}")] {
            for (url, granted) in [
                (format!("https://rebind.example:{port}/"), format!("rebind.example:{port}")),
                (format!("https://rebind.example:{port}/"), format!("*.example:{port}")),
                ("https://rebind.example/".to_owned(), "*".to_owned()),
            ] {
                let script = Script::new(&[&addresses]);
                let egress = Egress::with(limits(), script.clone(), Trust::System);
                let target = Target::parse(&url).unwrap().allow(rule(&granted)).unwrap();
                let error = egress.send(Request::get("test", target)).await.unwrap_err();
                let inside: IpAddr = address.parse().unwrap();
                assert!(
                    matches!(&error, EgressError::Address { address, .. } if *address == inside),
                    "{address}: {error}"
                );
                assert_eq!(error.kind(), "denied");
                assert_eq!(script.asked(), 1);
            }
        }
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn address_in_the_url_is_checked() {
    for address in OUT_OF_REACH.iter().filter(|address| !address.contains(':')) {
        let url = format!("https://{address}/");
        assert_eq!(Target::parse(&url).unwrap().allow(rule("*")).unwrap_err().kind(), "denied", "{url}");
    }
    for address in OUT_OF_REACH.iter().filter(|address| address.contains(':')) {
        assert!(Target::parse(&format!("https://[{address}]/")).is_err(), "{address}");
    }
}

#[tokio::test]
async fn loopback_is_reached_only_by_loopback_names() {
    let server = Server::answering(ok("", "hello")).await;
    let port = server.address.port();
    for host in ["localhost", "app.localhost", "127.0.0.1", "2130706433", "0x7f.1"] {
        assert_eq!(send(&format!("http://{host}:{port}/")).await.unwrap().body, b"hello", "{host}");
    }
    // A name of this machine that resolves to another address is denied.
    for address in ["93.184.215.14", "10.0.0.1", "169.254.169.254", "127.0.0.1 93.184.215.14"] {
        let egress = Egress::with(limits(), Script::new(&[address]), Trust::System);
        let error = egress.send(get(&server.url("/"))).await.unwrap_err();
        assert_eq!(error.kind(), "denied", "{address}: {error}");
    }
}

#[tokio::test]
async fn local_network_name_needs_permission() {
    let server = Server::answering(ok("", "near")).await;
    let port = server.address.port();
    let ask = async |url: String, addresses: &str| {
        let egress = Egress::with(limits(), Script::new(&[addresses]), Trust::System);
        let target = Target::parse(&url).unwrap();
        let exact = rule(&format!("models.lan:{port}"));
        egress.send(Request::get("test", target.allow_private(exact).unwrap())).await
    };
    let plain = format!("http://models.lan:{port}/");
    assert_eq!(ask(plain.clone(), "127.0.0.1").await.unwrap().body, b"near");
    // Plain HTTP does not reach public addresses; metadata and unspecified addresses are never reached.
    for addresses in ["93.184.215.14", "127.0.0.1 93.184.215.14", "169.254.169.254", "fd00:ec2::254", "0.0.0.0"] {
        let error = ask(plain.clone(), addresses).await.unwrap_err();
        assert!(matches!(error, EgressError::Address { .. }), "{addresses}: {error}");
    }
    assert!(matches!(
        ask(format!("https://models.lan:{port}/"), "169.254.169.254").await,
        Err(EgressError::Address { .. })
    ));
    assert_eq!(server.connections(), 1);
}

/// Linux only, because other systems have to be configured for addresses such as 127.0.0.2.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn checked_address_is_the_one_connected_to() {
    let other = Server::answering(ok("", "other")).await;
    let port = other.address.port();
    let checked = Server::raw(&format!("127.0.0.2:{port}"), |mut stream, _| async move {
        use tokio::io::AsyncWriteExt;
        super::server::read_request(&mut stream).await;
        stream.write_all(&ok("", "checked")).await.unwrap();
    })
    .await;
    // The name resolves to another address after the first lookup.
    let script = Script::new(&["127.0.0.2", "127.0.0.1"]);
    let egress = Egress::with(limits(), script.clone(), Trust::System);
    let response = egress.send(get(&format!("http://localhost:{port}/"))).await.unwrap();
    assert_eq!(response.body, b"checked");
    assert_eq!((script.asked(), checked.connections(), other.connections()), (1, 1, 0));
}

#[tokio::test]
async fn name_without_an_address_is_an_error() {
    for answers in [&[][..], &[""]] {
        let egress = Egress::with(limits(), Script::new(answers), Trust::System);
        let target = Target::parse("https://nowhere.example/").unwrap().allow(rule("*")).unwrap();
        let error = egress.send(Request::get("test", target)).await.unwrap_err();
        assert!(matches!(error, EgressError::Resolve { .. }), "{error}");
        assert!(error.to_string().starts_with("cannot resolve 'nowhere.example': "), "{error}");
    }
}

#[tokio::test]
async fn redirect_is_returned_not_followed() {
    let inside = Server::answering(ok("", "inside")).await;
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let there = inside.url("/secret");
        let answer = format!("HTTP/1.1 {status}\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n");
        let outside = Server::answering(answer).await;
        let response = send(&outside.url("/")).await.unwrap();
        assert_eq!(response.status.to_string(), status[..3]);
        assert_eq!(response.headers, [("location".to_owned(), there)]);
    }
    assert_eq!(inside.connections(), 0);
}

/// Runs this test again in a child process, with variables that name a proxy at a closed port.
#[tokio::test]
async fn proxy_variables_are_ignored() {
    let server = Server::answering(ok("", "direct")).await;
    if std::env::var("PATCHBAY_TEST_PROXY").is_ok() {
        assert_eq!(send(&server.url("/")).await.unwrap().body, b"direct");
        return;
    }
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "tests::ssrf::proxy_variables_are_ignored", "--nocapture"]).env("PATCHBAY_TEST_PROXY", "1");
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        again.env(name, "http://127.0.0.1:1");
    }
    again.env_remove("no_proxy").env_remove("NO_PROXY");
    let output = again.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[tokio::test]
async fn missing_server_is_an_error() {
    let server = Server::answering("").await;
    let url = server.url("/path?query");
    drop(server);
    // The server's task ends when it is next polled.
    tokio::task::yield_now().await;
    let error = egress(limits()).send(get(&url)).await.unwrap_err();
    assert!(matches!(error, EgressError::Connect { .. }), "{error}");
    assert!(!error.to_string().contains("path") && !error.to_string().contains("query"), "{error}");
}
