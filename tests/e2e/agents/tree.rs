//! `/agents` and `/switch`: the list of agents, the agent in view, UUIDs and their prefixes, and dead agents.

use patchbay_core::AgentId;
use patchbay_session::AgentState;
use patchbay_tests::{
    binary::Patchbay,
    guest::Guest,
    play::{Play, named},
    session_events::wait_for_end,
};

#[test]
fn commands_of_the_tree_check_their_arguments() {
    let lines = [
        ("/agents all", "invalid_args", "Error: /agents does not accept arguments."),
        ("/switch", "invalid_args", "Error: /switch requires an agent."),
        ("/switch 00000000", "agent_not_found", "Error: agent '00000000' was not found."),
        ("/switch no-one", "agent_not_found", "Error: agent 'no-one' was not found."),
        ("/switch parent", "no_parent", "Error: the root agent has no parent."),
        ("/kill 00000000", "agent_not_found", "Error: agent '00000000' was not found."),
        ("/kill", "kill_root", "Error: cannot kill the root agent."),
        ("/capture now", "invalid_args", "Error: /capture does not accept arguments."),
        ("/cancel now", "invalid_args", "Error: /cancel does not accept arguments."),
        ("/cancel", "capture_inactive", "Error: not capturing."),
    ];
    for ((line, code, text), answer) in lines.iter().zip(Patchbay::new().answers(&lines.map(|(line, ..)| line))) {
        assert_eq!((answer.code(), answer.message()), (*code, *text), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_listed_as_a_tree() {
    let play = Play::new().await;
    let root = play.session.view();
    let first = play.fork("").await;
    let below = play.fork("--model demo-big/high").await;
    play.switch(root).await;
    let second = play.fork("").await;
    play.finish("repeat 1300 word").await;
    play.session.stop_all();
    play.run(&format!("/mail-send {first} \"Hello\"")).await;
    let tokens = play.agent(second).await.tokens;
    assert!((1_300..10_000).contains(&tokens));
    let tokens = format!("{},{:03}", tokens / 1_000, tokens % 1_000);
    let listed = play.run("/agents").await;
    assert_eq!(listed.code.as_str(), "agents_listed");
    assert_eq!(
        named(&listed.line(), &[root, first, below, second]),
        format!(
            "  <1> held, demo/demo-1/default, 0 unread, 0 tokens\n\
             \x20   <2> held, demo/demo-1/default, 1 unread, 0 tokens\n\
             \x20     <3> held, demo/demo-big/high, 0 unread, 0 tokens\n\
             \x20 * <4> held \"repeat 1300 word\", demo/demo-1/default, 0 unread, {tokens} tokens"
        )
    );
    play.finish("say Go on.").await;
    // The list contains the last ten dead agents, and the number of the others.
    play.run(&format!("/kill {first}")).await;
    for _ in 0..10 {
        play.switch(root).await;
        play.fork("").await;
        play.run("/kill").await;
    }
    let listed = play.text("/agents").await;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2 + 10 + 1, "{listed}");
    assert_eq!(lines.iter().filter(|line| line.contains(" dead, demo/")).count(), 10, "{listed}");
    assert!(lines[2].starts_with("  ") && lines[12] == "2 more are dead.", "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_agents_are_shown() {
    let play = Play::limited(|limits| limits.concurrent_requests = 1).await;
    let root = play.session.view();
    let working = play.hang("say I work.\nhang").await;
    let child = play.fork("\"say I wait.\"").await;
    play.wait_for_state(child, AgentState::Waiting).await;
    let idle = play.fork("").await;
    let listed = named(&play.text("/agents").await, &[root, child, idle]);
    let words: Vec<_> = listed.lines().map(|line| line.split(", demo/").next().unwrap()).collect();
    // The numbers of seconds may differ.
    let begins = ["  <1> working ", "    <2> waiting ", "    * <3> idle"];
    assert!(words.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{listed}");
    let ends = [" s \"say I work. hang\"", " s \"say I wait.\"", "idle"];
    assert!(words.iter().zip(ends).all(|(line, end)| line.ends_with(end)), "{listed}");
    play.switch(root).await;
    play.session.stop_turn();
    wait_for_end(working).await;
    play.idle().await;
    assert_eq!(play.agent(root).await.state, AgentState::Held);
    assert_eq!(play.answers(child), ["I wait."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn view_moves_by_uuid_prefix_parent_and_root() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let below = play.fork("").await;
    for (argument, target) in [
        (root.to_string(), root),
        (child.to_string(), child),
        (below.to_string(), below),
        ("parent".to_owned(), child),
        ("parent".to_owned(), root),
        (below.short(), below),
        ("root".to_owned(), root),
    ] {
        play.assert_line(&format!("/switch {argument}"), "switched", &format!("Switched to {target}.")).await;
        assert_eq!(play.session.view(), target);
    }
    // The view survives a restart.
    play.switch(below).await;
    let play = play.restarted().await;
    assert_eq!(play.session.view(), below);
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_prefix_lists_the_agents() {
    let play = Play::new().await;
    let mut agents: Vec<AgentId> = vec![play.session.view()];
    // Of 17 agents, two have UUIDs with the same first character.
    while agents.len() < 17 {
        play.run("/switch root").await;
        agents.push(play.fork("").await);
    }
    let first = |agent: &AgentId| agent.to_string()[..1].to_owned();
    let prefix =
        agents.iter().map(first).find(|prefix| agents.iter().filter(|a| first(a) == *prefix).count() > 1).unwrap();
    let refused = play.run(&format!("/switch {prefix}")).await;
    assert_eq!(refused.code.as_str(), "ambiguous_uuid");
    let (words, listed) = refused.message.split_once(": ").unwrap();
    assert_eq!(words, format!("'{prefix}' matches several agents"));
    let mut listed: Vec<&str> = listed.trim_end_matches('.').split(", ").collect();
    let mut expected: Vec<String> = agents.iter().filter(|a| first(a) == prefix).map(ToString::to_string).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    // Dead agents count as well.
    let victim = agents.iter().skip(1).find(|a| first(a) == prefix).unwrap();
    play.run(&format!("/kill {victim}")).await;
    assert_eq!(play.run(&format!("/mail-filter --from {prefix}")).await.code.as_str(), "ambiguous_uuid");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_other_sessions_are_not_found() {
    let play = Play::new().await;
    let other = play.host.new_session(&play.patchbay.workspace()).await.unwrap();
    let theirs = other.view();
    for line in ["/switch", "/kill", "/mail-filter --from"] {
        let text = format!("Error: agent '{theirs}' was not found.");
        play.assert_line(&format!("{line} {theirs}"), "agent_not_found", &text).await;
    }
    let text = format!("Error: agent '{theirs}' was not found.");
    play.assert_line(&format!("/mail-send {theirs} \"Hello\""), "agent_not_found", &text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn line_belongs_to_the_agent_in_view_when_it_was_submitted() {
    let play = Play::new().await;
    let root = play.session.view();
    let child = play.fork("").await;
    let running = play.hang("say Working.\nhang").await;
    let waiting = play.session.submit("say For the child.");
    play.wait_until("a line waits", async || play.session.queue().lines.len() == 1).await;
    play.switch(root).await;
    // Moving the view does not disturb an agent.
    assert_eq!(play.agent(child).await.state, AgentState::Working);
    assert_eq!(play.run("say For the root.").await.message, "For the root.");
    play.switch(child).await;
    assert!(play.session.stop_turn());
    wait_for_end(running).await;
    assert!(play.session.release_queue());
    wait_for_end(waiting).await;
    assert_eq!(play.said(child), ["say Working.\nhang", "say For the child."]);
    assert_eq!(play.said(root), ["say For the root."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_agent_may_be_looked_at_but_not_talked_to() {
    let play = Play::new().await;
    play.patchbay.add_command("echo", &Guest::default(), "");
    play.run("/reload_skills").await;
    let root = play.session.view();
    let child = play.fork("").await;
    play.finish("say Remember me.").await;
    play.run(&format!("/mail-send {child} \"Read me\"")).await;
    play.idle().await;
    play.run("/kill").await;
    assert_eq!(play.session.view(), root);
    play.switch(child).await;
    let dead = format!("Error: agent '{child}' is dead.");
    for line in [
        "hello",
        "/model demo-big",
        "/fork",
        "/fork \"Go\"",
        "/capture",
        "/compact",
        "/echo 1",
        "/skill echo 1",
        &format!("/mail-send {root} \"Hello\""),
    ] {
        play.assert_line(line, "agent_dead", &dead).await;
    }
    // Commands that only show something still work.
    for (line, code) in [
        ("/agents", "agents_listed"),
        ("/mail-check", "mail_listed"),
        ("/mail-read 1", "mail_read"),
        ("/history", "history_listed"),
        ("/usage", "usage_listed"),
        ("/skills", "skills_listed"),
        ("/providers", "providers_listed"),
        (&format!("/mail-filter --from {child}"), "mail_listed"),
        ("/mail-delete 1", "mail_deleted"),
    ] {
        let outcome = play.run(line).await;
        assert_eq!(outcome.code.as_str(), code, "{line}: {}", outcome.message);
    }
    let already = format!("Error: agent '{child}' is already dead.");
    play.assert_line("/kill", "agent_dead", &already).await;
    play.assert_line("/switch parent", "switched", &format!("Switched to {root}.")).await;
    // A dead agent may be in view after a restart.
    play.switch(child).await;
    let play = play.restarted().await;
    assert_eq!(play.session.view(), child);
    play.assert_line("hello", "agent_dead", &dead).await;
    play.assert_line("/switch root", "switched", &format!("Switched to {root}.")).await;
    assert_eq!(play.finish("hello").await.message, "You said: hello");
}
