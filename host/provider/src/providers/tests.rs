//! Tests with several processes and one store: consent, claims, blocks, reloads and notices.

mod catalogue;

use std::{fs, path::PathBuf, sync::Mutex};

use patchbay_core::{Code, Digest};
use patchbay_sandbox::{Limits, adapter::AdapterManifest};
use patchbay_store::Allowance;

use super::*;
use crate::{
    ModelError, ProviderSource, ProviderState,
    adapters::WORLD,
    registry::{
        StoredClaims,
        tests::{manifest, settings},
    },
};

/// A home with a store, shared by several processes.
struct Home {
    folder: tempfile::TempDir,
    store: Store,
    settings: Arc<Mutex<Settings>>,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("config/providers")).unwrap();
        let store = Store::open(&folder.path().join("data")).unwrap();
        Self { folder, store, settings: Arc::default() }
    }

    fn configure(&self, text: &str) {
        *self.settings.lock().unwrap() = settings(text);
    }

    /// Returns the providers of another process.
    fn process(&self) -> Arc<Providers> {
        self.process_with(CatalogueSettings::default())
    }

    /// Like [`Home::process`], with these settings of the catalogue.
    fn process_with(&self, catalogue: CatalogueSettings) -> Arc<Providers> {
        self.process_of(catalogue, &[])
    }

    /// Like [`Home::process_with`], for a binary with these adapters.
    fn process_of(&self, catalogue: CatalogueSettings, bundled: &'static [BundledAdapter]) -> Arc<Providers> {
        let config = self.folder.path().join("config");
        let settings = Arc::clone(&self.settings);
        let sources = Sources {
            folder: config.join("providers"),
            bundled,
            settings: Box::new(move || Ok(settings.lock().unwrap().clone())),
            limits: ExchangeLimits::default(),
            catalogue,
        };
        let store = Store::open(&self.folder.path().join("data")).unwrap();
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        Providers::new(store, sandbox, Arc::new(Secrets::open(&config)), sources)
    }

    /// Adds a key for the provider `zed` to `credentials.json`.
    fn add_key_of_zed(&self) {
        let keys = self.folder.path().join("config/credentials.json");
        fs::write(&keys, r#"{"zed": {"api_key": "sk-12345678"}}"#).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("config/providers").join(format!("{name}.wasm"))
    }

    /// Adds an adapter file whose manifest is `manifest`. The manifest is already in the
    /// store, and the file does not run.
    async fn drop_in(&self, manifest: &AdapterManifest) -> Digest {
        let json = serde_json::to_string(manifest).unwrap();
        let digest = Digest::of(json.as_bytes());
        self.store.keep_described(digest, WORLD, json.clone()).await.unwrap();
        fs::write(self.file(manifest.name.as_str()), json).unwrap();
        digest
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

async fn allow(providers: &Providers, provider: &str) {
    let asked = providers.asks(&name(provider)).await.unwrap().unwrap();
    providers.allow(&name(provider), asked).await.unwrap();
}

async fn resolved(providers: &Providers, text: &str) -> Result<String, (Code, String)> {
    let resolved = providers.resolve(text).await;
    resolved.map(|choice| choice.to_string()).map_err(|error| (error.code(), error.to_string()))
}

async fn status(providers: &Providers, provider: &str) -> ProviderStatus {
    providers.list().await.into_iter().find(|status| status.name == provider).unwrap()
}

#[tokio::test]
async fn allowed_provider_precedes_pending_ones_immediately() {
    let home = Home::new();
    home.drop_in(&manifest("aaa", &[], &["zed-1", "foo/high"])).await;
    home.drop_in(&manifest("zed", &[], &["zed-1", "foo"])).await;
    let (process, other) = (home.process(), home.process());
    let (code, words) = resolved(&process, "zed-1").await.unwrap_err();
    assert_eq!(code, Code::ProviderPending);
    assert!(words.contains("patchbay provider allow aaa"), "{words}");
    assert_eq!(resolved(&process, "zed:zed-1").await.unwrap_err().0, Code::ProviderPending);
    // This process is not notified of the other process's decision.
    allow(&other, "zed").await;
    assert_eq!(resolved(&process, "zed-1").await.as_deref(), Ok("zed/zed-1/default"));
    assert_eq!(resolved(&process, "foo/high").await.as_deref(), Ok("zed/foo/high"));
    assert_eq!(resolved(&other, "zed:zed-1").await.as_deref(), Ok("zed/zed-1/default"));
    let error = other.asks(&name("aaa")).await.unwrap_err().to_string();
    assert!(error.contains("its model 'zed-1' belongs to provider 'zed'"), "{error}");
}

#[tokio::test]
async fn allowance_covers_only_the_shown_request() {
    let home = Home::new();
    home.drop_in(&manifest("zed", &[], &[])).await;
    let process = home.process();
    let asked = process.asks(&name("zed")).await.unwrap().unwrap();
    let mut other = manifest("zed", &[], &[]);
    other.default_base_url = Some("https://elsewhere.example.com".to_owned());
    home.drop_in(&other).await;
    assert!(matches!(process.allow(&name("zed"), asked.clone()).await, Err(ModelError::Changed(_))));
    assert_eq!(home.store.allowances().await.unwrap().len(), 0);
    allow(&process, "zed").await;
    assert_eq!(process.asks(&name("zed")).await.unwrap(), None);
    // A new version that requests something else is pending again.
    home.drop_in(&manifest("zed", &[], &[])).await;
    process.reload().await;
    assert_eq!(process.asks(&name("zed")).await.unwrap(), Some(asked));
    assert_eq!(status(&process, "zed").await.state, ProviderState::Pending);
}

#[tokio::test]
async fn key_allowed_by_another_process_is_refused() {
    let home = Home::new();
    home.drop_in(&manifest("zed", &["zed-"], &[])).await;
    let process = home.process();
    let asked = process.asks(&name("zed")).await.unwrap().unwrap();
    let first = Allowance { base_url: "https://first.example.com".to_owned(), variable: "ZED_KEY".to_owned() };
    home.store.allow("first".to_owned(), first, vec![]).await.unwrap();
    let error = process.allow(&name("zed"), asked).await.unwrap_err().to_string();
    assert!(error.contains("the variable ZED_KEY belongs to provider 'first'"), "{error}");
}

#[tokio::test]
async fn blocked_adapter_stops_immediately() {
    let home = Home::new();
    let digest = home.drop_in(&manifest("zed", &["zed-"], &["zed-1"])).await;
    let process = home.process();
    allow(&process, "zed").await;
    let choice = process.resolve("zed-1").await.unwrap();
    home.store.block(digest).await.unwrap();
    let (code, words) = resolved(&process, "zed:zed-1").await.unwrap_err();
    let expected =
        format!("component {digest} of provider 'zed' is blocked. To unblock it: patchbay plugin unblock {digest}");
    assert_eq!((code, &words), (Code::Blocked, &expected));
    assert_eq!(process.explain("zed-1", &choice).await.unwrap_err().to_string(), expected);
    let shown = status(&process, "zed").await;
    assert_eq!((shown.state, shown.reason), (ProviderState::Refused, Some(expected)));
    home.store.unblock(digest).await.unwrap();
    assert_eq!(resolved(&process, "zed-1").await.as_deref(), Ok("zed/zed-1/default"));
    // A blocked adapter is not described, either.
    let unknown = b"\0asm\x0d\0\x01\0";
    home.store.block(Digest::of(unknown)).await.unwrap();
    fs::write(home.file("new"), unknown).unwrap();
    process.reload().await;
    assert!(status(&process, "new").await.reason.unwrap().contains("the component is blocked"));
}

#[tokio::test]
async fn invalid_route_and_default_model_are_reported() {
    let home = Home::new();
    home.configure("default_model = \"zed-1/high\"\n[routes]\n\"zed-1\" = \"zet\"\n\"work-\" = \"work\"\n[providers.work]\nadapter = \"missing\"\n");
    home.drop_in(&manifest("zed", &["zed-"], &["zed-1"])).await;
    let process = home.process();
    allow(&process, "zed").await;
    let (code, words) = resolved(&process, "zed-1").await.unwrap_err();
    assert_eq!(code, Code::ProviderUnusable);
    assert!(words.starts_with("[routes] of config.toml sends the model 'zed-1' to provider 'zet'"), "{words}");
    assert_eq!(resolved(&process, "zed:zed-1").await.as_deref(), Ok("zed/zed-1/default"));
    for text in ["work-1", "work:any"] {
        let (code, words) = resolved(&process, text).await.unwrap_err();
        assert_eq!(code, Code::ProviderUnusable, "{text}");
        assert!(words.contains("adapter 'missing' of [providers.work] in config.toml not found"), "{words}");
    }
    let shown = status(&process, "work").await;
    assert_eq!((shown.state, shown.source), (ProviderState::Refused, ProviderSource::Config));
    let error = process.default_choice().await.unwrap_err();
    let words = error.to_string();
    assert!(words.starts_with("default_model of config.toml, 'zed-1/high', cannot be used: [routes]"), "{words}");
    home.configure("default_model = \"unknown\"\n");
    process.reload().await;
    let error = process.default_choice().await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownModel);
    let words = error.to_string();
    assert!(words.starts_with("default_model of config.toml, 'unknown', cannot be used: Unknown model: unknown"));
    assert!(words.contains("zed-1"), "{words}");
}

#[tokio::test]
async fn key_is_searched_only_for_allowed_providers() {
    let home = Home::new();
    home.drop_in(&manifest("zed", &[], &[])).await;
    home.add_key_of_zed();
    let process = home.process();
    let shown = status(&process, "zed").await;
    assert!(!shown.credential && shown.credential_problem.is_none());
    assert!(crate::render(&[shown]).contains("ZED_KEY, not checked"));
    allow(&process, "zed").await;
    assert!(status(&process, "zed").await.credential);
}

#[tokio::test]
async fn suggested_models_say_whether_their_provider_needs_a_key() {
    let home = Home::new();
    home.drop_in(&manifest("aaa", &[], &["a-1", "a-2"])).await;
    home.drop_in(&manifest("zed", &[], &["z-1"])).await;
    home.add_key_of_zed();
    let process = home.process();
    allow(&process, "aaa").await;
    assert_eq!(process.suggestions().await.len(), 2, "a provider that is not allowed is not suggested");
    allow(&process, "zed").await;
    let suggested = process.suggestions().await;
    let shown: Vec<_> =
        suggested.iter().map(|model| (model.provider.as_str(), &*model.model, model.needs_key)).collect();
    assert_eq!(shown, [("aaa", "a-1", true), ("aaa", "a-2", true), ("zed", "z-1", false)]);
}

#[tokio::test]
async fn prefix_claimed_by_two_processes_has_one_owner() {
    for _ in 0..8 {
        let home = Home::new();
        let table = |name: &str, prefix: &str| {
            format!(
                "[providers.{name}]\nadapter = \"zed\"\norigin = \"https://a.example.com\"\nprefixes = [\"{prefix}\"]\n"
            )
        };
        home.drop_in(&manifest("zed", &[], &[])).await;
        let (one, other) = (home.process(), home.process());
        home.configure(&table("one", "foo-"));
        let first = one.registry();
        let second = async {
            home.configure(&table("two", "foo-bar-"));
            other.registry().await
        };
        let (first, second) = tokio::join!(first, second);
        let claims = home.store.prefix_owners().await.unwrap();
        assert_eq!(claims.len(), 1, "{claims:?}");
        let entries = [("one", first.get("one")), ("two", second.get("two"))];
        for (name, entry) in entries.into_iter().filter_map(|(name, entry)| Some((name, entry?))) {
            assert_eq!(entry.refused.is_none(), claims[0].1 == name, "{name}: {:?}", entry.refused);
        }
    }
}

#[tokio::test]
async fn late_prefix_claim_rebuilds_the_registry() {
    let home = Home::new();
    home.configure(
        "[providers.two]\nadapter = \"zed\"\norigin = \"https://a.example.com\"\nprefixes = [\"foo-bar-\"]\n",
    );
    home.drop_in(&manifest("zed", &[], &[])).await;
    let process = home.process();
    let registry = process.registry().await;
    let known = StoredClaims::default();
    assert!(!process.claim_prefixes(&registry, &known).await, "its own");
    // Another process claims the prefix after this process has read the store.
    home.store.forget_provider("two".to_owned()).await.unwrap();
    home.store.claim_prefixes("one".to_owned(), vec!["foo-".to_owned()]).await.unwrap();
    assert!(process.claim_prefixes(&registry, &known).await);
    process.reload().await;
    let why = status(&process, "two").await.reason.unwrap();
    assert!(why.contains("'foo-bar-' is refused, because the prefix 'foo-' belongs to provider 'one'"), "{why}");
}

#[tokio::test]
async fn invalid_version_is_reported_and_the_good_one_kept() {
    let home = Home::new();
    home.configure(
        "[providers.table]\nadapter = \"zed\"\norigin = \"https://a.example.com\"\nprefixes = [\"table-\"]\n",
    );
    home.drop_in(&manifest("zed", &["zed-"], &["zed-1"])).await;
    let process = home.process();
    allow(&process, "zed").await;
    let mut notices = process.notices();
    home.drop_in(&manifest("zed", &["zed-", "table-x"], &["zed-1"])).await;
    fs::write(home.file("broken"), "x").unwrap();
    process.reload().await;
    let why = "its prefix 'table-x' is refused, because the prefix 'table-' belongs to provider 'table'";
    let told = [notices.recv().await.unwrap(), notices.recv().await.unwrap()];
    assert!(told[0].starts_with("The file 'broken.wasm' is not a provider, and is ignored: "), "{told:?}");
    assert!(told[1].starts_with(&format!("The file 'zed.wasm' cannot be used, and is ignored: {why}")), "{told:?}");
    assert_eq!(resolved(&process, "zed-1").await.as_deref(), Ok("zed/zed-1/default"));
    let shown = status(&process, "zed").await;
    let note = shown.reason.unwrap();
    assert!(
        shown.state == ProviderState::NeedsKey && note.contains("the previous version stays") && note.contains(why),
        "{note}"
    );
}

#[tokio::test]
async fn replaced_adapter_is_dropped() {
    let home = Home::new();
    home.drop_in(&manifest("zed", &[], &["zed-1"])).await;
    let process = home.process();
    let first = Arc::downgrade(&process.registry().await.get("zed").unwrap().adapter);
    assert!(first.upgrade().is_some());
    home.drop_in(&manifest("zed", &[], &["zed-2"])).await;
    process.reload().await;
    assert!(first.upgrade().is_none());
}
