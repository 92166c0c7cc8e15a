//! `/fork`: its grammar, the rows that a child inherits, and the fork point.

use patchbay_core::{AgentId, MessageKind};
use patchbay_session::AgentState;
use patchbay_tests::{binary::Patchbay, play::Play, session_events::wait_for_end};

#[test]
fn arguments_of_fork_are_checked_in_order() {
    let patchbay = Patchbay::new();
    let lines = [
        ("/fork --model", "invalid_args", "Error: --model requires an argument."),
        ("/fork --model \"Solve this\"", "invalid_args", "Error: --model requires an argument."),
        ("/fork \"Investigate", "unclosed_quote", "Error: unclosed quote in '\"Investigate'."),
        ("/fork --model demo-1 \"Investigate", "unclosed_quote", "Error: unclosed quote in '\"Investigate'."),
        ("/fork Investigate", "invalid_args", "Error: the prompt must be quoted: /fork \"prompt\"."),
        ("/fork --models demo-1", "invalid_args", "Error: the prompt must be quoted: /fork \"prompt\"."),
        ("/fork \"Go\" now", "invalid_args", "Error: unexpected text after the prompt: 'now'."),
        ("/fork \"Go\" --model demo-1", "invalid_args", "Error: unexpected text after the prompt: '--model demo-1'."),
        ("/fork \"\"", "invalid_args", "Error: the prompt cannot be empty."),
        ("/fork \"  \"", "invalid_args", "Error: the prompt cannot be empty."),
        ("/fork --model demo-1/", "invalid_args", "Error: a thinking level must follow '/' in 'demo-1/'."),
        (
            "/fork --model demo-1/maximum",
            "invalid_thinking_level",
            "Invalid thinking level: maximum\nValid levels: none, low, med, high",
        ),
    ];
    let answers = patchbay.answers(&lines.map(|(line, ..)| line));
    for ((line, code, text), answer) in lines.iter().zip(&answers) {
        assert_eq!((answer.code(), answer.message()), (*code, *text), "{line}");
    }
    // None of these lines created an agent.
    let session = patchbay.last_session();
    let agents = &patchbay.answers_in(&["--session", &session], &["/agents"])[0];
    assert_eq!(agents.data()["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn unknown_model_of_fork_is_that_of_model() {
    let answers = Patchbay::new().answers(&["/fork --model unknown-model", "/model unknown-model"]);
    assert_eq!(answers[0].code(), "unknown_model");
    assert!(answers[0].message().starts_with("Unknown model: unknown-model\n\nSupported models:\n  Anthropic: "));
    assert_eq!(answers[0].message(), answers[1].message());
}

/// Each form of the command, with the model that the child gets.
#[tokio::test(flavor = "multi_thread")]
async fn forms_of_fork_work() {
    let play = Play::new().await;
    let root = play.session.view();
    play.run("/model demo-big/high").await;
    for (command, model, prompt) in [
        ("/fork", "demo/demo-big/high", None),
        ("/fork \"Investigate the bug\"", "demo/demo-big/high", Some("Investigate the bug")),
        ("/fork --model demo-small", "demo/demo-small/default", None),
        ("/fork --model demo-1/low", "demo/demo-1/low", None),
        ("/fork --model claude-sonnet-4-5/med", "anthropic/claude-sonnet-4-5/med", None),
        ("/fork --model gpt-6-luna", "openai/gpt-6-luna/default", None),
        ("/fork --model demo-1/none \"Solve this\"", "demo/demo-1/none", Some("Solve this")),
        ("/fork --model demo-1\"Solve \"this\" now\"", "demo/demo-1/default", Some("Solve \"this\" now")),
        ("/fork --model\tdemo-1  \"Solve this\"  ", "demo/demo-1/default", Some("Solve this")),
    ] {
        play.switch(root).await;
        let outcome = play.finish(command).await;
        let child = play.session.view();
        assert_ne!(child, root, "{command}");
        // A model with an announced shutdown has a warning on a further line.
        let shown = outcome.line();
        assert_eq!(shown.lines().next(), Some(&*format!("Forked child {child} ({model})")), "{command}");
        assert_eq!(shown.lines().count(), 1 + usize::from(command.contains("claude-sonnet-4-5")), "{shown}");
        let forked = outcome.forked().unwrap();
        assert_eq!((forked.child_uuid, &*forked.model), (child, model));
        let agent = play.agent(child).await;
        assert_eq!((agent.parent, &*agent.model, agent.in_view), (Some(root), model, true), "{command}");
        let said = play.said(child);
        assert_eq!(said, prompt.iter().map(ToString::to_string).collect::<Vec<_>>(), "{command}");
        let answers = play.answers(child).len();
        assert_eq!((answers, agent.state), (prompt.iter().count(), AgentState::Idle), "{command}");
    }
    assert_eq!(play.agent(root).await.model, "demo/demo-big/high");
}

/// Returns an agent's stored columns: provider, model, level, override, parent, status.
fn stored(play: &Play, agent: AgentId) -> [Option<String>; 6] {
    let query =
        "SELECT provider, model, thinking_level, model_override, parent_uuid, status FROM agents WHERE uuid = ?";
    play.patchbay
        .database("patchbay.db")
        .query_row(query, [agent.to_string()], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
        })
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn child_inherits_the_effective_model_and_level() {
    let play = Play::new().await;
    let root = play.session.view();
    play.run("/model demo-1/low").await;
    let text = |text: &str| Some(text.to_owned());
    let parent = Some(root.to_string());
    let child = play.fork("").await;
    let expected = [text("demo"), text("demo-1"), text("low"), None, parent.clone(), text("running")];
    assert_eq!(stored(&play, child), expected);
    // An override of the parent becomes the child's own model; the override itself is not inherited.
    play.switch(root).await;
    play.finish("call set_agent_model {\"agentId\": \"$self\", \"model\": \"big\"}").await;
    let child = play.fork("").await;
    let expected = [text("demo"), text("demo-big"), text("low"), None, parent.clone(), text("running")];
    assert_eq!(stored(&play, child), expected);
    // If the parent chooses another model later, the child keeps its own.
    play.switch(root).await;
    play.run("/model demo-small").await;
    assert_eq!(play.agent(child).await.model, "demo/demo-big/low");
    // The parent's level does not apply to another model.
    let child = play.fork("--model demo-big").await;
    let expected = [text("demo"), text("demo-big"), None, None, parent, text("running")];
    assert_eq!(stored(&play, child), expected);
}

/// Returns the kind and text of each message in the conversation that an agent's model receives.
async fn conversation(play: &Play, agent: AgentId) -> Vec<(MessageKind, String)> {
    let rows = play.host.store().conversation(agent).await.unwrap();
    rows.into_iter().map(|row| (row.kind, row.content)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn child_inherits_conversation_but_not_commands_and_notices() {
    let play = Play::new().await;
    play.patchbay.skill("guide", "summary: Shows the way", "Go left.");
    play.run("/reload_skills").await;
    let root = play.session.view();
    for line in ["hello", "/skills", "/skill guide", "call mail_check {}", "fail server never"] {
        play.finish(line).await;
    }
    play.finish(&format!("/mail-send {root} \"To myself\"")).await;
    let kinds: Vec<_> = conversation(&play, root).await.into_iter().map(|(kind, _)| kind).collect();
    use MessageKind::{Assistant, Skill, Tool, User};
    assert_eq!(kinds, [User, Assistant, Skill, User, Assistant, Tool, Assistant, User, User, Assistant]);
    let expected = conversation(&play, root).await;
    assert!(expected[8].1.starts_with("[Notification: You have 1 unread message in your inbox]\n"), "{expected:?}");
    let child = play.fork("").await;
    assert_eq!(conversation(&play, child).await, expected);
    assert_eq!(play.rows(child).await, [], "rows are not copied");
    // Later rows of the parent do not belong to the child, nor those of the child to the parent.
    play.finish("say mine").await;
    play.switch(root).await;
    play.finish("say yours").await;
    let ends = |rows: Vec<(MessageKind, String)>| rows.last().unwrap().1.clone();
    assert_eq!(ends(conversation(&play, child).await), "mine");
    assert_eq!(ends(conversation(&play, root).await), "yours");
    assert_eq!(conversation(&play, child).await.len(), expected.len() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn child_does_not_inherit_mail_queue_capture_and_hold() {
    let play = Play::new().await;
    let root = play.session.view();
    let running = play.hang("say I wait.\nhang").await;
    play.run(&format!("/mail-send {root} \"Later\"")).await;
    let waiting = play.session.submit("and then?");
    play.wait_until("a line waits", async || play.session.queue().lines.len() == 1).await;
    play.run("/capture").await;
    let child = play.fork("").await;
    assert_eq!(play.inbox(child).await, []);
    assert_eq!(play.session.queue().lines, []);
    assert!(!play.session.is_capturing());
    assert_eq!(play.agent(child).await.state, AgentState::Idle);
    // The queue stays with the parent, whose turn continues.
    assert_eq!(play.agent(root).await.state, AgentState::Working);
    play.switch(root).await;
    assert_eq!(play.session.queue().lines[0].text, "and then?");
    assert!(play.session.stop_turn());
    assert_eq!(wait_for_end(running).await.code.as_str(), "turn_cancelled");
    assert_eq!(play.agent(root).await.state, AgentState::Held);
    let held = play.fork("").await;
    assert_eq!(play.agent(held).await.state, AgentState::Idle);
    drop(waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_point_is_before_the_running_turn() {
    let play = Play::new().await;
    let root = play.session.view();
    play.finish("say One.").await;
    let complete = conversation(&play, root).await;
    let running = play.hang("say Two\nhang").await;
    let during = play.fork("").await;
    assert_eq!(conversation(&play, during).await, complete);
    // A stopped turn has ended.
    play.switch(root).await;
    play.session.stop_turn();
    wait_for_end(running).await;
    let after = play.fork("").await;
    let texts: Vec<_> = conversation(&play, after).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["say One.", "One.", "say Two\nhang", "Two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_of_fork_is_a_persons_turn() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("\"say $parent\"").await;
    play.idle().await;
    assert_eq!(play.answers(child), [root.to_string()]);
    assert_eq!(play.turns(child), [("person".to_owned(), "done".to_owned(), "answered".to_owned())]);
    // The parent therefore gets no report.
    assert_eq!((play.inbox(root).await, play.answers(root)), (vec![], vec![]));
    assert_eq!(play.turns(root), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_of_a_fork_reads_all_ancestors() {
    let play = Play::new().await;
    let root = play.session.view();
    play.finish("say one").await;
    let child = play.fork("").await;
    play.finish("say two").await;
    let grandchild = play.fork("").await;
    play.finish("say three").await;
    play.switch(root).await;
    play.finish("say four").await;
    let texts = |rows: Vec<(MessageKind, String)>| rows.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(
        texts(conversation(&play, grandchild).await),
        ["say one", "one", "say two", "two", "say three", "three"]
    );
    assert_eq!(texts(conversation(&play, child).await), ["say one", "one", "say two", "two"]);
    assert_eq!(play.agent(grandchild).await.depth, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn message_without_credentials_fails_in_the_child_alone() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("--model claude-sonnet-4-5/med").await;
    let refused = play.finish("Hello!").await;
    assert_eq!(refused.code.as_str(), "missing_credentials");
    assert_eq!(
        &*refused.line(),
        "No credentials for anthropic. Set ANTHROPIC_API_KEY or add to credentials.json\n\n\
         Get your API key at: https://console.anthropic.com/settings/keys"
    );
    assert_eq!(play.said(child), ["Hello!"]);
    play.switch(root).await;
    assert_eq!(play.finish("Hello!").await.message, "You said: Hello!");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_child_are_not_rows_of_its_parent() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let before = play.session.last_seq();
    play.run("say Hello.").await;
    assert!(!play.session.has_row_after(root, before).await.unwrap());
    assert!(play.session.has_row_after(child, before).await.unwrap());
    assert!(!play.session.has_row_after(child, play.session.last_seq()).await.unwrap());
}
