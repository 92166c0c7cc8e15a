//! Estimates how much of the context window each part of an agent's next request uses, for `/context`.

use patchbay_core::{
    Outcome,
    completion::{Block, Message, Role},
};

use crate::{
    Agent,
    tokens::{part_tokens, text_tokens},
    toolbox::Toolbox,
    turn::Turn,
};

/// The parts of the next request, in estimated tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filling {
    /// The model, as an argument of `/model`.
    pub model: String,
    /// The model's context window in tokens.
    pub window: u64,
    /// The texts of the persona.
    pub persona: u64,
    /// Tokens of the list of skills.
    pub skills: u64,
    /// Facts about the session's start that the agent is told.
    pub facts: u64,
    /// The instructions of folders above the workspace.
    pub outer_instructions: u64,
    /// The declarations of tools.
    pub tools: u64,
    /// Number of these tool declarations.
    pub tool_count: usize,
    /// Texts to the model: messages, instructions of skills, summaries, notifications.
    pub messages: u64,
    /// Texts and thinking of the model.
    pub answers: u64,
    /// Tokens of the model's tool calls.
    pub calls: u64,
    /// Tokens of the results of tools.
    pub results: u64,
    /// Images and PDFs of messages.
    pub files: u64,
}

impl Filling {
    /// Returns the sum of all parts.
    pub fn sum(&self) -> u64 {
        let Self {
            persona, skills, facts, outer_instructions, tools, messages, answers, calls, results, files, ..
        } = self;
        persona + skills + facts + outer_instructions + tools + messages + answers + calls + results + files
    }

    fn add(&mut self, message: &Message) {
        for part in &message.parts {
            let sum = match (&part.block, message.role) {
                (Block::ToolCall(_), _) => &mut self.calls,
                (Block::ToolResult(_), _) => &mut self.results,
                (Block::Blob(_), _) => &mut self.files,
                (Block::Text(_) | Block::Thinking(_) | Block::Opaque(_), Role::Assistant) => &mut self.answers,
                (Block::Text(_) | Block::Thinking(_) | Block::Opaque(_), Role::User) => &mut self.messages,
            };
            *sum += part_tokens(part);
        }
    }
}

impl Agent {
    /// Estimates the parts of the next request without sending it. `turn` is a turn that has not begun.
    ///
    /// # Errors
    /// An outcome for the user. Nothing was changed.
    pub async fn filling(&self, turn: &Turn) -> Result<Filling, Outcome> {
        let toolbox = Toolbox::of(self.tools.clone(), turn);
        let round = self.round(turn, &toolbox).await?;
        let request = self.bare_request(&round).await?;
        let texts =
            |texts: &[String]| texts.iter().filter(|text| !text.is_empty()).map(|text| text_tokens(text.len())).sum();
        // The list of skills follows the persona.
        let persona = turn.persona.iter().filter(|text| !text.trim().is_empty()).count();
        let (persona, skills) = request.system.split_at(persona.min(request.system.len()));
        let of_tool = |tool: &patchbay_core::completion::ToolDeclaration| {
            text_tokens(tool.name.len() + tool.description.len() + tool.input_schema.len())
        };
        let mut filling = Filling {
            model: round.choice.as_argument(),
            window: round.about.context_window.unwrap_or(self.settings.compaction.context_window),
            persona: texts(persona),
            skills: texts(skills),
            facts: texts(std::slice::from_ref(&turn.surroundings.facts)),
            outer_instructions: texts(&turn.surroundings.instructions),
            tools: request.tools.iter().map(of_tool).sum(),
            tool_count: request.tools.len(),
            ..Filling::default()
        };
        let rows = self.rows().await?;
        self.read(&rows, &round).await.messages.iter().for_each(|message| filling.add(message));
        // The first message contains the facts and the outer instructions.
        filling.messages = filling.messages.saturating_sub(filling.facts + filling.outer_instructions);
        Ok(filling)
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::completion::{Piece, ToolCall, ToolResult};

    use super::*;

    #[test]
    fn each_block_counts_in_one_part() {
        let text = |text: &str| Block::Text(text.to_owned());
        let message = |role, blocks: Vec<Block>| Message { role, parts: blocks.into_iter().map(Into::into).collect() };
        let call = ToolCall { id: "c".to_owned(), name: "abc".to_owned(), input: "{}".to_owned() };
        let result = ToolResult {
            call_id: "c".to_owned(),
            name: "abc".to_owned(),
            is_error: false,
            content: vec![Piece::Text("123456".to_owned())],
        };
        let mut filling =
            Filling { persona: 1, skills: 2, tools: 3, facts: 4, outer_instructions: 5, ..Filling::default() };
        filling.add(&message(Role::User, vec![text("123"), text("")]));
        filling.add(&message(Role::Assistant, vec![Block::Thinking("1234".to_owned()), Block::ToolCall(call)]));
        filling.add(&message(Role::User, vec![Block::ToolResult(result)]));
        let Filling { messages, answers, calls, results, files, .. } = filling;
        assert_eq!((messages, answers, calls, results, files), (3, 2, 3, 3, 0));
        assert_eq!(filling.sum(), 6 + 9 + 3 + 2 + 3 + 3);
    }
}
