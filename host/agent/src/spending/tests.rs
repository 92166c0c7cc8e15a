//! What requests of turns, summaries, skills and trials reserve and pay, attempt by attempt.

use std::sync::Mutex;

use patchbay_core::completion::{Finish, Role, Stop};
use patchbay_provider::{Selector, TokenPrices};
use patchbay_store::Spending;

use super::*;
use crate::{
    SessionLimits,
    turn::tests::{Reply, TestAgent},
};

/// Prices of one dollar per token, for input and output.
fn dollar() -> Prices {
    let base = TokenPrices { input: 1.into(), output: 1.into(), cache_read: None, cache_write: Some(1.into()) };
    Prices { currency: "USD".to_owned(), base, tiers: Vec::new() }
}

fn dollars(dollars: i64) -> Money {
    Money::from_nanos(dollars * Money::NANOS)
}

fn session_budget(most: i64) -> BudgetSettings {
    BudgetSettings { session: Some(dollars(most)), day: None }
}

/// An agent whose model has a window of 1,000 tokens, which also limits the input, and answers of at most 500.
async fn agent(does: impl IntoIterator<Item = Reply>, budget: BudgetSettings) -> TestAgent {
    let about = |about: &mut ModelInfo| {
        about.context_window = Some(1_000);
        about.max_output_tokens = Some(500);
        about.prices = Some(dollar());
    };
    TestAgent::with_model(does, 0, SessionLimits::default(), about, budget).await
}

async fn spending(stage: &TestAgent) -> Spending {
    stage.store.settle().await.unwrap();
    stage.store.spending(stage.log.session()).await.unwrap()
}

/// Returns the rows of the ledger: tool, requests, spent, reserved, assumed.
async fn ledger(stage: &TestAgent) -> Vec<(String, u64, Money, Money, Money)> {
    stage.store.settle().await.unwrap();
    let rows = stage.store.spending_rows(Some(stage.log.session()), None).await.unwrap();
    rows.into_iter().map(|row| (row.tool, row.requests, row.money.spent, row.money.reserved, row.assumed)).collect()
}

fn row(tool: &str, requests: u64, spent: i64, assumed: i64) -> (String, u64, Money, Money, Money) {
    (tool.to_owned(), requests, dollars(spent), Money::ZERO, dollars(assumed))
}

#[tokio::test]
async fn turn_reserves_its_request_and_pays_what_it_used() {
    // Two answers of 110 tokens are possible, because the third could cost 1,500 of the 1,480 that are left.
    let stage = agent([Reply::Says("One."), Reply::Says("Two.")], session_budget(1_700)).await;
    assert_eq!(stage.say("one").await.code, Code::Answered);
    assert_eq!(stage.say("two").await.code, Code::Answered);
    let over = stage.say("three").await;
    assert_eq!(over.code, Code::LimitBudget);
    let words = "the request could cost 1500.00 USD, but only 1480.00 USD is left of 1700.00 USD (session in \
        [budget] of config.toml): \
                 220.00 USD spent, 0.00 USD reserved for requests under way. Nothing was sent. Start a new session";
    assert!(over.message.starts_with(words), "{}", over.message);
    assert_eq!(stage.requests().len(), 2);
    assert!(stage.requests().iter().all(|request| request.max_output_tokens == Some(500)));
    assert_eq!(ledger(&stage).await, [row("turn", 2, 220, 0)]);
    assert!(!stage.agent.can_spend().await);
}

#[tokio::test]
async fn summary_that_the_budget_refuses_is_not_sent() {
    let stage = agent([Reply::Says("One."), Reply::Says("In short.")], session_budget(1_600)).await;
    assert_eq!(stage.say("one").await.code, Code::Answered);
    assert_eq!(stage.compact().await.unwrap_err().code, Code::LimitBudget);
    assert_eq!(stage.requests().len(), 1);
    let stage = agent([Reply::Says("One."), Reply::Says("In short.")], session_budget(10_000)).await;
    assert_eq!(stage.say("one").await.code, Code::Answered);
    stage.compact().await.unwrap();
    assert_eq!(ledger(&stage).await, [row("summary", 1, 110, 0), row("turn", 1, 110, 0)]);
}

#[tokio::test]
async fn trial_and_inference_are_paid() {
    let does = || [Reply::Says("Ok."), Reply::Says("Yes.")];
    let stage = agent(does(), session_budget(10_000)).await;
    let choice = Choice { provider: "demo".parse().unwrap(), model: "demo-1".to_owned(), level: None };
    crate::try_model(&stage.agent, &choice).await.unwrap();
    let inference = crate::AgentInference::new(&stage.agent, stage.cancel.clone());
    let (answer, _) = patchbay_sandbox::Inference::complete_for(&inference, "web__ask", "", "Is it?", 100).await;
    assert_eq!(answer.unwrap(), "Yes.");
    assert_eq!(ledger(&stage).await, [row("validation", 1, 110, 0), row("web__ask", 1, 110, 0)]);
    // Neither request is sent if the budget does not allow it.
    let stage = agent(does(), session_budget(100)).await;
    assert_eq!(crate::try_model(&stage.agent, &choice).await.unwrap_err().code, Code::LimitBudget);
    let inference = crate::AgentInference::new(&stage.agent, stage.cancel.clone());
    let (answer, used) = patchbay_sandbox::Inference::complete(&inference, "", "Is it?", 100).await;
    let Err(patchbay_sandbox::Fault::Failed { kind, message }) = answer else { panic!("{answer:?}") };
    assert!(kind == "quota" && message.contains("is left of 100.00 USD") && used == 0, "{kind} {message}");
    assert_eq!((stage.requests().len(), ledger(&stage).await), (0, vec![]));
}

#[tokio::test]
async fn stopped_answer_counts_all_that_was_reserved() {
    let stage = agent([Reply::Hangs("Half")], session_budget(10_000)).await;
    let (outcome, ()) = tokio::join!(stage.say("one"), async {
        while stage.requests().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert_eq!(spending(&stage).await.session.reserved, dollars(1_500));
        stage.cancel.cancel();
    });
    assert_eq!(outcome.code, Code::TurnCancelled);
    assert_eq!(ledger(&stage).await, [row("turn", 1, 1_500, 1_500)]);
}

#[tokio::test]
async fn large_answer_is_limited_to_half_of_the_rest() {
    let about = |about: &mut ModelInfo| {
        about.context_window = Some(1_000);
        about.max_output_tokens = Some(64_000);
        about.prices = Some(dollar());
    };
    let says = [Reply::Says("One."), Reply::Says("Two.")];
    let stage = TestAgent::with_model(says, 0, SessionLimits::default(), about, session_budget(20_000)).await;
    assert_eq!(stage.say("one").await.code, Code::Answered);
    // If the model's limit is not known, the request contains one.
    let unlimited = |about: &mut ModelInfo| about.prices = Some(dollar());
    let budget = session_budget(1_000_000);
    let other = TestAgent::with_model([Reply::Says("One.")], 0, SessionLimits::default(), unlimited, budget).await;
    assert_eq!(other.say("one").await.code, Code::Answered);
    // Without a budget nothing is limited, and free models are never limited.
    let free =
        TestAgent::with_model([Reply::Says("One.")], 0, SessionLimits::default(), about, BudgetSettings::default())
            .await;
    assert_eq!(free.say("one").await.code, Code::Answered);
    let local = |about: &mut ModelInfo| about.is_local = true;
    let local =
        TestAgent::with_model([Reply::Says("One.")], 0, SessionLimits::default(), local, session_budget(0)).await;
    assert_eq!(local.say("one").await.code, Code::Answered);
    assert!(local.agent.can_spend().await);
    let limit = |stage: &TestAgent| stage.requests()[0].max_output_tokens;
    assert_eq!([limit(&stage), limit(&other), limit(&free), limit(&local)], [Some(8_000), Some(32_768), None, None]);
}

#[tokio::test]
async fn unknown_price_is_refused_only_with_a_budget() {
    let euro = Prices { currency: "EUR".to_owned(), ..dollar() };
    for (prices, why) in [
        (None, "its price is not known"),
        (
            Some(euro),
            "its price is in EUR, but a budget is in \
        USD",
        ),
    ] {
        let known = prices.clone();
        let about = move |about: &mut ModelInfo| about.prices = known;
        let stage = TestAgent::with_model([], 0, SessionLimits::default(), about, session_budget(5)).await;
        let outcome = stage.say("one").await;
        assert_eq!((outcome.code, stage.requests().len()), (Code::PriceUnknown, 0));
        assert!(outcome.message.contains(why) && outcome.message.contains("in [providers.demo]"), "{outcome:?}");
        assert!(!stage.agent.can_spend().await);
        let about = move |about: &mut ModelInfo| about.prices = prices;
        let says = [Reply::Says("One.")];
        let stage = TestAgent::with_model(says, 0, SessionLimits::default(), about, BudgetSettings::default()).await;
        assert_eq!(stage.say("one").await.code, Code::Answered);
        stage.store.settle().await.unwrap();
        let rows = stage.store.spending_rows(None, None).await.unwrap();
        assert_eq!((rows[0].requests, rows[0].unpriced, rows[0].money.spent), (1, 1, Money::ZERO));
    }
}

/// One attempt of a request.
#[derive(Clone, Copy)]
enum Attempt {
    /// The provider answers with an error.
    Refused,
    /// The answer breaks off after this usage was reported.
    Breaks(TokenUsage),
    /// The last attempt: an answer with this usage.
    Ends(TokenUsage),
    /// The last attempt: an error.
    Fails,
}

/// A provider that plays these attempts at one request.
struct Trying(Mutex<Vec<Attempt>>);

impl Model for Trying {
    fn default_choice(&self) -> BoxFuture<'_, Result<Choice, Outcome>> {
        unreachable!("the choice is given")
    }

    fn select<'a>(&'a self, _: &'a Choice, _: Selector) -> BoxFuture<'a, Option<String>> {
        unreachable!("the choice is given")
    }

    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Choice, Outcome>> {
        unreachable!("the choice is given")
    }

    fn about<'a>(&'a self, _: &'a Choice) -> BoxFuture<'a, ModelInfo> {
        unreachable!("it is given")
    }

    fn complete<'a>(
        &'a self,
        _: &'a Choice,
        _: CompletionRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Completed, Outcome>> {
        Box::pin(async move {
            loop {
                let attempt = self.0.lock().unwrap().remove(0);
                let [provider, what, cause] = ["demo", "Server error", "overloaded"].map(str::to_owned);
                let retrying = Retrying { provider, what, cause, wait_ms: 0, attempt: 1, of: 4 };
                match attempt {
                    Attempt::Refused => {
                        sink.failed_free();
                        sink.retrying(&retrying);
                    }
                    Attempt::Breaks(usage) => {
                        sink.event(StreamEvent::Usage(usage));
                        sink.given_up(&retrying);
                    }
                    Attempt::Ends(usage) => {
                        sink.event(StreamEvent::Usage(usage));
                        let finish = Finish { stop: Stop::EndTurn, raw: String::new() };
                        return Ok(Completed { finish, usage });
                    }
                    Attempt::Fails => return Err(Outcome::error(Code::Internal, "it broke.")),
                }
                sink.ready().await;
            }
        })
    }
}

struct NoSink;

impl Sink for NoSink {
    fn event(&mut self, _: StreamEvent) {}
    fn retrying(&mut self, _: &Retrying) {}
}

#[tokio::test]
async fn each_attempt_is_reserved_and_paid() {
    let used = |input, output| TokenUsage { input, output, ..TokenUsage::default() };
    // An attempt can cost 1,500 dollars: 1,000 tokens of input, and an answer of 500.
    for (attempts, budget, expected, spent, assumed) in [
        (vec![Attempt::Refused, Attempt::Ends(used(7, 3))], 1_500, Ok(()), 10, 0),
        (vec![Attempt::Refused, Attempt::Refused, Attempt::Fails], 1_500, Err(Code::Internal), 1_500, 1_500),
        (vec![Attempt::Breaks(used(7, 1)), Attempt::Ends(used(7, 3))], 3_000, Ok(()), 1_510, 1_500),
        // The budget does not allow the second attempt.
        (vec![Attempt::Breaks(used(7, 1)), Attempt::Ends(used(7, 3))], 2_999, Err(Code::LimitBudget), 1_500, 1_500),
        // An answer without reported usage costs the whole reservation. Usage beyond the reservation counts, too.
        (vec![Attempt::Ends(used(0, 0))], 1_500, Ok(()), 1_500, 1_500),
        (vec![Attempt::Ends(used(2_000, 0))], 1_500, Ok(()), 2_000, 0),
    ] {
        let requests = attempts.len() as u64 - u64::from(expected == Err(Code::LimitBudget));
        let stage = agent([], session_budget(budget)).await;
        let about = ModelInfo {
            context_window: Some(1_000),
            max_output_tokens: Some(500),
            prices: Some(dollar()),
            ..ModelInfo::default()
        };
        let choice = Choice { provider: "demo".parse().unwrap(), model: "demo-1".to_owned(), level: None };
        let spender = Spender { model: Arc::new(Trying(Mutex::new(attempts))), ..stage.agent.spender() };
        let sending = Sending { choice: &choice, about: &about, rank: RequestRank::Agent, notice: None, tool: None };
        let completed = spender.complete(sending, CompletionRequest::default(), &mut NoSink).await;
        assert_eq!(completed.map(drop).map_err(|outcome| outcome.code), expected);
        assert_eq!(ledger(&stage).await, [row("turn", requests, spent, assumed)]);
    }
}

#[test]
fn input_is_never_underestimated() {
    let text = |text: &str| Part::from(Block::Text(text.to_owned()));
    let blob = |media_type: &str, bytes: usize| {
        Part::from(Block::Blob(Blob { media_type: media_type.to_owned(), name: None, data: vec![0; bytes].into() }))
    };
    let of = |parts: Vec<Part>| {
        let messages = vec![Message { role: Role::User, parts }];
        input_tokens(&CompletionRequest {
            messages,
            system: vec!["Be brief.".to_owned()],
            ..CompletionRequest::default()
        })
    };
    let empty = of(Vec::new());
    assert!(empty > 9 && of(vec![text("日本語")]) >= empty + 9);
    assert!(of(vec![blob("image/png", 1 << 20)]) < 20_000 && of(vec![blob("application/pdf", 1 << 20)]) > 1 << 20);
}
