//! Checks the dated tables of all bundled adapters. Each adapter has its own test that it sends the levels in its table.

use std::collections::BTreeSet;

use patchbay_codecs::models::table;
use serde_json::Value;

const TABLES: [(&str, &str); 5] = [
    ("anthropic", include_str!("../../providers/anthropic/models.json")),
    ("openai", include_str!("../../providers/openai/models.json")),
    ("google", include_str!("../../providers/google/models.json")),
    ("xai", include_str!("../../providers/xai/models.json")),
    ("meta", include_str!("../../providers/meta/models.json")),
];

/// Returns true for `YYYY-MM-DD` of this century.
fn is_date(value: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    let parts: Vec<Option<u32>> = text.split('-').map(|part| part.parse().ok()).collect();
    let [Some(2023..=2099), Some(1..=12), Some(1..=31)] = parts[..] else { return false };
    text.len() == 10
}

fn check(model: &Value, ids: &BTreeSet<&str>) {
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let known = [
        "id",
        "display-name",
        "size",
        "default",
        "suggested-levels",
        "context-window",
        "max-input-tokens",
        "max-output-tokens",
        "input-media",
        "levels",
        "default-level",
        "capabilities",
        "prices",
        "lifecycle",
    ];
    assert!(names(model).iter().all(|name| known.contains(&name.as_str())), "an unknown name");
    let id = model["id"].as_str().expect("an id");
    assert!((1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()));
    assert!(["small", "normal", "large", "unknown"].contains(&model["size"].as_str().expect("a size")));
    for name in ["context-window", "max-input-tokens", "max-output-tokens"] {
        let tokens = model.get(name).map(|tokens| tokens.as_u64().expect("a number"));
        assert!(tokens.is_none_or(|tokens| (4000..=10_000_000).contains(&tokens)), "{name}");
    }
    let window = model["context-window"].as_u64();
    assert!(model["max-input-tokens"].as_u64().is_none_or(|input| window.is_some_and(|window| input <= window)));
    assert!(model["max-output-tokens"].as_u64().is_none_or(|output| window.is_some_and(|window| output <= window)));

    let order = ["none", "low", "med", "high", "xhigh", "max"];
    let levels: Vec<&str> = model["levels"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|level| {
            assert!(!level["sends"].as_str().expect("words").is_empty());
            level["level"].as_str().expect("a level")
        })
        .collect();
    let places: Vec<_> = levels.iter().map(|level| order.iter().position(|word| word == level)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted_by(|a, b| a < b), "{levels:?}");
    let suggested = model["suggested-levels"].as_array().map(Vec::as_slice).unwrap_or_default();
    assert!(suggested.iter().all(|level| order[..4].contains(&level.as_str().unwrap_or_default())));
    assert!(suggested.iter().all(|level| levels.contains(&level.as_str().unwrap_or_default())));
    assert!(model.get("default-level").is_none_or(|level| levels.contains(&level.as_str().expect("a level"))));

    if let Some(prices) = model.get("prices") {
        assert_eq!((&prices["currency"], &prices["per-tokens"]), (&"USD".into(), &1_000_000.into()));
        let tiers = prices["tiers"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(tiers.iter().all(|tier| tier["above-input-tokens"].is_u64()));
        for prices in std::iter::once(prices).chain(tiers) {
            let amounts = ["input", "output", "cache-read", "cache-write"];
            let amount = |name| prices.get(name).map(|text: &Value| text.as_str().expect("text").parse::<f64>());
            assert!(amounts.into_iter().filter_map(amount).all(|amount| amount.is_ok_and(|amount| amount > 0.0)));
            assert!(prices["input"].is_string() && prices["output"].is_string());
        }
    }

    let life = &model["lifecycle"];
    let dates = ["released-on", "deprecated-on", "retires-on"];
    assert!(dates.into_iter().filter_map(|name| life.get(name)).all(is_date), "{life}");
    let allowed = ["status", "successor", "note"].into_iter().chain(dates).collect::<Vec<_>>();
    assert!(names(life).iter().all(|name| allowed.contains(&name.as_str())), "{life}");
    let status = life["status"].as_str().expect("a status");
    assert!(["preview", "active", "deprecated", "retired"].contains(&status));
    let ends = ["deprecated", "retired"].contains(&status);
    assert_eq!(life.get("retires-on").is_some(), ends, "{life}");
    assert!(!ends || life["successor"].is_string(), "{life}");
    assert!(life.get("successor").is_none_or(|next| ids.contains(next.as_str().expect("an id")) && *next != id));
    if status == "retired" {
        assert!(model.get("default").is_none());
    } else {
        assert!(
            window.is_some()
                && !levels.is_empty()
                && model["display-name"].is_string()
                && model["capabilities"].is_object()
        );
    }
}

#[test]
fn every_table_is_well_formed() {
    for (name, text) in TABLES {
        let read: Value = serde_json::from_str(text).expect("JSON");
        assert!(is_date(&read["as-of"]), "{name}");
        assert!(!read["sources"].as_array().expect("sources").is_empty(), "{name}");
        let models = read["models"].as_array().expect("models");
        let ids: BTreeSet<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
        assert_eq!((ids.len(), table(text).len()), (models.len(), models.len()), "{name}: each model once");
        for model in models {
            println!("{name} {}", model["id"]);
            check(model, &ids);
        }
    }
}

#[test]
fn living_models_head_each_table() {
    for (name, text) in TABLES {
        let models = table(text);
        let facts: Vec<Value> =
            models.iter().map(|model| serde_json::from_str(&model.extra[0].value).expect("JSON")).collect();
        let is_default: Vec<bool> = facts.iter().map(|facts| facts["default"] == true).collect();
        assert!(is_default[0] && is_default.is_sorted_by(|a, b| a >= b), "{name}: defaults come first");
        for size in ["small", "normal", "large"] {
            let first = models.iter().position(|model| model.size == size).expect("a model of each size");
            assert!(is_default[first] && !models[first].deprecated, "{name} {size}");
        }
        assert!(models.iter().map(|model| model.deprecated).is_sorted(), "{name}: retired models come last");
        assert!(facts.iter().all(|facts| is_date(&facts["as-of"])));
    }
}

#[test]
fn successors_of_models_that_end_are_living() {
    for (name, text) in TABLES {
        let read: Value = serde_json::from_str(text).expect("JSON");
        let models = read["models"].as_array().expect("models");
        for model in models.iter().filter(|model| model["lifecycle"].get("successor").is_some()) {
            let next = models.iter().find(|next| next["id"] == model["lifecycle"]["successor"]).expect("a model");
            let status = next["lifecycle"]["status"].as_str().expect("a status");
            assert!(["active", "preview"].contains(&status), "{name} {} -> {}", model["id"], next["id"]);
        }
    }
}
