//! Lists and answers open questions.

use std::sync::Arc;

use patchbay_core::Code;
use patchbay_session::{Approval, ClientIdentity, OpenQuestion, Seat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    call::{ApiCall, ApiError, Reply},
    sessions::open,
};
use crate::state::ServeState;

/// The open questions of a session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct QuestionList {
    /// The questions, the oldest first.
    questions: Vec<OpenQuestionBody>,
}

/// A question that waits for an answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OpenQuestionBody {
    /// The question's id, for the request that answers it.
    pub(crate) id: u64,
    /// The id of the agent whose call needs the answer.
    pub(crate) agent: String,
    /// What the question is about, such as a tool or a capability.
    pub(crate) topic: String,
    /// What will be done if the answer is yes, as a question.
    pub(crate) title: String,
    /// More facts about the question, one line each.
    pub(crate) facts: Vec<String>,
    /// The changes to files as a line diff; null if no file changes.
    pub(crate) diff: Option<String>,
    /// The running tools, from the outermost to the one that needs the answer.
    pub(crate) chain: Vec<String>,
    /// The reason in the skill's manifest; null if there is none.
    pub(crate) reason: Option<String>,
    /// The answers that this token may give.
    pub(crate) answers: Vec<OfferedAnswer>,
}

/// An answer that this token may give.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfferedAnswer {
    /// The value to send as `answer`.
    pub(crate) answer: &'static str,
    /// What this answer would decide, as a phrase.
    pub(crate) meaning: String,
}

/// An answer to a question.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionAnswer {
    /// One of the question's answers, such as `once` or `no`. `always` is only for tokens with the right `grants`.
    answer: String,
}

/// Confirms that the answer counts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Answered {
    /// Always true: an answer that comes too late is an error.
    answered: bool,
}

/// Returns the open questions of a session, with the answers that the client may give.
pub(crate) fn open_questions(seat: &Seat) -> Vec<OpenQuestionBody> {
    let questions = seat.shared().questions();
    let questions = questions.borrow();
    questions.iter().map(|open| question_body(open, seat.identity())).collect()
}

fn question_body(open: &OpenQuestion, client: Option<&ClientIdentity>) -> OpenQuestionBody {
    let question = &open.question;
    let answers = open.answers_of(client).into_iter();
    OpenQuestionBody {
        id: open.id,
        agent: question.agent.to_string(),
        topic: question.subject.topic(),
        title: question.subject.title(),
        facts: question.subject.facts(),
        diff: question.subject.diff().map(ToString::to_string),
        chain: question.chain.clone(),
        reason: question.reason.clone(),
        answers: answers
            .map(|answer| OfferedAnswer { answer: answer.as_str(), meaning: question.subject.decided(answer) })
            .collect(),
    }
}

pub(super) async fn list(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let seat = open(&state, &call).await?;
    Reply::ok(&QuestionList { questions: open_questions(&seat) })
}

pub(super) async fn answer(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let QuestionAnswer { answer } = call.json()?;
    let seat = open(&state, &call).await?;
    let id: u64 = call.id("question")?;
    let found = seat.shared().questions().borrow().iter().find(|open| open.id == id).cloned();
    let Some(question) = found else {
        let message = "this question is closed: it was answered, or its call was stopped.";
        return Err(ApiError::conflict(Code::QuestionClosed, message));
    };
    let offered = question.question.answers().into_iter().find(|offered| offered.as_str() == answer);
    let approval = offered.ok_or_else(|| {
        let offered: Vec<_> = question.answers_of(seat.identity()).iter().map(|offered| offered.as_str()).collect();
        let answer = patchbay_core::text::excerpt(&answer, 40);
        ApiError::invalid(format!("'{answer}' is not an answer to this question; use one of {}.", offered.join(", ")))
    })?;
    if approval == Approval::Always && !call.token.may.grants {
        return Err(ApiError::forbidden("grants"));
    }
    if question.answer(approval, seat.identity()) {
        Reply::ok(&Answered { answered: true })
    } else {
        Err(ApiError::conflict(Code::QuestionClosed, "another answer came first, or the call was stopped."))
    }
}
