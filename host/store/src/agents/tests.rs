//! Tests of agents: creation, death, prefixes and capturing.

use patchbay_core::{LineId, MessageKind, TurnCause, TurnState};

use super::*;
use crate::{
    NewTurn, PartialPiece, QueueRow, SessionChange,
    testing::{TestTree, assert_dead, message, new_agent},
};

fn ids(agents: &[AgentRow]) -> Vec<AgentId> {
    agents.iter().map(|agent| agent.id).collect()
}

#[tokio::test]
async fn agents_are_listed_in_the_order_of_their_creation() {
    let tree = TestTree::new().await;
    tree.add(tree.root, MessageKind::User, "one").await;
    let model = AgentModel { provider: Some("demo".to_owned()), model: Some("m".to_owned()), ..AgentModel::default() };
    let one = NewAgent { foreground: false, model: model.clone(), ..new_agent(tree.root) };
    let one_id = one.id;
    // The fork point is the last row before the change, even if the change adds rows.
    let change = SessionChange {
        new_agent: Some(one),
        view: Some(one_id),
        messages: vec![message(one_id, MessageKind::User, "go")],
        agent_tokens: vec![(one_id, 3), (tree.root, 4), (one_id, 2)],
        ..SessionChange::default()
    };
    tree.commit(change).await.unwrap();
    let two = tree.fork(one_id).await;
    let three = tree.fork(tree.root).await;
    let store = &tree.store;
    let agents = store.agents(tree.session()).await.unwrap();
    assert_eq!(ids(&agents), [tree.root, one_id, two, three]);
    let expected = AgentRow {
        id: one_id,
        parent: Some(tree.root),
        rewound: None,
        fork_point: 1,
        depth: 1,
        ordinal: 1,
        alive: true,
        foreground: false,
        capturing: false,
        model,
        tokens: 5,
    };
    assert_eq!(agents[1], expected);
    assert_eq!((agents[0].parent, agents[0].ordinal, agents[0].foreground, agents[0].tokens), (None, 0, true, 4));
    assert_eq!((agents[2].parent, agents[2].fork_point, agents[2].ordinal), (Some(one_id), 2, 2));
    assert_eq!((agents[0].depth, agents[2].depth), (0, 2));
    assert_eq!(store.session(tree.session()).await.unwrap().agent, one_id);
    assert_eq!(store.agent(tree.session(), one_id).await.unwrap(), Some(expected));
    assert_eq!(store.agent(SessionId::random(), one_id).await.unwrap(), None);

    tree.kill(&[two, one_id]).await;
    assert_eq!(ids(&store.agents(tree.session()).await.unwrap()), [tree.root, three]);
    assert_eq!(store.dead_agents(tree.session(), 0).await.unwrap(), (vec![], 2));
    let (dead, all) = store.dead_agents(tree.session(), 1).await.unwrap();
    assert_eq!((ids(&dead), all), (vec![two], 2));
    assert_eq!(ids(&store.dead_agents(tree.session(), 9).await.unwrap().0), [one_id, two]);
    assert!(!store.agent(tree.session(), two).await.unwrap().unwrap().alive);
    // Ordinals are not reused.
    let four = tree.fork(three).await;
    assert_eq!(store.agent(tree.session(), four).await.unwrap().unwrap().ordinal, 4);
}

#[tokio::test]
async fn agent_forked_during_a_turn_inherits_what_was_before_the_turn() {
    for state in [TurnState::Waiting, TurnState::Running, TurnState::Done, TurnState::Interrupted] {
        let tree = TestTree::new().await;
        tree.add(tree.root, MessageKind::User, "one").await;
        tree.add(tree.root, MessageKind::Assistant, "two").await;
        let turn = NewTurn { agent: tree.root, cause: TurnCause::Person, state, began: None };
        let change = SessionChange {
            messages: vec![message(tree.root, MessageKind::User, "three")],
            begins_turns: vec![turn],
            ..SessionChange::default()
        };
        tree.commit(change).await.unwrap();
        tree.add(tree.root, MessageKind::Assistant, "four").await;
        let child = tree.fork(tree.root).await;
        let sent = tree.sent(child).await;
        if matches!(state, TurnState::Waiting | TurnState::Running) {
            assert_eq!(sent, ["one", "two"]);
        } else {
            assert_eq!(sent, ["one", "two", "three", "four"]);
        }
        // The turn of another agent does not matter.
        tree.add(child, MessageKind::User, "five").await;
        let grandchild = tree.fork(child).await;
        assert_eq!(tree.sent(grandchild).await, [sent, vec!["five".to_owned()]].concat());
    }
}

#[tokio::test]
async fn change_is_refused_if_an_agent_is_dead() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    tree.kill(&[child]).await;
    let change = |requires: Vec<AgentId>| SessionChange {
        requires_alive: requires,
        persona: Some("new".to_owned()),
        tokens: 5,
        messages: vec![message(tree.root, MessageKind::User, "lost")],
        ..SessionChange::default()
    };
    assert_dead(tree.commit(change(vec![tree.root, child])).await, child);
    let stranger = AgentId::random();
    assert_dead(tree.commit(change(vec![stranger])).await, stranger);
    let other = TestTree::new().await;
    assert_dead(tree.commit(change(vec![other.root])).await, other.root);
    let fork = SessionChange { new_agent: Some(new_agent(child)), ..change(vec![]) };
    assert_dead(tree.commit(fork).await, child);
    let store = &tree.store;
    assert_eq!(store.session(tree.session()).await.unwrap().persona, "{}");
    assert_eq!((store.last_seq(tree.session()).await.unwrap(), store.tokens(tree.session()).await.unwrap()), (0, 0));
    assert_eq!(store.agents(tree.session()).await.unwrap().len(), 1);
    // The change that kills an agent may require it to be alive, and append its last rows.
    let change = SessionChange { kills: vec![tree.root], ..change(vec![tree.root]) };
    assert_eq!(tree.commit(change).await.unwrap().len(), 1);
    let error = StoreError::AgentDead(child);
    assert_eq!(error.to_string(), format!("agent '{child}' is dead"));
    assert_eq!(error.code().as_str(), "agent_dead");
}

#[tokio::test]
async fn killed_agent_has_no_waiting_lines_and_no_new_pieces() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let row = |agent, position| QueueRow {
        line: LineId::new(1, [0; 16]),
        agent,
        position,
        text: "later".to_owned(),
        attachments: Vec::new(),
    };
    let piece = |agent, piece: &str| PartialPiece { agent, ordinal: 0, piece: piece.to_owned() };
    let (store, hold) = (&tree.store, &tree.hold);
    store.queue_line(hold, row(child, 1), None).await.unwrap();
    store.queue_line(hold, row(tree.root, 2), None).await.unwrap();
    store.checkpoint(hold, vec![piece(child, "before")]).await.unwrap();
    tree.commit(SessionChange { capture: Some((child, true)), ..SessionChange::default() }).await.unwrap();
    tree.kill(&[child]).await;
    assert!(!store.agent(tree.session(), child).await.unwrap().unwrap().capturing);
    let lines = store.queued_lines(tree.session()).await.unwrap();
    assert_eq!(lines.iter().map(|row| row.agent).collect::<Vec<_>>(), [tree.root]);
    assert_dead(store.queue_line(hold, row(child, 3), None).await, child);
    store.checkpoint(hold, vec![piece(child, "late"), piece(tree.root, "kept")]).await.unwrap();
    let join = |pieces: &[String]| Some((pieces.concat(), serde_json::Value::Null));
    let mut answers: Vec<_> = store.partial_answers(tree.session(), join).await.unwrap();
    answers.sort_by_key(|answer| answer.agent != tree.root);
    let texts: Vec<_> = answers.iter().map(|answer| (answer.agent, answer.content.as_str())).collect();
    assert_eq!(texts, [(tree.root, "kept"), (child, "before")]);
    let of_child = store.partial_answers_of(&[child], join).await.unwrap();
    assert_eq!(of_child.iter().map(|answer| answer.agent).collect::<Vec<_>>(), [child]);
    // Reading them changes nothing.
    assert_eq!(store.partial_answers(tree.session(), join).await.unwrap().len(), 2);
    assert_eq!(store.last_seq(tree.session()).await.unwrap(), 0);
    let change = SessionChange { ends_partial: vec![child, tree.root], ..SessionChange::default() };
    tree.commit(change).await.unwrap();
    assert_eq!(store.partial_answers(tree.session(), join).await.unwrap().len(), 0);
}

#[tokio::test]
async fn agents_are_found_by_prefix() {
    let tree = TestTree::new().await;
    let id: AgentId = "25ac03e6-5613-4409-a682-4dd5270a4e0e".parse().unwrap();
    let alike: AgentId = "25ac03e6-5700-4000-8000-000000000000".parse().unwrap();
    for id in [alike, id] {
        let agent = NewAgent { id, ..new_agent(tree.root) };
        tree.commit(SessionChange { new_agent: Some(agent), ..SessionChange::default() }).await.unwrap();
    }
    tree.kill(&[alike]).await;
    let found = async |prefix: &str| ids(&tree.store.agents_with_prefix(tree.session(), prefix, 9).await.unwrap());
    for prefix in ["25ac03e6-56", "25ac03e656", "25AC03E6-5613", "25ac03e656134409a6824dd5270a4e0e", &id.to_string()] {
        assert_eq!(found(prefix).await, [id], "{prefix}");
    }
    for prefix in ["25ac03e6", "25ac03e6-", "25ac03e65"] {
        let found = found(prefix).await;
        assert_eq!(found, [alike, id], "{prefix}");
    }
    let long = "2".repeat(1 << 20);
    for prefix in
        ["25ac03e6_", "25%", "25ac-03e6", "%", "'", "2g", "25ac03e6-5613-4409-a682-4dd5270a4e0e0", "é", &*long]
    {
        assert_eq!(found(prefix).await, [], "{prefix:.40}");
    }
    assert_eq!(found("").await, [tree.root, alike, id]);
    assert_eq!(tree.store.agents_with_prefix(tree.session(), "25", 1).await.unwrap().len(), 1);
    let other = TestTree::new().await;
    assert_eq!(other.store.agents_with_prefix(tree.session(), "25", 1).await.unwrap(), []);
}

#[tokio::test]
async fn captured_lines_are_those_since_capturing_began() {
    use MessageKind::{Capture, Command, User};
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let capture = async |agent, begins| {
        let messages = vec![message(agent, Command, "/capture")];
        let change = SessionChange { capture: Some((agent, begins)), messages, ..SessionChange::default() };
        tree.commit(change).await.unwrap();
    };
    let captured = async |agent| tree.store.captured(agent).await.unwrap();
    tree.add(tree.root, User, "before").await;
    capture(tree.root, true).await;
    assert_eq!(captured(tree.root).await, Vec::<String>::new());
    tree.add(tree.root, Capture, "one").await;
    tree.add(child, Capture, "of the child").await;
    tree.add(tree.root, Command, "/skills").await;
    tree.add(tree.root, Capture, "two").await;
    assert_eq!(captured(tree.root).await, ["one", "two"]);
    assert_eq!(captured(child).await, Vec::<String>::new(), "it is not capturing");
    assert!(tree.store.agent(tree.session(), tree.root).await.unwrap().unwrap().capturing);
    // Captured lines are not part of the conversation.
    assert_eq!(tree.sent(tree.root).await, ["before"]);
    assert_eq!(tree.sent(tree.fork(tree.root).await).await, ["before"]);
    capture(tree.root, false).await;
    assert_eq!(captured(tree.root).await, Vec::<String>::new());
    capture(tree.root, true).await;
    tree.add(tree.root, Capture, "three").await;
    assert_eq!(captured(tree.root).await, ["three"]);
    assert_eq!(captured(AgentId::random()).await, Vec::<String>::new());
}
