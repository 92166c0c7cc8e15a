//! Tests of bindings: which answers are reported as made with the prefix that a request has.

use std::collections::BTreeMap;

use patchbay_core::{
    AgentId, AssistantPart, AssistantRecord, CompactionRecord, MessageKind, ToolRecord, ToolRecordPart,
    completion::ToolDeclaration,
};
use patchbay_store::{Lineage, MessageRow as Row};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::conversation::{Conversation, ReaderModel, conversation};

/// Something that happens in a session.
#[derive(Clone, Debug)]
enum Step {
    /// A turn with `calls` answers that call one tool each, and then a last answer.
    Turn { calls: u8 },
    /// A turn whose answer is interrupted in its thinking, its text or a call.
    Interrupted { part: u8 },
    /// The last turn is run again.
    Again,
    /// `/reload_skills`: the session gets the tools with this number.
    Tools(u8),
    /// `/agent`: the session gets the persona with this number.
    Persona(u8),
    /// `/model`: the user selects the model with this number.
    Model(u8),
    /// A summary that keeps nothing, the last turn, or only the last turn's request.
    Summary { keeps: Keeps },
    /// `/fork`, and the view moves to the child.
    Fork,
    /// The last message is dropped if it has no answer.
    Drop,
    /// An answer of an earlier build.
    Old,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Turn,
    Request,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_u8).prop_map(|calls| Step::Turn { calls }),
        2 => (0..3_u8).prop_map(|part| Step::Interrupted { part }),
        1 => Just(Step::Again),
        2 => (0..2_u8).prop_map(Step::Tools),
        1 => (0..2_u8).prop_map(Step::Persona),
        1 => (0..2_u8).prop_map(Step::Model),
        1 => prop_oneof![Just(Keeps::Nothing), Just(Keeps::Turn), Just(Keeps::Request)].prop_map(|keeps| Step::Summary { keeps }),
        1 => Just(Step::Fork),
        1 => Just(Step::Drop),
        1 => Just(Step::Old),
    ]
}

/// A session whose answers remember their requests.
struct Stage {
    rows: Vec<Row>,
    lineage: Vec<Lineage>,
    tools: u8,
    persona: u8,
    model: u8,
    seq: u64,
    /// The requests that the answers were made with, by the numbers of their rows.
    made_with: BTreeMap<u64, CompletionRequest>,
    /// Number of answers that were reported as bound.
    bound: usize,
}

impl Stage {
    fn new() -> Self {
        let lineage = vec![Lineage { agent: AgentId::from_bytes([1; 16]), parent: None, last: u64::MAX }];
        let (rows, made_with) = (Vec::new(), BTreeMap::new());
        Self { rows, lineage, tools: 0, persona: 0, model: 0, seq: 0, made_with, bound: 0 }
    }

    fn add(&mut self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> u64 {
        self.seq += 1;
        self.rows.push(Row { seq: self.seq, agent: self.lineage[0].agent, kind, content: content.to_owned(), data });
        self.seq
    }

    /// Builds the next request as a turn does, and checks its binding.
    fn request(&mut self) -> (CompletionRequest, PrefixBinding) {
        let model = format!("demo-{}", self.model);
        let surroundings = &crate::Surroundings::default();
        let reader =
            ReaderModel { adapter: "demo", model: &model, reads: &|_| true, lineage: &self.lineage, surroundings };
        let Conversation { mut messages, answers, .. } = conversation(&self.rows, &reader);
        while messages.len() > 1 && messages.last().is_some_and(|last| last.role == Role::Assistant) {
            messages.pop();
        }
        let tool = |name: String| ToolDeclaration { name, description: String::new(), input_schema: "{}".to_owned() };
        let request = CompletionRequest {
            model,
            system: vec!["You help.".to_owned(), format!("persona {}", self.persona)],
            messages,
            tools: (0..=self.tools).map(|number| tool(format!("a__b{number}"))).collect(),
            ..CompletionRequest::default()
        };
        let found = binding(&request, &answers);
        self.check(&request, &answers, found.bound_from);
        (request, found)
    }

    /// Every answer from `bound_from` on was made with exactly this request's beginning.
    fn check(&mut self, request: &CompletionRequest, answers: &[AnswerPosition], bound_from: usize) {
        let answered: Vec<_> =
            (0..request.messages.len()).filter(|index| request.messages[*index].role == Role::Assistant).collect();
        for index in answered.into_iter().filter(|index| *index >= bound_from) {
            let places: Vec<_> = answers.iter().filter(|answer| answer.message == index).collect();
            let [AnswerPosition { prefix: Some(prefix), .. }] = places[..] else { panic!("{places:?}") };
            let is_same = |made: &&CompletionRequest| {
                made.system == request.system
                    && made.tools == request.tools
                    && made.messages == request.messages[..index]
            };
            let rows: Vec<_> = self.rows.iter().filter(|row| row.kind == MessageKind::Assistant).collect();
            let row = rows.iter().rev().find(|row| {
                row.data.as_ref().is_some_and(|data| data["prefix"] == json!(prefix))
                    && self.made_with.get(&row.seq).as_ref().is_some_and(is_same)
            });
            assert!(row.is_some(), "the answer at {index} was made with another request");
            self.bound += 1;
        }
    }

    fn answer(&mut self, parts: Vec<AssistantPart>, interrupted: bool, is_old: bool) {
        let (request, found) = self.request();
        let record = AssistantRecord {
            provider: "demo".to_owned(),
            adapter: "demo".to_owned(),
            model: request.model.clone(),
            interrupted,
            prefix: Some(found.prefix).filter(|_| !is_old),
            parts,
            ..AssistantRecord::default()
        };
        let seq = self.add(MessageKind::Assistant, "", Some(json!(record)));
        self.made_with.insert(seq, request);
    }

    fn parts(&self, call: bool) -> Vec<AssistantPart> {
        let thinking = AssistantPart::Thinking { text: format!("hm {}", self.seq), opaque: Some("signed".to_owned()) };
        let last = match call {
            true => AssistantPart::ToolCall {
                id: "call".to_owned(),
                name: "a__b0".to_owned(),
                input: "{}".to_owned(),
                opaque: None,
                call_tool: None,
            },
            false => AssistantPart::Text { text: format!("answer {}", self.seq), opaque: None },
        };
        vec![thinking, last]
    }

    fn turn(&mut self, calls: u8) {
        for _ in 0..calls {
            self.answer(self.parts(true), false, false);
            let content = vec![ToolRecordPart::Text { text: format!("result {}", self.seq) }];
            let record = ToolRecord { call_id: "call".to_owned(), name: "a__b0".to_owned(), error: None, content };
            self.add(MessageKind::Tool, "", Some(json!(record)));
        }
        self.answer(self.parts(false), false, false);
    }

    fn play(&mut self, step: &Step) {
        let message = format!("message {}", self.seq);
        match step {
            Step::Turn { calls } => {
                self.add(MessageKind::User, &message, None);
                self.turn(*calls);
            }
            Step::Interrupted { part } => {
                self.add(MessageKind::User, &message, None);
                let mut parts = self.parts(*part == 2);
                parts.truncate(usize::from(*part) + 1);
                self.answer(parts, true, false);
            }
            Step::Again if !self.rows.is_empty() => self.turn(0),
            Step::Tools(number) => self.tools = *number,
            Step::Persona(number) => self.persona = *number,
            Step::Model(number) => self.model = *number,
            Step::Summary { keeps } if !self.rows.is_empty() => {
                let keep_from = self.rows.iter().rev().find(|row| row.kind == MessageKind::User).map(|row| row.seq);
                let record = CompactionRecord {
                    keep_from: keep_from.filter(|_| *keeps != Keeps::Nothing),
                    requests_only: *keeps == Keeps::Request,
                    ..CompactionRecord::default()
                };
                self.add(MessageKind::Compaction, "in short", Some(json!(record)));
            }
            Step::Fork => {
                let mut id = [0; 16];
                id[0] = self.lineage.len() as u8 + 1;
                let parent = Some(self.lineage[0].agent);
                self.lineage.insert(0, Lineage { agent: AgentId::from_bytes(id), parent, last: u64::MAX });
            }
            Step::Drop => drop(self.rows.pop_if(|row| row.kind == MessageKind::User)),
            Step::Old => {
                self.add(MessageKind::User, &message, None);
                self.answer(self.parts(false), false, true);
            }
            Step::Again | Step::Summary { .. } => {}
        }
    }
}

proptest! {
    #[test]
    fn bound_answers_were_made_with_the_same_prefix(steps in prop::collection::vec(step(), 1..14)) {
        let mut stage = Stage::new();
        for step in &steps {
            stage.play(step);
            stage.request();
        }
    }
}

/// Plays the steps and returns the index from which answers are bound, and the number of messages.
fn bound_from(steps: &[Step]) -> (usize, usize) {
    let mut stage = Stage::new();
    steps.iter().for_each(|step| stage.play(step));
    stage.add(MessageKind::User, "last", None);
    let (request, found) = stage.request();
    (found.bound_from, request.messages.len())
}

#[test]
fn unchanged_conversation_is_bound_from_its_beginning() {
    assert_eq!(bound_from(&[]), (0, 1));
    assert_eq!(bound_from(&[Step::Turn { calls: 2 }, Step::Turn { calls: 0 }]), (0, 9));
    // A child with the same tools and system context continues its parent's prefix.
    assert_eq!(bound_from(&[Step::Turn { calls: 0 }, Step::Fork, Step::Turn { calls: 1 }]), (0, 7));
    // The session returns to its earlier persona.
    assert_eq!(bound_from(&[Step::Turn { calls: 0 }, Step::Persona(1), Step::Persona(0)]), (0, 3));
}

#[test]
fn answers_before_a_change_are_bound_elsewhere() {
    let turn = || Step::Turn { calls: 0 };
    for change in [Step::Tools(1), Step::Persona(1)] {
        assert_eq!(bound_from(&[turn(), change.clone()]), (2, 3));
        assert_eq!(bound_from(&[turn(), change, turn(), turn()]), (2, 7));
    }
    assert_eq!(bound_from(&[turn(), Step::Old, turn()]), (4, 7));
    // A summary replaces the prefix that the kept answer was made with.
    assert_eq!(bound_from(&[turn(), turn(), Step::Summary { keeps: Keeps::Turn }]), (2, 3));
    assert_eq!(bound_from(&[turn(), Step::Summary { keeps: Keeps::Nothing }, turn()]), (0, 3));
    // An interrupted answer and the answer that replaces it are one message.
    assert_eq!(bound_from(&[turn(), Step::Interrupted { part: 1 }, Step::Again]), (4, 5));
}

#[test]
fn each_part_of_a_prefix_counts() {
    let mut stage = Stage::new();
    stage.play(&Step::Turn { calls: 1 });
    stage.add(MessageKind::User, "last", None);
    let (request, found) = stage.request();
    let digest = |change: &dyn Fn(&mut CompletionRequest)| {
        let mut changed = request.clone();
        change(&mut changed);
        binding(&changed, &[]).prefix
    };
    assert_eq!(digest(&|request| request.thinking = None), found.prefix);
    for change in [
        &|request: &mut CompletionRequest| request.system.push(String::new()) as _,
        &|request: &mut CompletionRequest| request.tools[0].description.push('x'),
        &|request: &mut CompletionRequest| drop(request.tools.pop()),
        &|request: &mut CompletionRequest| request.messages[1].parts[0].opaque = None,
        &|request: &mut CompletionRequest| drop(request.messages[1].parts.remove(0)),
        &|request: &mut CompletionRequest| drop(request.messages.pop()),
    ] as [&dyn Fn(&mut CompletionRequest); 6]
    {
        assert_ne!(digest(change), found.prefix);
    }
}
