//! Lines in any order against a simple model of the tree, the mail and the captures, and concurrent lines in an order that a seed
//! decides.
//!
//! The agents have no tokens left, so mail does not wake them and each line has only one possible outcome.

use patchbay_core::{AgentId, Outcome};
use patchbay_session::SessionLimits;
use patchbay_tests::{
    play::{Play, quick_demo},
    session_events::wait_for_end,
};
use proptest::{prelude::*, sample::Index, test_runner::TestRunner};

/// A step. An index chooses a mail, or an agent among all agents, including dead ones.
#[derive(Clone, Debug)]
enum Step {
    Fork,
    ForkPrompt,
    KillInView,
    Kill(Index),
    Switch(Index),
    SwitchParent,
    SwitchRoot,
    Capture,
    Cancel,
    Text(u16),
    Send(Index, u16),
    Check,
    Filter(Index),
    Read(u64),
    Delete(u64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let agent = any::<Index>;
    prop_oneof![
        5 => Just(Step::Fork),
        1 => Just(Step::ForkPrompt),
        1 => Just(Step::KillInView),
        2 => agent().prop_map(Step::Kill),
        5 => agent().prop_map(Step::Switch),
        1 => Just(Step::SwitchParent),
        1 => Just(Step::SwitchRoot),
        3 => Just(Step::Capture),
        1 => Just(Step::Cancel),
        5 => any::<u16>().prop_map(Step::Text),
        5 => (agent(), any::<u16>()).prop_map(|(to, text)| Step::Send(to, text)),
        2 => Just(Step::Check),
        1 => agent().prop_map(Step::Filter),
        2 => (0..6_u64).prop_map(Step::Read),
        2 => (0..6_u64).prop_map(Step::Delete),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mail {
    number: u64,
    from: usize,
    body: String,
    read: bool,
}

#[derive(Clone, Debug)]
struct ModelAgent {
    id: AgentId,
    parent: Option<usize>,
    alive: bool,
    captured: Option<Vec<String>>,
    mails: Vec<Mail>,
    next_mail: u64,
}

/// The expected state of the session. Agents are in order of creation.
struct Model {
    agents: Vec<ModelAgent>,
    view: usize,
}

const LIVING: usize = 5;
const DEPTH: usize = 2;
const MAILS: usize = 3;

fn limits() -> SessionLimits {
    SessionLimits { agents: 5, agent_depth: 2, mails: 3, session_tokens: 1, ..SessionLimits::default() }
}

impl Model {
    fn add(&mut self, id: AgentId, parent: Option<usize>) -> usize {
        self.agents.push(ModelAgent { id, parent, alive: true, captured: None, mails: Vec::new(), next_mail: 1 });
        self.agents.len() - 1
    }

    fn ancestors(&self, agent: usize) -> Vec<usize> {
        std::iter::successors(self.agents[agent].parent, |parent| self.agents[*parent].parent).collect()
    }

    fn in_view(&mut self) -> &mut ModelAgent {
        &mut self.agents[self.view]
    }

    fn id(&self, agent: usize) -> AgentId {
        self.agents[agent].id
    }

    /// Returns the line of a step.
    fn line(&self, step: &Step) -> String {
        let agent = |index: &Index| self.id(index.index(self.agents.len()));
        match step {
            Step::Fork => "/fork".to_owned(),
            Step::ForkPrompt => "/fork \"work\"".to_owned(),
            Step::KillInView => "/kill".to_owned(),
            Step::Kill(index) => format!("/kill {}", agent(index)),
            Step::Switch(index) => format!("/switch {}", agent(index)),
            Step::SwitchParent => "/switch parent".to_owned(),
            Step::SwitchRoot => "/switch root".to_owned(),
            Step::Capture => "/capture".to_owned(),
            Step::Cancel => "/cancel".to_owned(),
            Step::Text(text) => format!("text {text}"),
            Step::Send(index, text) => format!("/mail-send {} \"mail {text}\"", agent(index)),
            Step::Check => "/mail-check".to_owned(),
            Step::Filter(index) => format!("/mail-filter --from {}", agent(index)),
            Step::Read(number) => format!("/mail-read {number}"),
            Step::Delete(number) => format!("/mail-delete {number}"),
            Step::Restart => String::new(),
        }
    }

    /// Applies the step to the model and returns the code that its line must have.
    fn apply(&mut self, step: &Step, outcome: &Outcome) -> &'static str {
        let view = self.view;
        let alive = self.agents[view].alive;
        match step {
            Step::Fork | Step::ForkPrompt | Step::Capture | Step::Text(_) | Step::Send(..) if !alive => "agent_dead",
            Step::ForkPrompt if self.agents[view].captured.is_some() => "invalid_args",
            Step::Fork | Step::ForkPrompt => self.fork(outcome),
            Step::KillInView => self.kill(view),
            Step::Kill(index) => self.kill(index.index(self.agents.len())),
            Step::Switch(index) => {
                self.view = index.index(self.agents.len());
                "switched"
            }
            Step::SwitchRoot => {
                self.view = 0;
                "switched"
            }
            Step::SwitchParent => match self.agents[view].parent {
                Some(parent) => {
                    self.view = parent;
                    "switched"
                }
                None => "no_parent",
            },
            Step::Capture => match self.in_view().captured.replace(Vec::new()) {
                None => "capture_started",
                captured => {
                    self.in_view().captured = captured;
                    "capture_active"
                }
            },
            Step::Cancel => match self.in_view().captured.take() {
                Some(_) => "capture_cancelled",
                None => "capture_inactive",
            },
            Step::Text(text) => match &mut self.in_view().captured {
                Some(captured) => {
                    captured.push(format!("text {text}"));
                    "captured"
                }
                None => "limit_tokens",
            },
            Step::Send(index, text) => self.send(index.index(self.agents.len()), &format!("mail {text}")),
            Step::Check => {
                if self.in_view().mails.is_empty() {
                    "mail_empty"
                } else {
                    "mail_listed"
                }
            }
            Step::Filter(index) => {
                let from = index.index(self.agents.len());
                if self.in_view().mails.iter().any(|mail| mail.from == from) { "mail_listed" } else { "mail_empty" }
            }
            Step::Read(number) => match self.in_view().mails.iter_mut().find(|mail| mail.number == *number) {
                Some(mail) => {
                    mail.read = true;
                    "mail_read"
                }
                None => "mail_not_found",
            },
            Step::Delete(number) => {
                let before = self.in_view().mails.len();
                self.in_view().mails.retain(|mail| mail.number != *number);
                if self.in_view().mails.len() < before { "mail_deleted" } else { "mail_not_found" }
            }
            Step::Restart => "",
        }
    }

    fn fork(&mut self, outcome: &Outcome) -> &'static str {
        if self.agents.iter().filter(|agent| agent.alive).count() >= LIVING {
            return "limit_agents";
        }
        if self.ancestors(self.view).len() >= DEPTH {
            return "limit_depth";
        }
        let id = outcome.forked().map(|forked| forked.child_uuid);
        let parent = self.view;
        self.in_view().captured = None;
        self.view = self.add(id.unwrap_or(AgentId::from_bytes([0; 16])), Some(parent));
        "forked"
    }

    fn kill(&mut self, target: usize) -> &'static str {
        if target == 0 {
            return "kill_root";
        }
        if !self.agents[target].alive {
            return "agent_dead";
        }
        let view = self.view;
        let view_lived = self.agents[view].alive;
        for agent in 0..self.agents.len() {
            if agent == target || self.ancestors(agent).contains(&target) {
                self.agents[agent].alive = false;
                self.agents[agent].captured = None;
            }
        }
        // An agent that was already dead stays in view.
        if view_lived && !self.agents[view].alive {
            self.view = self.ancestors(view).into_iter().find(|agent| self.agents[*agent].alive).unwrap();
        }
        "killed"
    }

    fn send(&mut self, to: usize, body: &str) -> &'static str {
        let from = self.view;
        let recipient = &mut self.agents[to];
        if !recipient.alive {
            return "agent_dead";
        }
        if recipient.mails.len() >= MAILS {
            return "limit_mail";
        }
        recipient.mails.push(Mail { number: recipient.next_mail, from, body: body.to_owned(), read: false });
        recipient.next_mail += 1;
        "mail_sent"
    }
}

/// Compares the session with the model.
async fn compare(play: &Play, model: &Model) -> Result<(), TestCaseError> {
    let tree = play.session.agent_tree().await.unwrap();
    let view = model.id(model.view);
    prop_assert_eq!(play.session.view(), view);
    prop_assert_eq!(play.session.is_capturing(), model.agents[model.view].captured.is_some());
    let living: Vec<usize> = (0..model.agents.len()).filter(|agent| model.agents[*agent].alive).collect();
    prop_assert_eq!(tree.living.len(), living.len());
    for agent in living {
        let ModelAgent { id, parent, mails, .. } = &model.agents[agent];
        let found = tree.living.iter().find(|found| found.id == *id).unwrap();
        prop_assert_eq!(found.parent, parent.map(|parent| model.id(parent)));
        prop_assert_eq!((found.depth, found.in_view), (model.ancestors(agent).len(), *id == view));
        prop_assert_eq!(found.unread, mails.iter().filter(|mail| !mail.read).count() as u64);
    }
    for agent in &model.agents {
        let stored = play.host.store().inbox(agent.id, None).await.unwrap();
        let mut stored: Vec<_> =
            stored.into_iter().map(|mail| (mail.number, mail.from, mail.body, mail.read)).collect();
        stored.sort_by_key(|mail| mail.0);
        let expected = agent.mails.iter().map(|mail| (mail.number, model.id(mail.from), mail.body.clone(), mail.read));
        prop_assert_eq!(stored, expected.collect::<Vec<_>>());
        let captured = play.host.store().captured(agent.id).await.unwrap();
        prop_assert_eq!(captured, agent.captured.clone().unwrap_or_default());
    }
    Ok(())
}

/// Runs the steps in a new session of the host.
async fn run(play: &mut Play, steps: &[Step]) -> Result<(), TestCaseError> {
    play.session = play.host.new_session(&play.patchbay.workspace()).await.unwrap();
    let mut model = Model { agents: Vec::new(), view: 0 };
    model.add(play.session.view(), None);
    // Uses up the tokens of the session.
    play.ok("hello").await;
    for step in steps {
        if matches!(step, Step::Restart) {
            play.session.close().await;
            play.session = play.host.resume(play.session.id()).await.unwrap();
        } else {
            let captured = model.agents[model.view].captured.clone();
            let outcome = play.run(&model.line(step)).await;
            let code = model.apply(step, &outcome);
            prop_assert_eq!(outcome.code.as_str(), code, "{:?}: {}", step, outcome.line());
            play.idle().await;
            if let (Step::Fork, "forked", Some(captured)) = (step, code, captured) {
                let prompt = (!captured.is_empty()).then(|| captured.join("\n"));
                prop_assert_eq!(play.said(model.id(model.view)), prompt.into_iter().collect::<Vec<_>>());
            }
        }
        compare(play, &model).await?;
    }
    play.session.close().await;
    play.check();
    Ok(())
}

#[test]
fn lines_do_to_tree_mail_and_captures_what_a_model_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let play = std::cell::RefCell::new(runtime.block_on(Play::with(quick_demo(), limits())));
    let config =
        ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() };
    let steps = proptest::collection::vec(step(), 1..40);
    let tested = TestRunner::new(config).run(&steps, |steps| runtime.block_on(run(&mut play.borrow_mut(), &steps)));
    tested.unwrap_or_else(|error| panic!("{error}"));
}

/// A random number generator that depends on the seed alone.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Stops all turns, then runs the waiting lines.
async fn release(play: &Play) {
    play.session.stop_all();
    for agent in play.living().await {
        play.switch(agent.id).await;
        play.session.release_queue();
    }
}

/// Submits lines without waiting for each. The seed decides which, in which order, and how often other tasks run in between.
async fn schedule(play: &mut Play, seed: u64) {
    play.session = play.host.new_session(&play.patchbay.workspace()).await.unwrap();
    let (mut seeded, mut lines, mut texts) = (Seeded(seed), Vec::new(), 0);
    let mut ids = vec![play.session.view()];
    for _ in 0..60 {
        let any = ids[seeded.below(ids.len())];
        let line = match seeded.below(15) {
            0 | 1 => "/fork".to_owned(),
            2 => "/fork \"hang\"".to_owned(),
            3 => format!("/kill {any}"),
            4 | 5 => format!("/switch {any}"),
            6 => "/capture".to_owned(),
            7 => "/cancel".to_owned(),
            8 | 9 => format!("/mail-send {any} \"mail\""),
            10 => "/reload_skills".to_owned(),
            11 => format!("call mail_send {{\"to\":\"{any}\",\"message\":\"mail\"}}"),
            12 => {
                "call fork {\"prompt\":\"call mail_send {\\\"to\\\":\\\"$$parent\\\",\\\"message\\\":\\\"mail\\\"}\"}"
                    .to_owned()
            }
            13 => {
                play.session.stop_all();
                "/agents".to_owned()
            }
            _ => {
                texts += 1;
                format!("text {texts}")
            }
        };
        lines.push((line.clone(), play.session.submit(&line)));
        for _ in 0..seeded.below(40) {
            tokio::task::yield_now().await;
        }
        if seeded.below(4) == 0 {
            ids = play.ids().await;
        }
    }
    // Turns that hang are stopped and held lines are released, until all lines have ended.
    let mut sent = 0;
    for (line, submitted) in lines {
        let ended = async {
            let mut submitted = std::pin::pin!(wait_for_end(submitted));
            loop {
                match tokio::time::timeout(std::time::Duration::from_millis(100), &mut submitted).await {
                    Ok(outcome) => return outcome,
                    Err(_) => release(play).await,
                }
            }
        };
        let outcome = ended.await;
        assert_ne!(outcome.code.as_str(), "internal", "seed {seed}, {line}: {}", outcome.line());
        sent += usize::from(outcome.code.as_str() == "mail_sent");
    }
    play.session.stop_all();
    play.idle().await;
    assert_eq!(play.session.working_agents(), 0, "seed {seed}");
    play.session.close().await;
    eprintln!("seed {seed}");
    play.check();
    let database = play.patchbay.database("patchbay.db");
    let session = play.session.id().to_string();
    let number = |sql: &str| -> i64 { database.query_row(sql, [&session], |row| row.get(0)).unwrap() };
    let by_tools = "SELECT count(*) FROM messages WHERE session = ? AND kind = 'tool' \
                    AND json_extract(data, '$.name') = 'mail_send' AND json_extract(data, '$.error') IS NULL";
    let mails = "SELECT count(*) FROM mail JOIN agents ON uuid = recipient WHERE session = ? AND body = 'mail'";
    assert_eq!(number(mails), i64::try_from(sent).unwrap() + number(by_tools), "seed {seed}");
    // The demo model repeats its input, so a captured text would show up in an answer to the agent that captured it.
    let leaks = "SELECT count(*) FROM messages AS captured JOIN messages AS answer USING (session, agent) \
                 WHERE session = ? AND captured.kind = 'capture' AND answer.kind = 'assistant' \
                 AND answer.content = 'You said: ' || captured.content";
    assert_eq!(number(leaks), 0, "seed {seed}: a captured line reached the model");
}

#[test]
fn lines_at_the_same_time_leave_a_whole_tree() {
    let seeds = std::env::var("PATCHBAY_SEEDS").map_or(12, |seeds| seeds.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut play = Play::limited(|limits| limits.wakes = 2).await;
        for seed in 0..seeds {
            schedule(&mut play, seed).await;
        }
    });
}
