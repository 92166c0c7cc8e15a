//! Tests of which provider owns a name, a key, a prefix or a model, and which files are adapters.

use std::{collections::BTreeSet, sync::Mutex};

use patchbay_core::Digest;
use patchbay_sandbox::adapter::{AdapterManifest, CredentialHint, ModelEntry, ModelSize};

use super::*;
use crate::{
    ProviderConfig,
    adapters::{Describe, DescribeError, files},
};

fn model(id: &str, size: ModelSize) -> ModelEntry {
    ModelEntry {
        id: id.to_owned(),
        size,
        suggested_levels: Vec::new(),
        input_media: Vec::new(),
        context_window: None,
        deprecated: false,
        facts: None,
    }
}

pub(crate) fn manifest(name: &str, prefixes: &[&str], models: &[&str]) -> AdapterManifest {
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
            env_also: Vec::new(),
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

fn found(manifests: impl IntoIterator<Item = AdapterManifest>) -> FoundAdapters {
    let adapters = manifests.into_iter().map(|manifest| (manifest.name.clone(), adapter(manifest))).collect();
    FoundAdapters { adapters, ..FoundAdapters::default() }
}

pub(crate) fn settings(text: &str) -> Settings {
    #[derive(serde::Deserialize, Default)]
    #[serde(default)]
    struct File {
        providers: BTreeMap<Name, ProviderConfig>,
        routes: BTreeMap<String, Name>,
        default_model: Option<String>,
        credentials: BTreeSet<Name>,
    }
    let File { providers, routes, default_model, credentials } = toml::from_str(text).unwrap();
    Settings { providers, routes, default_model, credentials }
}

fn build(found: FoundAdapters, text: &str) -> Registry {
    build_known(found, text, &StoredClaims::default())
}

fn build_known(found: FoundAdapters, text: &str, known: &StoredClaims) -> Registry {
    Registry::build(&bundled(), found, &settings(text), known, None)
}

/// Returns the claims of a store in which each provider was allowed what its manifest suggests.
fn known(allowed: &[AdapterManifest]) -> StoredClaims {
    let mut known = StoredClaims::default();
    for manifest in allowed {
        let name = manifest.name.to_string();
        let prefixes = manifest.model_prefixes.iter();
        known.prefixes.extend(prefixes.map(|prefix| (prefix.clone(), name.clone())));
        let variables = manifest.credential.iter().flat_map(|hint| hint.env.iter().chain(&hint.env_also));
        let variable = variables.cloned().collect::<Vec<_>>().join(" ");
        let base_url = manifest.default_base_url.clone().unwrap_or_default();
        known.allowances.insert(name, Allowance { base_url, variable });
    }
    known
}

fn with_key(variable: &str, mut manifest: AdapterManifest) -> AdapterManifest {
    manifest.credential.as_mut().unwrap().env = Some(variable.to_owned());
    manifest
}

fn refused(registry: &Registry, name: &str) -> String {
    registry.get(name).unwrap().refused.clone().unwrap_or_default()
}

fn owner(registry: &Registry, model: &str) -> Option<String> {
    let owner = || registry.view(|entry| entry.refused.is_none()).owner(model).map(|entry| entry.name.clone());
    registry.route(model).cloned().or_else(owner).map(|name| name.to_string())
}

#[test]
fn model_is_owned_by_id_then_prefix() {
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
    let routed =
        build(FoundAdapters::default(), &format!("{local}[routes]\n\"gpt-\" = \"local\"\n\"gpt-4o\" = \"openai\"\n"));
    assert_eq!(owner(&routed, "gpt-5").as_deref(), Some("local"));
    assert_eq!(owner(&routed, "gpt-4o").as_deref(), Some("openai"));
}

#[test]
fn other_instance_has_only_what_its_table_names() {
    let text = "[providers.work]\nadapter = \"openai\"\norigin = \"https://work.example.com\"\nenv = \"WORK_KEY\"\n";
    let registry = build(FoundAdapters::default(), text);
    let work = registry.get("work").unwrap();
    assert_eq!(work.refused, None);
    assert!(work.prefixes.is_empty() && work.models.is_empty() && work.consent == Consent::Given);
    assert_eq!(work.variables(), ["WORK_KEY"]);
    assert_eq!(owner(&registry, "gpt-4o").as_deref(), Some("openai"));
    // Without an origin, it would send requests to the adapter's own origin, which the operator did not name.
    let registry = build(FoundAdapters::default(), "[providers.work]\nadapter = \"openai\"\nenv = \"WORK_KEY\"\n");
    assert!(refused(&registry, "work").contains("origin in [providers.work]"));
    let registry = build(FoundAdapters::default(), "");
    assert!(refused(&registry, "openai-compatible").contains("origin in [providers.openai-compatible]"));
}

#[test]
fn key_belongs_to_one_provider() {
    let registry = build(found([with_key("OPENAI_KEY", manifest("thief", &["thief-"], &[]))]), "");
    assert!(refused(&registry, "thief").contains("OPENAI_KEY belongs to provider 'openai'"));
    let text = "[providers.work]\nadapter = \"openai\"\norigin = \"https://evil.example.com\"\nenv = \"OPENAI_KEY\"\n";
    assert!(refused(&build(FoundAdapters::default(), text), "work").contains("belongs to provider 'openai'"));
    let known = known(&[with_key("SECOND_KEY", manifest("first", &[], &[]))]);
    let registry = build_known(found([manifest("second", &["second-"], &[])]), "", &known);
    let why = refused(&registry, "second");
    assert!(why.contains("belongs to provider 'first'") && why.ends_with("patchbay provider forget first"), "{why}");
}

/// Every variable in a list has one owner. A provider can claim neither the second variable of another provider's list, nor another
/// provider's variable in a list of its own.
#[test]
fn each_variable_of_a_list_belongs_to_one_provider() {
    let also = |variable: &str, mut manifest: AdapterManifest| {
        manifest.credential.as_mut().unwrap().env_also = vec![variable.to_owned()];
        manifest
    };
    let registry = build(found([also("OPENAI_KEY", manifest("thief", &["thief-"], &[]))]), "");
    assert!(refused(&registry, "thief").contains("OPENAI_KEY belongs to provider 'openai'"));
    let both = "env = [\"FIRST_KEY\", \"OPENAI_KEY\"]";
    let text = format!("[providers.work]\nadapter = \"openai\"\norigin = \"https://evil.example.com\"\n{both}\n");
    assert!(refused(&build(FoundAdapters::default(), &text), "work").contains("OPENAI_KEY belongs to"));
    // The operator's list owns both of its variables.
    let text = "[providers.openai]\nenv = [\"FIRST_KEY\", \"SECOND_KEY\"]\n";
    let registry = build(found([manifest("first", &[], &[]), manifest("second", &[], &[])]), text);
    assert_eq!(registry.get("openai").unwrap().variables(), ["FIRST_KEY", "SECOND_KEY"]);
    assert!(refused(&registry, "first").contains("FIRST_KEY belongs to provider 'openai'"));
    assert!(refused(&registry, "second").contains("SECOND_KEY belongs to provider 'openai'"));
    // The operator allowed the file to use both of its variables. With only one of them, it must be allowed again.
    let first = || also("SECOND_KEY", manifest("first", &[], &[]));
    let known = known(&[first()]);
    let registry = build_known(found([first(), manifest("second", &["second-"], &[])]), "", &known);
    assert_eq!(registry.get("first").unwrap().requested().variable, "FIRST_KEY SECOND_KEY");
    assert_eq!(registry.get("first").unwrap().rank(&known), Rank::Allowed);
    assert!(refused(&registry, "second").contains("SECOND_KEY belongs to provider 'first'"));
    let fewer = build_known(found([manifest("first", &[], &[])]), "", &known);
    assert_eq!(fewer.get("first").unwrap().rank(&known), Rank::Pending);
}

#[test]
fn key_command_replaces_every_variable() {
    let command = "key_command = [\"gcloud\", \"auth\"]\n";
    let registry = build(found([manifest("zed", &["zed-"], &[])]), &format!("[providers.openai]\n{command}"));
    let openai = registry.get("openai").unwrap();
    assert!(openai.variables().is_empty());
    assert_eq!(openai.secret().unwrap().command().unwrap().to_string(), "gcloud auth");
    // The variable is free for another provider.
    let registry =
        build(found([with_key("OPENAI_KEY", manifest("zed", &[], &[]))]), &format!("[providers.openai]\n{command}"));
    assert_eq!(refused(&registry, "zed"), "");
    // Its key is not in `credentials.json`, so a credential for skills may have the same name.
    let registry =
        build(FoundAdapters::default(), &format!("credentials = [\"openai\"]\n[providers.openai]\n{command}"));
    assert_eq!(refused(&registry, "openai"), "");
    // A file that was allowed to use its variable has another key now.
    let zed = || manifest("zed", &[], &[]);
    let known = known(&[zed()]);
    let registry = build_known(found([zed()]), &format!("[providers.zed]\n{command}"), &known);
    assert_eq!(registry.get("zed").unwrap().rank(&known), Rank::Pending);
}

#[test]
fn first_owner_of_a_prefix_keeps_it() {
    let registry = build(found([manifest("late", &["gpt-5"], &[])]), "");
    assert!(
        refused(&registry, "late")
            .contains("'gpt-5' is refused, because the prefix 'gpt-' belongs to provider 'openai'")
    );
    let registry = build(found([manifest("late", &["late-"], &["gpt-5.9"])]), "");
    assert!(refused(&registry, "late").contains("its model 'gpt-5.9' is refused, because the prefix 'gpt-' belongs"));
    let registry = build(found([manifest("late", &["late-"], &["gpt-4o"])]), "");
    assert!(refused(&registry, "late").contains("its model 'gpt-4o' belongs to provider 'openai'"));
    // The store keeps the prefix, even if its owner no longer exists.
    let known = StoredClaims { prefixes: vec![("late-".to_owned(), "gone".to_owned())], ..StoredClaims::default() };
    let files = || found([manifest("late", &["late-x"], &[])]);
    let registry = build_known(files(), "", &known);
    let why = refused(&registry, "late");
    assert!(why.contains("'late-x' is refused, because the prefix 'late-' belongs to provider 'gone'"), "{why}");
    assert!(why.ends_with("To free it: patchbay provider forget gone"), "{why}");
    let own = StoredClaims { prefixes: vec![("late-".to_owned(), "late".to_owned())], ..StoredClaims::default() };
    assert_eq!(refused(&build_known(files(), "", &own), "late"), "");
}

#[test]
fn file_takes_no_existing_name_and_no_local_origin() {
    let registry = build(found([manifest("openai", &[], &[])]), "");
    assert_eq!(registry.get("openai").unwrap().source, EntrySource::Bundled);
    assert!(registry.found.invalid["openai.wasm"].contains("already exists"));
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
    // The operator named an origin, but no key.
    assert_eq!(entry.key, None);
}

#[test]
fn file_is_pending_until_allowed() {
    let registry = build(found([manifest("zed", &["zed-"], &[])]), "[providers.zed]\noptions = { a = \"b\" }\n");
    let zed = registry.get("zed").unwrap();
    assert_eq!((zed.consent, zed.variables()), (Consent::Required, &["ZED_KEY".to_owned()][..]));
    assert_eq!(zed.options, [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn providers_are_listed_in_one_order() {
    let names = ["zed", "google", "demo", "abc"];
    let registry = build(found(names.map(|name| manifest(name, &[], &[]))), "");
    let shown: Vec<_> = registry.shown().iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(shown, ["openai", "google", "abc", "openai-compatible", "zed", "demo"]);
}

#[test]
fn pending_file_takes_no_name_from_another_provider() {
    let zed = || manifest("zed", &["zed-"], &["zed-1", "other"]);
    let allowed = known(&[zed()]);
    for (newcomer, why) in [
        (manifest("aaa", &[], &["zed-1"]), "its model 'zed-1' belongs to provider 'zed'"),
        (manifest("aaa", &[], &["other"]), "its model 'other' belongs to provider 'zed'"),
        (
            manifest("aaa", &[], &["zed-7"]),
            "its model 'zed-7' is refused, because the prefix 'zed-' belongs to provider 'zed'",
        ),
        (
            manifest("aaa", &["ze"], &[]),
            "its prefix 'ze' is refused, because the prefix 'zed-' belongs to provider 'zed'",
        ),
        (with_key("ZED_KEY", manifest("aaa", &[], &[])), "the variable ZED_KEY belongs to provider 'zed'"),
    ] {
        let registry = build_known(found([newcomer.clone(), zed()]), "", &allowed);
        assert_eq!(refused(&registry, "zed"), "", "{newcomer:?}");
        let refused = refused(&registry, "aaa");
        // The owner exists: the message must not name a command to free the prefix.
        assert!(refused.contains(why) && !refused.contains("provider forget"), "{refused}");
        for model in ["zed-1", "zed-7", "other"] {
            assert_eq!(owner(&registry, model).as_deref(), Some("zed"), "{model}");
        }
        // It takes nothing from another pending file, either: the first file that is allowed owns the prefix.
        let registry = build(found([newcomer, zed()]), "");
        assert_eq!((self::refused(&registry, "zed"), self::refused(&registry, "aaa")), Default::default());
    }
    // The owner's file does not exist; the store has its prefix.
    let registry = build_known(found([manifest("aaa", &[], &["zed-7"])]), "", &allowed);
    let why = refused(&registry, "aaa");
    assert!(
        why.contains("the prefix 'zed-' belongs to provider 'zed'") && why.ends_with("patchbay provider forget zed"),
        "{why}"
    );
}

#[test]
fn configured_providers_precede_files() {
    let thief = || with_key("ZED_KEY", manifest("aaa", &["zed-"], &[]));
    let text = "[providers.zed]\norigin = \"https://zed.example.com\"\nenv = \"ZED_KEY\"\n";
    for known in [StoredClaims::default(), known(&[thief()])] {
        let known = StoredClaims { prefixes: Vec::new(), ..known };
        let registry = build_known(found([thief(), manifest("zed", &["zed-"], &[])]), text, &known);
        assert_eq!(refused(&registry, "zed"), "");
        assert!(refused(&registry, "aaa").contains("ZED_KEY belongs to provider 'zed'"));
    }
}

#[test]
fn table_without_its_adapter_keeps_its_name() {
    let text = "[providers.work]\nadapter = \"missing\"\norigin = \"https://work.example.com\"\nenv = \"WORK_KEY\"\n\
                [providers.openai]\nadapter = \"absent\"\n";
    let registry = build(found([manifest("work", &[], &[])]), text);
    for (name, adapter) in [("work", "missing"), ("openai", "absent")] {
        assert!(registry.get(name).is_none(), "{name}");
        let error = registry.find(&name.parse().unwrap()).err().unwrap().to_string();
        assert!(
            error.contains(&format!("adapter '{adapter}' of [providers.{name}] in config.toml not found")),
            "{error}"
        );
    }
    assert!(registry.found.invalid["work.wasm"].contains("already exists"));
    // With its adapter, the table defines the provider, even if a file has the same name.
    let registry = build(found([manifest("work", &[], &[]), manifest("missing", &[], &[])]), text);
    let work = registry.get("work").unwrap();
    assert_eq!((work.source, work.adapter.manifest.name.as_str()), (EntrySource::Config, "missing"));
}

#[test]
fn provider_cannot_use_a_skill_credential() {
    let text = "credentials = [\"github\", \"openai\", \"work\"]\n\
                [providers.work]\nadapter = \"openai\"\norigin = \"https://work.example.com\"\nenv = \"WORK_KEY\"\n";
    let registry = build(found([manifest("github", &[], &[])]), text);
    for name in ["github", "openai", "work"] {
        let why = refused(&registry, name);
        assert!(why.contains(&format!("belongs to [credentials.{name}] of config.toml")), "{why}");
        assert_eq!(why.contains("or the provider"), name != "openai", "{why}");
    }
    // A provider without a key does not conflict.
    let mut keyless = manifest("github", &[], &[]);
    keyless.credential = None;
    assert_eq!(refused(&build(found([keyless]), text), "github"), "");
}

#[test]
fn pending_providers_do_not_affect_model_parsing() {
    let registry = build(found([manifest("aaa", &[], &["gpt-4o/high"])]), "[routes]\n\"a/high\" = \"openai\"\n");
    assert_ne!(refused(&registry, "aaa"), "");
    let useful = registry.view(|entry| entry.refused.is_none());
    for (text, model) in [("gpt-4o/high", "gpt-4o"), ("aaa:gpt-4o/high", "aaa:gpt-4o"), ("a/high", "a/high")] {
        assert_eq!(crate::choice::parse(text, &useful).unwrap().model, model);
    }
}

#[tokio::test]
async fn conflicting_new_version_changes_nothing() {
    struct Versions;
    impl Describe for Versions {
        async fn describe(&self, _: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, DescribeError> {
            Ok(match &*bytes {
                b"good" => manifest("zed", &["zed-"], &[]),
                b"conflicting" => manifest("zed", &["zed-", "gpt-5"], &[]),
                _ => manifest("zed", &["zed-", "new-"], &[]),
            })
        }
    }
    let home = tempfile::tempdir().unwrap();
    let known = known(&[manifest("zed", &["zed-"], &[])]);
    let next = async |bytes: &str, before: Option<Registry>| {
        std::fs::write(home.path().join("zed.wasm"), bytes).unwrap();
        let none = FoundAdapters::default();
        let found = files(home.path(), before.as_ref().map_or(&none, |before| &before.found), &Versions).await;
        Registry::build(&bundled(), found, &Settings::default(), &known, before.as_ref())
    };
    let digest = |registry: &Registry| registry.get("zed").unwrap().adapter.digest;
    let good = next("good", None).await;
    assert_eq!(refused(&good, "zed"), "");
    let mut after = next("conflicting", Some(good)).await;
    // Repeated scans have the same result.
    for _ in 0..2 {
        assert_eq!((refused(&after, "zed").as_str(), digest(&after)), ("", Digest::of(b"good")));
        assert!(
            after.found.invalid["zed.wasm"]
                .contains("'gpt-5' is refused, because the prefix 'gpt-' belongs to provider 'openai'")
        );
        after = next("conflicting", Some(after)).await;
    }
    let better = next("better", Some(after)).await;
    assert_eq!((digest(&better), better.found.invalid.len()), (Digest::of(b"better"), 0));
    // No earlier version exists.
    assert_ne!(refused(&next("conflicting", None).await, "zed"), "");
}

/// Describes any bytes as the adapter `zed`, except for `bad`, which is invalid, and `busy`, which fails temporarily.
/// Counts the calls.
struct ByBytes(Mutex<usize>);

impl Describe for ByBytes {
    async fn describe(&self, _: Digest, bytes: Arc<[u8]>) -> Result<AdapterManifest, DescribeError> {
        *self.0.lock().unwrap() += 1;
        match std::str::from_utf8(&bytes).unwrap() {
            "bad" => Err(DescribeError { why: "it is bad".to_owned(), permanent: true, printed: Vec::new() }),
            "busy" => Err(DescribeError { why: "no time".to_owned(), permanent: false, printed: Vec::new() }),
            version => Ok(AdapterManifest { version: version.to_owned(), ..manifest("zed", &[], &[]) }),
        }
    }
}

#[tokio::test]
async fn invalid_file_changes_no_existing_provider() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("providers");
    let asked = ByBytes(Mutex::new(0));
    let none = FoundAdapters::default();
    assert!(files(&folder, &none, &asked).await.adapters.is_empty());
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, bytes: &str| std::fs::write(folder.join(name), bytes).unwrap();
    write("zed.wasm", "1");
    write("Bad Name.wasm", "1");
    write("notes.txt", "1");
    std::fs::create_dir(folder.join("folder.wasm")).unwrap();
    let first = files(&folder, &none, &asked).await;
    assert_eq!(first.adapters.keys().map(Name::as_str).collect::<Vec<_>>(), ["zed"]);
    assert_eq!(first.invalid.keys().collect::<Vec<_>>(), ["Bad Name.wasm", "folder.wasm"]);
    let version =
        |found: &FoundAdapters| found.adapters.values().next().map(|adapter| adapter.manifest.version.clone());
    // Unchanged files are not described again.
    let again = files(&folder, &first, &asked).await;
    assert_eq!((version(&again).as_deref(), *asked.0.lock().unwrap()), (Some("1"), 1));
    write("zed.wasm", "bad");
    let bad = files(&folder, &again, &asked).await;
    assert_eq!(version(&bad).as_deref(), Some("1"));
    assert_eq!(bad.invalid["zed.wasm"], "it is bad");
    // A permanently invalid file is not described again; one with a temporary failure is.
    for (bytes, more) in [("bad", 0), ("busy", 1), ("busy", 1)] {
        write("zed.wasm", bytes);
        let before = *asked.0.lock().unwrap();
        assert_eq!(version(&files(&folder, &bad, &asked).await).as_deref(), Some("1"));
        assert_eq!(*asked.0.lock().unwrap() - before, more, "{bytes}");
    }
    let large = std::fs::File::create(folder.join("zed.wasm")).unwrap();
    large.set_len(patchbay_core::COMPONENT_BYTES + 1).unwrap();
    let bad = files(&folder, &bad, &asked).await;
    assert!(
        version(&bad).as_deref() == Some("1")
            && bad.invalid["zed.wasm"].contains("it is over the limit of 33554432 bytes")
    );
    write("zed.wasm", "2");
    let good = files(&folder, &bad, &asked).await;
    assert_eq!((version(&good).as_deref(), good.invalid.contains_key("zed.wasm")), (Some("2"), false));
    std::fs::remove_file(folder.join("zed.wasm")).unwrap();
    assert!(files(&folder, &good, &asked).await.adapters.is_empty());
}

/// Returns the bundled adapters with `meta`, which yields `llama-`.
fn bundled_with_meta() -> BTreeMap<Name, Arc<Adapter>> {
    let mut meta = manifest("meta", &["llama-", "muse-"], &["muse-1"]);
    meta.extra = vec![("yielding-prefix".to_owned(), "llama-".to_owned())];
    let mut bundled = bundled();
    bundled.insert(meta.name.clone(), adapter(meta));
    bundled
}

/// The fate of a prefix that `meta` yields: the provider that owns a model, and the prefixes that `meta` still has.
#[test]
fn yielding_prefix_belongs_to_any_other_holder() {
    let zed = |prefix: &str, models: &[&str]| vec![manifest("zed", &[prefix], models)];
    let none = || (vec![], StoredClaims::default());
    let allowed = |files: Vec<AdapterManifest>| (files.clone(), known(&files));
    let claimed = |owner: &str| {
        let prefixes = vec![("llama-".to_owned(), owner.to_owned())];
        (vec![], StoredClaims { prefixes, ..StoredClaims::default() })
    };
    let local = |rest: &str| format!("[providers.local]\nadapter = \"openai-compatible\"\n{rest}");
    let gone = "[providers.gone]\nadapter = \"nowhere\"\nprefixes = [\"llama-\"]";
    let prefix = "prefixes = [\"llama-\"]";
    let (table, refused_table) = (local(&format!("origin = \"http://localhost:1/v1\"\n{prefix}")), local(prefix));
    let both = "llama- muse-";
    for (what, (files, stored), text, owner, prefixes) in [
        ("no other holder", none(), "", Some("meta"), both),
        ("a table", none(), &*table, Some("local"), "muse-"),
        ("a refused table", none(), &*refused_table, Some("local"), "muse-"),
        ("a table without its adapter", none(), gone, Some("gone"), "muse-"),
        ("a refused table's model", none(), &*local("models = [\"llama-4\"]"), Some("local"), both),
        ("a route", none(), "[routes]\n\"llama-\" = \"openai\"", Some("openai"), both),
        ("an allowed file", allowed(zed("llama-", &[])), "", Some("zed"), "muse-"),
        ("an allowed file with a longer prefix", allowed(zed("llama-3", &[])), "", None, "muse-"),
        ("an allowed file's model", allowed(zed("zed-", &["llama-4"])), "", Some("zed"), both),
        ("a file that is not allowed", (zed("llama-", &[]), none().1), "", Some("meta"), both),
        ("a provider that is gone", claimed("old"), "", None, "muse-"),
        ("its own claim", claimed("meta"), "", Some("meta"), both),
    ] {
        let registry = Registry::build(&bundled_with_meta(), found(files), &settings(text), &stored, None);
        let owners = registry.owners(|entry| entry.refused.is_none() && entry.rank(&stored) < Rank::Pending);
        assert_eq!(owners.of("llama-4").unwrap().map(Name::as_str), owner, "{what}");
        let meta = registry.get("meta").unwrap();
        assert_eq!((meta.prefixes.join(" ").as_str(), refused(&registry, "meta")), (prefixes, String::new()), "{what}");
        assert!(meta.firm_prefixes().eq(["muse-"]), "{what}");
        assert_eq!(owners.of("muse-9").unwrap().map(Name::as_str), Some("meta"), "{what}");
    }
}

#[test]
fn allowed_file_takes_a_yielding_prefix_only_when_it_is_allowed_again() {
    let mut stored = known(&[manifest("zed", &["zed-"], &[])]);
    let newer = found([manifest("zed", &["zed-", "llama-"], &[])]);
    let registry = Registry::build(&bundled_with_meta(), newer.clone(), &settings(""), &stored, None);
    let words = refused(&registry, "zed");
    assert!(words.starts_with("its prefix 'llama-' belongs to provider 'meta', which claimed it first."), "{words}");
    // A file that is not allowed may request the prefix, and gets it if the operator allows the file.
    stored.allowances.clear();
    let registry = Registry::build(&bundled_with_meta(), newer, &settings(""), &stored, None);
    assert_eq!(refused(&registry, "zed"), "");
    // Prefixes that the operator configures for `meta` do not yield.
    let text = "[providers.meta]\nprefixes = [\"llama-\"]\n[providers.local]\nadapter = \"openai-compatible\"\n\
                origin = \"http://localhost:1/v1\"\nprefixes = [\"llama-\"]\n";
    let own = StoredClaims::default();
    let registry = Registry::build(&bundled_with_meta(), found([]), &settings(text), &own, None);
    assert!(refused(&registry, "local").contains("belongs to provider 'meta'"), "{}", refused(&registry, "local"));
}
