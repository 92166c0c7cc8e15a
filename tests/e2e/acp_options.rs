//! The options of `patchbay acp`: model, thinking level and persona, set by the client or elsewhere.

use patchbay_tests::{
    acp::{Peer, in_workspace, prompt, said, updates},
    binary::Patchbay,
};
use serde_json::{Value, json};

fn with_persona() -> Patchbay {
    let patchbay = Patchbay::quick();
    patchbay.write("home/config/agents/pirate/SOUL.md", "You are a pirate.");
    patchbay
}

/// Returns each option with its current value, and checks that the value is one of the choices.
fn current(options: &Value) -> Vec<(String, String)> {
    let options = options.as_array().unwrap_or_else(|| panic!("no options: {options}"));
    let value = |option: &Value| {
        assert!(values(option).contains(&option["currentValue"].as_str().unwrap().to_owned()), "{option}");
        (option["id"].as_str().unwrap().to_owned(), option["currentValue"].as_str().unwrap().to_owned())
    };
    options.iter().map(value).collect()
}

fn values(option: &Value) -> Vec<String> {
    option["options"].as_array().unwrap().iter().map(|choice| choice["value"].as_str().unwrap().to_owned()).collect()
}

fn expected(model: &str, level: &str, persona: &str) -> Vec<(String, String)> {
    [("model", model), ("thought_level", level), ("mode", persona), ("permissions", "ask")]
        .map(|(id, value)| (id.to_owned(), value.to_owned()))
        .to_vec()
}

fn set(peer: &mut Peer, id: i64, session: &str, option: &str, value: &str) -> Value {
    peer.call(id, "session/set_config_option", json!({"sessionId": session, "configId": option, "value": value}))
}

#[test]
fn options_come_with_the_answer_that_opens_a_session() {
    let patchbay = with_persona();
    let mut peer = Peer::initialized(&patchbay);
    let answer = peer.call(1, "session/new", in_workspace(&patchbay));
    let options = &answer["result"]["configOptions"];
    assert_eq!(current(options), expected("demo:demo-1", "default", "default"));
    assert_eq!(values(&options[0]), ["demo:demo-1", "demo:demo-small", "demo:demo-big"]);
    assert_eq!(values(&options[1]), ["default", "none", "low", "med", "high"]);
    assert_eq!(values(&options[2]), ["default", "pirate"]);
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    for (id, method) in [(2, "session/load"), (3, "session/resume")] {
        let mut params = in_workspace(&patchbay);
        params["sessionId"] = json!(session);
        assert_eq!(&peer.call(id, method, params)["result"]["configOptions"], options, "{method}");
    }
    assert_eq!(peer.leave(), Some(0));
}

/// The mode also applies to existing grants. It is not stored, so a session that is loaded asks again.
#[test]
fn permissions_are_an_option_of_the_session() {
    let patchbay = with_persona();
    assert_eq!(patchbay.run(&["grant", "add", "--root", "bundled", "files", "workspace-write"]).code, Some(0));
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let options = &set(&mut peer, 2, &session, "permissions", "plan")["result"]["configOptions"];
    assert_eq!(current(options)[3], ("permissions".to_owned(), "plan".to_owned()));
    assert_eq!(options[3]["category"], "_permissions");
    let write = json!([{"type": "text", "text": r#"call files__write {"path":"made.txt","text":"x"}"#}]);
    assert!(peer.say(3, &session, write).contains("plan mode"));
    assert!(!patchbay.workspace().join("made.txt").exists());
    peer.take();
    assert_eq!(peer.prompt(4, &session, "/mode edits"), "end_turn");
    let seen = peer.take();
    let announced = updates(&seen, "config_option_update");
    assert_eq!(current(&announced.last().unwrap()["configOptions"])[3].1, "edits");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn options_that_the_client_sets_are_stored() {
    let patchbay = with_persona();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    peer.take();
    let refused = peer.call(6, "session/set_mode", json!({"sessionId": session, "modeId": "pirate"}));
    let words = "this agent has no modes. Its personas are the option 'mode': call session/set_config_option with the configId \
                 'mode'.";
    assert_eq!(refused["error"], json!({"code": -32601, "message": words}));
    let mut wanted = expected("demo:demo-small", "default", "default");
    assert_eq!(current(&set(&mut peer, 2, &session, "model", "demo:demo-small")["result"]["configOptions"]), wanted);
    wanted[1].1 = "low".to_owned();
    assert_eq!(current(&set(&mut peer, 3, &session, "thought_level", "low")["result"]["configOptions"]), wanted);
    wanted[2].1 = "pirate".to_owned();
    assert_eq!(current(&set(&mut peer, 4, &session, "mode", "pirate")["result"]["configOptions"]), wanted);
    // The responses contain the lists, so nothing is announced.
    assert_eq!(updates(&peer.take(), "config_option_update").len(), 0);
    let context = peer.say(5, &session, json!([{"type": "text", "text": "show context"}]));
    assert!(context.contains("model: demo-small\nlevel: low\n"), "{context}");
    assert_eq!(peer.leave(), Some(0));
    let mut peer = Peer::initialized(&patchbay);
    let mut params = in_workspace(&patchbay);
    params["sessionId"] = json!(session);
    assert_eq!(current(&peer.call(1, "session/resume", params)["result"]["configOptions"]), wanted);
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn options_that_change_elsewhere_are_announced_once() {
    let patchbay = with_persona();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let override_by_the_model = r#"call set_agent_model {"agentId": "$self", "model": "small"}"#;
    for (id, (text, wanted)) in (2..).zip([
        ("/model demo-big/high", Some(expected("demo:demo-big", "high", "default"))),
        ("/agent pirate", Some(expected("demo:demo-big", "high", "pirate"))),
        ("/agent pirate", None),
        ("say Nothing changes.", None),
        (override_by_the_model, Some(expected("demo:demo-small", "high", "pirate"))),
        ("/fork --model demo-1", Some(expected("demo:demo-1", "default", "pirate"))),
        ("/switch root", Some(expected("demo:demo-small", "high", "pirate"))),
    ]) {
        peer.take();
        assert_eq!(peer.prompt(id, &session, text), "end_turn");
        let seen = peer.take();
        let announced: Vec<_> = updates(&seen, "config_option_update");
        let announced: Vec<_> = announced.iter().map(|update| current(&update["configOptions"])).collect();
        assert_eq!(announced, wanted.into_iter().collect::<Vec<_>>(), "{text}");
    }
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn model_set_during_a_turn_answers_its_next_request() {
    let patchbay = with_persona();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    let write = r#"call files__write {"path": "made.txt", "text": "x"}"#;
    peer.request(2, "session/prompt", prompt(&session, &format!("{write}\nthen show context")));
    // The turn waits until the question is answered.
    let question = peer.asked("session/request_permission");
    assert_eq!(peer.prompt(3, &session, "/model demo-small"), "end_turn");
    assert!(said(&peer.take()).contains("cannot switch model while a response is streaming"));
    let options = set(&mut peer, 4, &session, "model", "demo:demo-big");
    assert_eq!(current(&options["result"]["configOptions"]), expected("demo:demo-big", "default", "default"));
    peer.respond(&question, json!({"outcome": {"outcome": "selected", "optionId": "once"}}));
    assert_eq!(peer.answer()["result"]["stopReason"], "end_turn");
    let context = said(&peer.take());
    assert!(context.contains("model: demo-big\n"), "{context}");
    assert_eq!(peer.leave(), Some(0));
}

#[test]
fn values_that_are_no_choices_are_refused_with_the_choices() {
    let patchbay = with_persona();
    let mut peer = Peer::initialized(&patchbay);
    let session = peer.session(&patchbay, 1);
    for (id, (option, value, code, words)) in (2..).zip([
        ("model", "nonsense", "unknown_model", "demo-1, demo-small, demo-big"),
        ("thought_level", "huge", "invalid_thinking_level", "Valid levels: default, none, low, med, high"),
        ("thought_level", "max", "invalid_thinking_level", "Valid levels: default, none, low, med, high"),
        ("mode", "../pirate", "persona_not_found", "Personas: default, pirate"),
    ]) {
        let error = &set(&mut peer, id, &session, option, value)["error"];
        assert_eq!((&error["code"], &error["data"]["code"]), (&json!(-32602), &json!(code)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    let error = &set(&mut peer, 10, &session, "colour", "red")["error"];
    assert_eq!(error["message"], "unknown option 'colour'; use model, thought_level, mode, permissions.");
    let error = &set(&mut peer, 12, &session, "model", &"x".repeat(2_000))["error"];
    assert_eq!(error["message"], "a value is over 1024 bytes; use one of the choices.");
    let flag = json!({"sessionId": session, "configId": "model", "type": "boolean", "value": true});
    assert_eq!(peer.call(11, "session/set_config_option", flag)["error"]["code"], -32602);
    assert_eq!(peer.leave(), Some(0));
}
