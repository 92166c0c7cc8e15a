//! The listed models: who owns a name, their order, and what is known of them.

use patchbay_core::completion::ThinkingLevel;
use patchbay_store::{ListingCoverage, NewListing};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::*;
use crate::Selector;

const TABLES: &str = "[providers.alpha]\norigin = \"https://alpha.example.org/v1\"\nprefixes = [\"alp-\"]\n\
                      [providers.beta]\norigin = \"https://beta.example.org/v1\"\nmodels = [\"mine\", \"org/mine\"]\n\
                      [routes]\nrouted = \"beta\"\n";

/// Returns a home with the providers `alpha` and `beta`, each with a table of one model.
async fn home() -> Home {
    let home = Home::new();
    home.configure(TABLES);
    home.drop_in(&manifest("alpha", &[], &["alpha-1"])).await;
    home.drop_in(&manifest("beta", &["bet-"], &["beta-1"])).await;
    home
}

/// Stores the models that the API of a provider listed.
async fn list(home: &Home, provider: &str, models: Vec<(String, Value)>) {
    let models = models.into_iter().map(|(id, facts)| (id, facts.to_string())).collect();
    let listing =
        NewListing { models, coverage: ListingCoverage::Complete, validator: None, problem: None, again_in_s: 1 };
    let url = format!("https://{provider}.example.org/v1");
    home.store.keep_listing(provider.to_owned(), url, listing).await.unwrap();
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
    // Two list it: it needs the name of its provider.
    list(&home, "beta", vec![chat("fresh-1", "2026-01-01", "small")]).await;
    assert_eq!(resolved(&process, "fresh-1").await.unwrap_err().0, Code::UnknownModel);
    assert_eq!(resolved(&process, "beta:fresh-1").await.as_deref(), Ok("beta/fresh-1/default"));
    // Another base URL: the list is another server's.
    home.configure(&TABLES.replace("beta.example.org", "gamma.example.org"));
    process.reload().await;
    assert_eq!(resolved(&process, "fresh-1").await.as_deref(), Ok("alpha/fresh-1/default"));
}

/// Whatever APIs list, a text that named a model names the same one afterwards.
#[test]
fn listing_never_changes_the_owner_of_a_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = runtime.block_on(home());
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
        "alpha:x",
        "beta:org/x",
        "alpha-1/none",
        "bet-a/b",
        "alp-a/b/low",
        "nothing",
        "org/other",
        "beta:alpha-1/med",
    ];
    let id = prop_oneof![
        proptest::sample::select(texts.to_vec()).prop_map(str::to_owned),
        "(alp-|bet-|org/|x)[a-c/]{0,3}(/(none|low|high))?",
    ];
    let ids = proptest::collection::vec(id, 0..8);
    let before: Vec<_> = runtime.block_on(async {
        let mut found = Vec::new();
        for text in texts {
            found.push(resolved(&process, text).await.ok());
        }
        found
    });
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    let tested = runner.run(&(ids.clone(), ids), |(alpha, beta)| {
        runtime.block_on(async {
            let models = |ids: Vec<String>| ids.into_iter().map(|id| chat(&id, "2026-01-01", "small")).collect();
            list(&home, "alpha", models(alpha)).await;
            list(&home, "beta", models(beta)).await;
            for (text, before) in texts.iter().zip(&before) {
                if before.is_some() {
                    let after = resolved(&process, text).await.ok();
                    prop_assert_eq!(&after, before, "{}", text);
                }
            }
            Ok(())
        })
    });
    tested.unwrap();
}

#[tokio::test]
async fn models_are_offered_in_one_order() {
    let home = home().await;
    let process = home.process();
    let embedding = ("embed".to_owned(), json!({"purposes": ["embedding"]}));
    let silent = ("silent".to_owned(), json!({}));
    let retired = ("old".to_owned(), json!({"purposes": ["chat"], "lifecycle": {"status": "retired"}}));
    let models = vec![
        chat("b", "2026-01-01", "small"),
        chat("a", "2026-01-01", "large"),
        chat("c", "2026-09-01", "small"),
        embedding,
        silent,
        retired,
    ];
    list(&home, "alpha", models).await;
    list(&home, "beta", vec![chat("alp-foreign", "2026-01-01", "small")]).await;
    process.registry().await;
    let offered: Vec<_> = process.suggestions().await.into_iter().map(|suggested| suggested.model).collect();
    // What another provider owns by its prefix has the provider before it.
    assert_eq!(offered, ["alpha-1", "c", "a", "b", "beta-1", "mine", "org/mine", "beta:alp-foreign"]);
    let alpha: Name = "alpha".parse().unwrap();
    assert_eq!(process.select(&alpha, Selector::Small).await.as_deref(), Some("c"));
    assert_eq!(process.select(&alpha, Selector::Big).await.as_deref(), Some("a"));
    let many = (0..100).map(|n| chat(&format!("model-{n:03}"), "2026-01-01", "small")).collect();
    list(&home, "alpha", many).await;
    let words = resolved(&process, "nothing").await.unwrap_err().1;
    assert!(words.contains("ALPHA:") && words.contains("model-010, … and 89 more"), "{words}");
    assert_eq!(status(&process, "alpha").await.models.len(), 101);
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
    assert_eq!(listed.prices.unwrap().output, "0.000015".parse().unwrap());
    // A name that continues the one in the table, with a date.
    assert_eq!(process.model(&alpha, "alpha-1-20260101").await.unwrap().context_window, Some(50_000));
    // A name that continues it otherwise is another model.
    assert_eq!(process.model(&alpha, "alpha-1-pro").await.unwrap().context_window, None);
    // The operator's own words win, and what they do not say stays known.
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
    let words = "model 'gone' was shut down on 2026-10-23. Its successor is alpha-2.".to_owned();
    assert_eq!(resolved(&process, "gone").await, Err((Code::ModelRetired, words)));
    assert_eq!(status(&process, "alpha").await.models, ["alpha-2", "alpha-1"]);
}
