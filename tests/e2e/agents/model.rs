//! The tool `set_agent_model`: which agents have it, its selectors, the single test request for a model's name, and its stored
//! data.

use std::sync::Arc;

use patchbay_core::AgentId;
use patchbay_provider::Settings;
use patchbay_sandbox::Limits;
use patchbay_session::Approval;
use patchbay_tests::{
    format::{CHAT, OPENAI},
    play::{Answering, Play, with_local_model},
    server::{Server, body},
};
use serde_json::{Value, json};

/// Calls the tool from the agent in view and returns the result that the model receives.
async fn set(play: &Play, target: &str, model: &str) -> Value {
    let agent = play.session.view();
    let input = json!({"agentId": target, "model": model});
    play.finish(&format!("call set_agent_model {input}")).await;
    play.results(agent).await.pop().unwrap()
}

/// Returns settings with the provider `local` at `server`, without making it the default.
fn beside_demo(server: &Server) -> Settings {
    Settings { default_model: None, ..with_local_model(server, 100_000) }
}

fn succeeded(message: &str) -> Value {
    json!({"tool_success": true, "result": message})
}

fn failed(error: &str, code: &str) -> Value {
    json!({"tool_success": false, "error": error, "error_code": code})
}

async fn model(play: &Play, agent: AgentId) -> String {
    play.agent(agent).await.model
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_choose_a_size_of_the_targets_provider() {
    let play = Play::new().await;
    let agent = play.session.view();
    for (selector, chosen) in [("big", "demo-big"), ("small", "demo-small"), ("normal", "demo-1")] {
        let text = format!("Model set to \"{selector}\" selector for agent {agent}.");
        assert_eq!(set(&play, "$self", selector).await, succeeded(&text));
        assert_eq!(model(&play, agent).await, format!("demo/{chosen}/default"));
        let query = "SELECT model_override FROM agents WHERE uuid = ?";
        let stored: String = play.patchbay.query_one(query, [agent.to_string()]);
        assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), json!({"type": "selector", "value": selector}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_may_set_its_own_model_for_its_next_request() {
    let play = Play::new().await;
    let answer = play
        .finish("call set_agent_model {\"agentId\": \"$self\", \"model\": \"big\"}\nthen show context")
        .await
        .message;
    assert!(answer.contains("model: demo-big\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn override_keeps_the_level_and_survives_a_restart() {
    let play = Play::new().await;
    let agent = play.session.view();
    play.run("/model demo-1/med").await;
    set(&play, "$self", "big").await;
    assert_eq!(model(&play, agent).await, "demo/demo-big/med");
    let play = play.restarted().await;
    assert_eq!(model(&play, agent).await, "demo/demo-big/med");
    let answer = play.finish("show context").await.message;
    assert!(answer.contains("model: demo-big\nlevel: med\n"), "{answer}");
    // `/model` clears the override: the last change wins.
    play.run("/model demo-1").await;
    assert_eq!(model(&play, agent).await, "demo/demo-1/default");
    set(&play, "$self", "demo-small").await;
    assert_eq!(model(&play, agent).await, "demo/demo-small/default");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_living_agent_is_a_target() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let sibling = {
        play.switch(root).await;
        play.fork("").await
    };
    // The parent and a sibling by UUID, and the agent itself by the beginning of its UUID.
    for target in [root.to_string(), child.to_string(), sibling.short()] {
        let result = set(&play, &target, "big").await;
        assert_eq!(result["tool_success"], true, "{result}");
    }
    for agent in [root, child, sibling] {
        assert_eq!(model(&play, agent).await, "demo/demo-big/default");
    }
    play.run(&format!("/kill {child}")).await;
    let dead = format!("agent '{child}' is dead.");
    assert_eq!(set(&play, &child.to_string(), "big").await, failed(&dead, "agent_dead"));
    let unknown = "agent '00000000' was not found.";
    assert_eq!(set(&play, "00000000", "big").await, failed(unknown, "agent_not_found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn background_agents_do_not_run_the_tool() {
    let play = Play::new().await;
    let root = play.session.view();
    play.finish("call fork {\"prompt\": \"call set_agent_model {\\\"agentId\\\": \\\"$$parent\\\", \\\"model\\\": \\\"big\\\"}\"}")
        .await;
    let child = *play.ids().await.last().unwrap();
    let refused = failed("tool 'set_agent_model' not found in snapshot.", "tool_not_found");
    assert_eq!(play.results(child).await, std::slice::from_ref(&refused));
    assert_eq!(model(&play, root).await, "demo/demo-1/default");
    // It stays a background agent when the user talks to it, even after a restart.
    let play = play.restarted().await;
    play.switch(child).await;
    assert_eq!(set(&play, "$self", "big").await, refused);
    // Its model may be set, and the user's fork of it is a foreground agent.
    let below = play.fork("").await;
    assert_eq!(set(&play, "$self", "small").await["tool_success"], true);
    assert_eq!(set(&play, &child.to_string(), "big").await["tool_success"], true);
    assert_eq!(model(&play, child).await, "demo/demo-big/default");
    assert_eq!(model(&play, below).await, "demo/demo-small/default");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_of_a_model_is_tried_with_one_request() {
    let server = Server::always(CHAT.answer_with(&["ok"]));
    let play = Play::with(beside_demo(&server), Limits::default()).await;
    let person = Answering::new(Approval::Once);
    play.session.set_approver(Arc::clone(&person) as _);
    let agent = play.session.view();
    let set_text = |model: &str| succeeded(&format!("Model set to \"{model}\" for agent {agent}."));
    assert_eq!(set(&play, "$self", "local:gemma3").await, set_text("local:gemma3"));
    let requests = server.requests();
    // The test is the first request; the second one is the rest of the turn.
    let tried: Value = serde_json::from_str(body(&requests[0])).unwrap();
    assert_eq!((&tried["model"], tried.get("tools")), (&"gemma3".into(), None), "{tried}");
    assert_eq!(
        tried["messages"],
        json!([{"role": "system", "content": "Reply with 'ok'."}, {"role": "user", "content": "hi"}])
    );
    let next: Value = serde_json::from_str(body(&requests[1])).unwrap();
    assert_eq!((requests.len(), &next["model"]), (2, &"gemma3".into()));
    assert_eq!(model(&play, agent).await, "local/gemma3/default");
    let title = format!("Move agent {} to provider 'local'?", agent.short());
    let facts = ["its whole conversation will be sent to 'local' instead of 'demo'", "model: gemma3"];
    assert_eq!(*person.asked.lock().unwrap(), [(title, facts.map(str::to_owned).to_vec())]);
    // Once the model is set, a message needs only its own request.
    play.run("/model local:gemma3").await;
    let before = server.requests().len();
    assert_eq!(play.finish("Hello").await.message, "ok");
    assert_eq!(server.requests().len(), before + 1);
}

/// The other provider would receive the whole conversation, so it gets no request before the user has agreed.
#[tokio::test(flavor = "multi_thread")]
async fn model_cannot_move_an_agent_to_another_provider_alone() {
    let server = Server::always(CHAT.answer_with(&["ok"]));
    let play = Play::with(beside_demo(&server), Limits::default()).await;
    let agent = play.session.view();
    let refused = |why: &str| {
        let error = format!(
            "Agent '{agent}' cannot be moved to provider 'local', which would receive its whole conversation: \
             {why}. The user can do it with /model local:local-1"
        );
        failed(&error, "denied")
    };
    assert_eq!(set(&play, "$self", "local-1").await, refused("no user can be asked here"));
    play.session.set_approver(Answering::new(Approval::No));
    assert_eq!(set(&play, "$self", "local-1").await, refused("the user did not allow it"));
    assert_eq!((server.requests().len(), &*model(&play, agent).await), (0, "demo/demo-1/default"));
    // A yes for the session covers the same move of any agent, but not the move back.
    let person = Answering::new(Approval::Session);
    play.session.set_approver(Arc::clone(&person) as _);
    let child = play.fork("").await;
    for target in [agent, child] {
        assert_eq!(set(&play, &target.to_string(), "local-1").await["tool_success"], true);
    }
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    play.run("/model demo-1").await;
    set(&play, &agent.to_string(), "demo-1").await;
    assert_eq!(person.asked.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_test_of_a_model_stores_nothing() {
    let server = Server::always(CHAT.refusal(500, "The model is broken.", None));
    let play = Play::with(beside_demo(&server), Limits::default()).await;
    play.session.set_approver(Answering::new(Approval::Session));
    let agent = play.session.view();
    let result = set(&play, "$self", "local-1").await;
    assert_eq!(result["error_code"], "model_validation_failed");
    let error = result["error"].as_str().unwrap();
    assert!(error.starts_with("Model validation failed for \"local-1\": "), "{error}");
    assert!(error.contains("The model is broken"), "{error}");
    assert_eq!(server.requests().len(), 1, "it is not sent again");
    assert_eq!(model(&play, agent).await, "demo/demo-1/default");
    // Names that no provider has, models without a key, and levels are refused without a request.
    for (name, reason) in [
        ("unknown-model", "Unknown model: unknown-model"),
        ("claude-sonnet-4-5", "No credentials for anthropic. Set ANTHROPIC_API_KEY or add to credentials.json"),
        ("demo-big/high", "a thinking level ('high') cannot be set here; the agent's level stays."),
        ("demo-big/maximum", "Invalid thinking level: maximum"),
        ("o3-mini", "No credentials for openai. Set OPENAI_API_KEY or add to credentials.json"),
        // A model cannot use `/model`, so the message does not mention it.
        ("", "the model's name is missing. Use \"small\", \"normal\" or \"big\", or the name of a model."),
        ("demo:", "the model's name is missing. Use \"small\", \"normal\" or \"big\", or the name of a model."),
    ] {
        let expected = format!("Model validation failed for \"{name}\": {reason}");
        assert_eq!(set(&play, "$self", name).await, failed(&expected, "model_validation_failed"), "{name}");
    }
    assert_eq!((server.requests().len(), &*model(&play, agent).await), (1, "demo/demo-1/default"));
}

/// Seed 000: a name whose prefix a provider owns is accepted. The API decides whether the model still answers.
#[tokio::test(flavor = "multi_thread")]
async fn model_that_was_shut_down_is_a_caution() {
    let (answer, refusal) = (OPENAI.answer_with(&["Solved."]), OPENAI.refusal(404, "No such model.", None));
    let server = Server::new(move |request| if request.contains("\"o1\"") { refusal.clone() } else { answer.clone() });
    let mut settings = beside_demo(&server);
    let table = format!("origin = \"http://{}/v1\"\nenv = \"\"", server.host());
    settings.providers.insert("openai".parse().unwrap(), toml::from_str(&table).unwrap());
    let play = Play::with(settings, Limits::default()).await;
    play.session.set_approver(Answering::new(Approval::Session));
    let root = play.session.view();
    let end = |on: &str, next: &str| format!("This model was shut down on {on}. Its successor is {next}");
    let caution = end("2026-10-23", "gpt-6-luna");

    let forked = play.finish("/fork --model o3-mini/high \"Solve this\"").await;
    let child = play.session.view();
    assert_eq!(forked.message, format!("Forked child {child} (openai/o3-mini/high)\n  ⚠ {caution}"));
    assert!(server.requests()[0].contains("\"model\":\"o3-mini\""), "{}", server.requests()[0]);
    let forked = play.run("/fork --model o3-mini/high").await;
    assert_eq!(forked.message.lines().nth(1), Some(&*format!("  ⚠ {caution}")));

    play.switch(root).await;
    let text = format!("Model set to \"o3-mini\" for agent {root}.\n⚠ {caution}");
    assert_eq!(set(&play, "$self", "o3-mini").await, succeeded(&text));
    // The override stays with the provider that was tried.
    let query = "SELECT model_override FROM agents WHERE uuid = ?";
    let stored: String = play.patchbay.query_one(query, [root.to_string()]);
    assert_eq!(stored, r#"{"type":"model","value":"openai:o3-mini"}"#);
    play.run("/model demo-1").await;

    // The API decides.
    let result = set(&play, "$self", "o1").await;
    let error = result["error"].as_str().unwrap();
    assert!(error.starts_with("Model validation failed for \"o1\": openai: No such model."), "{error}");
    assert!(error.ends_with(&format!(" {}.", end("2026-10-23", "gpt-6.1-sol"))), "{error}");
    assert_eq!(play.run("/model o1").await.code.as_str(), "model_set");
    let failed = play.run("hello").await;
    assert_eq!(failed.code.as_str(), "model_retired");
    assert!(failed.message.ends_with(&format!(" {}.", end("2026-10-23", "gpt-6.1-sol"))), "{}", failed.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn selector_of_a_provider_without_sizes_says_that_the_model_stays() {
    let server = Server::always(CHAT.answer_with(&["Yes."]));
    let mut settings = beside_demo(&server);
    settings.providers.values_mut().for_each(|provider| provider.models.clear());
    let play = Play::with(settings, Limits::default()).await;
    let root = play.session.view();
    play.run("/model local:local-1").await;
    play.fork("--model demo-1").await;
    let text =
        format!("Model set to \"big\" selector for agent {root}. Provider 'local' has no catalogue; the model stays.");
    assert_eq!(set(&play, &root.to_string(), "big").await, succeeded(&text));
    assert_eq!(model(&play, root).await, "local/local-1/default");
}

#[tokio::test(flavor = "multi_thread")]
async fn test_of_a_model_counts_as_the_callers_request() {
    let play = Play::limited(|limits| limits.tree_requests = 2).await;
    let outcome = play.finish("call set_agent_model {\"agentId\": \"$self\", \"model\": \"demo-big\"}").await;
    let limit = "Error: the agents of this session made 2 requests since your last message (limits.tree_requests). Send \
                 any message to continue.";
    assert_eq!((outcome.code.as_str(), &*outcome.line()), ("limit_requests", limit));
    assert_eq!(model(&play, play.session.view()).await, "demo/demo-big/default");
}
