use std::sync::Mutex;

use patchbay_core::Digest;
use patchbay_sandbox::adapter::{AdapterManifest, CredentialHint, ModelSize};

use super::*;
use crate::adapters::{Describe, files};

fn model(id: &str, size: ModelSize) -> ModelEntry {
    ModelEntry {
        id: id.to_owned(),
        size,
        suggested_levels: Vec::new(),
        input_media: Vec::new(),
        context_window: None,
        deprecated: false,
    }
}

fn manifest(name: &str, prefixes: &[&str], models: &[&str]) -> AdapterManifest {
    AdapterManifest {
        name: name.parse().unwrap(),
        display_name: name.to_uppercase(),
        version: "1".to_owned(),
        model_prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        models: models.iter().map(|id| model(id, ModelSize::Normal)).collect(),
        default_base_url: Some(format!("https://{name}.example.com/v1")),
        credential: Some(CredentialHint {
            id: "api-key".to_owned(),
            scheme: "api-key".to_owned(),
            env: Some(format!("{}_KEY", name.to_uppercase())),
            obtain_url: None,
        }),
        extra: Vec::new(),
    }
}

fn adapter(manifest: AdapterManifest) -> Arc<Adapter> {
    let digest = Digest::of(format!("{manifest:?}").as_bytes());
    Arc::new(Adapter::read(digest, Arc::default(), manifest))
}

fn bundled() -> BTreeMap<Name, Arc<Adapter>> {
    let open = manifest("openai", &["gpt-", "o3"], &["gpt-4o", "o3"]);
    let mut compatible = manifest("openai-compatible", &[], &[]);
    (compatible.default_base_url, compatible.credential) = (None, None);
    compatible.extra = vec![("requires-origin".to_owned(), String::new())];
    [open, compatible].map(|manifest| (manifest.name.clone(), adapter(manifest))).into()
}

fn found(manifests: impl IntoIterator<Item = AdapterManifest>) -> Found {
    let adapters = manifests.into_iter().map(|manifest| (manifest.name.clone(), adapter(manifest))).collect();
    Found { adapters, bad: BTreeMap::new() }
}

fn settings(text: &str) -> Settings {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct File {
        providers: BTreeMap<Name, ProviderConfig>,
        routes: BTreeMap<String, Name>,
    }
    let File { providers, routes } = toml::from_str(text).unwrap();
    Settings { providers, routes, default_model: None }
}

fn build(found: Found, text: &str) -> Registry {
    Registry::build(&bundled(), found, &settings(text), &Known::default())
}

fn refused(registry: &Registry, name: &str) -> String {
    registry.get(name).unwrap().refused.clone().unwrap_or_default()
}

fn owner(registry: &Registry, model: &str) -> Option<String> {
    registry.owner(model).map(|entry| entry.name.to_string())
}

#[test]
fn a_model_is_whose_it_is() {
    let local = "[providers.local]\nadapter = \"openai-compatible\"\norigin = \"http://localhost:1/v1\"\nmodels = [\"gpt-oss:20b\", \"llama3:3b\"]\n";
    let registry = build(found([manifest("zed", &["zed-"], &["zed-1", "other"])]), local);
    for (model, expected) in [
        ("gpt-4o", Some("openai")),
        ("gpt-5", Some("openai")),
        ("o3-mini", Some("openai")),
        ("o30", None),
        // An exact id wins over a prefix.
        ("gpt-oss:20b", Some("local")),
        ("zed-9", Some("zed")),
        ("other", Some("zed")),
        ("unknown", None),
    ] {
        assert_eq!(owner(&registry, model).as_deref(), expected, "{model}");
    }
    let routed = build(Found::default(), &format!("{local}[routes]\n\"gpt-\" = \"local\"\n\"gpt-4o\" = \"openai\"\n"));
    assert_eq!(owner(&routed, "gpt-5").as_deref(), Some("local"));
    assert_eq!(owner(&routed, "gpt-4o").as_deref(), Some("openai"));
}

#[test]
fn another_instance_takes_nothing_but_what_its_table_says() {
    let text = "[providers.work]\nadapter = \"openai\"\norigin = \"https://work.example.com\"\nenv = \"WORK_KEY\"\n";
    let registry = build(Found::default(), text);
    let work = registry.get("work").unwrap();
    assert_eq!(work.refused, None);
    assert!(work.prefixes.is_empty() && work.models.is_empty() && work.consent == Consent::Given);
    assert_eq!(work.variable.as_deref(), Some("WORK_KEY"));
    assert_eq!(owner(&registry, "gpt-4o").as_deref(), Some("openai"));
    // Without an origin it would ask the adapter's own, with nobody's word for it.
    let registry = build(Found::default(), "[providers.work]\nadapter = \"openai\"\nenv = \"WORK_KEY\"\n");
    assert!(refused(&registry, "work").contains("origin in [providers.work]"));
    let registry = build(Found::default(), "");
    assert!(refused(&registry, "openai-compatible").contains("origin in [providers.openai-compatible]"));
}

#[test]
fn a_key_belongs_to_one_provider() {
    let mut thief = manifest("thief", &["thief-"], &[]);
    thief.credential.as_mut().unwrap().env = Some("OPENAI_KEY".to_owned());
    let registry = build(found([thief]), "");
    assert!(refused(&registry, "thief").contains("OPENAI_KEY belongs to provider 'openai'"));
    let text = "[providers.work]\nadapter = \"openai\"\norigin = \"https://evil.example.com\"\nenv = \"OPENAI_KEY\"\n";
    assert!(refused(&build(Found::default(), text), "work").contains("belongs to provider 'openai'"));
    let known = Known { variables: vec![("first".to_owned(), "SECOND_KEY".to_owned())], ..Known::default() };
    let files = found([manifest("second", &["second-"], &[])]);
    let registry = Registry::build(&bundled(), files, &Settings::default(), &known);
    assert!(refused(&registry, "second").contains("belongs to provider 'first'"));
}

#[test]
fn who_had_a_prefix_first_keeps_it() {
    let registry = build(found([manifest("late", &["gpt-5"], &[])]), "");
    assert!(refused(&registry, "late").contains("'gpt-5' belongs by 'gpt-' to provider 'openai'"));
    let registry = build(found([manifest("late", &["late-"], &["gpt-5.9"])]), "");
    assert!(refused(&registry, "late").contains("its model 'gpt-5.9' belongs by 'gpt-'"));
    let registry = build(found([manifest("late", &["late-"], &["gpt-4o"])]), "");
    assert!(refused(&registry, "late").contains("its model 'gpt-4o' belongs to provider 'openai'"));
    // Kept in the store, also of one that is not there any more.
    let known = Known { prefixes: vec![("late-".to_owned(), "gone".to_owned())], ..Known::default() };
    let files = || found([manifest("late", &["late-x"], &[])]);
    let registry = Registry::build(&bundled(), files(), &Settings::default(), &known);
    let why = refused(&registry, "late");
    assert!(why.contains("'late-x' belongs by 'late-' to provider 'gone'"), "{why}");
    assert!(why.ends_with("To free it: patchbay provider remove gone"), "{why}");
    let own = Known { prefixes: vec![("late-".to_owned(), "late".to_owned())], ..Known::default() };
    assert_eq!(refused(&Registry::build(&bundled(), files(), &Settings::default(), &own), "late"), "");
}

#[test]
fn a_file_takes_no_name_that_is_there_and_suggests_no_place_but_the_internet() {
    let registry = build(found([manifest("openai", &[], &[])]), "");
    assert_eq!(registry.get("openai").unwrap().source, Source::Bundled);
    assert!(registry.found.bad["openai.wasm"].contains("keeps its name"));
    for origin in ["http://localhost:1", "https://10.0.0.1", "https://169.254.169.254", "http://example.com"] {
        let mut near = manifest("near", &[], &[]);
        near.default_base_url = Some(origin.to_owned());
        assert_ne!(refused(&build(found([near]), ""), "near"), "", "{origin}");
    }
    let mut near = manifest("near", &[], &[]);
    near.default_base_url = Some("http://localhost:1".to_owned());
    let registry = build(found([near]), "[providers.near]\norigin = \"http://localhost:1\"\n");
    let entry = registry.get("near").unwrap();
    assert_eq!((entry.refused.as_deref(), entry.consent), (None, Consent::Given));
    // The operator named a place, and no key.
    assert_eq!(entry.variable, None);
}

#[test]
fn a_file_waits_for_the_operator() {
    let registry = build(found([manifest("zed", &["zed-"], &[])]), "[providers.zed]\noptions = { a = \"b\" }\n");
    let zed = registry.get("zed").unwrap();
    assert_eq!((zed.consent, zed.variable.as_deref()), (Consent::Asked, Some("ZED_KEY")));
    assert_eq!(zed.options, [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn people_are_shown_them_in_one_order() {
    let names = ["zed", "google", "demo", "abc"];
    let registry = build(found(names.map(|name| manifest(name, &[], &[]))), "");
    let shown: Vec<_> = registry.shown().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(shown, ["openai", "google", "abc", "openai-compatible", "zed", "demo"]);
}

/// Says what the bytes are called; those of `bad` are none.
struct ByBytes(Mutex<usize>);

impl Describe for ByBytes {
    async fn describe(&self, _: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, String> {
        *self.0.lock().unwrap() += 1;
        match std::str::from_utf8(&bytes).unwrap() {
            "bad" => Err("it is bad".to_owned()),
            version => Ok(AdapterManifest { version: version.to_owned(), ..manifest("zed", &[], &[]) }),
        }
    }
}

#[tokio::test]
async fn a_bad_file_changes_nothing_that_was_there() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("providers");
    let asked = ByBytes(Mutex::new(0));
    let none = Found::default();
    assert!(files(&folder, &none, &asked).await.adapters.is_empty());
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, bytes: &str| std::fs::write(folder.join(name), bytes).unwrap();
    write("zed.wasm", "1");
    write("Bad Name.wasm", "1");
    write("notes.txt", "1");
    std::fs::create_dir(folder.join("folder.wasm")).unwrap();
    let first = files(&folder, &none, &asked).await;
    assert_eq!(first.adapters.keys().map(Name::as_str).collect::<Vec<_>>(), ["zed"]);
    assert_eq!(first.bad.keys().collect::<Vec<_>>(), ["Bad Name.wasm", "folder.wasm"]);
    let version = |found: &Found| found.adapters.values().next().map(|adapter| adapter.manifest.version.clone());
    // What has not changed is not asked again.
    let again = files(&folder, &first, &asked).await;
    assert_eq!((version(&again).as_deref(), *asked.0.lock().unwrap()), (Some("1"), 1));
    write("zed.wasm", "bad");
    let bad = files(&folder, &again, &asked).await;
    assert_eq!(version(&bad).as_deref(), Some("1"));
    assert_eq!(bad.bad["zed.wasm"], "it is bad");
    write("zed.wasm", "2");
    let good = files(&folder, &bad, &asked).await;
    assert_eq!((version(&good).as_deref(), good.bad.contains_key("zed.wasm")), (Some("2"), false));
    std::fs::remove_file(folder.join("zed.wasm")).unwrap();
    assert!(files(&folder, &good, &asked).await.adapters.is_empty());
}
