//! Tests of the conversation that a model receives.

use std::collections::HashSet;

use patchbay_core::{
    AgentId, AssistantPart, ToolRecordPart,
    completion::{TokenUsage, ToolCall},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

static SURROUNDINGS: Surroundings = Surroundings { facts: String::new(), instructions: Vec::new() };

const READER: ReaderModel<'_> = ReaderModel {
    adapter: "demo",
    model: "demo-1",
    reads: &|media| media == "image/png",
    lineage: &[],
    surroundings: &SURROUNDINGS,
};

fn row(seq: u64, kind: MessageKind, content: &str, data: Option<Value>) -> Row {
    Row { seq, agent: AgentId::random(), kind, content: content.to_owned(), data }
}

fn user(seq: u64, text: &str) -> Row {
    row(seq, MessageKind::User, text, None)
}

fn call(id: &str, name: &str, input: &str) -> AssistantPart {
    AssistantPart::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        input: input.to_owned(),
        opaque: None,
        call_tool: None,
    }
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text { text: text.to_owned(), opaque: None }
}

fn answer(parts: Vec<AssistantPart>) -> AssistantRecord {
    let [provider, adapter, model] = ["demo", "demo", "demo-1"].map(str::to_owned);
    AssistantRecord { provider, adapter, model, parts, ..AssistantRecord::default() }
}

fn assistant(seq: u64, answer: &AssistantRecord) -> Row {
    row(seq, MessageKind::Assistant, "", Some(json!(answer)))
}

fn tool(seq: u64, id: &str, said: &str) -> Row {
    let content = vec![ToolRecordPart::Text { text: said.to_owned() }];
    let answer = ToolRecord { call_id: id.to_owned(), name: "a__b".to_owned(), error: None, content };
    row(seq, MessageKind::Tool, said, Some(json!(answer)))
}

/// Returns a short form of a conversation: `U` and `A` with the content of each message.
fn shape(rows: &[Row]) -> String {
    let shown = |part: &Part| match &part.block {
        Block::Text(text) => text.clone(),
        Block::Thinking(text) => format!("<{text}|{}>", part.opaque.as_deref().unwrap_or("-")),
        Block::ToolCall(ToolCall { id, name, input }) => format!("{id}={name}({input})"),
        Block::ToolResult(result) => {
            let said: Vec<_> = result.content.iter().map(|piece| format!("{piece:?}")).collect();
            format!("{}:{}{}", result.call_id, if result.is_error { "!" } else { "" }, said.join(","))
        }
        other => format!("{other:?}"),
    };
    let messages = conversation(rows, &READER).messages;
    let lines = messages.iter().map(|message| {
        let role = if message.role == Role::User { "U" } else { "A" };
        format!("{role} {}", message.parts.iter().map(shown).collect::<Vec<_>>().join(" / "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn results_follow_their_calls_in_the_next_message() {
    let calls = answer(vec![text("I look."), call("1", "a__b", r#"{"x":1}"#), call("2", "a__b", "{}")]);
    let rows = [user(1, "hello"), assistant(2, &calls), tool(3, "2", "two"), tool(4, "1", "one"), user(5, "thanks")];
    assert_eq!(
        shape(&rows),
        "U hello\nA I look. / 1=a__b({\"x\":1}) / 2=a__b({})\nU 2:Text(\"two\") / 1:Text(\"one\") / thanks"
    );
}

#[test]
fn call_without_result_gets_one() {
    let calls = answer(vec![call("1", "a__b", "{}"), call("2", "a__b", "{}")]);
    let rows = [user(1, "hello"), assistant(2, &calls), tool(3, "1", "one"), user(4, "go on")];
    let shape = shape(&rows);
    assert!(shape.contains("1:Text(\"one\") / 2:!Text("), "{shape}");
    assert!(shape.contains("cancelled") && shape.ends_with("/ go on"), "{shape}");
}

#[test]
fn interrupted_answers_keep_text_and_lose_calls() {
    let mut broken = answer(vec![text("half a"), call("1", "a__b", "{\"x\":")]);
    broken.interrupted = true;
    assert_eq!(shape(&[user(1, "hello"), assistant(2, &broken), user(3, "and?")]), "U hello\nA half a\nU and?");
    broken.parts.remove(0);
    assert_eq!(shape(&[user(1, "hello"), assistant(2, &broken), user(3, "and?")]), "U hello / and?");
}

#[test]
fn invalid_names_ids_and_inputs_are_repaired() {
    let calls = answer(vec![call("", "töol name", "no json"), call("", &"n".repeat(100), "[1]")]);
    let rows = [user(1, "hello"), assistant(2, &calls), tool(3, "", "one"), tool(4, "", "two")];
    let long = "n".repeat(64);
    assert_eq!(
        shape(&rows),
        format!("U hello\nA _=t_ol_name({{}}) / __2={long}({{}})\nU _:Text(\"one\") / __2:Text(\"two\")")
    );
}

#[test]
fn thinking_is_sent_only_to_its_own_model() {
    let thinking = AssistantPart::Thinking { text: "hm".to_owned(), opaque: Some("sig".to_owned()) };
    let mut own = answer(vec![thinking, text("yes")]);
    assert_eq!(shape(&[user(1, "hello"), assistant(2, &own), user(3, "x")]), "U hello\nA <hm|sig> / yes\nU x");
    for (adapter, model) in [("other", "demo-1"), ("demo", "demo-big")] {
        (own.adapter, own.model) = (adapter.to_owned(), model.to_owned());
        assert_eq!(shape(&[user(1, "hello"), assistant(2, &own), user(3, "x")]), "U hello\nA yes\nU x");
    }
}

#[test]
fn images_are_sent_only_to_models_that_accept_them() {
    let blob = |media: &str| ToolRecord {
        call_id: "1".to_owned(),
        name: "a__b".to_owned(),
        error: None,
        content: vec![ToolRecordPart::Blob { media_type: media.to_owned(), data: "AQID".to_owned() }],
    };
    let rows = |media: &str| {
        let calls = answer(vec![call("1", "a__b", "{}")]);
        [user(1, "hello"), assistant(2, &calls), row(3, MessageKind::Tool, "", Some(json!(blob(media))))]
    };
    assert!(shape(&rows("image/png")).ends_with("1:Blob(Blob(image/png, 3 bytes))"));
    assert!(shape(&rows("audio/wav")).ends_with("1:Text(\"[audio/wav, which this model cannot read]\")"));
}

#[test]
fn files_stand_before_the_text_of_their_message() {
    let file = |name: &str, media_type: &str| Attachment {
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        digest: Digest::of(name.as_bytes()),
        size: 1,
    };
    let files = [file("a.png", "image/png"), file("b.pdf", "application/pdf"), file("c.txt", "text/plain")];
    let said = row(1, MessageKind::User, "look", Attachment::to_data(&files));
    let expected = "U [image: a.png] / [PDF, not readable by this model: b.pdf] / [file: c.txt] / look";
    assert_eq!(shape(std::slice::from_ref(&said)), expected);
    // File contents for the model are inserted later.
    let rows = [said, assistant(2, &answer(vec![text("I see.")])), user(3, "and now?")];
    let slots: Vec<_> = conversation(&rows, &READER)
        .slots
        .into_iter()
        .map(|slot| (slot.message, slot.part, slot.attachment.name))
        .collect();
    assert_eq!(slots, [(0, 0, "a.png".to_owned()), (0, 2, "c.txt".to_owned())]);
}

#[test]
fn summary_replaces_earlier_rows() {
    let compaction = |keep_from, request: Option<&str>| {
        let data = CompactionRecord {
            keep_from,
            requests_only: keep_from.is_some() && request.is_some(),
            request: request.map(str::to_owned).filter(|_| keep_from.is_none()),
            ..CompactionRecord::default()
        };
        row(4, MessageKind::Compaction, "much was said", Some(json!(data)))
    };
    let before = [user(1, "old"), assistant(2, &answer(vec![text("old answer")])), user(3, "new")];
    let summary = "Summary of the conversation so far, which had become long:\n\nmuch was said";
    let mut rows = before.to_vec();
    rows.push(compaction(Some(3), None));
    assert_eq!(shape(&rows), format!("U {summary} / new"));
    let mut rows = before.to_vec();
    rows.push(compaction(None, Some("new")));
    rows.push(user(5, "newer"));
    assert_eq!(shape(&rows), format!("U {summary} / What is being worked on:\n\nnew / newer"));
    // Of the turn, only the user's own message is kept, unchanged.
    let mut rows = before.to_vec();
    rows.extend([assistant(4, &answer(vec![text("first answer")])), compaction(Some(3), Some(""))]);
    rows[4].seq = 5;
    rows.push(user(6, "newer"));
    assert_eq!(shape(&rows), format!("U {summary} / What is being worked on: / new / newer"));
}

#[test]
fn summary_names_the_skills_in_use() {
    let record = json!({"skills": ["guide", "plan"], "provider": "demo", "model": "demo-1", "usage": {}});
    let rows = [row(4, MessageKind::Compaction, "much was said", Some(record)), user(5, "go on")];
    let shape = shape(&rows);
    let skills = "much was said / Skills in use: guide, plan. use_skill returns their instructions again. / go on";
    assert!(shape.ends_with(skills), "{shape}");
}

#[test]
fn reported_tokens_are_not_estimated_again() {
    let mut counted = answer(vec![text("yes")]);
    counted.usage = TokenUsage { input: 100, output: 20, ..TokenUsage::default() };
    let rows = [user(1, "hello"), assistant(2, &counted), user(3, "1234")];
    let conversation_of = |rows: &[Row]| {
        let Conversation { counted, uncounted, .. } = conversation(rows, &READER);
        (counted, uncounted)
    };
    assert_eq!(conversation_of(&rows), (Some(120), 4));
    counted.model = "other".to_owned();
    let (none, bytes) = conversation_of(&[user(1, "hello"), assistant(2, &counted), user(3, "1234")]);
    assert!(none.is_none() && bytes > 100, "{bytes}");
}

/// A tool may return megabytes, but a model receives at most 128 KiB. The estimate decides whether
/// the conversation is summarised.
#[test]
fn estimate_counts_what_is_sent_of_a_long_result() {
    let mut long = tool(3, "1", &"x".repeat(131_072));
    long.content = "x".repeat(3_000_000);
    let rows = [user(1, "look"), assistant(2, &answer(vec![call("1", "a__b", "{}")])), long];
    let Conversation { uncounted, messages, .. } = conversation(&rows, &READER);
    let sent = crate::tokens::tokens(&messages) * 3;
    assert!((131_072..132_000).contains(&sent) && (131_072..132_500).contains(&uncounted), "{sent} {uncounted}");
}

/// Earlier builds stored instructions of any length.
#[test]
fn instructions_of_an_old_row_are_shortened() {
    let old = row(1, MessageKind::Skill, &format!("Begin.{}End.", "x".repeat(9_000_000)), None);
    let Conversation { uncounted, messages, .. } = conversation(&[old], &READER);
    let Block::Text(sent) = &messages[0].parts[0].block else { panic!("{messages:?}") };
    assert!(sent.len() <= SKILL_BYTES && uncounted == SKILL_BYTES as u64, "{} {uncounted}", sent.len());
    assert!(sent.starts_with("Begin.xxx") && sent.ends_with("xxxEnd.") && sent.contains("bytes were left out]"));
}

#[test]
fn image_of_a_tool_counts_as_one_image() {
    let media_type = "image/png".to_owned();
    let old = ToolRecordPart::Blob { media_type: media_type.clone(), data: "A".repeat(4_000_000) };
    let new = ToolRecordPart::StoredBlob { media_type, digest: Digest::of(b"image"), size: 3_000_000 };
    for image in [old, new] {
        let content = vec![ToolRecordPart::Text { text: "shot".to_owned() }, image];
        let record = ToolRecord { call_id: "1".to_owned(), name: "a__b".to_owned(), error: None, content };
        let rows = [
            user(1, "look"),
            assistant(2, &answer(vec![call("1", "a__b", "{}")])),
            row(3, MessageKind::Tool, "shot", Some(json!(record))),
        ];
        let uncounted = conversation(&rows, &READER).uncounted - conversation(&rows[..2], &READER).uncounted;
        assert!((BLOB_BYTES..BLOB_BYTES + 300).contains(&uncounted), "{uncounted}");
    }
}

#[test]
fn stored_images_have_slots_and_others_are_named() {
    let blob = |media_type: &str| ToolRecordPart::StoredBlob {
        media_type: media_type.to_owned(),
        digest: Digest::of(media_type.as_bytes()),
        size: 5,
    };
    let content = vec![ToolRecordPart::Text { text: "shot".to_owned() }, blob("audio/wav"), blob("image/png")];
    let record = ToolRecord { call_id: "1".to_owned(), name: "a__b".to_owned(), error: None, content };
    let asked = assistant(2, &answer(vec![call("1", "a__b", "{}")]));
    let rows = [user(1, "look"), asked, row(3, MessageKind::Tool, "shot", Some(json!(record)))];
    assert!(
        shape(&rows)
            .ends_with("U 1:Text(\"shot\"),Text(\"[audio/wav, which this model cannot read]\"),Text(\"[image]\")")
    );
    let [slot] = &conversation(&rows, &READER).slots[..] else { panic!("one slot") };
    assert_eq!((slot.message, slot.part, slot.piece), (2, 0, Some(2)));
    assert_eq!((slot.attachment.digest, slot.attachment.size), (Digest::of(b"image/png"), 5));
}

#[test]
fn interrupted_answers_are_estimated_besides_their_report() {
    let mut broken = answer(vec![text(&"x".repeat(3_000))]);
    broken.usage = TokenUsage { input: 100, output: 1, ..TokenUsage::default() };
    broken.interrupted = true;
    let Conversation { counted, uncounted, .. } =
        conversation(&[user(1, "hello"), assistant(2, &broken), user(3, "1234")], &READER);
    assert!(counted == Some(101) && (3_004..4_000).contains(&uncounted), "{uncounted}");
}

fn any_row() -> impl Strategy<Value = (u8, String, bool)> {
    (0..6_u8, "[a-c \\n]{0,6}", any::<bool>())
}

proptest! {
    #[test]
    fn any_rows_make_a_valid_conversation(rows in prop::collection::vec(any_row(), 0..20)) {
        let rows: Vec<_> = (1..).zip(rows).map(|(seq, (kind, word, odd))| match kind {
            0 => user(seq, &word),
            1 | 2 => {
                let mut said = answer(vec![text(&word), call(&word, &word, if odd { "{}" } else { &word })]);
                said.interrupted = odd && kind == 1;
                assistant(seq, &said)
            }
            3 => tool(seq, &word, "said"),
            4 => row(seq, MessageKind::Compaction, &word, odd.then(|| json!({"keep_from": 2, "provider": "", "model": "", "usage": {}}))),
            _ => row(seq, MessageKind::Assistant, &word, Some(json!({"no": "answer"}))),
        }).collect();
        let mut rows = rows;
        rows.push(user(99, "the last word"));
        let messages = conversation(&rows, &READER).messages;
        prop_assert_eq!(messages.first().map(|message| message.role), Some(Role::User));
        prop_assert_eq!(messages.last().map(|message| message.role), Some(Role::User));
        let mut ids = HashSet::new();
        for pair in messages.windows(2) {
            prop_assert_ne!(pair[0].role, pair[1].role);
        }
        for (at, message) in messages.iter().enumerate() {
            prop_assert!(!message.parts.is_empty());
            for part in &message.parts {
                if let Block::ToolCall(call) = &part.block {
                    prop_assert!(ids.insert(call.id.clone()), "an id twice");
                    let answers = messages[at + 1].parts.iter().filter(|part| {
                        matches!(&part.block, Block::ToolResult(result) if result.call_id == call.id)
                    });
                    prop_assert_eq!(answers.count(), 1);
                }
            }
        }
        let results = messages.iter().flat_map(|message| &message.parts).filter(|part| matches!(part.block, Block::ToolResult(_)));
        prop_assert_eq!(results.count(), ids.len());
    }
}

#[test]
fn each_agent_is_told_who_it_is_before_its_first_text() {
    let (root, child) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
    let said = |seq, agent, text: &str| Row { agent, ..row(seq, MessageKind::User, text, None) };
    let rows = [said(1, root, "one"), said(2, root, "two"), said(3, child, "three")];
    let of = |agent, parent| Lineage { agent, parent, last: u64::MAX };
    let lineage = [of(child, Some(root)), of(root, None)];
    let texts = |rows: &[Row], surroundings: &Surroundings| -> Vec<String> {
        let reader = ReaderModel { lineage: &lineage, surroundings, ..READER };
        let text = |part: &Part| match &part.block {
            Block::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        conversation(rows, &reader).messages[0].parts.iter().map(text).collect()
    };
    let root_text = format!("You are the agent {root}. You have no parent.");
    let child_text = format!("You are the agent {child}. Your parent is {root}.");
    assert_eq!(texts(&rows, &SURROUNDINGS), [&root_text, "one", "two", &child_text, "three"]);
    // The texts for all agents follow the first introduction, even after a summary.
    let told = Surroundings { facts: "a date".to_owned(), instructions: vec!["rules".to_owned()] };
    assert_eq!(texts(&rows, &told), [&root_text, "a date", "rules", "one", "two", &child_text, "three"]);
    assert_eq!(texts(&rows[2..], &told), [&child_text, "a date", "rules", "three"]);
    let summary = Row { agent: root, ..row(3, MessageKind::Compaction, "short", None) };
    let summarised = texts(&[rows[0].clone(), summary], &told);
    assert_eq!(summarised[..3], [&root_text, "a date", "rules"]);
    assert!(summarised.len() == 4 && summarised[3].ends_with("\n\nshort"), "{summarised:?}");
}
