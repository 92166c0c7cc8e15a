//! Tests the client with a registry on loopback that sometimes lies.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex as StdMutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use patchbay_skill::PushedComponent;

use super::*;
use crate::{
    DownloadLimits,
    stub::{Stub, StubReply, StubRequest, reply},
};

const VERSION: &str = "1.2.0";

/// The contents of the registry. Paths are relative to `/v2/acme/greet/`.
#[derive(Default)]
struct Shelf {
    stored: BTreeMap<String, Vec<u8>>,
    /// The challenge for requests without a valid `Authorization`.
    challenge: Option<String>,
    /// Paths with another response: status, headers, body.
    lies: BTreeMap<String, (u16, String, Vec<u8>)>,
}

type Shared = Arc<StdMutex<Shelf>>;

/// The `Authorization` of the user `ada` with the password `password`, and of the token that `ada` gets.
fn basic() -> String {
    format!("authorization: basic {}", STANDARD.encode("ada:password")).to_ascii_lowercase()
}
const BEARER: &str = "authorization: bearer token-of-ada";

fn answer(shelf: &Shared, request: &StubRequest) -> StubReply {
    let (method, path) = request.line.split_once(' ').unwrap();
    let mut shelf = shelf.lock().unwrap();
    if path.starts_with("/token") {
        let ok = request.head.contains(&basic());
        return if ok { reply(200, "", "{\"token\": \"token-of-ada\"}") } else { reply(401, "", "") };
    }
    let signed_in = request.head.contains(BEARER) || request.head.contains(&basic());
    if let Some(challenge) = shelf.challenge.as_ref().filter(|_| !signed_in) {
        return reply(401, &format!("WWW-Authenticate: {challenge}\r\n"), "");
    }
    let Some(path) = path.strip_prefix("/v2/acme/greet/") else { return reply(200, "", "{}") };
    if let Some((status, headers, body)) = shelf.lies.get(path) {
        return reply(*status, headers, body);
    }
    match method {
        "POST" => reply(202, "Location: /v2/acme/greet/blobs/uploads/1?state=2\r\n", ""),
        "PUT" => {
            let digest = Digest::of(&request.body).to_string();
            if let Some(named) = path.strip_prefix("blobs/uploads/1?state=2&digest=") {
                assert_eq!(named, digest);
                shelf.stored.insert(format!("blobs/{digest}"), request.body.clone());
            } else {
                assert!(request.head.contains("content-type: application/vnd.oci.image.manifest.v1+json"));
                shelf.stored.insert(format!("manifests/{digest}"), request.body.clone());
                shelf.stored.insert(path.to_owned(), request.body.clone());
            }
            reply(201, &format!("Docker-Content-Digest: {digest}\r\n"), "")
        }
        _ => match shelf.stored.get(path) {
            Some(bytes) if method == "HEAD" => reply(200, &format!("X-Length: {}\r\n", bytes.len()), ""),
            Some(bytes) => reply(200, "", bytes),
            None => reply(404, "", "{\"errors\": [{\"message\": \"manifest unknown\"}]}"),
        },
    }
}

struct Fixture {
    server: Stub,
    shelf: Shared,
}

impl Fixture {
    async fn new() -> Self {
        let shelf = Shared::default();
        let shared = shelf.clone();
        Self { server: Stub::new(move |request| answer(&shared, request)).await, shelf }
    }

    fn origin(&self) -> Origin {
        self.server.url("").parse().unwrap()
    }

    fn registry(&self, sign_in: SignIn) -> PackageRegistry {
        let address = format!("oci://localhost:{}/acme/greet:{VERSION}", self.server.port).parse().unwrap();
        PackageRegistry::new(Downloads::new(DownloadLimits::default()), address, sign_in)
    }

    async fn push(&self, component: &[u8]) -> Result<Pushed, RegistryError> {
        self.registry(SignIn::default()).push(&version(VERSION), &package(component)).await
    }

    async fn pull(&self, sign_in: SignIn) -> Result<Vec<u8>, RegistryError> {
        let registry = self.registry(sign_in);
        let manifest = registry.manifest(&Reference::Version(version(VERSION))).await?;
        let mut file = Vec::new();
        registry.pull(&manifest, &mut file).await?;
        Ok(file)
    }

    fn lie(&self, path: &str, status: u16, headers: &str, body: impl AsRef<[u8]>) {
        let lie = (status, headers.to_owned(), body.as_ref().to_vec());
        self.shelf.lock().unwrap().lies.insert(path.to_owned(), lie);
    }

    fn challenge(&self, challenge: String) {
        self.shelf.lock().unwrap().challenge = Some(challenge);
    }
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn package(component: &[u8]) -> PushedComponent {
    PushedComponent {
        title: "greet.wasm".to_owned(),
        component: component.to_vec(),
        imports: Vec::new(),
        exports: Vec::new(),
        signature: None,
    }
}

fn ada() -> SignIn {
    SignIn { credential: Some(Secret::new("ada:password").unwrap()), issuers: Vec::new() }
}

#[tokio::test]
async fn pushed_version_is_pulled_and_never_replaced() {
    let fixture = Fixture::new().await;
    let Pushed::New(digest) = fixture.push(b"component").await.unwrap() else { panic!() };
    assert_eq!(fixture.pull(SignIn::default()).await.unwrap(), b"component");
    let registry = fixture.registry(SignIn::default());
    let manifest = registry.manifest(&Reference::Digest(digest)).await.unwrap();
    assert_eq!((manifest.digest, manifest.title.as_deref()), (digest, Some("greet.wasm")));
    assert_eq!(fixture.push(b"component").await.unwrap(), Pushed::Unchanged(digest));

    let before = fixture.shelf.lock().unwrap().stored.clone();
    let error = fixture.push(b"other").await.unwrap_err();
    let words = format!(
        "oci://localhost:{}/acme/greet:1.2.0 already exists with other contents ({}); raise the version, because \
         others may have pinned it",
        fixture.server.port,
        Digest::of(b"component")
    );
    assert_eq!((error.to_string(), error.code()), (words, Code::VersionChanged));
    assert_eq!(fixture.shelf.lock().unwrap().stored, before);
    // The same component with a signature is the same version.
    let signed = PushedComponent { signature: Some("signature".to_owned()), ..package(b"component") };
    let again = registry.push(&version(VERSION), &signed).await.unwrap();
    assert!(matches!(again, Pushed::New(new) if new != digest));
    let missing =
        fixture.registry(SignIn::default()).manifest(&Reference::Version(version("9.0.0"))).await.unwrap_err();
    let words = format!(
        "oci://localhost:{}/acme/greet:9.0.0 does not exist, or needs a credential to be seen",
        fixture.server.port
    );
    assert_eq!(missing.to_string(), words);
}

#[tokio::test]
async fn manifest_and_blob_must_be_those_that_were_named() {
    let fixture = Fixture::new().await;
    fixture.push(b"component").await.unwrap();
    let blob = format!("blobs/{}", Digest::of(b"component"));
    for (body, words) in [
        (&b"COMPONENT"[..], format!("expected {}, received {}", Digest::of(b"component"), Digest::of(b"COMPONENT"))),
        (b"comp", "expected 9 bytes, received 4; nothing was added".to_owned()),
        (b"component and more", "expected 9 bytes, received 18; nothing was added".to_owned()),
    ] {
        fixture.lie(&blob, 200, "", body);
        let error = fixture.pull(SignIn::default()).await.unwrap_err();
        assert!(error.to_string().starts_with(&words) && error.code() == Code::DigestMismatch, "{error}");
    }
    // A redirect is followed within the registry, but not to another server on this machine.
    let inner = Stub::new(|_| reply(200, "", "component")).await;
    fixture.lie(&blob, 307, &format!("Location: {}\r\n", inner.url("/")), "");
    let error = fixture.pull(SignIn::default()).await.unwrap_err().to_string();
    assert!(error.contains(" redirects, which is not followed: "), "{error}");
    assert!(inner.lines().is_empty());
    fixture.lie(&blob, 307, "Location: /elsewhere\r\n", "");
    assert!(fixture.pull(SignIn::default()).await.unwrap_err().to_string().contains("expected 9 bytes, received 2"));

    let manifest = package(b"component").manifest(VERSION);
    let other = Digest::of(b"x");
    fixture.lie("manifests/1.2.0", 200, &format!("Docker-Content-Digest: {other}\r\n"), &manifest);
    let error = fixture.pull(SignIn::default()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("expected {other}, received {}; nothing was added", Digest::of(&manifest)));
    let index = "{\"schemaVersion\": 2, \"manifests\": []}";
    fixture.lie(&format!("manifests/{other}"), 200, "", index);
    let registry = fixture.registry(SignIn::default());
    assert!(registry.manifest(&Reference::Digest(other)).await.is_err(), "it has another digest");
    let large = " ".repeat(2 << 20);
    for (status, headers, body, words) in [
        (200, "", "{\"schemaVersion\": 2}", ":1.2.0 is nothing, not a component; expected the config"),
        (200, "", &*large, " sent a response of more than 1024 KiB"),
        (429, "", "{\"errors\": [{\"message\": \"slow\\ndown\"}]}", " responded with status 429: slow down"),
        (302, "Location: /\r\n", "", " responded with status 302"),
    ] {
        fixture.lie("manifests/1.2.0", status, headers, body);
        let error = fixture.pull(SignIn::default()).await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let huge = package(b"component").manifest(VERSION);
    let huge = String::from_utf8(huge)
        .unwrap()
        .replace("\"size\":9}", "\"size\":99999999999}")
        .replace("\"size\":9,", "\"size\":99999999999,");
    fixture.lie("manifests/1.2.0", 200, "", huge);
    assert!(fixture.pull(SignIn::default()).await.unwrap_err().to_string().ends_with("the limit of a package"));
}

#[tokio::test]
async fn credential_goes_to_the_registry_only() {
    let fixture = Fixture::new().await;
    fixture.push(b"component").await.unwrap();
    fixture.challenge("Basic realm=\"x\"".to_owned());
    assert_eq!(fixture.pull(ada()).await.unwrap(), b"component");
    let error = fixture.pull(SignIn::default()).await.unwrap_err().to_string();
    let origin = fixture.origin();
    let words = format!(
        "{origin} requires a sign-in. To sign in, put USER:TOKEN into a credential of config.toml with origin = \
         \"{origin}\""
    );
    assert_eq!(error, words);
    let wrong = SignIn { credential: Some(Secret::new("ada:PASSWORD").unwrap()), ..SignIn::default() };
    let error = fixture.pull(wrong).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("{origin} refuses the credential. ")) && !error.contains("PASSWORD"), "{error}");
    let form = SignIn { credential: Some(Secret::new("password").unwrap()), ..SignIn::default() };
    let error = fixture.pull(form).await.unwrap_err().to_string();
    assert_eq!(error, format!("the credential for {origin} must have the form USER:TOKEN"));
    // A redirected request does not carry the credential.
    let blob = format!("blobs/{}", Digest::of(b"component"));
    fixture.lie(&blob, 307, "Location: /v2/other/blob\r\n", "");
    assert!(fixture.pull(ada()).await.unwrap_err().to_string().contains("401"));
    let last = fixture.server.received().pop().unwrap();
    assert!(last.line == "GET /v2/other/blob" && !last.head.contains("authorization"), "{last:?}");
}

#[tokio::test]
async fn tokens_are_issued_by_the_registry_or_by_a_server_that_the_user_named() {
    let fixture = Fixture::new().await;
    fixture.push(b"component").await.unwrap();
    fixture.challenge(format!("Bearer realm=\"{}\",service=\"a b&c\",scope=\"admin\"", fixture.server.url("/token")));
    assert_eq!(fixture.pull(ada()).await.unwrap(), b"component");
    assert_eq!(fixture.registry(ada()).issuer().await.unwrap(), None);
    let lines = fixture.server.lines();
    // The scope comes from the request, whatever the challenge contains.
    let token = "GET /token?scope=repository%3Aacme%2Fgreet%3Apull&service=a%20b%26c".to_owned();
    assert!(lines.contains(&token), "{lines:?}");
    let requests = fixture.server.received();
    let with_password: Vec<_> = requests.iter().filter(|request| request.head.contains(&basic())).collect();
    assert!(with_password.iter().all(|request| request.line == token), "{with_password:?}");
    fixture.registry(ada()).push(&version("1.3.0"), &package(b"new")).await.unwrap();
    assert!(fixture.server.lines().iter().any(|line| line.contains("acme%2Fgreet%3Apull%2Cpush")));

    let issuer = Fixture::new().await;
    fixture.challenge(format!("Bearer realm=\"{}\"", issuer.server.url("/token")));
    let error = fixture.pull(ada()).await.unwrap_err();
    let words = format!("{} issues its tokens at {}, but nothing is sent there: ", fixture.origin(), issuer.origin());
    assert!(error.to_string().starts_with(&words), "{error}");
    assert!(issuer.server.lines().is_empty());
    let agreed = SignIn { issuers: vec![issuer.origin()], ..ada() };
    assert_eq!(fixture.registry(agreed.clone()).issuer().await.unwrap(), Some(issuer.origin()));
    assert_eq!(fixture.pull(agreed).await.unwrap(), b"component");
    assert!(issuer.server.received()[0].head.contains(&basic()));
    for realm in ["ftp://x/", "https://169.254.169.254/token", "http://example.com/token"] {
        fixture.challenge(format!("Bearer realm=\"{realm}\""));
        let error = fixture.pull(ada()).await.unwrap_err().to_string();
        assert!(error.contains("issues its tokens at "), "{error}");
    }
}

#[tokio::test]
async fn versions_come_from_all_pages_of_the_registry_itself() {
    let fixture = Fixture::new().await;
    let link = |to: &str| format!("Link: <{to}>; rel=\"next\"\r\n");
    fixture.lie(
        "tags/list?n=1000",
        200,
        &link("/v2/acme/greet/tags/list?last=x"),
        "{\"tags\": [\"1.10.0\", \"latest\", \"v2.0.0\", \"1.9.0\"]}",
    );
    fixture.lie("tags/list?last=x", 200, "", "{\"tags\": [\"1.2.0-rc.1\", \"1.2.0\", \"1.10.0\"]}");
    let versions = fixture.registry(SignIn::default()).versions().await.unwrap();
    assert_eq!(versions, ["1.2.0-rc.1", "1.2.0", "1.9.0", "1.10.0"].map(version));
    let inner = Stub::new(|_| reply(200, "", "{\"tags\": []}")).await;
    fixture.lie("tags/list?n=1000", 200, &link(&inner.url("/")), "{\"tags\": []}");
    let error = fixture.registry(SignIn::default()).versions().await.unwrap_err().to_string();
    assert!(error.contains("redirects to "), "{error}");
    fixture.lie("tags/list?n=1000", 200, &link("/v2/acme/greet/tags/list?n=1000"), "{\"tags\": null}");
    let error = fixture.registry(SignIn::default()).versions().await.unwrap_err().to_string();
    assert!(error.ends_with("lists more than 100 pages of tags; write the version"), "{error}");
    assert!(inner.lines().is_empty());

    let upload = |location: &str| fixture.lie("blobs/uploads/", 202, &format!("Location: {location}\r\n"), "");
    upload(&inner.url("/upload"));
    let error = fixture.push(b"component").await.unwrap_err().to_string();
    assert!(error.contains("redirects to ") && inner.lines().is_empty(), "{error}");
}
