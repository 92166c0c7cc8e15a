//! Packages from registries: versions in tags, credentials, and the page for publishers.

use std::{
    collections::BTreeMap,
    fs,
    sync::{Arc, Mutex},
};

use patchbay_core::Digest;
use patchbay_skill::PushedComponent;
use patchbay_tests::{binary::Patchbay, documents::blocks, guest::Guest, server::Server};
use serde_json::json;

use crate::{
    package_addresses::refused,
    plugin_add::{lock, plugin},
};

/// `ada:password` in Base64.
const LOGIN: &str = "YWRhOnBhc3N3b3Jk";

#[derive(Default)]
struct Shelf {
    /// The served contents, by path and query.
    files: BTreeMap<String, Vec<u8>>,
    /// Whether requests need [`LOGIN`].
    is_private: bool,
}

/// A registry with the repository `acme/greet`. Pushed blobs are damaged, because the server reads a request as text.
struct Registry {
    server: Server,
    shelf: Arc<Mutex<Shelf>>,
}

impl Registry {
    fn new() -> Self {
        let shelf: Arc<Mutex<Shelf>> = Arc::default();
        let shared = Arc::clone(&shelf);
        Self { server: Server::new(move |request| answer(&mut shared.lock().unwrap(), request)), shelf }
    }

    fn address(&self, version: &str) -> String {
        format!("oci://{}/acme/greet:{version}", self.server.host())
    }

    /// Publishes a version, and replaces it if it exists.
    fn publish(&self, version: &str, component: &[u8], signature: Option<Vec<u8>>) {
        let package = PushedComponent {
            title: "greet.wasm".to_owned(),
            component: component.to_vec(),
            imports: Vec::new(),
            exports: Vec::new(),
            signature: signature.map(|signature| String::from_utf8(signature).unwrap()),
        };
        let manifest = package.manifest(version);
        let files = &mut self.shelf.lock().unwrap().files;
        let mut put = |path: String, contents: Vec<u8>| files.insert(format!("/v2/acme/greet/{path}"), contents);
        put(format!("blobs/{}", Digest::of(component)), component.to_vec());
        put(format!("manifests/{}", Digest::of(&manifest)), manifest.clone());
        put(format!("manifests/{version}"), manifest);
        let tags: Vec<&str> = files.keys().filter_map(|path| path.strip_prefix("/v2/acme/greet/manifests/")).collect();
        let tags = json!({"tags": tags}).to_string();
        files.insert("/v2/acme/greet/tags/list?n=1000".to_owned(), tags.into_bytes());
    }

    fn make_private(&self) {
        self.shelf.lock().unwrap().is_private = true;
    }
}

fn answer(shelf: &mut Shelf, request: &str) -> Vec<u8> {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (status, header, body) = if shelf.is_private && !request.contains(&format!("Basic {LOGIN}")) {
        ("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n", Vec::new())
    } else {
        match method {
            "POST" => ("202 Accepted", "Location: /v2/acme/greet/blobs/uploads/1\r\n", Vec::new()),
            "PUT" => {
                let (_, body) = request.split_once("\r\n\r\n").unwrap();
                shelf.files.insert(path.to_owned(), body.as_bytes().to_vec());
                ("201 Created", "", Vec::new())
            }
            _ => match shelf.files.get(path) {
                Some(contents) => ("200 OK", "", contents.clone()),
                None => ("404 Not Found", "", Vec::new()),
            },
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n");
    [head.into_bytes(), body].concat()
}

/// Returns a component whose tool returns this text.
fn greeter(answer: &str, version: Option<&str>) -> Vec<u8> {
    let version = version.map(|version| format!("version: {version}\n")).unwrap_or_default();
    let skill_md =
        format!("---\nname: greet\n{version}invocation_mode: tool_dispatch\ncommand: greet\ncommand_tool: run\n---\n");
    Guest::answering(answer).packaged(&skill_md)
}

#[test]
fn package_without_a_version_has_the_one_of_its_tag() {
    let (patchbay, registry) = (Patchbay::new(), Registry::new());
    registry.publish("1.0.0", &greeter("one", None), None);
    let added = plugin(&patchbay, &["add", &registry.address("1.0.0"), "--yes"]);
    assert!(added.code == Some(0) && added.out.starts_with("greet 1.0.0 (1 file, "), "{added:?}");
    registry.publish("1.1.0", &greeter("two", None), None);
    let refusal = refused(&patchbay, &["update", "greet", "--yes"], "not_confirmed");
    assert!(refusal.err.contains("patchbay plugin update greet --yes --to 1.1.0"), "{refusal:?}");
    let update = |version: &str| plugin(&patchbay, &["update", "greet", "--yes", "--to", version]);
    let updated = update("1.1.0");
    assert!(updated.code == Some(0) && updated.out.starts_with("greet: 1.0.0 to 1.1.0\n"), "{updated:?}");
    assert_eq!(patchbay.line("/greet {}"), "two");
    // Moving a tag is not an update.
    registry.publish("1.1.0", &greeter("three", None), None);
    refused(&patchbay, &["update", "greet", "--yes", "--to", "1.1.0"], "version_changed");
    let lower = update("1.0.0");
    assert!(lower.code == Some(0) && patchbay.line("/greet {}") == "one", "{lower:?}");

    // The digest that another machine fetches has no tag, so the version comes from the lock.
    let other = Patchbay::new();
    let list = lock(&patchbay);
    let synced = plugin(&other, &["sync", list.to_str().unwrap(), "--yes"]);
    assert!(synced.code == Some(0) && synced.out.contains("  greet 1.0.0 (1 file, "), "{synced:?}");
    assert!(fs::read_to_string(lock(&other)).unwrap().contains("version = \"1.0.0\""));
}

#[test]
fn private_registry_is_synced_with_its_credential() {
    let registry = Registry::new();
    registry.publish("1.0.0", &greeter("one", Some("1.0.0")), None);
    registry.make_private();
    let config =
        format!("[credentials.registry]\norigin = \"http://{}\"\nenv = \"REGISTRY_LOGIN\"\n", registry.server.host());
    let [mut one, mut two, stranger] = [Patchbay::new(), Patchbay::new(), Patchbay::new()];
    for patchbay in [&mut one, &mut two] {
        patchbay.set("REGISTRY_LOGIN", "ada:password");
        patchbay.write("home/config/config.toml", &config);
    }
    let added = plugin(&one, &["add", &registry.address("1.0.0"), "--yes"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let list = lock(&one);
    let sync = ["sync", list.to_str().unwrap(), "--yes"];
    let ran = refused(&stranger, &sync, "package_not_found");
    assert!(ran.err.contains("requires a sign-in"), "{ran:?}");
    let synced = plugin(&two, &sync);
    assert!(synced.code == Some(0) && two.line("/greet {}") == "one", "{synced:?}");
    let locks = [fs::read_to_string(&list), fs::read_to_string(lock(&two))].map(Result::unwrap);
    assert_eq!(locks[0], locks[1]);
    assert!(!locks[0].contains("password"));
}

/// Runs each line of the page exactly as written, against a registry on this machine.
#[test]
fn lines_of_the_publishers_page_run() {
    let (mut patchbay, registry) = (Patchbay::new(), Registry::new());
    registry.make_private();
    patchbay.set("GHCR_LOGIN", "ada:password");
    let component = greeter("hello", Some("1.2.0"));
    patchbay.write("elsewhere/greet.wasm", &component);
    patchbay.write("elsewhere/greet/SKILL.md", "---\nname: greet\n---\nSay hello.\n");
    let host = registry.server.host();
    let local = |text: &str| text.replace("https://ghcr.io", &format!("http://{host}")).replace("ghcr.io", &host);
    let blocks = blocks("docs/packages-publishers.md");
    let [sign_in, rules] = ["[credentials.", "[plugins]"].map(|beginning| {
        let found = blocks.iter().find(|(of, text)| of == "toml" && text.starts_with(beginning));
        local(&found.unwrap_or_else(|| panic!("{beginning}")).1)
    });
    patchbay.write("home/config/config.toml", &sign_in);
    let run = |line: &str| {
        let ran = patchbay.shell("bash", line);
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        ran.out
    };
    let mut fingerprint = String::new();
    for line in blocks.iter().filter(|(of, _)| of == "sh").flat_map(|(_, text)| text.lines()) {
        // Without these options the command asks for a passphrase.
        let quiet = if line.starts_with("ssh-keygen -t") { " -q -N ''" } else { "" };
        let out = run(&format!("{}{quiet}", local(line)));
        if line.starts_with("ssh-keygen -l") {
            fingerprint = out.split(' ').nth(1).unwrap().to_owned();
        }
    }
    let pushed = registry.shelf.lock().unwrap().files.contains_key("/v2/acme/greet/manifests/1.2.0");
    assert!(pushed && fingerprint.starts_with("SHA256:"), "{pushed} {fingerprint}");
    // Both signatures are valid, and the page's rules apply.
    for add in ["./greet.wasm --name file --rename greet=one", "./greet --name folder --rename greet=two"] {
        let added = run(&format!("patchbay plugin add {add} --yes"));
        assert!(added.contains(&format!("signer: {fingerprint};")), "{added}");
    }
    let key = rules.lines().find(|line| line.starts_with("keys = ")).unwrap();
    let rules = rules.replace(key, &format!("keys = [\"{fingerprint}\"]"));
    patchbay.write("home/config/config.toml", format!("{sign_in}{rules}"));
    let file = patchbay.folder().join("elsewhere/greet.wasm");
    refused(&patchbay, &["add", file.to_str().unwrap(), "--name", "again", "--yes"], "source_refused");
    let address = registry.address("1.2.0");
    registry.publish("1.2.0", &component, None);
    refused(&patchbay, &["add", &address, "--yes"], "signature_required");
    let signature = fs::read(file.with_extension("wasm.sig")).unwrap();
    registry.publish("1.2.0", &component, Some(signature));
    let added = plugin(&patchbay, &["add", &address, "--yes"]);
    assert!(added.code == Some(0) && added.out.contains("a key of [publishers.acme]"), "{added:?}");
}
