//! Tests of the listed models: which provider owns a name, the order of the models, and their facts.

use patchbay_core::completion::ThinkingLevel;
use patchbay_store::{ListingCoverage, NewListing};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::*;
use crate::{MovedName, Selector};

const TABLES: &str = "[providers.alpha]\norigin = \"https://alpha.example.org/v1\"\nprefixes = [\"alp-\"]\n\
                      [providers.beta]\norigin = \"https://beta.example.org/v1\"\nmodels = [\"mine\", \"org/mine\"]\n\
                      [routes]\nrouted = \"beta\"\n";

/// More entries of `[routes]`.
const ROUTES: &str = "\"via/\" = \"alpha\"\nlost-1 = \"nowhere\"\n";

/// Returns a home with the providers `alpha` and `beta`, each with a table of one model.
async fn home() -> Home {
    let home = Home::new();
    home.configure(TABLES);
    home.drop_in(&manifest("alpha", &[], &["alpha-1"])).await;
    home.drop_in(&manifest("beta", &["bet-"], &["beta-1"])).await;
    home
}

/// Stores a complete list of the models of a provider's API.
async fn list(home: &Home, provider: &str, models: Vec<(String, Value)>) {
    keep(home, provider, NewListing { models: stored(models), ..empty() }).await;
}

async fn keep(home: &Home, provider: &str, listing: NewListing) {
    let (provider, url) = (provider.to_owned(), format!("https://{provider}.example.org/v1"));
    let adapter = Digest::of(&fs::read(home.file(&provider)).unwrap());
    home.store.claim_listing(provider.clone(), url.clone(), adapter, true).await.unwrap();
    home.store.keep_listing(provider, url, NewListing { adapter, ..listing }).await.unwrap().unwrap();
}

fn stored(models: Vec<(String, Value)>) -> Vec<(String, String)> {
    models.into_iter().map(|(id, facts)| (id, facts.to_string())).collect()
}

/// Returns a complete listing without models. [`keep`] adds the adapter.
fn empty() -> NewListing {
    NewListing {
        adapter: Digest::of(b""),
        models: Vec::new(),
        left_out: 0,
        coverage: ListingCoverage::Complete,
        validator: None,
        problem: None,
        again_in_s: 3_600,
    }
}

fn chats(ids: &[&str]) -> Vec<(String, Value)> {
    ids.iter().map(|id| chat(id, "2026-01-01", "small")).collect()
}

fn chat(id: &str, released: &str, size: &str) -> (String, Value) {
    let facts = json!({"purposes": ["chat"], "size": size, "lifecycle": {"released-on": released}});
    (id.to_owned(), facts)
}

#[tokio::test]
async fn listed_id_is_reached_if_one_provider_has_it() {
    let home = home().await;
    let process = home.process();
    let unknown = resolved(&process, "fresh-1").await.unwrap_err();
    assert_eq!(unknown.0, Code::UnknownModel);
    list(&home, "alpha", vec![chat("fresh-1", "2026-01-01", "small"), chat("org/fresh", "2026-01-01", "small")]).await;
    assert_eq!(resolved(&process, "fresh-1").await.as_deref(), Ok("alpha/fresh-1/default"));
    assert_eq!(resolved(&process, "fresh-1/low").await.as_deref(), Ok("alpha/fresh-1/low"));
    assert_eq!(resolved(&process, "org/fresh").await.as_deref(), Ok("alpha/org/fresh/default"));
    // If two providers list a model, it needs the name of its provider.
    list(&home, "beta", vec![chat("fresh-1", "2026-01-01", "small")]).await;
    assert_eq!(resolved(&process, "fresh-1").await.unwrap_err().0, Code::UnknownModel);
    assert_eq!(resolved(&process, "beta:fresh-1").await.as_deref(), Ok("beta/fresh-1/default"));
    // At another base URL, the list is another server's, and the name still does not belong to a single provider.
    home.configure(&TABLES.replace("beta.example.org", "gamma.example.org"));
    process.reload().await;
    assert_eq!(resolved(&process, "fresh-1").await.unwrap_err().0, Code::UnknownModel);
    assert_eq!(resolved(&process, "alpha:fresh-1").await.as_deref(), Ok("alpha/fresh-1/default"));
}

#[tokio::test]
async fn dropped_model_never_moves_to_another_provider() {
    let home = home().await;
    home.configure(&format!("default_model = \"fresh-1\"\n{TABLES}"));
    let process = home.process();
    let default = async || process.default_choice().await.map(|default| default.choice.to_string()).ok();
    list(&home, "alpha", chats(&["fresh-1", "x"])).await;
    assert_eq!(default().await.as_deref(), Some("alpha/fresh-1/default"));
    // Only this provider has ever listed the model, so it still owns the name.
    list(&home, "alpha", chats(&["other"])).await;
    assert_eq!(default().await.as_deref(), Some("alpha/fresh-1/default"));
    list(&home, "beta", chats(&["fresh-1"])).await;
    assert_eq!(default().await, None);
    let words = resolved(&process, "fresh-1").await.unwrap_err().1;
    let expected = "Unknown model: fresh-1\n\nSeveral providers list this name or have listed it: alpha, beta. Name one: \
                    beta:fresh-1.\n\nSupported models:\n";
    assert!(words.starts_with(expected), "{words}");
    // Neither provider lists it any more.
    list(&home, "beta", chats(&["other"])).await;
    let words = resolved(&process, "fresh-1").await.unwrap_err().1;
    assert!(words.contains(" Name one: alpha:fresh-1 or beta:fresh-1.\n"), "{words}");
    list(&home, "beta", chats(&["fresh-1"])).await;
    // Text that can be read in two ways reaches neither of two providers.
    assert_eq!(resolved(&process, "x/high").await.as_deref(), Ok("alpha/x/high"));
    list(&home, "beta", chats(&["x/high"])).await;
    assert_eq!(resolved(&process, "x/high").await.unwrap_err().0, Code::UnknownModel);
    // The name is not freed if the provider that has listed it moves to another base URL, or is removed.
    home.configure(&TABLES.replace("alpha.example.org", "gamma.example.org"));
    process.reload().await;
    assert_eq!(resolved(&process, "fresh-1").await.unwrap_err().0, Code::UnknownModel);
    fs::remove_file(home.file("alpha")).unwrap();
    home.configure(&TABLES[TABLES.find("[providers.beta]").unwrap()..]);
    process.reload().await;
    let words = resolved(&process, "fresh-1").await.unwrap_err().1;
    let expected = " Name one: beta:fresh-1. 'alpha' is no longer a provider. To free its names: patchbay provider \
        forget alpha\n";
    assert!(words.contains(expected), "{words}");
    process.forget(&name("alpha")).await.unwrap();
    assert_eq!(resolved(&process, "fresh-1").await.as_deref(), Ok("beta/fresh-1/default"));
}

#[tokio::test]
async fn name_of_another_origin_needs_its_provider() {
    let home = home().await;
    let process = home.process();
    list(&home, "alpha", chats(&["fresh-1"])).await;
    home.configure(&TABLES.replace("alpha.example.org", "gamma.example.org"));
    process.reload().await;
    for text in ["fresh-1", "fresh-1/low"] {
        let words = resolved(&process, text).await.unwrap_err().1;
        let hint =
            format!("\n\n'alpha' listed this name at another origin. To choose it: alpha:{text}\n\nSupported models:");
        assert!(words.contains(&hint), "{words}");
    }
    assert_eq!(resolved(&process, "alpha:fresh-1/low").await.as_deref(), Ok("alpha/fresh-1/low"));
    assert!(!resolved(&process, "other").await.unwrap_err().1.contains("origin"));
}

#[tokio::test]
async fn newer_table_is_offered_beside_an_older_list() {
    let home = home().await;
    let process = home.process();
    list(&home, "alpha", chats(&["n-1"])).await;
    assert_eq!(status(&process, "alpha").await.models, ["n-1"]);
    home.drop_in(&manifest("alpha", &[], &["alpha-1", "alpha-2"])).await;
    process.reload().await;
    assert_eq!(status(&process, "alpha").await.models, ["alpha-1", "alpha-2", "n-1"]);
    list(&home, "alpha", chats(&["n-1"])).await;
    assert_eq!(status(&process, "alpha").await.models, ["n-1"]);
}

#[tokio::test]
async fn listed_ids_come_after_every_other_owner() {
    let home = home().await;
    home.drop_in(&manifest("pending", &["pen-"], &[])).await;
    home.configure(&format!("{TABLES}{ROUTES}[providers.broken]\nadapter = \"missing\"\nprefixes = [\"bro-\"]\n"));
    let process = home.process();
    list(&home, "beta", chats(&["via/x", "lost-1", "pen-1/x", "bro-1/x", "alp-1/x", "org/fresh"])).await;
    assert_eq!(resolved(&process, "via/x").await.as_deref(), Ok("alpha/via/x/default"));
    assert_eq!(resolved(&process, "via/x/low").await.as_deref(), Ok("alpha/via/x/low"));
    let (code, words) = resolved(&process, "lost-1").await.unwrap_err();
    assert_eq!(code, Code::ProviderUnusable);
    assert!(words.starts_with("[routes] of config.toml sends the model 'lost-1' to provider 'nowhere'"), "{words}");
    assert_eq!(resolved(&process, "pen-1/x").await.unwrap_err().0, Code::ProviderPending);
    assert_eq!(resolved(&process, "bro-1/x").await.unwrap_err().0, Code::ProviderUnusable);
    assert_eq!(resolved(&process, "alp-1/x").await.as_deref(), Ok("alpha/alp-1/x/default"));
    assert_eq!(resolved(&process, "org/fresh").await.as_deref(), Ok("beta/org/fresh/default"));
    // A suggestion reaches the provider that lists it.
    for suggested in process.suggestions().await {
        let choice = process.resolve(&suggested.model).await.unwrap();
        assert_eq!(choice.provider, suggested.provider, "{}", suggested.model);
    }
}

/// A listing in the property test: the provider, whether the list is complete, and the ids.
type Listing = (&'static str, bool, Vec<String>);

/// Whatever APIs list over time, a text that has named a model of one provider never names a model of another. A text that named a
/// model before any listing still names the same model.
#[test]
fn listing_never_changes_the_owner_of_a_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = runtime.block_on(home());
    home.configure(&format!("{TABLES}{ROUTES}"));
    let process = home.process();
    let texts = [
        "alpha-1",
        "beta-1",
        "alp-x",
        "bet-x/high",
        "mine",
        "mine/low",
        "org/mine",
        "routed",
        "via/x",
        "lost-1",
        "alpha:x",
        "beta:org/x",
        "alpha-1/none",
        "bet-a/b",
        "alp-a/b/low",
        "x",
        "x/low",
        "x/high",
        "org/x",
        "org/x/low",
        "beta:alpha-1/med",
    ];
    let id = prop_oneof![
        proptest::sample::select(texts.to_vec()).prop_map(str::to_owned),
        "(alp-|bet-|org/|via/|x)[a-c/]{0,2}(/(none|low|high))?",
    ];
    let ids = proptest::collection::vec(id, 0..8);
    let listing = (proptest::sample::select(vec!["alpha", "beta"]), any::<bool>(), ids);
    let listings = proptest::collection::vec(listing, 2..6);
    let mut runner = TestRunner::new(Config { cases: 192, failure_persistence: None, ..Config::default() });
    let tested = runner.run(&listings, |listings: Vec<Listing>| {
        runtime.block_on(async {
            for provider in ["alpha", "beta"] {
                home.store.forget_provider(provider.to_owned()).await.unwrap();
            }
            let mut first = Vec::new();
            for text in texts {
                first.push(process.resolve(text).await.ok());
            }
            let mut reached = first.clone();
            for (provider, is_complete, ids) in listings {
                let coverage = if is_complete { ListingCoverage::Complete } else { ListingCoverage::Partial };
                let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                keep(&home, provider, NewListing { models: stored(chats(&ids)), coverage, ..empty() }).await;
                for ((text, first), reached) in texts.iter().zip(&first).zip(&mut reached) {
                    let now = process.resolve(text).await.ok();
                    if first.is_some() {
                        prop_assert_eq!(&now, first, "{}", text);
                    }
                    if let (Some(before), Some(now)) = (&*reached, &now) {
                        prop_assert_eq!(&now.provider, &before.provider, "{}", text);
                    }
                    *reached = now.or(reached.take());
                }
            }
            Ok(())
        })
    });
    tested.unwrap();
}

#[tokio::test]
async fn complete_listing_replaces_the_table() {
    let home = home().await;
    let mut table = manifest("alpha", &[], &["m-1", "m-2", "m-3", "own-1"]);
    for (model, size) in table.models.iter_mut().zip(["small", "large", "normal", "normal"]) {
        model.facts = Some(json!({"purposes": ["chat"], "size": size, "default": true}).to_string());
    }
    home.drop_in(&table).await;
    home.configure(&TABLES.replace("[providers.beta]", "models = [\"own-1\"]\n[providers.beta]"));
    let process = home.process();
    let alpha = name("alpha");
    let models = async || status(&process, "alpha").await.models;
    let select = async |selector| process.select(&alpha, selector).await;
    let all = ["m-1", "m-2", "m-3", "own-1"];
    assert_eq!(models().await, all);
    // A list that failed, is incomplete or is empty removes nothing.
    let some = || stored(chats(&["m-1"]));
    let part = NewListing { models: some(), coverage: ListingCoverage::Partial, ..empty() };
    keep(&home, "alpha", NewListing { problem: Some("503".to_owned()), ..part.clone() }).await;
    assert_eq!(models().await, all);
    keep(&home, "alpha", part).await;
    keep(&home, "alpha", NewListing { coverage: ListingCoverage::Unchanged, ..empty() }).await;
    assert_eq!(models().await, all);
    keep(&home, "alpha", empty()).await;
    assert_eq!(models().await, all);
    // A dated version stands for its model. Models that `config.toml` names stay.
    list(&home, "alpha", vec![("m-3-20260101".to_owned(), json!({})), chat("n-1", "2026-09-01", "small")]).await;
    assert_eq!(models().await, ["m-3", "own-1", "n-1"]);
    assert_eq!(select(Selector::Small).await.as_deref(), Some("n-1"));
    assert_eq!(select(Selector::Big).await.as_deref(), Some("m-3"));
    let words = resolved(&process, "nothing").await.unwrap_err().1;
    assert!(words.contains("\n  ALPHA: m-3, own-1, n-1"), "{words}");
    // A name of the table still reaches its provider.
    assert_eq!(resolved(&process, "m-1").await.as_deref(), Ok("alpha/m-1/default"));
    // A later failure keeps the complete list.
    let failed = NewListing { problem: Some("503".to_owned()), coverage: ListingCoverage::Partial, ..empty() };
    keep(&home, "alpha", failed).await;
    assert_eq!(models().await, ["m-3", "own-1", "n-1"]);
    // A server at another base URL was not asked yet.
    home.configure(&TABLES.replace("alpha.example.org", "gamma.example.org"));
    process.reload().await;
    assert_eq!(models().await, all);
}

#[tokio::test]
async fn models_left_out_of_a_listing_are_counted() {
    let home = home().await;
    let process = home.process();
    keep(&home, "alpha", NewListing { left_out: 1_200, ..empty() }).await;
    let shown = status(&process, "alpha").await;
    assert_eq!(shown.left_out, 1_200);
    assert_eq!(serde_json::to_value(&shown).unwrap()["left_out"], 1_200);
    let text = crate::render(&[shown]);
    assert!(text.contains(" (listed 2") && text.contains("; 1,200 left out as invalid)\n"), "{text}");
    keep(&home, "alpha", empty()).await;
    let text = crate::render(&[status(&process, "alpha").await]);
    assert!(!text.contains("left out"), "{text}");
}

#[tokio::test]
async fn background_asks_used_providers_that_are_due() {
    let home = home().await;
    home.drop_in(&manifest("pending", &[], &[])).await;
    let command = "[providers.command]\nadapter = \"alpha\"\norigin = \"https://command.example.org/v1\"\nkey_command = [\"printer\"]\n";
    home.configure(&TABLES.replace("[routes]", &format!("{command}[routes]")));
    let process = home.process();
    let due = async |process: &Providers| {
        let due = process.due().await.unwrap();
        due.iter().map(|entry| entry.name.to_string()).collect::<Vec<_>>()
    };
    // This home has not used any provider yet.
    assert!(due(&process).await.is_empty());
    for text in ["alpha:alpha-1", "command:x"] {
        process.resolve(text).await.unwrap();
    }
    home.store.note_used_catalogue("pending".to_owned(), "https://pending.example.com/v1".to_owned()).await.unwrap();
    home.store.note_used_catalogue("beta".to_owned(), "https://earlier.example.org/v1".to_owned()).await.unwrap();
    assert_eq!(home.store.due_catalogues().await.unwrap().len(), 4);
    // No key command runs, a pending provider is not asked, and the earlier base URL of `beta` is not used.
    assert_eq!(due(&process).await, ["alpha"]);
    assert!(due(&home.process_with(CatalogueSettings { refresh_hours: 0 })).await.is_empty());
    // Another process was first.
    let url = || "https://alpha.example.org/v1".to_owned();
    assert!(home.store.claim_listing("alpha".to_owned(), url(), Digest::of(b""), false).await.unwrap().is_some());
    assert!(due(&process).await.is_empty());
    // After a failure, too, it waits until it is due.
    let failed = |again_in_s| NewListing {
        again_in_s,
        problem: Some("503".to_owned()),
        coverage: ListingCoverage::Partial,
        ..empty()
    };
    keep(&home, "alpha", failed(3_600)).await;
    assert!(due(&process).await.is_empty());
    keep(&home, "alpha", failed(0)).await;
    assert_eq!(due(&process).await, ["alpha"]);
}

#[tokio::test]
async fn models_are_offered_in_one_order() {
    let home = home().await;
    let process = home.process();
    let embedding = ("embed".to_owned(), json!({"purposes": ["embedding"]}));
    let silent = ("silent".to_owned(), json!({}));
    let retired = ("old".to_owned(), json!({"purposes": ["chat"], "lifecycle": {"status": "retired"}}));
    let models = vec![
        chat("alpha-1", "2026-01-01", "normal"),
        chat("b", "2026-01-01", "small"),
        chat("a", "2026-01-01", "large"),
        chat("c", "2026-09-01", "small"),
        embedding,
        silent,
        retired,
    ];
    list(&home, "alpha", models).await;
    list(&home, "beta", chats(&["alp-foreign", "beta-1"])).await;
    process.registry().await;
    let offered: Vec<_> = process.suggestions().await.into_iter().map(|suggested| suggested.model).collect();
    // Models that another provider owns by its prefix belong to that provider.
    assert_eq!(offered, ["alpha-1", "c", "a", "b", "beta-1", "mine", "org/mine", "beta:alp-foreign"]);
    let alpha: Name = "alpha".parse().unwrap();
    assert_eq!(process.select(&alpha, Selector::Small).await.as_deref(), Some("c"));
    assert_eq!(process.select(&alpha, Selector::Big).await.as_deref(), Some("a"));
    let many = (0..100).map(|n| chat(&format!("model-{n:03}"), "2026-01-01", "small")).collect();
    list(&home, "alpha", many).await;
    let words = resolved(&process, "nothing").await.unwrap_err().1;
    assert!(words.contains("\n  ALPHA: model-000, model-001, ") && words.contains("model-039\n  BETA:"), "{words}");
    assert!(words.ends_with("\n\nNot shown: 60 of ALPHA. 'patchbay provider list --json' has all."), "{words}");
    assert_eq!(status(&process, "alpha").await.models.len(), 100);
}

#[tokio::test]
async fn facts_have_an_order_of_belief() {
    let home = home().await;
    let alpha: Name = "alpha".parse().unwrap();
    let mut table = manifest("alpha", &[], &["alpha-1"]);
    table.models[0].context_window = Some(50_000);
    table.models[0].facts = Some(json!({"input-media": ["image/png"], "size": "large"}).to_string());
    home.drop_in(&table).await;
    let process = home.process();
    let about = async || process.model(&alpha, "alpha-1").await.unwrap();
    assert_eq!((about().await.context_window, about().await.input_media), (Some(50_000), vec!["image/png".to_owned()]));
    let prices = json!({"currency": "USD", "per-tokens": 1_000_000, "input": "3", "output": "15"});
    list(&home, "alpha", vec![("alpha-1".to_owned(), json!({"context-window": 60_000, "prices": prices}))]).await;
    let listed = about().await;
    assert_eq!((listed.context_window, listed.input_media.len()), (Some(60_000), 1));
    assert_eq!(listed.prices.unwrap().base.output, "0.000015".parse().unwrap());
    // A name that continues the one in the table, with a date.
    assert_eq!(process.model(&alpha, "alpha-1-20260101").await.unwrap().context_window, Some(50_000));
    // A name that continues it with anything else is another model.
    assert_eq!(process.model(&alpha, "alpha-1-pro").await.unwrap().context_window, None);
    // The operator's own settings win, and all other facts stay known.
    let own = "models = [{ id = \"alpha-1\", context_window = 70000, levels = [\"max\"] }]\n[providers.beta]";
    home.configure(&TABLES.replace("[providers.beta]", own));
    process.reload().await;
    let own = about().await;
    assert_eq!((own.context_window, own.input_media.len(), own.prices.is_some()), (Some(70_000), 1, true));
    assert_eq!(own.levels, [ThinkingLevel::Max]);
    assert_eq!(resolved(&process, "alpha-1/max").await.as_deref(), Ok("alpha/alpha-1/max"));
    home.configure(&TABLES.replace("[providers.beta]", "models = [\"alpha-1\"]\n[providers.beta]"));
    process.reload().await;
    assert_eq!((about().await.context_window, about().await.input_media.len()), (Some(60_000), 1));
}

#[tokio::test]
async fn levels_and_lifecycle_are_checked() {
    let home = home().await;
    let mut table = manifest("alpha", &[], &["alpha-1", "alpha-2", "gone"]);
    table.models[0].facts = Some(json!({"levels": [{"level": "high"}, {"level": "xhigh"}]}).to_string());
    let retired = json!({"lifecycle": {"status": "retired", "retires-on": "2026-10-23", "successor": "alpha-2"}});
    table.models[2].facts = Some(retired.to_string());
    home.drop_in(&table).await;
    let process = home.process();
    let choice = process.resolve("alpha-1/xhigh").await.unwrap();
    assert_eq!(choice.level, Some(ThinkingLevel::XHigh));
    let invalid = |level: &str, valid: &str| {
        Err((Code::InvalidThinkingLevel, format!("Invalid thinking level: {level}\nValid levels: {valid}")))
    };
    assert_eq!(resolved(&process, "alpha-1/max").await, invalid("max", "none, low, med, high, xhigh"));
    assert_eq!(resolved(&process, "alpha-1/maximum").await, invalid("maximum", "none, low, med, high, xhigh"));
    assert_eq!(resolved(&process, "alpha-2/xhigh").await, invalid("xhigh", "none, low, med, high"));
    assert_eq!(resolved(&process, "unknown/xhigh").await.unwrap_err().0, Code::UnknownModel);
    // A model that was shut down causes a caution.
    let gone = process.resolve("gone/high").await.unwrap();
    assert_eq!(gone.to_string(), "alpha/gone/high");
    let cautions = process.cautions("gone/high", &gone).await.unwrap();
    assert_eq!(cautions, ["This model was shut down on 2026-10-23. Its successor is alpha-2"]);
    assert_eq!(status(&process, "alpha").await.models, ["alpha-2", "alpha-1"]);
}

#[tokio::test]
async fn other_providers_that_list_a_model_are_named() {
    let home = home().await;
    let process = home.process();
    let cautions = async |text: &str| {
        let choice = process.resolve(text).await.unwrap();
        process.cautions(text, &choice).await.unwrap()
    };
    list(&home, "alpha", chats(&["alpha-1"])).await;
    list(&home, "beta", chats(&["alpha-1", "beta-1"])).await;
    for text in ["alpha-1", "alpha-1/low"] {
        assert_eq!(cautions(text).await, ["'beta' lists it too: beta:alpha-1"], "{text}");
    }
    assert_eq!(cautions("alpha:alpha-1").await, [""; 0], "its provider is named");
    assert_eq!(cautions("beta-1").await, [""; 0]);
    list(&home, "beta", chats(&["beta-1"])).await;
    assert_eq!(cautions("alpha-1").await, [""; 0], "it is listed no longer");
}

/// Names that a provider owned only because its API listed them, before a bundled provider owned their prefix.
#[tokio::test]
async fn names_that_have_moved_are_known_by_both_providers() {
    let mut meta = manifest("meta", &["alp-", "muse-"], &["muse-1"]);
    meta.extra = vec![("yielding-prefix".to_owned(), "alp-".to_owned())];
    let description = json!({"digest": Digest::of(b"meta"), "manifest": meta}).to_string();
    let bundled = vec![BundledAdapter { name: "meta", bytes: b"", description: description.leak() }];
    let home = Home::new();
    home.configure(&TABLES.replace("prefixes = [\"alp-\"]\n", ""));
    home.drop_in(&manifest("alpha", &[], &["alpha-1"])).await;
    home.drop_in(&manifest("beta", &["bet-"], &["beta-1"])).await;
    list(&home, "alpha", chats(&["alp-1", "fresh-1"])).await;
    let process = home.process_of(CatalogueSettings::default(), bundled.leak());
    let moved = async |text: &str| process.moved(text).await.unwrap();
    let MovedName { from, to } = moved("alp-1/low").await.unwrap();
    assert_eq!((from.to_string().as_str(), to.to_string().as_str()), ("alpha/alp-1/low", "meta/alp-1/low"));
    for text in ["alpha:alp-1", "meta:alp-1", "alp-2", "fresh-1", "muse-1", "nothing", "alp-1/maximum"] {
        assert_eq!(moved(text).await, None, "{text}");
    }
    // Two providers listed it, so it had no owner before.
    list(&home, "beta", chats(&["alp-1"])).await;
    assert_eq!(moved("alp-1").await, None);
    // The operator's table claims the prefix. `meta` keeps only its other prefix, and its status names the owner of
    // this one.
    home.configure(TABLES);
    process.reload().await;
    assert_eq!(resolved(&process, "alp-1").await.as_deref(), Ok("alpha/alp-1/default"));
    let meta = status(&process, "meta").await;
    assert_eq!(
        (meta.prefixes, meta.reason.as_deref()),
        (vec!["muse-".to_owned()], Some("its prefix 'alp-' belongs to provider 'alpha'"))
    );
    // A provider that is gone keeps its names until they are freed.
    home.configure("");
    fs::remove_file(home.file("alpha")).unwrap();
    process.reload().await;
    let words = resolved(&process, "alp-2").await.unwrap_err().1;
    let expected = "Unknown model: alp-2\n\nThe prefix 'alp-' belongs to 'alpha', which is no longer a provider. \
        To name a \
                    provider: meta:alp-2. To free the prefix: patchbay provider forget alpha\n";
    assert!(words.starts_with(expected), "{words}");
    home.store.forget_provider("alpha".to_owned()).await.unwrap();
    process.reload().await;
    assert_eq!(resolved(&process, "alp-2").await.as_deref(), Ok("meta/alp-2/default"));
}
