//! Packages from HTTPS addresses and registries: digests, signatures by `ssh-keygen`, the operator's rules.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use patchbay_tests::{
    adapter::Adapter,
    binary::{Patchbay, Ran},
    guest::Guest,
    server::Server,
};
use serde_json::json;

use crate::plugin_add::{lock, packages, plugin};

/// A server whose files a test can replace.
struct Files {
    server: Server,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl Files {
    fn new() -> Self {
        let files: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let shared = Arc::clone(&files);
        let server = Server::new(move |request| {
            let path = request.split(' ').nth(1).unwrap_or_default();
            let files = shared.lock().unwrap();
            let (status, body) = files.get(path).map_or(("404 Not Found", &b""[..]), |body| ("200 OK", body));
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        });
        Self { server, files }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.host())
    }

    /// Serves `/greet.wasm`, with this signature or without one.
    fn greet(&self, component: &[u8], signature: Option<Vec<u8>>) {
        let mut files = self.files.lock().unwrap();
        files.insert("/greet.wasm".to_owned(), component.to_vec());
        files.remove("/greet.wasm.sig");
        files.extend(signature.map(|signature| ("/greet.wasm.sig".to_owned(), signature)));
    }
}

fn component(version: &str) -> Vec<u8> {
    let skill_md = format!(
        "---\nname: greet\nversion: {version}\ninvocation_mode: tool_dispatch\ncommand: greet\ncommand_tool: run\n\
         capabilities: [{{name: kv, reason: keeps names}}]\n---\n"
    );
    Guest::answering(version).packaged(&skill_md)
}

fn ssh_keygen(folder: &Path, arguments: &[&str]) -> String {
    let ran = Command::new("ssh-keygen").args(arguments).current_dir(folder).output();
    let ran = ran.expect("ssh-keygen; install openssh-client");
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// A key of `ssh-keygen` in a folder.
struct SigningKey<'a>(&'a Path, &'static str);

impl SigningKey<'_> {
    fn new<'a>(folder: &'a Path, name: &'static str, kind: &str) -> SigningKey<'a> {
        ssh_keygen(folder, &["-q", "-t", kind, "-N", "", "-f", name]);
        SigningKey(folder, name)
    }

    fn fingerprint(&self) -> String {
        let listed = ssh_keygen(self.0, &["-l", "-f", self.1]);
        listed.split(' ').nth(1).unwrap().to_owned()
    }

    fn sign(&self, namespace: &str, file: &[u8]) -> Vec<u8> {
        let (path, signature) = (self.0.join("signed"), self.0.join("signed.sig"));
        fs::write(&path, file).unwrap();
        let _ = fs::remove_file(&signature);
        ssh_keygen(self.0, &["-q", "-Y", "sign", "-n", namespace, "-f", self.1, "signed"]);
        fs::read(signature).unwrap()
    }
}

/// Asserts that a command is refused with this code, and changes nothing.
pub fn refused(patchbay: &Patchbay, arguments: &[&str], code: &str) -> Ran {
    let before = (packages(patchbay), fs::read_to_string(lock(patchbay)).ok());
    let ran = plugin(patchbay, arguments);
    assert!(ran.code != Some(0) && ran.err.contains(&format!("[{code}]")), "{arguments:?}: {ran:?}");
    assert_eq!((packages(patchbay), fs::read_to_string(lock(patchbay)).ok()), before, "{arguments:?}");
    ran
}

#[test]
fn adapter_from_elsewhere_is_added_after_a_question() {
    let (patchbay, files) = (Patchbay::new(), Files::new());
    let adapter = Adapter::manifest(&json!({"name": "acme"})).component();
    let digest = patchbay_core::Digest::of(&adapter);
    files.files.lock().unwrap().insert("/acme.wasm".to_owned(), adapter);
    let url = files.url("/acme.wasm");
    let asked = refused(&patchbay, &["add", &url], "not_confirmed");
    assert_eq!(asked.out, format!("provider acme ({digest})\nsigner: none, so nothing proves who made it\n"));
    let place = patchbay.home().join("config/providers/acme.wasm");
    assert!(asked.code == Some(2) && !place.exists(), "{asked:?}");
    let added = plugin(&patchbay, &["add", &url, "--yes"]);
    assert!(added.code == Some(0) && added.out.contains("Added provider 'acme' (") && place.exists(), "{added:?}");
}

#[test]
fn first_signer_is_pinned_and_others_are_refused() {
    const NAMESPACE: &str = "patchbay-plugin";
    let (patchbay, files, folder) = (Patchbay::new(), Files::new(), tempfile::tempdir().unwrap());
    let ours = SigningKey::new(folder.path(), "ours", "ed25519");
    let theirs = SigningKey::new(folder.path(), "theirs", "ecdsa");
    let (old, new) = (component("1.0.0"), component("1.1.0"));
    let url = files.url("/greet.wasm");
    files.greet(&old, Some(ours.sign(NAMESPACE, &old)));
    let added = plugin(&patchbay, &["add", &url, "--yes"]);
    let shown = format!("signer: {}; compare it with the one that its publisher names\n", ours.fingerprint());
    assert!(added.code == Some(0) && added.out.contains(&shown), "{added:?}");
    let locked = fs::read_to_string(lock(&patchbay)).unwrap();
    assert!(locked.contains(&format!("signer = \"{}\"", ours.fingerprint())), "{locked}");
    assert!(locked.contains(&format!("from = \"{url}\"")), "{locked}");
    assert_eq!(patchbay.line("/greet {}"), "1.0.0");
    let verified = plugin(&patchbay, &["verify"]);
    assert!(verified.code == Some(0) && verified.out.contains("signed by SHA256:"), "{verified:?}");

    let update = ["update", "greet", "--yes", "--to", "1.1.0"];
    let padded = [ours.sign(NAMESPACE, &new), vec![b'\n'; 17 << 10]].concat();
    for (signature, code) in [
        (Some(theirs.sign(NAMESPACE, &new)), "signer_changed"),
        (None, "signer_changed"),
        (Some(ours.sign("git", &new)), "signature_invalid"),
        (Some(ours.sign(NAMESPACE, &old)), "signature_invalid"),
        (Some(padded), "signature_invalid"),
    ] {
        files.greet(&new, signature);
        refused(&patchbay, &update, code);
        assert_eq!(patchbay.line("/greet {}"), "1.0.0", "{code}");
    }
    // The new key is accepted by its fingerprint, and only the question remains.
    files.greet(&new, Some(theirs.sign(NAMESPACE, &new)));
    let accept = ["update", "greet", "--accept-signer", &theirs.fingerprint()];
    refused(&patchbay, &accept, "not_confirmed");
    refused(&patchbay, &["update", "greet", "--accept-signer", &ours.fingerprint()], "signer_changed");
    let ran = refused(&patchbay, &[&update[..], &accept[2..]].concat(), "signer_changed");
    let again = format!("repeat with: --accept-signer {}, without --yes. Nothing was changed.", theirs.fingerprint());
    assert!(ran.err.contains(&again), "{ran:?}");
    files.greet(&new, Some(ours.sign(NAMESPACE, &new)));
    let updated = plugin(&patchbay, &update);
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert_eq!(patchbay.line("/greet {}"), "1.1.0");
    // A lock file from another machine that pins another key does not replace this key.
    let (other, newest) = (Patchbay::new(), component("1.2.0"));
    files.greet(&newest, Some(theirs.sign(NAMESPACE, &newest)));
    assert_eq!(plugin(&other, &["add", &url, "--yes"]).code, Some(0));
    let exported = other.folder().join("exported");
    assert_eq!(plugin(&other, &["export", exported.to_str().unwrap()]).code, Some(0));
    let list = exported.join("packages.lock");
    let sync = ["sync", list.to_str().unwrap(), "--from", exported.to_str().unwrap(), "--yes"];
    let ran = refused(&patchbay, &sync, "signer_changed");
    assert!(ran.err.contains(&format!("the pinned signer of package 'greet' is {}", ours.fingerprint())), "{ran:?}");

    // A changed signature is found without a network.
    let kept = patchbay.home().join("data/packages/greet");
    let kept = fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.into_iter().find(|path| path.extension().is_some_and(|end| end == "sig")).unwrap();
    fs::remove_file(&kept).unwrap();
    fs::write(&kept, theirs.sign(NAMESPACE, &new)).unwrap();
    let verified = plugin(&patchbay, &["verify"]);
    assert!(verified.code == Some(1) && verified.out.contains(", not by SHA256:"), "{verified:?}");
}

#[test]
fn folder_is_signed_by_its_sums() {
    let (patchbay, folder) = (Patchbay::new(), tempfile::tempdir().unwrap());
    let key = SigningKey::new(folder.path(), "key", "ed25519");
    patchbay.write("workspace/greet/SKILL.md", "---\nname: greet\nversion: 1.0.0\n---\nSay hello.\n");
    let sums = plugin(&patchbay, &["sums", "greet"]).out;
    patchbay.write("workspace/greet.sig", key.sign("patchbay-plugin", sums.as_bytes()));
    let added = plugin(&patchbay, &["add", "greet", "--yes"]);
    assert!(added.code == Some(0) && added.out.contains(&key.fingerprint()), "{added:?}");
    assert_eq!(plugin(&patchbay, &["verify"]).code, Some(0));
    patchbay.write("workspace/greet/SKILL.md", "---\nname: greet\nversion: 1.1.0\n---\nSay goodbye.\n");
    refused(&patchbay, &["update", "greet", "--yes", "--to", "1.1.0"], "signature_invalid");
}

/// An archive's signature does not cover copies of its files, so the archive itself is kept.
#[test]
fn package_of_a_signed_archive_is_verified_exported_and_synced() {
    let (one, two, files) = (Patchbay::new(), Patchbay::new(), Files::new());
    let folder = tempfile::tempdir().unwrap();
    let key = SigningKey::new(folder.path(), "key", "ed25519");
    let skill = folder.path().join("tools-1.0.0/greet");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: greet\nversion: 1.0.0\n---\nSay hello.\n").unwrap();
    let packed = Command::new("tar").args(["czf", "tools.tar.gz", "tools-1.0.0"]).current_dir(folder.path()).status();
    assert!(packed.unwrap().success());
    let archive = fs::read(folder.path().join("tools.tar.gz")).unwrap();
    let signature = key.sign("patchbay-plugin", &archive);
    files
        .files
        .lock()
        .unwrap()
        .extend([("/tools.tar.gz".to_owned(), archive), ("/tools.tar.gz.sig".to_owned(), signature)]);
    let url = files.url("/tools.tar.gz");
    let added = plugin(&one, &["add", &url, "--path", "tools-1.0.0/greet", "--yes"]);
    assert!(added.code == Some(0) && added.out.contains(&key.fingerprint()), "{added:?}");
    let verified = plugin(&one, &["verify"]);
    assert!(verified.code == Some(0) && verified.out.contains("signed by SHA256:"), "{verified:?}");
    let exported = one.folder().join("exported");
    assert_eq!(plugin(&one, &["export", exported.to_str().unwrap()]).code, Some(0));
    // Every file is gone, as without a network.
    files.files.lock().unwrap().clear();
    let list = exported.join("packages.lock");
    let sync = ["sync", list.to_str().unwrap(), "--from", exported.to_str().unwrap(), "--yes"];
    let synced = plugin(&two, &sync);
    assert!(synced.code == Some(0) && synced.out.contains(&key.fingerprint()), "{synced:?}");
    assert_eq!(plugin(&two, &["verify"]).code, Some(0));
    let locks = [lock(&one), lock(&two)].map(|lock| fs::read_to_string(lock).unwrap());
    assert_eq!(locks[0], locks[1]);

    // A lost signature is not exported, and is restored from the export.
    let kept = fs::read_dir(two.home().join("data/packages/greet")).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.into_iter().find(|path| path.extension().is_some_and(|end| end == "sig")).unwrap();
    fs::remove_file(&kept).unwrap();
    assert_eq!(plugin(&two, &["verify"]).code, Some(2));
    let again = two.folder().join("exported");
    refused(&two, &["export", again.to_str().unwrap()], "signer_changed");
    assert_eq!(plugin(&two, &sync).code, Some(0));
    assert_eq!(plugin(&two, &["verify"]).code, Some(0));

    // Neither a changed archive nor an archive signed with another key is accepted.
    let kept = |patchbay: &Patchbay| {
        let entries = fs::read_dir(patchbay.home().join("data/packages/greet")).unwrap();
        entries.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().ends_with(".tar.gz")).unwrap()
    };
    let archive = kept(&two);
    let whole = fs::read(&archive).unwrap();
    fs::remove_file(&archive).unwrap();
    fs::write(&archive, [&whole[..], b"more"].concat()).unwrap();
    let verified = plugin(&two, &["verify"]);
    assert!(verified.code == Some(1) && verified.out.contains("greet: wrong: its archive: "), "{verified:?}");
    let theirs = SigningKey::new(folder.path(), "theirs", "ed25519");
    fs::remove_file(&archive).unwrap();
    fs::write(&archive, &whole).unwrap();
    let signature = archive.with_extension("").with_extension("sig");
    fs::remove_file(&signature).unwrap();
    fs::write(&signature, theirs.sign("patchbay-plugin", &whole)).unwrap();
    let verified = plugin(&two, &["verify"]);
    assert!(verified.code == Some(1) && verified.out.contains("its archive is signed by SHA256:"), "{verified:?}");
    assert_eq!(plugin(&two, &["remove", "greet"]).code, Some(0));
    assert_eq!(packages(&two), [""; 0]);
}

#[test]
fn rules_of_the_operator_are_applied_before_and_after_a_download() {
    let (patchbay, files, folder) = (Patchbay::new(), Files::new(), tempfile::tempdir().unwrap());
    let key = SigningKey::new(folder.path(), "key", "ed25519");
    let file = component("1.0.0");
    files.greet(&file, None);
    let url = files.url("/greet.wasm");
    let rules = |text: &str| fs::write(patchbay.home().join("config/config.toml"), text).unwrap();
    plugin(&patchbay, &["list"]);
    let add = ["add", &url, "--yes"];
    rules("[plugins]\nsources = [\"oci://*\"]\n");
    refused(&patchbay, &add, "source_refused");
    assert_eq!(files.server.requests().len(), 0);
    rules("[plugins]\nrequire_signature = true\n");
    refused(&patchbay, &add, "signature_required");
    files.greet(&file, Some(key.sign("patchbay-plugin", &file)));
    refused(&patchbay, &add, "signature_required");
    let publisher = |more: &str| {
        let (keys, more) = (key.fingerprint(), more.to_owned());
        rules(&format!("[plugins]\nrequire_signature = true\n[publishers.acme]\nkeys = [\"{keys}\"]\n{more}\n"));
    };
    publisher("sources = [\"oci://*\"]");
    refused(&patchbay, &add, "source_refused");
    publisher("capabilities = [\"http:*.acme.example\"]");
    refused(&patchbay, &add, "publisher_exceeded");
    publisher("capabilities = [\"kv\"]");
    let wrong = ["add", &url, "--yes", "--sha256", &"0".repeat(64)];
    refused(&patchbay, &wrong, "digest_mismatch");
    let added = plugin(&patchbay, &add);
    assert!(added.code == Some(0) && added.out.contains("a key of [publishers.acme]"), "{added:?}");
}

#[test]
fn addresses_that_are_not_fetched_say_what_to_write() {
    let patchbay = Patchbay::new();
    for (address, code, words) in [
        ("oci://ghcr.io/acme/greet", "invalid_args", "has no version; write oci://ghcr.io/acme/greet:VERSION"),
        (
            "oci://ghcr.io/acme/greet:latest",
            "invalid_args",
            "write the version, such as oci://ghcr.io/acme/greet:1.2.0",
        ),
        ("oci://ghcr.io/acme/greet:sha256-0a1b", "invalid_args", "write oci://ghcr.io/acme/greet@sha256:0a1b"),
        ("https://10.0.0.1/greet.wasm", "download_failed", "'10.0.0.1' is a private address"),
        ("http://example.com/greet.wasm", "download_failed", "http://example.com is not encrypted"),
        ("https://example.com/greet", "invalid_args", "is neither a .wasm nor a .tar.gz"),
        ("acme/greet", "invalid_args", "git clone https://github.com/acme/greet"),
    ] {
        let ran = refused(&patchbay, &["add", address, "--yes"], code);
        assert!(ran.err.contains(words), "{ran:?}");
    }
}
