//! Tests of fetching packages from a server on loopback.

use flate2::{Compression, write::GzEncoder};

use super::*;
use crate::stub::{Stub, reply};

/// A component without imports or exports, with the SKILL.md of the skill `greet`.
fn component() -> Vec<u8> {
    let (section, skill_md) = ("patchbay:skill.md", "---\nname: \"greet\"\n---\n");
    let length = u8::try_from(1 + section.len() + skill_md.len()).unwrap();
    let head = [0, length, u8::try_from(section.len()).unwrap()];
    [b"\0asm\x0d\0\x01\0", &head[..], section.as_bytes(), skill_md.as_bytes()].concat()
}

fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for path in ["greet-1.2.0/SKILL.md", "greet-1.2.0/other/SKILL.md"] {
        let mut header = tar::Header::new_gnu();
        header.set_size(4);
        builder.append_data(&mut header, path, &b"text"[..]).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

async fn server() -> Stub {
    Stub::new(|request| match request.line.trim_start_matches("GET ") {
        "/greet-1.2.0.wasm" | "/signed.wasm?x=1" => reply(200, "", component()),
        "/greet-1.2.0.tar.gz" => reply(200, "", archive()),
        "/signed.wasm.sig?x=1" => reply(200, "", "-----BEGIN SSH SIGNATURE-----"),
        "/large.wasm" | "/broken.wasm" | "/bucket.wasm?x=1" => reply(200, "", component()),
        "/large.wasm.sig" => reply(200, "", vec![b' '; 17 << 10]),
        "/broken.wasm.sig" => reply(500, "", ""),
        "/bucket.wasm.sig?x=1" => reply(403, "", ""),
        _ => reply(404, "", ""),
    })
    .await
}

async fn fetched(address: &str, sha256: Option<Digest>) -> Result<FetchedPackage, FetchError> {
    let options = FetchOptions { sha256, ..FetchOptions::default() };
    address.parse::<PackageAddress>().unwrap().fetch(&options).await
}

#[tokio::test]
async fn file_has_the_name_of_its_skill() {
    let server = server().await;
    let url = server.url("/greet-1.2.0.wasm");
    let package = fetched(&url, Some(Digest::of(&component()))).await.unwrap();
    assert_eq!(package.path.file_name().unwrap(), "greet.wasm");
    assert_eq!((&*package.found, package.signer), (&*url, None));
    let folder = package.path.parent().unwrap().to_owned();
    drop(package);
    assert!(!folder.exists());
    let error = fetched(&url, Some(Digest::of(b"other"))).await.unwrap_err();
    assert_eq!(error.code(), Code::DigestMismatch);
    // A wrong digest ends the fetch before the signature is requested.
    assert_eq!(server.lines().iter().filter(|line| line.ends_with(".sig")).count(), 1);
}

#[tokio::test]
async fn signature_is_refused_unless_it_is_valid_or_missing() {
    let server = server().await;
    for (path, code, words) in [
        ("/signed.wasm?x=1", Code::SignatureInvalid, "not an OpenSSH signature: "),
        ("/large.wasm", Code::SignatureInvalid, "the signature has 16385 bytes; at most 16384 are read"),
        ("/broken.wasm", Code::DownloadFailed, "http://localhost:"),
        ("/bucket.wasm?x=1", Code::DownloadFailed, "http://localhost:"),
    ] {
        let error = fetched(&server.url(path), None).await.unwrap_err();
        assert!(error.code() == code && error.to_string().starts_with(words), "{path}: {error}");
        // S3 responds like this for a missing file, unless everyone may list the bucket.
        let words = "responded with status 403 to the request for 'bucket.wasm.sig', which hides whether the package is signed.";
        assert_eq!(error.to_string().contains(words), path.starts_with("/bucket"), "{path}: {error}");
    }
}

#[tokio::test]
async fn archive_is_unpacked_to_the_named_folder() {
    let server = server().await;
    let url = server.url("/greet-1.2.0.tar.gz");
    let whole = fetched(&url, None).await.unwrap();
    assert!(whole.path.ends_with("greet-1.2.0") && whole.path.join("other/SKILL.md").exists());
    let address = url.parse::<PackageAddress>().unwrap().in_folder("greet-1.2.0/other").unwrap();
    let part = fetched(&address.to_string(), None).await.unwrap();
    assert!(part.path.ends_with("other") && part.path.join("SKILL.md").exists());
    assert_eq!((part.found, address.source()), (format!("{url}#greet-1.2.0/other"), url.clone()));
    let missing = fetched(&format!("{url}#nope"), None).await.unwrap_err();
    assert_eq!(missing.to_string(), "the archive has no folder 'nope'; it has greet-1.2.0");
}

#[test]
fn addresses_are_told_apart() {
    let error = |text: &str| text.parse::<PackageAddress>().unwrap_err().to_string();
    assert_eq!(
        error("https://github.com/acme/greet"),
        "'https://github.com/acme/greet' is neither a .wasm nor a .tar.gz; use the URL of the file itself"
    );
    assert_eq!(
        error("https://example.com/x.wasm#a"),
        "--path selects a folder in a .tar.gz, but https://example.com/x.wasm is not a .tar.gz"
    );
    assert_eq!(
        error("https://a:b@example.com/x.wasm"),
        "invalid URL: it contains a user name or a password; use a credential for secrets"
    );
    assert_eq!(
        error("acme/greet"),
        "'acme/greet' does not exist. If it is a repository on GitHub: git clone https://github.com/acme/greet, then: patchbay plugin add ./greet"
    );
    assert!(error("oci://ghcr.io/acme/greet").contains("has no version"));
    for local in ["./greet", "../x/greet", "/a/b", "greet.wasm", "a/b/c"] {
        assert_eq!(local.parse(), Ok(PackageAddress::Local(PathBuf::from(local))), "{local}");
    }
    let registry: PackageAddress = "oci://ghcr.io/acme/greet:1.2.0".parse().unwrap();
    assert_eq!(registry.source(), "oci://ghcr.io/acme/greet");
    assert!(registry.in_folder("x").is_err());
}

#[test]
fn local_file_is_signed_by_the_file_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("greet.wasm");
    fs::write(&path, component()).unwrap();
    assert!(local(&path, None).unwrap().signature.is_none());
    fs::write(folder.path().join("greet.wasm.sig"), vec![b' '; 17 << 10]).unwrap();
    let error = local(&path, None).unwrap_err();
    assert_eq!(error.to_string(), "the signature has 16385 bytes; at most 16384 are read");
}

#[tokio::test]
async fn newest_is_the_highest_release() {
    let tags = "{\"tags\": [\"1.2.0\", \"1.10.0\", \"2.0.0-rc.1\", \"latest\"]}";
    let server = Stub::new(move |_| reply(200, "", tags)).await;
    let repository = format!("oci://localhost:{}/greet", server.port);
    let address: PackageAddress = format!("{repository}:1.2.0").parse().unwrap();
    let newest = async |installed, wanted| {
        let found = address.newest(installed, wanted, &SignIn::default()).await;
        found.map(|found| found.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(newest(Some("1.2.0"), None).await, Ok(format!("{repository}:1.10.0")));
    assert_eq!(newest(Some("2.0.0-beta"), None).await, Ok(format!("{repository}:2.0.0-rc.1")));
    assert_eq!(newest(None, Some("1.2.0")).await, Ok(format!("{repository}:1.2.0")));
    let missing = newest(None, Some("3.0.0")).await.unwrap_err();
    assert_eq!(missing, format!("{repository}:3.0.0 does not exist, or needs a credential to be seen"));
}

#[test]
fn local_file_needs_the_digest_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("greet.wasm");
    fs::write(&file, b"one").unwrap();
    assert!(local(&file, Some(Digest::of(b"one"))).is_ok());
    let error = local(&file, Some(Digest::of(b"two"))).unwrap_err();
    assert_eq!(error.code(), Code::DigestMismatch);
    assert!(error.to_string().contains(&Digest::of(b"two").to_string()), "{error}");
    let error = local(folder.path(), Some(Digest::of(b"one"))).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgs);
    assert!(error.to_string().contains("patchbay plugin sums"), "{error}");
}
