//! Test helper: runs a completion as the host does and checks the contract.
use patchbay_provider_sdk::{
    Action, Adapter, Block, BlockKind, CompletionRequest, Event, Failure, Finish, Input, Message, Pair, Part, Piece,
    Retry, Role, ToolCall, ToolChoice, ToolResult, Usage,
};

use crate::{Demo, steps::HANG_MS};

/// The result of a completion.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Completed {
    /// The kind, text and attached data of each block. `open` is true if the last block was not ended.
    pub(super) blocks: Vec<(BlockKind, String, Option<String>)>,
    pub(super) open: bool,
    pub(super) deltas: usize,
    pub(super) waits: Vec<u32>,
    pub(super) usage: Option<Usage>,
    pub(super) end: Result<Finish, Failure>,
    /// True if the answer did not end and only waited, again and again.
    pub(super) hangs: bool,
}

impl Completed {
    pub(super) fn text(&self) -> &str {
        let texts: Vec<_> = self.blocks.iter().filter(|(kind, ..)| *kind == BlockKind::Text).collect();
        match texts.as_slice() {
            [] => "",
            [(_, text, _)] => text,
            more => panic!("one text, not {more:?}"),
        }
    }

    pub(super) fn calls(&self) -> Vec<(&str, &str, &str)> {
        let calls = self.blocks.iter().filter_map(|(kind, input, _)| match kind {
            BlockKind::ToolCall(head) => Some((head.id.as_str(), head.name.as_str(), input.as_str())),
            _ => None,
        });
        calls.collect()
    }

    pub(super) fn stop(&self) -> &str {
        &self.end.as_ref().expect("an answer that ends well").stop
    }

    pub(super) fn failure(&self) -> &Failure {
        self.end.as_ref().expect_err("a failure")
    }

    /// Returns the message that the host stores.
    pub(super) fn message(&self) -> Message {
        let part = |(kind, text, opaque): &(BlockKind, String, Option<String>)| {
            let block = match kind {
                BlockKind::Text => Block::Text(text.clone()),
                BlockKind::Thinking => Block::Thinking(text.clone()),
                BlockKind::ToolCall(head) => {
                    Block::ToolCall(ToolCall { id: head.id.clone(), name: head.name.clone(), input: text.clone() })
                }
                BlockKind::Opaque(data) => Block::Opaque(data.clone()),
            };
            Part { block, opaque: opaque.clone() }
        };
        Message { role: Role::Assistant, parts: self.blocks.iter().map(part).collect() }
    }
}

/// Runs a completion to its end and checks the rules of the contract.
pub(super) fn run(request: CompletionRequest) -> Completed {
    let model = request.model.clone();
    let mut completed = Completed {
        blocks: Vec::new(),
        open: false,
        deltas: 0,
        waits: Vec::new(),
        usage: None,
        end: Err(broken()),
        hangs: false,
    };
    let mut idle_steps = 0;
    let (mut demo, mut actions) = Demo::begin(request);
    let mut started = false;
    loop {
        let last = actions.pop().expect("something to do");
        assert!(actions.len() <= 2_100, "{} actions in a step", actions.len());
        idle_steps = if actions.is_empty() && last == Action::WaitMs(HANG_MS) { idle_steps + 1 } else { 0 };
        if idle_steps == 3 {
            return Completed { hangs: true, ..completed };
        }
        for action in actions {
            let Action::Emit(event) = action else { panic!("{action:?} before the end of a step") };
            match event {
                Event::Started(name) => {
                    assert!(!started && name == model);
                    started = true;
                }
                Event::BlockStart(start) => {
                    assert!(started && !completed.open && start.index as usize == completed.blocks.len());
                    completed.open = true;
                    completed.blocks.push((start.kind, String::new(), None));
                }
                Event::BlockDelta(delta) => {
                    assert!(
                        completed.open && delta.index as usize + 1 == completed.blocks.len() && !delta.text.is_empty()
                    );
                    completed.deltas += 1;
                    completed.blocks.last_mut().unwrap().1.push_str(&delta.text);
                }
                Event::BlockEnd(end) => {
                    assert!(completed.open && end.index as usize + 1 == completed.blocks.len());
                    completed.open = false;
                    completed.blocks.last_mut().unwrap().2 = end.opaque;
                }
                Event::Usage(usage) => completed.usage = Some(usage),
                Event::Extra(extra) => panic!("{extra:?}"),
            }
        }
        match last {
            Action::WaitMs(ms) => completed.waits.push(ms),
            Action::Finish(finish) => {
                assert!(!completed.open && started);
                return Completed { end: Ok(finish), ..completed };
            }
            Action::Fail(failure) => return Completed { end: Err(failure), ..completed },
            other => panic!("{other:?} at the end of a step"),
        }
        actions = demo.resume(Input::Timer);
    }
}

fn broken() -> Failure {
    Failure { kind: String::new(), message: String::new(), http_status: None, code: None, retry: Retry::Never }
}

pub(super) fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest {
        model: "demo-1".to_owned(),
        system: Vec::new(),
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: vec![Pair { name: "delay-ms".to_owned(), value: "0".to_owned() }],
    }
}

pub(super) fn part(block: Block) -> Part {
    Part { block, opaque: None }
}

pub(super) fn text(text: &str) -> Part {
    part(Block::Text(text.to_owned()))
}

pub(super) fn result(id: &str, name: &str, content: &str) -> Part {
    let content = vec![Piece::Text(content.to_owned())];
    part(Block::ToolResult(ToolResult { call_id: id.to_owned(), name: name.to_owned(), content, is_error: false }))
}

pub(super) fn user(parts: Vec<Part>) -> Message {
    Message { role: Role::User, parts }
}

pub(super) fn person(said: &str) -> Message {
    user(vec![text(said)])
}

pub(super) fn ask(said: &str) -> Completed {
    run(request(vec![person(said)]))
}

pub(super) fn thinking(level: &str, messages: Vec<Message>) -> Completed {
    run(CompletionRequest { thinking: Some(level.to_owned()), ..request(messages) })
}
