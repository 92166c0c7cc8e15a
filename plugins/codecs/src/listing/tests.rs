//! Tests of the state machine, of conversions, and of lists in OpenAI's format.

use patchbay_provider_sdk::TransportFailure;
use proptest::prelude::*;
use serde_json::json;

use super::openai::OpenaiList;
use super::*;

type List = Pages<OpenaiList<fn(&str, &mut Facts)>>;

fn begin(validator: Option<&str>) -> (List, Vec<ListingAction>) {
    let listing = Listing { validator: validator.map(str::to_owned), options: Vec::new() };
    Pages::begin(OpenaiList((|_, _| {}) as fn(&str, &mut Facts)), listing)
}

fn answer(pages: &mut List, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<ListingAction> {
    let headers = headers.iter().map(|(name, value)| Pair { name: (*name).into(), value: (*value).into() }).collect();
    let mut actions = pages.resume(Input::ResponseHead(ResponseHead { status, headers }));
    actions.extend(pages.resume(Input::BodyChunk(body.to_vec())));
    actions.extend(pages.resume(Input::BodyEnd));
    actions
}

#[test]
fn validator_is_sent_and_returned() {
    let (mut pages, first) = begin(Some("W/\"7\""));
    let [ListingAction::Send(request)] = &first[..] else { panic!("{first:?}") };
    assert!(request.headers.iter().any(|pair| pair.name == "if-none-match" && pair.value == "W/\"7\""));
    let end = |coverage: &str, validator: Option<&str>| finish(coverage, validator.map(str::to_owned));
    assert_eq!(answer(&mut pages, 304, &[], b""), [end("unchanged", Some("W/\"7\""))]);
    assert_eq!(pages.resume(Input::Timer), []);
    let (mut pages, first) = begin(Some("line\nfeed"));
    assert!(matches!(&first[..], [ListingAction::Send(request)] if request.headers.len() == 1));
    let actions = answer(&mut pages, 200, &[("ETag", "\"8\"")], br#"{"data": []}"#);
    assert_eq!(actions, [ListingAction::Models(Vec::new()), end("complete", Some("\"8\""))]);
}

#[test]
fn every_page_is_asked_for_with_the_operators_headers() {
    let begin = |headers: &str| {
        let options = vec![Pair { name: "extra-headers".to_owned(), value: headers.to_owned() }];
        let listing = Listing { validator: None, options };
        List::begin(OpenaiList((|_, _| {}) as fn(&str, &mut Facts)), listing)
    };
    let has_it = |action: &ListingAction| match action {
        ListingAction::Send(request) => {
            request.headers.iter().any(|pair| (&*pair.name, &*pair.value) == ("x-team", "a"))
        }
        _ => false,
    };
    let (mut pages, first) = begin(r#"{"X-Team": "a"}"#);
    assert!(matches!(&first[..], [first] if has_it(first)), "{first:?}");
    let page = json!({"data": [], "links": {"next": "/api/v1/models?offset=1"}}).to_string();
    let actions = answer(&mut pages, 200, &[], page.as_bytes());
    assert!(matches!(&actions[..], [_, next] if has_it(next)), "{actions:?}");
    // Invalid options end the listing before anything is sent.
    let (mut pages, first) = begin("7");
    assert!(
        matches!(&first[..], [ListingAction::Fail(failure)] if failure.message.contains("'extra-headers'")),
        "{first:?}"
    );
    assert_eq!(pages.resume(Input::BodyEnd), []);
}

#[test]
fn refusals_and_other_bodies_are_failures() {
    let kind = |actions: Vec<ListingAction>| match &actions[..] {
        [ListingAction::Fail(failure)] => failure.kind.clone(),
        other => panic!("{other:?}"),
    };
    for (status, body, expected) in [
        (401, &br#"{"error": {"message": "no", "code": "invalid_api_key"}}"#[..], "authentication"),
        (404, b"<html>", "not-found"),
        (429, b"", "rate-limit"),
        (200, b"<html>", "server"),
        (200, br#"{"data": {"id": "x"}}"#, "server"),
        (200, b"7", "server"),
    ] {
        assert_eq!(kind(answer(&mut begin(None).0, status, &[], body)), expected, "{status}");
    }
    let (mut pages, _) = begin(None);
    assert_eq!(kind(pages.resume(Input::BodyChunk(vec![b' '; MAX_PAGE + 1]))), "server");
    let failed = TransportFailure { kind: "timeout".to_owned(), message: "late".to_owned() };
    assert_eq!(kind(begin(None).0.resume(Input::TransportFailed(failed))), "timeout");
    assert_eq!(kind(begin(None).0.resume(Input::BodyEnd)), "network");
}

#[test]
fn repeated_and_endless_pages_end_the_listing() {
    let page =
        |number: u32| json!({"data": [], "links": {"next": format!("/api/v1/models?offset={number}")}}).to_string();
    let (mut pages, _) = begin(None);
    for number in 1..MAX_PAGES {
        let actions = answer(&mut pages, 200, &[], page(number).as_bytes());
        assert!(
            matches!(&actions[..], [_, ListingAction::Send(next)] if next.path_and_query == format!("/models?offset={number}"))
        );
    }
    assert_eq!(answer(&mut pages, 200, &[], page(99).as_bytes())[1], finish("partial", None));
    let (mut pages, _) = begin(None);
    answer(&mut pages, 200, &[], page(1).as_bytes());
    assert_eq!(answer(&mut pages, 200, &[], page(1).as_bytes())[1], finish("partial", None));
}

#[test]
fn links_to_other_places_are_not_followed() {
    for next in ["https://example.com/", "", "/x?a b", "/x?a#b", "?\u{e9}"] {
        let body = json!({"data": [], "links": {"next": next}}).to_string();
        let actions = answer(&mut begin(None).0, 200, &[], body.as_bytes());
        assert!(matches!(&actions[..], [_, ListingAction::Finish(_)]), "{next}: {actions:?}");
    }
    let body = json!({"data": [], "links": {"next": "https://example.com/a/b?c=1"}}).to_string();
    let actions = answer(&mut begin(None).0, 200, &[], body.as_bytes());
    assert!(matches!(&actions[..], [_, ListingAction::Send(next)] if next.path_and_query == "/models?c=1"));
}

#[test]
fn dates_and_amounts_are_converted() {
    for (seconds, expected) in [
        (1_794_873_600, Some("2026-11-17")),
        (951_782_400, Some("2000-02-29")),
        (1_767_225_599, Some("2025-12-31")),
        (0, None),
    ] {
        assert_eq!(unix_date(&json!(seconds)).as_deref(), expected);
    }
    assert_eq!(unix_date(&json!(u64::MAX)), None);
    assert_eq!(unix_date(&json!(253_402_300_799_u64)).as_deref(), Some("9999-12-31"));
    assert_eq!(date(&json!("2026-11-30T00:00:00Z")).as_deref(), Some("2026-11-30"));
    for none in ["1970-01-01T00:00:00Z", "30.11.2026", "2026-11-3", "2026-11-\u{e9}0"] {
        assert_eq!(date(&json!(none)), None, "{none}");
    }
    for (value, factor, expected) in [
        (json!("0.00000125"), 1e6, Some("1.25")),
        (json!("0.000004"), 1e6, Some("4")),
        (json!(20_000), 1e-4, Some("2")),
        (json!("0"), 1e6, Some("0")),
        (json!("-1"), 1e6, None),
        (json!("NaN"), 1e6, None),
        (json!("inf"), 1e6, None),
        (json!(null), 1e6, None),
    ] {
        assert_eq!(amount(&value, factor).as_deref(), expected, "{value}");
    }
    assert_eq!(query("a b/=\u{e9}"), "a%20b%2F%3D%C3%A9");
}

#[test]
fn facts_are_bounded() {
    let mut facts = Facts::default();
    facts.text("display-name", &json!("a\nb  c"));
    facts.text("description", &json!("x".repeat(1000)));
    facts.tokens("context-window", &json!(-1));
    facts.set("efforts", vec!["y".repeat(9000)]);
    let model = facts.of(&json!("m-1")).expect("a model");
    let facts: Value = serde_json::from_str(&model.facts).expect("JSON");
    assert_eq!(facts["display-name"], "a b c");
    assert_eq!(facts["description"].as_str().map(str::len), Some(MAX_TEXT));
    assert_eq!((facts.get("context-window"), facts.get("efforts")), (None, None));
    assert_eq!(Facts::default().of(&json!(7)), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "id",
        "name",
        "created",
        "context_length",
        "architecture",
        "input_modalities",
        "pricing",
        "prompt",
        "links",
        "next",
        "capabilities",
        "deprecation",
        "data",
        "reasoning",
        "supported_efforts",
        "supported_parameters",
        "top_provider",
    ]);
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|pairs| {
                Value::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_page_ends_or_goes_on(models in prop::collection::vec(any_json(), 0..4), next in any_json()) {
        let body = json!({"data": models, "links": {"next": next}}).to_string();
        let actions = answer(&mut begin(None).0, 200, &[], body.as_bytes());
        let [ListingAction::Models(models), ListingAction::Finish(_) | ListingAction::Send(_)] = &actions[..] else {
            panic!("{actions:?}")
        };
        for model in models {
            let facts: Value = serde_json::from_str(&model.facts).expect("JSON");
            prop_assert!(facts.is_object() && model.facts.len() <= MAX_FACTS);
        }
    }

    #[test]
    fn any_bytes_give_one_end(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let actions = answer(&mut begin(None).0, 200, &[], &body);
        prop_assert!(!actions.is_empty());
    }
}
