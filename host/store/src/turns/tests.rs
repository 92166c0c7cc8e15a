//! Tests of stored turns.

use patchbay_core::MessageKind;

use super::*;
use crate::{
    SessionChange,
    testing::{TestTree, message},
};

fn turn(agent: AgentId, state: TurnState, began: Option<u64>) -> NewTurn {
    NewTurn { agent, cause: TurnCause::Person, state, began }
}

#[tokio::test]
async fn turn_begins_with_the_first_row_of_its_agent() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let change = SessionChange {
        messages: vec![
            message(tree.root, MessageKind::Command, "/x"),
            message(child, MessageKind::Skill, "Do it."),
            message(child, MessageKind::User, "now"),
        ],
        begins_turns: vec![
            NewTurn { cause: TurnCause::Fork, ..turn(child, TurnState::Waiting, None) },
            turn(tree.root, TurnState::Running, None),
        ],
        ..SessionChange::default()
    };
    tree.commit(change).await.unwrap();
    let (root, child) = (
        TurnRow { began: 1, agent: tree.root, cause: TurnCause::Person, state: TurnState::Running },
        TurnRow { began: 2, agent: child, cause: TurnCause::Fork, state: TurnState::Waiting },
    );
    let store = &tree.store;
    assert_eq!(store.open_turns(tree.session()).await.unwrap(), [root, child.clone()]);
    assert_eq!(store.turn(tree.session(), 2).await.unwrap(), Some((child, None)));
    assert_eq!(store.turn(tree.session(), 3).await.unwrap(), None);
    assert_eq!(store.turn(tree.session(), u64::MAX).await.unwrap(), None);
    // A turn needs a row.
    let change = SessionChange {
        persona: Some("new".to_owned()),
        begins_turns: vec![turn(tree.root, TurnState::Running, None)],
        ..SessionChange::default()
    };
    assert!(matches!(tree.commit(change).await, Err(StoreError::BadRow("turn"))));
    assert_eq!(store.session(tree.session()).await.unwrap().persona, "{}");
    store.remove_session(tree.session()).await.unwrap();
    let left: i64 = tree.database().query_row("SELECT count(*) FROM turns", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn ended_turn_keeps_its_end_until_it_runs_again() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let begin = |began| SessionChange {
        messages: vec![message(tree.root, MessageKind::User, "go")],
        begins_turns: vec![turn(tree.root, TurnState::Running, began)],
        ..SessionChange::default()
    };
    tree.commit(begin(None)).await.unwrap();
    let end = async |agent, state, code| {
        let ends_turns = vec![EndedTurn { agent, began: 1, state, code }];
        tree.commit(SessionChange { ends_turns, ..SessionChange::default() }).await.unwrap();
        let (turn, code) = tree.store.turn(tree.session(), 1).await.unwrap().unwrap();
        (turn.state, code)
    };
    assert_eq!(end(child, TurnState::Done, None).await, (TurnState::Running, None), "it is not the turn of the child");
    let interrupted = (TurnState::Interrupted, Some(Code::Internal));
    assert_eq!(end(tree.root, TurnState::Interrupted, Some(Code::Internal)).await, interrupted);
    assert_eq!(tree.store.open_turns(tree.session()).await.unwrap(), []);
    assert_eq!(end(tree.root, TurnState::Done, None).await, interrupted, "it had ended");
    tree.commit(begin(Some(1))).await.unwrap();
    let open = tree.store.open_turns(tree.session()).await.unwrap();
    assert_eq!(open.iter().map(|turn| turn.began).collect::<Vec<_>>(), [1]);
    assert_eq!(tree.store.turn(tree.session(), 1).await.unwrap().unwrap().1, None);
    assert_eq!(end(tree.root, TurnState::Done, None).await, (TurnState::Done, None));
    // A turn of another agent is not replaced.
    let change =
        SessionChange { begins_turns: vec![turn(child, TurnState::Running, Some(1))], ..SessionChange::default() };
    assert!(matches!(tree.commit(change).await, Err(StoreError::BadRow("turn"))));
}
