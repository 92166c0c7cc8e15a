//! Splits an unfinished answer into pieces for the store. Each piece contains only the text added since the previous
//! one, which keeps the total cost proportional to the answer's length. `turn` writes pieces while the model
//! answers; a resumed session joins them.

use patchbay_core::{AgentId, AssistantPart, AssistantRecord};
use patchbay_store::PartialPiece;
use serde::{Deserialize, Serialize};

use crate::{call_tool::unwrapped, receive::PartialAnswer};

/// A stored piece of an answer. Earlier builds stored the whole answer so far, which is a valid first piece.
#[derive(Serialize, Deserialize)]
struct AnswerPiece {
    /// The index, in the whole answer, of the first part in `answer.parts`. Earlier parts have not changed.
    #[serde(default)]
    from: usize,
    /// The answer without the earlier parts. Each part contains only newly added text.
    #[serde(flatten)]
    answer: AssistantRecord,
}

/// How much of an unfinished answer its pieces contain.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pieces: u32,
    /// For each part: the stored bytes of its text, and whether its adapter data is stored.
    parts: Vec<(usize, bool)>,
}

impl Written {
    /// Returns the next piece of an answer of `agent` with these `parts`. `record` builds an answer from the given parts.
    pub(crate) fn next(
        &mut self,
        agent: AgentId,
        parts: &[AssistantPart],
        record: impl FnOnce(Vec<AssistantPart>) -> AssistantRecord,
    ) -> PartialPiece {
        let now: Vec<_> = parts.iter().map(|part| (text(part).len(), opaque(part).is_some())).collect();
        let from = now.iter().zip(&self.parts).take_while(|(now, before)| now == before).count();
        let written = self.parts.get(from..).unwrap_or_default().iter().copied();
        let written = written.chain(std::iter::repeat((0, false)));
        let added = parts.iter().skip(from).zip(written);
        let answer = record(added.map(|(part, (bytes, attached))| since(part, bytes, attached)).collect());
        let ordinal = self.pieces;
        self.pieces += 1;
        self.parts = now;
        // This cannot fail, because JSON can represent the piece.
        let piece = serde_json::to_string(&AnswerPiece { from, answer }).unwrap_or_default();
        PartialPiece { agent, ordinal, piece }
    }
}

/// Joins the pieces of an answer, in order. Returns its text and record, or `None` if the pieces do not fit together.
pub fn join_pieces(pieces: &[String]) -> Option<(String, serde_json::Value)> {
    let mut whole: Option<AssistantRecord> = None;
    for piece in pieces {
        let AnswerPiece { from, mut answer } = serde_json::from_str(piece).ok()?;
        let mut parts = whole.map(|whole| whole.parts).unwrap_or_default();
        if from > parts.len() {
            return None;
        }
        for (index, added) in (from..).zip(std::mem::take(&mut answer.parts)) {
            match parts.get_mut(index) {
                Some(part) => append(part, added),
                None => parts.push(added),
            }
        }
        answer.parts = parts;
        whole = Some(answer);
    }
    let mut whole = whole?;
    whole.parts = unwrapped(&whole.parts);
    let data = serde_json::to_value(&whole).ok()?;
    let received = PartialAnswer { parts: whole.parts, ..PartialAnswer::default() };
    Some((received.text(), data))
}

fn text(part: &AssistantPart) -> &str {
    match part {
        AssistantPart::Text { text, .. } | AssistantPart::Thinking { text, .. } => text,
        AssistantPart::ToolCall { input, .. } => input,
        AssistantPart::Opaque { data, .. } => data,
    }
}

fn opaque(part: &AssistantPart) -> Option<&String> {
    let (AssistantPart::Text { opaque, .. }
    | AssistantPart::Thinking { opaque, .. }
    | AssistantPart::ToolCall { opaque, .. }
    | AssistantPart::Opaque { opaque, .. }) = part;
    opaque.as_ref()
}

/// Returns the additions to a part after its first `bytes` bytes of text. `attached` indicates whether its adapter data is
/// already stored.
fn since(part: &AssistantPart, bytes: usize, attached: bool) -> AssistantPart {
    let text = text(part).get(bytes..).unwrap_or_default().to_owned();
    let opaque = opaque(part).filter(|_| !attached).cloned();
    match part {
        AssistantPart::Text { .. } => AssistantPart::Text { text, opaque },
        AssistantPart::Thinking { .. } => AssistantPart::Thinking { text, opaque },
        AssistantPart::ToolCall { id, name, call_tool, .. } => AssistantPart::ToolCall {
            id: id.clone(),
            name: name.clone(),
            input: text,
            opaque,
            call_tool: call_tool.clone(),
        },
        AssistantPart::Opaque { .. } => AssistantPart::Opaque { data: text, opaque },
    }
}

fn append(part: &mut AssistantPart, added: AssistantPart) {
    let more = text(&added).to_owned();
    let attached = opaque(&added).cloned();
    let (text, opaque) = match part {
        AssistantPart::Text { text, opaque } | AssistantPart::Thinking { text, opaque } => (text, opaque),
        AssistantPart::ToolCall { input, opaque, .. } => (input, opaque),
        AssistantPart::Opaque { data, opaque } => (data, opaque),
    };
    text.push_str(&more);
    if attached.is_some() {
        *opaque = attached;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A step of a random unfinished answer.
    #[derive(Clone, Debug)]
    enum Step {
        Begin(u8),
        Grow(prop::sample::Index, String),
        Attach(prop::sample::Index, String),
        Keep,
    }

    fn step() -> impl Strategy<Value = Step> {
        let any_part = any::<prop::sample::Index>;
        prop_oneof![
            2 => (0u8..4).prop_map(Step::Begin),
            4 => (any_part(), "[a-zé\\u{10ffff}\n\"]{0,6}").prop_map(|(part, text)| Step::Grow(part, text)),
            1 => (any_part(), "[a-z]{0,4}").prop_map(|(part, text)| Step::Attach(part, text)),
            3 => Just(Step::Keep),
        ]
    }

    fn begin(kind: u8) -> AssistantPart {
        match kind {
            0 => AssistantPart::Text { text: String::new(), opaque: None },
            1 => AssistantPart::Thinking { text: String::new(), opaque: None },
            2 => AssistantPart::ToolCall {
                id: "c".to_owned(),
                name: "t".to_owned(),
                input: String::new(),
                opaque: None,
                call_tool: None,
            },
            _ => AssistantPart::Opaque { data: "sealed".to_owned(), opaque: None },
        }
    }

    fn grown(text: String, opaque: Option<String>) -> AssistantPart {
        AssistantPart::Text { text, opaque }
    }

    fn record(parts: Vec<AssistantPart>) -> AssistantRecord {
        AssistantRecord { interrupted: true, parts, ..AssistantRecord::default() }
    }

    fn assert_joined(pieces: &[String], parts: &[AssistantPart]) -> Result<(), TestCaseError> {
        let whole = PartialAnswer { parts: parts.to_vec(), ..PartialAnswer::default() };
        let expected = (whole.text(), serde_json::to_value(record(parts.to_vec())).unwrap());
        prop_assert_eq!(join_pieces(pieces), Some(expected));
        Ok(())
    }

    proptest! {
        /// Joining the pieces restores the answer, wherever it is cut and whichever parts grow.
        #[test]
        fn joined_pieces_equal_the_whole(steps in proptest::collection::vec(step(), 1..60)) {
            let (mut parts, mut written, mut pieces) = (Vec::new(), Written::default(), Vec::new());
            let agent = AgentId::random();
            for step in steps.into_iter().chain([Step::Keep]) {
                match step {
                    Step::Begin(kind) => parts.push(begin(kind)),
                    Step::Grow(part, text) if !parts.is_empty() => append(part.get_mut(&mut parts), grown(text, None)),
                    Step::Attach(part, text) if !parts.is_empty() => {
                        let part = part.get_mut(&mut parts);
                        if opaque(part).is_none() {
                            append(part, grown(String::new(), Some(text)));
                        }
                    }
                    Step::Keep => {
                        let piece = written.next(agent, &parts, record);
                        prop_assert_eq!(piece.ordinal as usize, pieces.len());
                        pieces.push(piece.piece);
                        assert_joined(&pieces, &parts)?;
                    }
                    Step::Grow(..) | Step::Attach(..) => {}
                }
            }
        }
    }

    #[test]
    fn pieces_cost_what_the_answer_is_long() {
        let (mut written, mut bytes, mut parts) = (Written::default(), 0, vec![begin(0)]);
        for _ in 0..1_000 {
            append(&mut parts[0], grown("x".repeat(100), None));
            bytes += written.next(AgentId::random(), &parts, record).piece.len();
        }
        assert!(bytes < 1_000 * 500, "{bytes}");
    }

    #[test]
    fn whole_answers_of_earlier_builds_are_pieces() {
        let parts = vec![grown("Half a".to_owned(), None)];
        let old = serde_json::to_string(&record(parts.clone())).unwrap();
        assert_joined(&[old], &parts).unwrap();
    }

    #[test]
    fn pieces_with_a_gap_are_not_joined() {
        let piece = AnswerPiece { from: 1, answer: record(vec![begin(0)]) };
        assert_eq!(join_pieces(&[serde_json::to_string(&piece).unwrap()]), None);
        assert_eq!(join_pieces(&[]), None);
        assert_eq!(join_pieces(&["{".to_owned()]), None);
    }
}
