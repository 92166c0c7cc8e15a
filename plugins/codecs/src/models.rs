//! The models of an adapter: the dated table that is compiled in, and the host's facts about one model.
//!
//! A table is a JSON file beside the adapter: `{"as-of": "YYYY-MM-DD", "sources": […], "models": [{"id": …},
//! …]}`. Apart from `id` and `suggested-levels`, a model's fields have the names defined for
//! `catalogue.model-facts` in `wit/provider`. Lists show the models in the order of the table; `default` is
//! true for the models at the head. All are models for conversations.

use patchbay_provider_sdk::{LevelPlan, Model, Pair, ThinkingPlan};
use serde_json::{Map, Value};

use crate::listing::Facts;
use crate::options;
use crate::thinking::Level;

/// The name of the pair in [`Model::extra`] that contains the facts of a model as a JSON object.
pub const FACTS: &str = "facts";

/// Returns the models of a table for the manifest. Invalid entries are left out; a test checks all tables.
pub fn table(text: &str) -> Vec<Model> {
    let table: Value = serde_json::from_str(text).unwrap_or_default();
    let date = &table["as-of"];
    let models = table["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    models.iter().filter_map(|model| self::model(model.as_object()?.clone(), date)).collect()
}

fn model(mut facts: Map<String, Value>, date: &Value) -> Option<Model> {
    let Value::String(id) = facts.remove("id")? else { return None };
    let suggested_levels = facts.remove("suggested-levels").as_ref().map(words).unwrap_or_default();
    facts.insert("as-of".to_owned(), date.clone());
    facts.entry("purposes").or_insert_with(|| vec!["chat"].into());
    let word = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let status = facts.get("lifecycle").and_then(|lifecycle| lifecycle["status"].as_str());
    Some(Model {
        id,
        size: word("size"),
        suggested_levels,
        input_media: facts.get("input-media").map(words).unwrap_or_default(),
        context_window: facts.get("context-window").and_then(Value::as_u64),
        // A model that is only scheduled to be shut down can still be chosen.
        deprecated: status == Some("retired"),
        extra: vec![Pair { name: FACTS.to_owned(), value: Value::Object(facts).to_string() }],
    })
}

/// Returns the host's facts about the model of a completion: the option `host:model-facts`.
pub fn facts(options: &[Pair]) -> Option<Map<String, Value>> {
    let option = options.iter().find(|option| option.name == "host:model-facts")?;
    serde_json::from_str(&option.value).ok()
}

/// Converts the description of a level to the form of the optional interface `thinking`. `effective` is the level that
/// is sent; `None`: the API decides. If the operator's `extra-body` overrides it, a warning is added.
pub fn level_plan(plan: ThinkingPlan, effective: Option<Level>, options: &[Pair]) -> LevelPlan {
    let ThinkingPlan { description, warning } = plan;
    let changed = options::thinking_fields(options);
    let changed = (!changed.is_empty()).then(|| {
        format!("Option 'extra-body' of this provider sets {}, which changes what is sent", changed.join(" and "))
    });
    let warning = match (warning, changed) {
        (Some(warning), Some(changed)) => Some(format!("{warning}. {changed}")),
        (warning, changed) => warning.or(changed),
    };
    LevelPlan { effective: effective.map(|level| level.name().to_owned()), description, warning, extra: Vec::new() }
}

/// Returns the facts of a model that is not in the table and only matches the adapter's prefix, as a JSON object. If it
/// is a version of a model in the table, that model's facts are used. Any other model is assumed to read the same media
/// as the head of the table, with the levels that `explain` describes.
pub fn unlisted(text: &str, model: &str, explain: impl Fn(&str) -> ThinkingPlan) -> String {
    let models = table(text);
    let known = models.iter().filter(|known| model == known.id || is_version(model, &known.id));
    if let Some(known) = known.max_by_key(|known| known.id.len()) {
        return known.extra[0].value.clone();
    }
    let mut facts = newest(&models);
    facts.levels(explain);
    Value::Object(facts.object().clone()).to_string()
}

/// Returns the facts of a model that was shut down together with the table's model `with`, as a JSON object:
/// the same as [`unlisted`], with the lifecycle of `with`.
pub fn unlisted_ended(text: &str, model: &str, with: &str, explain: impl Fn(&str) -> ThinkingPlan) -> String {
    let facts = unlisted(text, model, explain);
    let parsed = |facts: &str| serde_json::from_str::<Map<String, Value>>(facts).unwrap_or_default();
    let ended = table(text).into_iter().find(|known| known.id == with);
    let lifecycle = ended.and_then(|known| parsed(&known.extra[0].value).remove("lifecycle"));
    let mut facts = parsed(&facts);
    facts.extend(lifecycle.map(|lifecycle| ("lifecycle".to_owned(), lifecycle)));
    Value::Object(facts).to_string()
}

/// Returns the facts of a model whose family is unknown, as a JSON object: it is assumed to read the same
/// media as the head of the table.
pub fn unknown(text: &str) -> String {
    Value::Object(newest(&table(text)).object().clone()).to_string()
}

/// Returns the facts that a model is assumed to share with the head of a table.
fn newest(models: &[Model]) -> Facts {
    let mut facts = Facts::default();
    facts.set("input-media", models.first().map(|model| model.input_media.clone()).unwrap_or_default());
    facts.set("purposes", vec!["chat"]);
    facts
}

/// Whether `id` is `known` with a version after it, such as a date or `latest`. The host has the same rule. Other names that
/// begin with a known name, such as `NAME-pro` or `NAME-5`, are other models.
fn is_version(id: &str, known: &str) -> bool {
    let Some(rest) = id.strip_prefix(known).filter(|rest| rest.starts_with(['-', '@'])) else { return false };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_revision = |part: &str| is_number(part) || part.strip_prefix('v').is_some_and(is_number);
    let mut parts = rest[1..].split(['-', ':']);
    let first = parts.next().unwrap_or_default();
    // A short number, as in `NAME-5`, belongs to another model.
    let begins = first == "latest" || (is_revision(first) && !(is_number(first) && first.len() < 3));
    begins && parts.all(is_revision)
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// For the tests of adapters: checks that the levels in the facts of `models` are those that `explain` describes, and that
/// `explain` warns of every other level.
///
/// # Panics
/// With the model and the level that differ.
pub fn check_levels(models: &[Model], explain: impl Fn(&str, Option<&str>) -> ThinkingPlan) {
    let living = models.iter().filter(|model| !model.deprecated);
    for Model { id, extra, .. } in living {
        let facts: Value = serde_json::from_str(&extra[0].value).expect("JSON");
        let listed = facts["levels"].as_array().expect("levels");
        for level in Level::ALL.map(Level::name) {
            let plan = explain(id, Some(level));
            match listed.iter().find(|listed| listed["level"] == level) {
                Some(listed) => {
                    let sends = listed["sends"].as_str().expect("words");
                    assert_eq!(plan.description, [format!("Thinking: {sends}")], "{id}/{level}");
                    assert!(plan.warning.is_none() || level == "none", "{id}/{level}: {:?}", plan.warning);
                }
                None => assert!(plan.warning.is_some(), "{id}/{level} is sent without a warning"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_gives_models_with_facts() {
        let text = json!({"as-of": "2026-11-23", "models": [
            {"id": "a-1", "size": "small", "default": true, "suggested-levels": ["low"], "input-media": ["image/png"],
             "context-window": 1000, "lifecycle": {"status": "deprecated", "retires-on": "2027-01-01"}},
            {"id": "a-0", "lifecycle": {"status": "retired"}},
            {"size": "small"}, {"id": 7}, 8,
        ]});
        let [one, gone] = &table(&text.to_string())[..] else { panic!("two models") };
        assert_eq!((one.id.as_str(), one.size.as_str(), one.context_window), ("a-1", "small", Some(1000)));
        assert_eq!(
            (&one.suggested_levels[..], &one.input_media[..]),
            (&["low".to_owned()][..], &["image/png".to_owned()][..])
        );
        assert_eq!((one.deprecated, gone.deprecated, gone.size.as_str()), (false, true, "unknown"));
        let facts: Value = serde_json::from_str(&one.extra[0].value).expect("JSON");
        let expected = json!({"size": "small", "default": true, "input-media": ["image/png"], "context-window": 1000,
            "lifecycle": {"status": "deprecated", "retires-on": "2027-01-01"}, "as-of": "2026-11-23", "purposes": ["chat"]});
        assert_eq!((one.extra[0].name.as_str(), facts), (FACTS, expected));
        let text = text.to_string();
        let plan = |_: &str| ThinkingPlan { description: vec!["Thinking: off".to_owned()], warning: None };
        assert_eq!(unlisted(&text, "a-1", plan), one.extra[0].value);
        for version in ["a-1-20270101", "a-1-2027-01-01", "a-1@001", "a-1-latest", "a-1-v2:0"] {
            assert_eq!(unlisted(&text, version, plan), one.extra[0].value, "{version}");
        }
        for other in ["a-1-5", "a-1-", "a-1-5-20270101", "a-1-mini-20270101", "a-12"] {
            assert_ne!(unlisted(&text, other, plan), one.extra[0].value, "{other}");
        }
        let other: Value = serde_json::from_str(&unlisted(&text, "a-1-pro", plan)).expect("JSON");
        assert_eq!((&other["context-window"], &other["lifecycle"]), (&Value::Null, &Value::Null));
        let newer: Value = serde_json::from_str(&unlisted(&text, "a-10", plan)).expect("JSON");
        assert_eq!((&newer["input-media"], &newer["purposes"]), (&json!(["image/png"]), &json!(["chat"])));
        assert_eq!(newer["levels"].as_array().map(Vec::len), Some(6));
        let unknown: Value = serde_json::from_str(&unknown(&text)).expect("JSON");
        assert_eq!(unknown, json!({"input-media": ["image/png"], "purposes": ["chat"]}));
        assert_eq!(table("[]"), []);
        assert_eq!(table("{"), []);
    }
}
