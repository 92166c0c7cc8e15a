//! Tests of inherited conversations.

use patchbay_core::{MessageKind, TurnCause, TurnState};
use proptest::{prelude::*, sample::Index};
use serde_json::json;

use super::*;
use crate::{
    DroppedMessage, EndedTurn, NewAgent, NewTurn, SessionChange,
    testing::{TestTree, assert_dead, message, new_agent},
};

/// Appends a summary that keeps the rows from number `keep_from` on.
async fn compact(tree: &TestTree, agent: AgentId, content: &str, keep_from: Option<u64>) -> u64 {
    let mut summary = message(agent, MessageKind::Compaction, content);
    summary.data = Some(json!({"keep_from": keep_from}));
    tree.add_row(summary).await
}

async fn drop_message(tree: &TestTree, agent: AgentId, row: u64) {
    let drops = Some(DroppedMessage { agent, first: row, last: row });
    tree.commit(SessionChange { drops, ..SessionChange::default() }).await.unwrap();
}

#[tokio::test]
async fn later_changes_of_the_parent_do_not_affect_the_child() {
    use MessageKind::{Assistant, User};
    let tree = TestTree::new().await;
    let root = tree.root;
    tree.add(root, User, "one").await;
    tree.add(root, Assistant, "two").await;
    let three = tree.add(root, User, "three").await;
    let child = tree.fork(root).await;
    drop_message(&tree, root, three).await;
    assert_eq!(tree.sent(root).await, ["one", "two"]);
    assert_eq!(tree.sent(child).await, ["one", "two", "three"]);
    // An agent that is forked now does not inherit the dropped row, although no row was added in between.
    let second = tree.fork(root).await;
    assert_eq!(tree.sent(second).await, ["one", "two"]);
    compact(&tree, root, "summary", None).await;
    tree.add(root, User, "four").await;
    tree.add(child, User, "five").await;
    assert_eq!(tree.sent(root).await, ["summary", "four"]);
    assert_eq!(tree.sent(child).await, ["one", "two", "three", "five"]);
    assert_eq!(tree.sent(second).await, ["one", "two"]);
    let grandchild = tree.fork(child).await;
    drop_message(&tree, root, 1).await;
    assert_eq!(tree.sent(root).await, ["four"], "the rows that were dropped before stay dropped");
    assert_eq!(tree.sent(grandchild).await, ["one", "two", "three", "five"]);
}

#[tokio::test]
async fn summary_of_the_child_keeps_inherited_rows() {
    use MessageKind::{Assistant, User};
    let tree = TestTree::new().await;
    tree.add(tree.root, User, "one").await;
    compact(&tree, tree.root, "first", None).await;
    let two = tree.add(tree.root, User, "two").await;
    tree.add(tree.root, Assistant, "three").await;
    let child = tree.fork(tree.root).await;
    assert_eq!(tree.sent(child).await, ["first", "two", "three"]);
    let four = tree.add(child, User, "four").await;
    compact(&tree, child, "second", Some(two)).await;
    assert_eq!(tree.sent(child).await, ["two", "three", "four", "second"]);
    let grandchild = tree.fork(child).await;
    drop_message(&tree, child, four).await;
    assert_eq!(tree.sent(child).await, ["first", "two", "three"]);
    assert_eq!(tree.sent(grandchild).await, ["two", "three", "four", "second"]);
}

/// Rewinds the agent `of` to before row `before`, and returns the id of the new agent.
async fn rewind(tree: &TestTree, of: AgentId, parent: AgentId, before: u64) -> Result<AgentId, StoreError> {
    let agent = NewAgent { rewinds: Some((of, before)), ..new_agent(parent) };
    let id = agent.id;
    tree.commit(SessionChange { new_agent: Some(agent), ..SessionChange::default() }).await.map(|_| id)
}

/// Begins and ends a turn with a message, and returns its row.
async fn turn(tree: &TestTree, agent: AgentId, cause: TurnCause, content: &str) -> u64 {
    let turn = NewTurn { agent, cause, state: TurnState::Done, began: None };
    let messages = vec![message(agent, MessageKind::User, content)];
    let change = SessionChange { messages, begins_turns: vec![turn], ..SessionChange::default() };
    tree.commit(change).await.unwrap()[0].seq
}

#[tokio::test]
async fn rewound_conversation_ends_before_the_message() {
    use MessageKind::Assistant;
    let tree = TestTree::new().await;
    let root = tree.root;
    turn(&tree, root, TurnCause::Person, "one").await;
    let answer = tree.add(root, Assistant, "two").await;
    compact(&tree, root, "summary", None).await;
    let three = turn(&tree, root, TurnCause::Person, "three").await;
    let texts = async |agent| {
        tree.store.messages_to(agent).await.unwrap().into_iter().map(|row| row.content).collect::<Vec<_>>()
    };
    let child = tree.fork(root).await;
    turn(&tree, child, TurnCause::Fork, "a model's").await;
    turn(&tree, child, TurnCause::Person, "four").await;
    turn(&tree, root, TurnCause::Mail, "mail").await;
    assert_eq!(
        (texts(root).await.join(" "), texts(child).await.join(" ")),
        ("one three".into(), "one three four".into())
    );

    let again = rewind(&tree, root, root, three).await.unwrap();
    assert_eq!((tree.sent(again).await, texts(again).await), (vec!["summary".into()], vec!["one".into()]));
    let five = turn(&tree, again, TurnCause::Person, "five").await;
    // A child can be rewound to an inherited row, even from before a summary.
    let of_child = rewind(&tree, child, root, answer).await.unwrap();
    assert_eq!(tree.sent(of_child).await, ["one"]);
    // Rows that the old agent adds later are not inherited, and killing an agent changes nothing.
    turn(&tree, root, TurnCause::Person, "late").await;
    tree.kill(&[child]).await;
    let third = rewind(&tree, again, root, five).await.unwrap();
    assert_eq!(
        (tree.sent(again).await, tree.sent(third).await),
        (vec!["summary".into(), "five".into()], vec!["summary".into()])
    );
    assert_eq!(tree.sent(of_child).await, ["one"]);

    let row = async |agent| tree.store.agent(tree.session(), agent).await.unwrap().unwrap();
    let third_row = row(third).await;
    assert_eq!((third_row.parent, third_row.rewound, third_row.depth), (Some(root), Some(again), 0));
    assert_eq!((row(of_child).await.depth, row(tree.fork(third).await).await.depth), (1, 1));
    let lineage: Vec<_> =
        tree.store.lineage(third).await.unwrap().into_iter().map(|part| (part.agent, part.last)).collect();
    assert_eq!(lineage, [(third, i64::MAX as u64), (again, five - 1), (root, three - 1)]);
    let lineage: Vec<_> =
        tree.store.lineage(of_child).await.unwrap().into_iter().map(|part| (part.agent, part.parent)).collect();
    assert_eq!(lineage, [(of_child, Some(root)), (child, Some(root)), (root, None)]);
}

#[tokio::test]
async fn notifications_belong_to_the_conversation() {
    let tree = TestTree::new().await;
    let mut notification = message(tree.root, MessageKind::User, "[Notification]");
    notification.data = Some(json!({"notification": true}));
    tree.add_row(notification).await;
    tree.add(tree.root, MessageKind::User, "a message").await;
    assert_eq!(tree.sent(tree.fork(tree.root).await).await, ["[Notification]", "a message"]);
    // A notification does not count as the first message of a session.
    let first = tree.store.first_message(tree.session(), 99).await.unwrap().unwrap();
    assert_eq!(first.content, "a message");
}

#[tokio::test]
async fn conversation_is_read_by_ranges_of_its_agents() {
    let tree = TestTree::new().await;
    let plan = |sql: &str| tree.plan(sql).join("\n");
    assert_eq!(
        plan(&format!("SELECT {} {ROWS}", columns())),
        "SEARCH messages USING INDEX messages_by_agent (agent=? AND session=? AND seq>? AND seq<?)"
    );
    assert_eq!(plan(SUMMARY), "SEARCH messages USING INDEX messages_compactions (agent=? AND session=? AND seq<?)");
    let chain = plan(CHAIN);
    assert!(chain.contains("SEARCH agents USING PRIMARY KEY (uuid=?)"), "{chain}");
    assert!(!chain.contains("SCAN agents"), "{chain}");
}

#[tokio::test]
async fn circle_of_agents_does_not_run_forever() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let damage = "UPDATE agents SET parent_uuid = ?1, fork_message_id = 9";
    tree.database().execute(damage, [child.to_string()]).unwrap();
    tree.add(child, MessageKind::User, "one").await;
    assert!(tree.sent(child).await.len() <= 65);
}

/// A summary in the middle of a turn keeps only the user's messages.
#[tokio::test]
async fn summary_may_keep_the_requests_alone() {
    use MessageKind::{Assistant, Compaction, Skill, Tool, User};
    let tree = TestTree::new().await;
    let root = tree.root;
    tree.add(root, User, "one").await;
    tree.add(root, Assistant, "two").await;
    let three = tree.add(root, User, "three").await;
    for (kind, text) in [(Assistant, "four"), (Tool, "five"), (Skill, "six"), (Assistant, "seven")] {
        tree.add(root, kind, text).await;
    }
    let mut summary = message(root, Compaction, "summary");
    summary.data = Some(json!({"keep_from": three, "requests_only": true}));
    tree.add_row(summary).await;
    tree.add(root, Assistant, "eight").await;
    assert_eq!(tree.sent(root).await, ["three", "six", "summary", "eight"]);
    let child = tree.fork(root).await;
    assert_eq!(tree.sent(child).await, ["three", "six", "summary", "eight"]);
    compact(&tree, root, "later", None).await;
    assert_eq!(tree.sent(root).await, ["later"]);
}

#[derive(Clone)]
struct CopiedRow {
    seq: u64,
    kind: MessageKind,
    keep_from: Option<u64>,
    dropped: bool,
}

/// An agent of the reference model. `rows` begins with copies of the rows that the agent inherits.
struct CopiedAgent {
    id: AgentId,
    /// Its parent; the root is its own parent.
    parent: AgentId,
    rows: Vec<CopiedRow>,
    inherited: usize,
    /// The first row of its open turn.
    turn: Option<u64>,
    alive: bool,
}

/// Returns the rows of a conversation according to the reference model, up to number `last`.
fn expected(rows: &[CopiedRow], last: u64) -> Vec<CopiedRow> {
    use MessageKind::{Assistant, Compaction, Skill, Tool, User};
    let rows = rows.iter().filter(|row| !row.dropped && row.seq <= last);
    let rows: Vec<_> = rows.filter(|row| matches!(row.kind, User | Skill | Assistant | Tool | Compaction)).collect();
    let summary = rows.iter().rfind(|row| row.kind == Compaction);
    let first = summary.map_or(0, |row| row.keep_from.unwrap_or(row.seq));
    rows.into_iter().filter(|row| row.seq >= first).cloned().collect()
}

fn numbers(rows: &[CopiedRow]) -> Vec<u64> {
    rows.iter().map(|row| row.seq).collect()
}

/// Returns a new agent with copies of the rows of `from` up to number `last`.
fn copied(from: &CopiedAgent, id: AgentId, parent: AgentId, last: u64) -> CopiedAgent {
    let rows: Vec<_> = from.rows.iter().filter(|row| !row.dropped && row.seq <= last).cloned().collect();
    CopiedAgent { id, parent, inherited: rows.len(), rows, turn: None, alive: true }
}

/// Does one step in the store and in the reference model.
async fn step(tree: &TestTree, agents: &mut Vec<CopiedAgent>, action: u8, agent: Index, choice: Index) {
    use MessageKind::{Assistant, Capture, Command, Skill, Tool, User};
    let at = agent.index(agents.len());
    let id = agents[at].id;
    match action {
        0 | 1 => {
            let child = new_agent(id);
            let child_id = child.id;
            let result = tree.commit(SessionChange { new_agent: Some(child), ..SessionChange::default() }).await;
            if !agents[at].alive {
                assert_dead(result, id);
                return;
            }
            result.unwrap();
            let last = agents[at].turn.map_or(u64::MAX, |began| began - 1);
            agents.push(copied(&agents[at], child_id, id, last));
        }
        2 => {
            let conversation = expected(&agents[at].rows, u64::MAX);
            let kept = choice.index(conversation.len() + 1);
            let keep_from = conversation.get(kept).map(|row| row.seq);
            let seq = compact(tree, id, "", keep_from).await;
            agents[at].rows.push(CopiedRow { seq, kind: MessageKind::Compaction, keep_from, dropped: false });
        }
        3 => {
            let inherited = agents[at].inherited;
            let own = agents[at].rows[inherited..].iter();
            let said: Vec<_> = own.filter(|row| row.kind == User).map(|row| row.seq).collect();
            if said.is_empty() {
                return;
            }
            let first = said[choice.index(said.len())];
            drop_message(tree, id, first).await;
            for row in &mut agents[at].rows[inherited..] {
                let answers = matches!(row.kind, Assistant | Tool | MessageKind::Compaction);
                row.dropped |= row.seq == first || row.seq > first && answers;
            }
        }
        4 if at > 0 => {
            tree.kill(&[id]).await;
            agents[at].alive = false;
        }
        5 => {
            let (mut begins_turns, mut ends_turns, mut messages) = (vec![], vec![], vec![]);
            match agents[at].turn {
                Some(began) => ends_turns.push(EndedTurn { agent: id, began, state: TurnState::Done, code: None }),
                None => {
                    messages.push(message(id, User, "turn"));
                    let state = [TurnState::Waiting, TurnState::Running][choice.index(2)];
                    begins_turns.push(NewTurn { agent: id, cause: TurnCause::Person, state, began: None });
                }
            }
            let change = SessionChange { begins_turns, ends_turns, messages, ..SessionChange::default() };
            let began = tree.commit(change).await.unwrap().first().map(|row| row.seq);
            let rows = began.map(|seq| CopiedRow { seq, kind: User, keep_from: None, dropped: false });
            agents[at].turn = began;
            agents[at].rows.extend(rows);
        }
        6 | 7 => {
            let said = agents[at].rows.iter().filter(|row| row.kind == User && !row.dropped);
            let said: Vec<_> = said.map(|row| row.seq).collect();
            let (Some(before), parent) = (said.get(choice.index(said.len().max(1))), agents[at].parent) else { return };
            let made = rewind(tree, id, parent, *before).await;
            if agents.iter().any(|agent| agent.id == parent && !agent.alive) {
                return assert_dead(made, parent);
            }
            agents.push(copied(&agents[at], made.unwrap(), parent, before - 1));
        }
        _ => {
            let kind = [User, User, Assistant, Assistant, Tool, Skill, Command, Capture][choice.index(8)];
            let seq = tree.add(id, kind, "").await;
            agents[at].rows.push(CopiedRow { seq, kind, keep_from: None, dropped: false });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An agent reads the same rows as if the conversation that it inherits had been copied
    /// when it was forked or rewound.
    #[test]
    fn inherited_conversation_equals_copied_rows(
        steps in proptest::collection::vec((0u8..14, any::<Index>(), any::<Index>()), 1..80),
    ) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            let tree = TestTree::new().await;
            let mut agents = vec![CopiedAgent { id: tree.root, parent: tree.root, rows: vec![], inherited: 0, turn: None, alive: true }];
            for (action, agent, choice) in steps {
                step(&tree, &mut agents, action, agent, choice).await;
            }
            for agent in &agents {
                let rows = tree.store.conversation(agent.id).await.unwrap();
                let read: Vec<_> = rows.iter().map(|row| row.seq).collect();
                prop_assert_eq!(read, numbers(&expected(&agent.rows, u64::MAX)));
            }
            Ok(())
        })?;
    }
}
