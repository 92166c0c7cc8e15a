//! Every request of an agent to a model is sent from here: turns, summaries, completions of skills and trials of
//! models. A request waits for one of the session's permits, reserves the most that each attempt can cost, and settles
//! the cost afterwards.
//!
//! The cost of an attempt is known if the answer is complete, or if the provider cannot have charged for it. Otherwise
//! the whole reservation counts as spent, because providers charge for a stopped answer but don't report its tokens.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use futures_util::future::BoxFuture;
use patchbay_core::{
    AgentId, Code, Money, Outcome, Retrying,
    completion::{Blob, Block, CompletionRequest, Message, Part, Piece, StreamEvent, TokenUsage},
    text,
};
use patchbay_events::EventLog;
use patchbay_provider::{Choice, Completed, ModelInfo, Prices, Sink};
use patchbay_store::{BudgetSettings, Ceiling, NewRequest, OverBudget, ReservedMoney, Store, StoreError, utc_date};
use tokio::sync::oneshot;

use crate::{
    Model, Requests,
    requests::{PermitSink, RequestRank, WaitNotice},
};

/// Maximum tokens of an answer if the model's limit is not known.
const UNKNOWN_ANSWER: u64 = 32_768;
/// To fit a request into the budget, an answer's token limit is halved, but not below this number.
const LEAST_ANSWER: u64 = 4_096;
/// Lowest token limit of an answer that is requested, because some APIs accept no lower limit.
const LEAST_LIMIT: u64 = 16;
/// Maximum number of tokens of an image, at the highest resolution of any API.
const BLOB_TOKENS: u64 = 16_000;
/// Tokens that an API adds to a request with tools, and to each message, part and tool.
const ADDED_TOKENS: u64 = 1_000;
const ADDED_TO_EACH: u64 = 16;

/// Sends the requests of one agent.
#[derive(Clone)]
pub(crate) struct Spender {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) agent: AgentId,
    pub(crate) budget: BudgetSettings,
    /// Billionths of a dollar that the last request needed if it was refused; otherwise 0.
    pub(crate) refused: Arc<AtomicI64>,
}

/// How a request is sent.
pub(crate) struct Sending<'a> {
    pub(crate) choice: &'a Choice,
    pub(crate) about: &'a ModelInfo,
    /// Decides which waiting requests it precedes.
    pub(crate) rank: RequestRank,
    /// Called while it waits for a permit.
    pub(crate) notice: Option<WaitNotice>,
    /// The tool that the cost is booked to. With `None`, it is booked to the request's purpose.
    pub(crate) tool: Option<&'a str>,
}

/// The most that a request can cost.
struct Quote {
    /// The prices in US dollars; `None` if they are unknown, or if the model costs nothing.
    prices: Option<Prices>,
    /// Whether the cost is known.
    is_priced: bool,
    /// Possible sizes of the answer in tokens, largest first, each with the most that the request can then cost.
    offers: Vec<(u64, Money)>,
}

impl Quote {
    /// # Errors
    /// The outcome of a request whose price is unknown, if there is a budget.
    fn new(sending: &Sending<'_>, request: &CompletionRequest, budget: &BudgetSettings) -> Result<Self, Outcome> {
        let Sending { choice, about, .. } = sending;
        let window = about.context_window.unwrap_or(u64::MAX);
        let limit = about.max_output_tokens.unwrap_or(UNKNOWN_ANSWER.min(window / 4)).max(LEAST_LIMIT);
        let asked = request.max_output_tokens.map(|asked| u64::from(asked).max(LEAST_LIMIT));
        let most = asked.unwrap_or(limit).min(limit);
        let input = input_tokens(request).min(window);
        let offers = |prices: &Prices| {
            let halves = |size: &u64| Some(size / 2).filter(|half| asked.is_none() && *half >= LEAST_ANSWER);
            std::iter::successors(Some(most), halves)
                .map(|size| Some((size, prices.max_cost(input, size)?)))
                .collect::<Option<Vec<_>>>()
        };
        let prices = about.prices.as_ref();
        if let Some((prices, offers)) = prices.and_then(|prices| Some((prices, offers(prices)?))) {
            return Ok(Self { prices: Some(prices.clone()), is_priced: true, offers });
        }
        let is_priced = about.is_local && prices.is_none();
        if budget.is_set() && !is_priced {
            return Err(price_unknown(choice, prices));
        }
        Ok(Self { prices: None, is_priced, offers: vec![(most, Money::ZERO)] })
    }

    /// Returns the cost of an attempt.
    fn cost(&self, usage: TokenUsage) -> Money {
        self.prices.as_ref().and_then(|prices| prices.cost(usage)).unwrap_or_default()
    }
}

impl Spender {
    /// Sends a request. Events go to `sink`.
    ///
    /// # Errors
    /// The outcome for the user: the model did not answer, or the budget does not allow the request or another attempt.
    pub(crate) async fn complete(
        &self,
        sending: Sending<'_>,
        mut request: CompletionRequest,
        sink: &mut dyn Sink,
    ) -> Result<Completed, Outcome> {
        let quote = Quote::new(&sending, &request, &self.budget)?;
        let Sending { choice, rank, notice, tool, .. } = sending;
        let tool = tool.unwrap_or(request.hints.purpose.as_str());
        let permit = self.requests.permit(&choice.provider, rank, notice.as_ref()).await;
        let mut permitted = PermitSink::new(permit, rank, notice, sink);
        let (stop, stopped) = oneshot::channel();
        let account = RequestAccount { spender: self, choice, tool, quote };
        let reservation = account.reserve(&account.quote.offers).await?;
        let (size, most) = account.quote.offers.get(reservation.offer).copied().unwrap_or_default();
        // The known limit of a model may be too low, so the request always states the reserved size.
        if self.budget.is_set()
            && most > Money::ZERO
            && request.max_output_tokens.is_none_or(|asked| u64::from(asked) > size)
        {
            request.max_output_tokens = Some(u32::try_from(size).unwrap_or(u32::MAX));
        }
        let mut attempts = Attempts {
            account,
            offer: (size, most),
            sink: &mut permitted,
            open: Some(reservation),
            usage: TokenUsage::default(),
            failed_free: false,
            stop: Some(stop),
        };
        let completed = tokio::select! {
            biased;
            completed = self.model.complete(choice, request, &mut attempts) => completed,
            Ok(over) = stopped => Err(over),
        };
        if let Ok(completed) = &completed {
            attempts.complete(completed.usage);
        }
        drop(attempts);
        permitted.ended(completed.is_ok());
        completed
    }

    /// Returns whether the budget leaves enough for a request to the model of `choice`, as far as that is known before the request.
    pub(crate) async fn affords(&self, choice: &Choice) -> bool {
        let about = self.model.about(choice).await;
        let sending = Sending { choice, about: &about, rank: RequestRank::Agent, notice: None, tool: None };
        let Ok(quote) = Quote::new(&sending, &CompletionRequest::default(), &self.budget) else { return false };
        let least = quote.offers.last().map(|(_, most)| *most).unwrap_or_default();
        if least == Money::ZERO {
            return true;
        }
        let needed = least.max(Money::from_nanos(self.refused.load(Ordering::Relaxed)));
        let spending = self.log.store().spending(self.log.session()).await;
        spending.is_ok_and(|spending| spending.left(&self.budget).is_none_or(|left| needed <= left))
    }
}

/// The account to which the attempts of one request are booked.
struct RequestAccount<'a> {
    spender: &'a Spender,
    choice: &'a Choice,
    tool: &'a str,
    quote: Quote,
}

impl RequestAccount<'_> {
    /// # Errors
    /// The outcome of a request that may not be sent.
    async fn reserve(&self, offers: &[(u64, Money)]) -> Result<ReservedMoney, Outcome> {
        let Spender { log, agent, budget, refused, .. } = self.spender;
        let request = NewRequest {
            agent: *agent,
            tool: self.tool.to_owned(),
            provider: self.choice.provider.to_string(),
            model: self.choice.model.clone(),
            is_priced: self.quote.is_priced,
            offers: offers.iter().map(|(_, most)| *most).collect(),
        };
        let (store, hold, budget) = (log.store().clone(), log.hold().clone(), *budget);
        // In a task, because this future may be dropped while the writer is at work.
        let reserving = tokio::spawn(async move {
            let reserved = store.reserve(&hold, budget, request).await?;
            Ok::<_, StoreError>(reserved.map(|reserved| Unclaimed { store, reserved: Some(reserved) }))
        });
        let reserved = reserving.await.unwrap_or(Err(StoreError::WriterGone));
        let reserved = reserved.map_err(|error| Outcome::error(error.code(), format_args!("{error}.")))?;
        let needed = reserved.as_ref().err().map_or(0, |over| over.needed.nanos());
        refused.store(needed, Ordering::Relaxed);
        reserved.map_err(|over| over_budget(&over)).and_then(Unclaimed::claim)
    }

    fn settle(&self, reservation: ReservedMoney, cost: Option<Money>) {
        self.spender.log.store().settle_spending(reservation, cost);
    }
}

/// Money that is reserved for an attempt. Returned if the attempt is given up before it begins.
struct Unclaimed {
    store: Store,
    reserved: Option<ReservedMoney>,
}

impl Unclaimed {
    fn claim(mut self) -> Result<ReservedMoney, Outcome> {
        self.reserved.take().ok_or_else(|| Outcome::error(Code::Internal, "the reservation is gone."))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.store.settle_spending(reserved, Some(Money::ZERO));
        }
    }
}

/// A sink that reserves money for each attempt and settles it. If it is dropped during an attempt, the whole
/// reservation counts as spent.
struct Attempts<'a> {
    account: RequestAccount<'a>,
    /// The limit of the answer, and the most that an attempt can cost.
    offer: (u64, Money),
    sink: &'a mut dyn Sink,
    /// The money of the attempt under way.
    open: Option<ReservedMoney>,
    /// Tokens that the attempt has reported so far.
    usage: TokenUsage,
    /// Whether the attempt has failed and cannot have cost anything.
    failed_free: bool,
    /// Ends the request when the budget does not allow another attempt.
    stop: Option<oneshot::Sender<Outcome>>,
}

impl Attempts<'_> {
    /// Ends the attempt whose answer is complete.
    fn complete(&mut self, usage: TokenUsage) {
        let Some(reservation) = self.open.take() else { return };
        let cost = (usage.total() > 0).then(|| self.account.quote.cost(usage));
        self.account.settle(reservation, cost);
    }

    /// Ends an attempt without a complete answer.
    fn fail(&mut self) {
        let Some(reservation) = self.open.take() else { return };
        let usage = std::mem::take(&mut self.usage);
        let cost = std::mem::take(&mut self.failed_free).then(|| self.account.quote.cost(usage));
        self.account.settle(reservation, cost);
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.fail();
    }
}

impl Sink for Attempts<'_> {
    fn event(&mut self, event: StreamEvent) {
        if let StreamEvent::Usage(usage) = event {
            self.usage = usage;
        }
        self.sink.event(event);
    }

    fn overloaded(&mut self) {
        self.sink.overloaded();
    }

    fn failed_free(&mut self) {
        self.failed_free = true;
        self.sink.failed_free();
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.fail();
        self.sink.retrying(retrying);
    }

    fn given_up(&mut self, retrying: &Retrying) {
        self.fail();
        self.sink.given_up(retrying);
    }

    fn ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.sink.ready().await;
            match self.account.reserve(&[self.offer]).await {
                Ok(reservation) => self.open = Some(reservation),
                Err(over) => {
                    if let Some(stop) = self.stop.take() {
                        // The receiver exists as long as the request.
                        let _ = stop.send(over);
                    }
                    std::future::pending().await
                }
            }
        })
    }
}

/// Returns an upper limit of a request's input tokens. No token is shorter than a byte.
fn input_tokens(request: &CompletionRequest) -> u64 {
    let bytes = |text: &str| text.len() as u64;
    let tools = request
        .tools
        .iter()
        .map(|tool| ADDED_TO_EACH + bytes(&tool.name) + bytes(&tool.description) + bytes(&tool.input_schema));
    let system = request.system.iter().map(|text| ADDED_TO_EACH + bytes(text));
    let parts = request.messages.iter().flat_map(|Message { parts, .. }| parts).map(part_tokens);
    let messages = ADDED_TO_EACH * request.messages.len() as u64;
    tools.chain(system).chain(parts).fold(ADDED_TOKENS + messages, u64::saturating_add)
}

fn part_tokens(part: &Part) -> u64 {
    let bytes = |text: &str| text.len() as u64;
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => bytes(text),
        Piece::Blob(blob) => blob_tokens(blob),
    };
    let block = match &part.block {
        Block::Text(text) | Block::Thinking(text) | Block::Opaque(text) => bytes(text),
        Block::Blob(blob) => blob_tokens(blob),
        Block::ToolCall(call) => bytes(&call.id) + bytes(&call.name) + bytes(&call.input),
        Block::ToolResult(result) => bytes(&result.name) + result.content.iter().map(piece).sum::<u64>(),
    };
    ADDED_TO_EACH + block + part.opaque.as_deref().map_or(0, bytes)
}

fn blob_tokens(blob: &Blob) -> u64 {
    let bytes = if blob.media_type.starts_with("image/") { 0 } else { blob.data.len() as u64 };
    BLOB_TOKENS + bytes
}

/// Returns whether an outcome is about the budget, and not about one request.
pub(crate) fn is_about_budget(outcome: &Outcome) -> bool {
    matches!(outcome.code, Code::LimitBudget | Code::PriceUnknown)
}

fn over_budget(over: &OverBudget) -> Outcome {
    let OverBudget { ceiling, most, needed, so_far } = over;
    let (used, whose, advice) = match ceiling {
        Ceiling::Session => {
            let advice = "Start a new session, choose a cheaper model with /model, or raise the limit and resume \
                this session with --session.";
            (so_far.session, "session in [budget]", advice.to_owned())
        }
        Ceiling::Day => {
            let advice = format!(
                "The day {} ends at 24:00 UTC. Wait until then, choose a cheaper model with /model, or raise the limit and \
                 restart.",
                utc_date(so_far.day)
            );
            (so_far.today, "day in [budget]", advice)
        }
    };
    let message = format!(
        "the request could cost {needed} USD, but only {} USD is left of {most} USD ({whose} of config.toml): {} \
         USD spent, {} USD \
         reserved for requests under way. Nothing was sent. {advice}",
        most.minus(used.total()),
        used.spent,
        used.reserved,
    );
    Outcome::error(Code::LimitBudget, message)
}

fn price_unknown(choice: &Choice, prices: Option<&Prices>) -> Outcome {
    let (provider, model) = (&choice.provider, text::excerpt(&choice.model, 80));
    let why = match prices {
        Some(prices) => format!("its price is in {}, but a budget is in USD", text::clean_line(&prices.currency)),
        None => "its price is not known".to_owned(),
    };
    let message = format!(
        "{provider}/{model} cannot be used with [budget] of config.toml: {why}. Nothing was sent. Set its price for \
         a million tokens, such as models = [{{ id = \"{model}\", price = {{ input = \"2.50\", output = \"10\" }} }}] in [providers.{provider}], \
         or choose another model with /model."
    );
    Outcome::error(Code::PriceUnknown, message)
}

#[cfg(test)]
mod tests;
