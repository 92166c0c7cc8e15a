//! Runs a turn: sends the conversation to the model and runs the tools that it calls, until it calls none. The session calls
//! [`Agent::run`].

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use patchbay_core::{
    AssistantPart, AssistantRecord, CallId, Code, DeltaPosition, Digest, EventKind, FailedAttempts, MessageKind,
    Outcome, TurnCause, TurnData,
    completion::{CompletionRequest, RequestHints, RequestPurpose, Role, Stop, TokenUsage, ToolCall},
    text,
};
use patchbay_provider::{Choice, Completed, ModelInfo};
use patchbay_skill::Snapshot;
use patchbay_store::{Lineage, MessageRow as Row, NewMessage, RetainedAttachments, SessionChange};
use patchbay_tools::{Editor, Internal, OutsideTools};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, Surroundings, TurnEnding,
    answer_end::AnswerEnd,
    attachments,
    binding::{PrefixBinding, binding},
    call_tool::unwrapped,
    compaction,
    conversation::{Conversation, ReaderModel, conversation},
    receive::{AnswerBuffer, AnswerSink},
    repeats::Repeats,
    requests::RequestRank,
    spending::Sending,
    toolbox::Toolbox,
};

/// How often an unfinished answer is stored, in addition to the end of each block.
const CHECKPOINT: Duration = Duration::from_millis(250);

/// Lets the user's waiting messages join a turn. When the future completes, the joined messages are stored as rows of the agent.
pub type MessageJoin = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The input of a turn.
pub struct Turn {
    /// The skills whose tools the model may call.
    pub snapshot: Arc<Snapshot>,
    /// The persona's texts, which become part of the system context.
    pub persona: Vec<String>,
    /// Facts about the session's start, which are part of each request.
    pub surroundings: Surroundings,
    /// The host's tools that the model may call. The toolbox adds its own, such as `use_skill`.
    pub internal: Vec<Arc<dyn Internal>>,
    /// The tools outside of the sandbox that the model may call.
    pub outside: OutsideTools,
    /// The editor of the client whose line began the turn, if it provides one.
    pub editor: Option<Arc<dyn Editor>>,
    /// The cause that began the turn.
    pub cause: TurnCause,
    /// The number of the turn's first row, and the change committed with the final answer.
    pub ending: TurnEnding,
    /// Number of answers after the turn's first row that are already stored; 0 unless the turn is run again.
    pub answers: u32,
    /// Called before each request that contains new results of calls. `None` if messages cannot join the turn.
    pub joins: Option<MessageJoin>,
    /// Cancels the turn at any point.
    pub cancel: CancellationToken,
}

struct CompletedAnswer {
    /// The number of the answer's row; 0 if nothing was received.
    row: u64,
    text: String,
    calls: Vec<ToolCall>,
    end: AnswerEnd,
}

/// The position of the answer that a turn requests next.
#[derive(Clone, Copy)]
struct NextAnswer {
    /// Its index in the turn, from 0.
    index: u32,
    /// Number of consecutive answers before it that were cut off while writing their calls.
    cut_off_before: u32,
}

/// The context of one request: its turn, the tools and the model.
pub(crate) struct Round<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) toolbox: &'a Toolbox,
    pub(crate) choice: Choice,
    pub(crate) about: ModelInfo,
    /// The agents whose rows belong to the conversation.
    lineage: Vec<Lineage>,
}

impl Agent {
    /// Runs a turn on the stored conversation. Everything received is committed before this returns, even after an error.
    pub async fn run(&self, turn: &Turn) -> Outcome {
        match self.rounds(turn).await {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    async fn rounds(&self, turn: &Turn) -> Result<Outcome, Outcome> {
        let toolbox = Toolbox::of(Arc::clone(&self.tools), turn);
        let mut repeats = Repeats::default();
        let (mut cut_off_before, mut has_results, mut rows) = (0, false, Vec::new());
        let most = self.settings.limits.turn_requests;
        for index in turn.answers..turn.answers.saturating_add(most) {
            let answer = NextAnswer { index, cut_off_before };
            let exhausted = |exhausted| Outcome::error(Code::LimitTokens, exhausted);
            self.log.budget().check().map_err(exhausted)?;
            self.place.results.check()?;
            self.place.requests.count()?;
            if has_results && let Some(joins) = &turn.joins {
                joins().await;
            }
            let round = self.round(turn, &toolbox).await?;
            let (request, prefix) = self.request(&round, &mut rows).await?;
            let answered = match self.ask(&round, answer, request, prefix).await {
                Err(refusal) if refusal.code == Code::ProviderContextWindow => {
                    self.ask_summarised(&round, answer, &refusal).await
                }
                answered => answered,
            };
            let CompletedAnswer { row, text, calls, end } = answered?;
            has_results = !calls.is_empty();
            if has_results {
                let id = |index| CallId::of_answer(self.log.session(), row, index);
                let calls = (0..).zip(&calls).map(|(index, call)| (id(index), call)).collect();
                if end.is_cut_off() {
                    self.refuse_calls(calls).await?;
                } else if self.run_calls(turn, &toolbox, calls, &mut repeats).await? {
                    return self.ended_by_calls(&round, text, &end).await;
                }
            }
            if end.ends_turn {
                return Ok(self.answered(&round.choice, text, end));
            }
            cut_off_before = end.cut_off_answers;
        }
        let message = format!(
            "this turn was stopped after {most} requests to the model (limits.turn_requests). Its work is kept; say \
             how to go on."
        );
        Err(Outcome::error(Code::TurnRounds, message))
    }

    /// Chooses the model of the next request: `/model` and an override take effect with it.
    pub(crate) async fn round<'a>(&self, turn: &'a Turn, toolbox: &'a Toolbox) -> Result<Round<'a>, Outcome> {
        let choice = self.next_choice().await?;
        let about = self.model.about(&choice).await;
        let lineage = self.log.store().lineage(self.place.agent).await.map_err(store_failed)?;
        Ok(Round { turn, toolbox, choice, about, lineage })
    }

    /// Commits the end of a turn that ends with its calls instead of an answer, because the forked children report by mail.
    async fn ended_by_calls(&self, round: &Round<'_>, text: String, end: &AnswerEnd) -> Result<Outcome, Outcome> {
        let mut change = SessionChange::default();
        round.turn.ending.answered(&text, None, &mut change);
        self.commit(change).await?;
        Ok(Outcome::ok(Code::Answered, text).with_data(turn_data(&round.choice, end.stop)))
    }

    /// Publishes a notice if the turn's last answer ended unusually. Returns the outcome of the turn.
    fn answered(&self, choice: &Choice, text: String, end: AnswerEnd) -> Outcome {
        let data = TurnData { failure: end.failure().map(str::to_owned), ..turn_data(choice, end.stop) };
        if let Some(text) = end.notice {
            self.log.publish(self.place.agent, EventKind::Notice { text });
        }
        Outcome::ok(Code::Answered, text).with_data(data)
    }

    /// Builds the next request, and the digest for its answer. A conversation over the threshold is summarised first. `rows`
    /// contains the rows of the previous request and is brought up to date; it is empty before the first request.
    async fn request(&self, round: &Round<'_>, rows: &mut Vec<Row>) -> Result<(CompletionRequest, Digest), Outcome> {
        self.read_on(rows).await?;
        let mut read = self.read(rows, round).await;
        let mut request = self.bare_request(round).await?;
        let size = compaction::estimate(&read, &request.system, &request.tools);
        if size > self.settings.compaction.threshold(round.about.context_window)
            && let Some(plan) = compaction::plan(rows, round.turn.ending.began)
        {
            self.compact(round, &request, &plan, Some(size)).await?;
            self.read_on(rows).await?;
            read = self.read(rows, round).await;
        }
        request.messages = read.messages;
        // If the turn is run again, an answer that was interrupted before its text may be last. Drop it, because the user's
        // message must be last.
        while request.messages.len() > 1 && request.messages.last().is_some_and(|last| last.role == Role::Assistant) {
            request.messages.pop();
        }
        let PrefixBinding { bound_from, prefix } = binding(&request, &read.answers);
        request.hints = RequestHints { bound_from: Some(bound_from), ..self.hints(RequestPurpose::Turn) };
        Ok((request, prefix))
    }

    /// Summarises a conversation that the provider has refused as too long, and sends the request again.
    async fn ask_summarised(
        &self,
        round: &Round<'_>,
        answer: NextAnswer,
        refusal: &Outcome,
    ) -> Result<CompletedAnswer, Outcome> {
        let too_long = |refusal: &Outcome, also: &str, advice: &str| {
            let (model, why) = (text::excerpt(&round.choice.model, 80), refusal.message.trim_end_matches('.'));
            let message = format!("the conversation is too long for {model}{also}: {why}. {advice}");
            Outcome::error(Code::ProviderContextWindow, message)
        };
        let rows = self.rows().await?;
        let Some(plan) = compaction::plan(&rows, round.turn.ending.began) else {
            let advice = "There is nothing to summarise: send less at once, or choose a model with a larger context window \
                 with /model.";
            return Err(too_long(refusal, "", advice));
        };
        let like = self.bare_request(round).await?;
        self.compact(round, &like, &plan, None).await?;
        self.place.requests.count()?;
        let (request, prefix) = self.request(round, &mut Vec::new()).await?;
        self.ask(round, answer, request, prefix).await.map_err(|refusal| match refusal.code {
            Code::ProviderContextWindow => {
                let advice = "To summarise it once more: /compact FOCUS. To choose a model with a larger context \
                    window: /model MODEL.";
                too_long(&refusal, ", even after a summary", advice)
            }
            _ => refusal,
        })
    }

    pub(crate) async fn rows(&self) -> Result<Vec<Row>, Outcome> {
        self.log.store().conversation(self.place.agent).await.map_err(store_failed)
    }

    /// Adds new rows to a conversation that was read before. While a turn runs, only a summary changes its earlier
    /// rows; then all rows are read again.
    async fn read_on(&self, rows: &mut Vec<Row>) -> Result<(), Outcome> {
        let added = match rows.last() {
            Some(last) => self.log.store().conversation_since(self.log.session(), self.place.agent, last.seq).await,
            None => Ok(None),
        };
        match added.map_err(store_failed)? {
            Some(added) => rows.extend(added),
            None => *rows = self.rows().await?,
        }
        Ok(())
    }

    /// Builds the conversation of `rows` with the contents of its attachments.
    pub(crate) async fn read(&self, rows: &[Row], round: &Round<'_>) -> Conversation {
        attachments::load(self.log.store(), Self::read_rows(rows, round)).await
    }

    fn read_rows(rows: &[Row], Round { turn, choice, about, lineage, .. }: &Round<'_>) -> Conversation {
        let reads = |media: &str| about.input_media.iter().any(|there| there == media);
        let (adapter, model, surroundings) = (&about.adapter, &choice.model, &turn.surroundings);
        conversation(rows, &ReaderModel { adapter, model, reads: &reads, lineage, surroundings })
    }

    /// Sends one request and stores the answer.
    async fn ask(
        &self,
        round: &Round<'_>,
        answer: NextAnswer,
        request: CompletionRequest,
        prefix: Digest,
    ) -> Result<CompletedAnswer, Outcome> {
        let Round { turn, choice, about, .. } = round;
        let buffer = AnswerBuffer::new(AssistantRecord {
            provider: choice.provider.to_string(),
            adapter: about.adapter.clone(),
            model: choice.model.clone(),
            effective_model: None,
            level: choice.level,
            selector: self.chosen().selector().map(|selector| selector.as_str().to_owned()),
            usage: TokenUsage::default(),
            stop: None,
            raw: None,
            interrupted: true,
            prefix: Some(prefix),
            failed_attempts: FailedAttempts::default(),
            parts: Vec::new(),
        });
        let at = DeltaPosition { turn: turn.ending.began, answer: answer.index, ..DeltaPosition::default() };
        self.set_answering(at, &buffer);
        let (log, receiver_buffer) = (Arc::clone(&self.log), Arc::clone(&buffer));
        let mut receiver = AnswerSink { log, agent: self.place.agent, at, buffer: receiver_buffer };
        let spender = self.spender();
        let asked = spender.complete(self.sending(round), request, &mut receiver);
        let checkpoints = async {
            let mut tick = interval(CHECKPOINT);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! { () = buffer.block.notified() => {}, _ = tick.tick() => {} }
                let Some(piece) = buffer.next_piece(self.place.agent) else { continue };
                if !self.log.keep_piece(piece).await {
                    buffer.write_again();
                }
            }
        };
        let asked = async {
            tokio::select! { biased; completed = asked => completed, never = checkpoints => never }
        };
        let completed = self.unless_cancelled(turn, asked).await.flatten();
        let received = buffer.take();
        let usage = received.all_usage();
        self.spend(usage);
        let parts = unwrapped(&received.parts);
        let calls: Vec<ToolCall> = parts.iter().filter_map(AssistantPart::tool_call).collect();
        let text = received.text();
        let ended = completed.as_ref().map(|Completed { finish, .. }| {
            let why = received.why_ended.as_deref();
            AnswerEnd::new(finish, why, &text, !calls.is_empty(), answer.cut_off_before)
        });
        // Nothing is stored if nothing was received.
        let mut row = 0;
        if completed.is_ok() || !parts.is_empty() {
            let record = buffer.record(&received, completed.as_ref().ok(), parts);
            let mut change = self.row(MessageKind::Assistant, text.clone(), json!(record));
            change.ends_partial.push(self.place.agent);
            if let Ok(end) = &ended
                && end.ends_turn
            {
                turn.ending.answered(&text, end.failure(), &mut change);
            }
            row = self.commit(change).await?;
        } else {
            self.record_usage(choice, usage);
            if received.failed.given_up > 0 {
                // Delete the stored pieces of abandoned attempts: they must not become a row.
                self.commit(SessionChange { ends_partial: vec![self.place.agent], ..SessionChange::default() }).await?;
            }
        }
        let end = ended.map_err(Outcome::clone)?;
        Ok(CompletedAnswer { row, text, calls, end })
    }

    /// Returns the model, rank and notices with which a turn's requests are sent.
    pub(crate) fn sending<'a>(&self, Round { turn, choice, about, .. }: &'a Round<'_>) -> Sending<'a> {
        // Requests of turns that the user began come first.
        let rank = if turn.cause == TurnCause::Person { RequestRank::Person } else { RequestRank::Agent };
        Sending { choice, about, rank, notice: Some(self.wait_notice()), tool: None }
    }

    /// Runs `work` until it ends or the turn is cancelled.
    pub(crate) async fn unless_cancelled<T>(&self, turn: &Turn, work: impl Future<Output = T>) -> Result<T, Outcome> {
        tokio::select! {
            biased;
            () = turn.cancel.cancelled() => Err(cancelled()),
            done = work => Ok(done),
        }
    }

    /// Returns the change that adds a row of this agent.
    pub(crate) fn row(&self, kind: MessageKind, content: String, data: serde_json::Value) -> SessionChange {
        let messages = vec![NewMessage { agent: self.place.agent, kind, content, data: Some(data) }];
        SessionChange { messages, ..SessionChange::default() }
    }

    /// Commits the result of a call; `attachments` is the binary content that it names.
    pub(crate) async fn commit_result(
        &self,
        id: CallId,
        shown: String,
        record: serde_json::Value,
        attachments: Option<RetainedAttachments>,
    ) -> Result<(), Outcome> {
        let mut change = SessionChange { attachments, ..self.row(MessageKind::Tool, shown, record) };
        change.settles.push(id);
        self.commit(change).await.map(drop)
    }

    /// Commits a change of this agent, which must be alive; returns the number of the last row.
    pub(crate) async fn commit(&self, mut change: SessionChange) -> Result<u64, Outcome> {
        let agent = self.place.agent;
        change.requires_alive.push(agent);
        let tokens = self.take_unsaved_tokens();
        if tokens > 0 {
            change.agent_tokens.push((agent, tokens));
        }
        let rows = self.log.commit(change, || {}).await.map_err(store_failed)?;
        Ok(rows.last().map_or(0, |row| row.seq))
    }
}

/// Describes a turn whose last answer is from `choice`.
fn turn_data(choice: &Choice, stop: Stop) -> TurnData {
    let (model, provider) = (Some(choice.model.clone()), Some(choice.provider.to_string()));
    TurnData { model, provider, stop: Some(stop), ..TurnData::default() }
}

fn cancelled() -> Outcome {
    Outcome::refused(Code::TurnCancelled, "Cancelled. The partial answer is kept.")
}

pub(crate) fn store_failed(error: patchbay_store::StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}."))
}

#[cfg(test)]
pub(crate) mod tests;
