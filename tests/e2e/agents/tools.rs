//! The tools with which a model manages agents: their list, their results, and how they differ from the commands.

use patchbay_core::AgentId;
use patchbay_tests::{
    binary::Patchbay,
    guest::Guest,
    play::{Play, named},
    session_events::wait_for_end,
};
use serde_json::{Value, json};

/// Returns the tools that the model of the agent in view is shown.
async fn tools(play: &Play) -> Vec<String> {
    let shown = play.finish("show context").await.message;
    let list = shown.lines().find_map(|line| line.strip_prefix("tools: ")).unwrap().to_owned();
    list.split(", ").map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_one_alphabetical_list() {
    let play = Play::new().await;
    play.patchbay.skill("guide", "summary: Shows the way", "Go left.");
    play.patchbay.add_command("echo", &Guest::default(), "");
    play.run("/reload_skills").await;
    let root = tools(&play).await;
    assert!(root.is_sorted(), "{root:?}");
    let internal: Vec<&str> = root.iter().map(String::as_str).filter(|name| !name.contains("__")).collect();
    assert_eq!(internal, ["call_tool", "find_tools", "fork", "kill", "set_agent_model", "use_skill"]);
    // Tools of skills are in the same list. Commands that only users have are not listed.
    assert!(root.iter().any(|name| name == "echo__run"), "{root:?}");
    for command in ["capture", "cancel", "agents", "switch", "model", "agent", "quit", "retry", "drop", "history"] {
        assert!(!root.iter().any(|name| name == command), "{command}");
    }
    // A child that the user forked has the same list; a child that the tool forked lacks `set_agent_model`.
    play.fork("").await;
    assert_eq!(tools(&play).await, root);
    play.finish("call fork {\"prompt\": \"show context\"}").await;
    let background = *play.ids().await.last().unwrap();
    let shown = play.answers(background).remove(0);
    let list = shown.lines().find_map(|line| line.strip_prefix("tools: ")).unwrap().to_owned();
    let without: Vec<&String> = root.iter().filter(|name| *name != "set_agent_model").collect();
    assert_eq!(list.split(", ").collect::<Vec<_>>(), without);
}

/// Runs a message and returns the results that the model received from its tools.
async fn results(play: &Play, message: &str) -> Vec<Value> {
    let agent = play.session.view();
    let before = play.results(agent).await.len();
    play.run(message).await;
    play.results(agent).await.split_off(before)
}

fn failed(error: &str, code: &str) -> Value {
    json!({"tool_success": false, "error": error, "error_code": code})
}

fn succeeded(result: Value) -> Value {
    json!({"tool_success": true, "result": result})
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_tool_makes_a_child_without_moving_the_view() {
    let play = Play::new().await;
    let root = play.session.view();
    play.finish("say Earlier.").await;
    let forked = results(&play, "call fork {\"prompt\": \"say $$parent has $$self.\"}\nthen say Forked $child1.").await;
    play.idle().await;
    let [_, child] = play.ids().await[..] else { panic!("two agents") };
    assert_eq!(forked, [succeeded(json!({"child_uuid": child}))]);
    assert_eq!(play.session.view(), root);
    assert_eq!(play.answers(root)[1], format!("Forked {child}."));
    assert_eq!(play.answers(child), [format!("{root} has {child}.")]);
    assert_eq!(play.turns(child), [("fork".to_owned(), "done".to_owned(), "answered".to_owned())]);
    // The child has the conversation before the turn that forked it.
    let conversation = play.host.store().conversation(child).await.unwrap();
    let texts: Vec<_> = conversation.iter().map(|row| row.content.as_str()).collect();
    assert_eq!(texts[..3], ["say Earlier.", "Earlier.", "say $parent has $self."]);
    // The child's first row and the tool's result are one commit.
    let seq = |agent: AgentId, kind: &str| -> i64 {
        let query = "SELECT seq FROM messages WHERE agent = ? AND kind = ? ORDER BY seq LIMIT 1";
        play.patchbay.query_one(query, [&agent.to_string(), kind])
    };
    assert_eq!(seq(root, "tool"), seq(child, "user") + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_tool_requires_a_prompt() {
    let play = Play::new().await;
    for input in ["{}", "{\"prompt\": 1}", "{\"prompt\": \"Go\", \"model\": \"demo-big\"}"] {
        let result = results(&play, &format!("call fork {input}")).await.remove(0);
        assert_eq!(
            (&result["tool_success"], &result["error_code"]),
            (&false.into(), &"invalid_input".into()),
            "{input}"
        );
    }
    let empty = results(&play, "call fork {\"prompt\": \" \"}").await;
    assert_eq!(empty, [failed("the prompt cannot be empty.", "invalid_args")]);
    assert_eq!(play.ids().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_tool_ends_other_agents_only() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let ancestor = failed("an agent cannot kill itself or its ancestors.", "kill_ancestor");
    for target in [child, root] {
        assert_eq!(
            results(&play, &format!("call kill {{\"uuid\": \"{target}\"}}")).await,
            std::slice::from_ref(&ancestor)
        );
    }
    assert_eq!(
        results(&play, "call kill {\"uuid\": \"00000000\"}").await,
        [failed("agent '00000000' was not found.", "agent_not_found")]
    );
    // A sibling with a child. The user's view, which is inside, does not move.
    play.switch(root).await;
    let sibling = play.fork("").await;
    let below = play.fork("").await;
    play.switch(child).await;
    // The line belongs to `child`; the pause lets the view move before the kill.
    let running = play.session.submit(&format!("pause 300\ncall kill {{\"uuid\": \"{}\"}}", sibling.short()));
    play.switch(below).await;
    wait_for_end(running).await;
    assert_eq!(play.results(child).await.pop(), Some(succeeded(json!({"killed": [sibling, below]}))));
    assert_eq!(play.session.view(), below);
    play.assert_line("hello", "agent_dead", &format!("Error: agent '{below}' is dead.")).await;
    assert_eq!(play.ids().await, [root, child]);
    play.switch(child).await;
    assert_eq!(
        results(&play, &format!("call kill {{\"uuid\": \"{sibling}\"}}")).await,
        [failed(&format!("agent '{sibling}' is already dead."), "agent_dead")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_tools_return_what_the_commands_show() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    play.session.stop_all();
    let empty = succeeded(json!({"messages": [], "unread": 0}));
    // A message releases the agents of a stopped session. The child's mail is not delivered until its own turn has ended.
    assert_eq!(results(&play, "call mail_check {}").await, std::slice::from_ref(&empty));
    assert_eq!(results(&play, &format!("call mail_filter {{\"from\": \"{root}\"}}")).await, [empty]);
    let sent = results(
        &play,
        "call mail_send {\"to\": \"$self\", \"message\": \"Note\"}\nthen call mail_check {}\n\
                               then call mail_read {\"number\": 1}\nthen call mail_delete {\"number\": 1}\n\
                               then call mail_read {\"number\": 1}",
    )
    .await;
    assert_eq!(sent[0], succeeded(json!({"status": "sent", "to": child})));
    let sent_at = &sent[1]["result"]["messages"][0]["sent_at"];
    let listed = json!({"number": 1, "from": child, "sent_at": sent_at, "read": false, "preview": "Note"});
    assert_eq!(sent[1], succeeded(json!({"messages": [listed], "unread": 1})));
    assert_eq!(sent[2], succeeded(json!({"number": 1, "from": child, "sent_at": sent_at, "message": "Note"})));
    assert_eq!(sent[3], succeeded(json!({"deleted": 1})));
    assert_eq!(sent[4], failed("message 1 not found.", "mail_not_found"));
    play.idle().await;
    // Mail that was read does not wake an agent.
    assert_eq!(play.notifications(child), [""; 0]);
    play.switch(root).await;
    play.run(&format!("/kill {child}")).await;
    for (call, error, code) in [
        ("mail_send {\"to\": \"CHILD\", \"message\": \"Hi\"}", "recipient agent 'CHILD' is dead.", "agent_dead"),
        ("mail_send {\"to\": \"$self\", \"message\": \"\"}", "message body cannot be empty.", "invalid_args"),
        ("mail_send {\"to\": \"00000000\", \"message\": \"Hi\"}", "agent '00000000' was not found.", "agent_not_found"),
        ("mail_delete {\"number\": 7}", "message 7 not found.", "mail_not_found"),
        ("mail_filter {\"from\": \"00000000\"}", "agent '00000000' was not found.", "agent_not_found"),
    ] {
        let with_child = |text: &str| text.replace("CHILD", &child.to_string());
        let result = results(&play, &with_child(&format!("call {call}"))).await;
        assert_eq!(result, [failed(&with_child(error), code)], "{call}");
    }
    let long = "x".repeat(65_537);
    assert_eq!(
        results(&play, &format!("call mail_send {{\"to\": \"$self\", \"message\": \"{long}\"}}")).await,
        [failed("message of 65537 bytes is over the limit of 65536.", "mail_too_long")]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_agents_refuse_unknown_keys() {
    let play = Play::new().await;
    for call in [
        "fork {\"prompt\": \"Go\", \"x\": 1}",
        "kill {\"uuid\": \"00000000\", \"x\": 1}",
        "mail_check {\"x\": 1}",
        "mail_delete {\"number\": 1, \"x\": 1}",
        "mail_delete {\"number\": 0}",
        "mail_filter {\"from\": \"00000000\", \"x\": 1}",
        "mail_read {\"number\": 1, \"x\": 1}",
        "mail_read {\"number\": \"1\"}",
        "mail_send {\"to\": \"00000000\", \"message\": \"Hi\", \"x\": 1}",
        "set_agent_model {\"agentId\": \"$self\", \"model\": \"big\", \"x\": 1}",
    ] {
        let result = results(&play, &format!("call {call}")).await.remove(0);
        assert_eq!(
            (&result["tool_success"], &result["error_code"]),
            (&false.into(), &"invalid_input".into()),
            "{call}"
        );
    }
}

/// Whether or not a call changes something, it leaves the row of its result and a journal entry.
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_agents_are_in_the_journal() {
    let play = Play::new().await;
    play.finish("call fork {\"prompt\": \"say Done.\"}\ncall mail_check {}").await;
    play.finish("call kill {\"uuid\": \"$child1\"}").await;
    play.session.close().await;
    let journal = play.patchbay.run(&["journal"]).out;
    for tool in ["fork", "mail_check", "kill"] {
        assert!(journal.contains(tool), "{tool}: {journal}");
    }
}

#[test]
fn skills_do_not_reach_tools_of_agents() {
    let patchbay = Patchbay::new();
    for (number, tool) in (0..).zip(["fork", "kill", "mail_send", "mail_check", "set_agent_model"]) {
        patchbay.add_relay(&format!("relay-{number}"), tool, "{}");
    }
    let lines: Vec<String> = (0..5).map(|number| format!("/relay-{number}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).chain(["/agents"]).collect();
    let mut answers = patchbay.answers(&lines);
    let agents = answers.pop().unwrap();
    assert_eq!(agents.data()["agents"].as_array().unwrap().len(), 1);
    for answer in answers {
        assert!(answer.message().contains("not found in snapshot"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_tools_number_agents_alike() {
    let play = Play::new().await;
    let root = play.session.view();
    play.finish("call fork {\"prompt\": \"say A.\"}\nthen call fork {\"prompt\": \"say B.\"}").await;
    let agents = play.ids().await;
    assert_eq!((agents.len(), agents[0]), (3, root));
    let listed = named(&play.text("/agents").await, &agents);
    let marks: Vec<&str> = listed.lines().map(|line| line.split(" idle").next().unwrap()).collect();
    assert_eq!(marks, ["* <1>", "    <2>", "    <3>"]);
    assert_eq!((play.answers(agents[1]), play.answers(agents[2])), (vec!["A.".into()], vec!["B.".into()]));
}
