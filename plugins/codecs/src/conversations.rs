//! Test helper for all codecs: generates any conversation that the host may build, to check that its request follows the
//! API's rules.
//!
//! The host guarantees that roles alternate, that the first and the last message are the user's, that ids are unique
//! words, that each call has its result in the next message, and that no text is blank. An interrupted answer has no
//! calls, and its thinking has no data. Blocks that another model made may lack data. A turn may have twelve parallel
//! calls. If skills were reloaded during the conversation, the answers before some message were made with other
//! tools. The request may also ask for a summary.

use patchbay_provider_sdk::{
    Block, CompletionRequest, Message, Pair, Part, Piece, Role, ToolCall, ToolChoice, ToolResult,
};
use proptest::prelude::*;
use proptest::sample::select;

/// One answer and what follows it.
#[derive(Debug, Clone)]
struct Turn {
    parts: Vec<Part>,
    calls: Vec<Option<String>>,
    /// Whether the result of a call is empty, and whether it is an error.
    result: (bool, bool),
    /// Whether the user says something after the results.
    says: bool,
}

/// Returns conversations whose answers have parts from `pool`, calls with data from `data`, and parts that another model left.
pub(crate) fn conversations(pool: Vec<Part>, data: Vec<Option<String>>) -> impl Strategy<Value = CompletionRequest> {
    let foreign = [
        Block::Thinking("hm".to_owned()),
        Block::Thinking(String::new()),
        Block::Text("Yes.".to_owned()),
        Block::Opaque("no data of ours".to_owned()),
    ];
    let foreign = foreign.map(|block| Part { block, opaque: None });
    let calls_less = |part: &Part| !matches!(part.block, Block::ToolCall(_) | Block::ToolResult(_));
    let pool: Vec<Part> = pool.into_iter().filter(calls_less).chain(foreign).collect();
    let turn = (
        prop::collection::vec(select(pool), 0..4),
        prop_oneof![
            4 => prop::collection::vec(select(data.clone()), 0..3),
            1 => prop::collection::vec(select(data), 12),
        ],
        any::<(bool, bool)>(),
        any::<bool>(),
    );
    let turn = turn.prop_map(|(parts, calls, result, says)| Turn { parts, calls, result, says });
    let ids = select(vec!["call_", "toolu_01-", "fc", "x_"]);
    let options = (prop::option::of(0_usize..14), any::<bool>());
    (prop::collection::vec(turn, 0..6), ids, options).prop_map(|(turns, ids, (bound_from, is_summary))| {
        let option = |name: &str, value: String| Pair { name: name.to_owned(), value };
        let purpose = if is_summary { "summary" } else { "turn" };
        let mut request = request(turns, ids);
        request.options.push(option("host:purpose", purpose.to_owned()));
        request.options.extend(bound_from.map(|index| option("host:bound-from", index.to_string())));
        request
    })
}

fn request(turns: Vec<Turn>, ids: &str) -> CompletionRequest {
    let text = |text: &str| Part { block: Block::Text(text.to_owned()), opaque: None };
    let mut messages = vec![Message { role: Role::User, parts: vec![text("Begin.")] }];
    let mut made = 0;
    for turn in turns {
        let mut answer = turn.parts;
        let mut results = Vec::new();
        for opaque in turn.calls {
            made += 1;
            let (id, name) = (format!("{ids}{made}"), "a__b".to_owned());
            let call = ToolCall { id: id.clone(), name: name.clone(), input: "{}".to_owned() };
            answer.push(Part { block: Block::ToolCall(call), opaque });
            let said = if turn.result.0 { String::new() } else { "done".to_owned() };
            let content = vec![Piece::Text(said)];
            let result = ToolResult { call_id: id, name, content, is_error: turn.result.1 };
            results.push(Part { block: Block::ToolResult(result), opaque: None });
        }
        if answer.is_empty() {
            answer.push(text("Yes."));
        }
        if turn.says || results.is_empty() {
            results.push(text("Go on."));
        }
        messages.push(Message { role: Role::Assistant, parts: answer });
        messages.push(Message { role: Role::User, parts: results });
    }
    CompletionRequest {
        model: "model-1".to_owned(),
        system: vec!["Be brief.".to_owned()],
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: Vec::new(),
    }
}
