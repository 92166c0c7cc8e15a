use std::sync::{Arc, Mutex, PoisonError};

use patchbay_agent::{Agent, AgentInference, Chosen, Feed, Place, Spending, Subscription, Turn, system_context};
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{AgentId, Code, EventKind, MessageKind, Outcome, SessionId, text};
use patchbay_provider::{Choice, DefaultChoice};
use patchbay_sandbox::{Inference, Progress};
use patchbay_skill::Snapshot;
use patchbay_store::{AgentModel, Hold, Message, NewMessage, SessionChange, SessionRow, StoreError};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Host,
    builtin::{self, Effect},
    host, invoke,
    lock::SessionLock,
    persona::Persona,
    recap,
};

/// The longest line, in bytes: a whole document fits.
const LINE_BYTES: usize = 1 << 20;

/// One session, held by this process alone.
pub struct Session {
    pub(crate) host: Arc<Host>,
    pub(crate) agent: Arc<Agent>,
    workspace: String,
    notice: Option<String>,
    state: Mutex<State>,
    /// One line at a time.
    lines: tokio::sync::Mutex<()>,
    /// One turn at a time.
    turns: Arc<tokio::sync::Mutex<()>>,
    feed: Arc<Feed>,
    spending: Arc<Spending>,
    /// Tells of changes of the providers, as long as there is a session.
    _telling: DropGuard,
    _lock: SessionLock,
}

/// What a line may change. Replaced as a whole, after the change is committed.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) persona: Arc<Persona>,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// What a session is taken up from.
pub(crate) struct Taken {
    pub(crate) hold: Hold,
    pub(crate) row: SessionRow,
    pub(crate) persona: Persona,
    pub(crate) snapshot: Snapshot,
    pub(crate) last_seq: u64,
    pub(crate) model: AgentModel,
    pub(crate) tokens: u64,
    /// What the person is told once, at the beginning of a new session.
    pub(crate) notice: Option<String>,
}

/// A command that works now, as a front shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Its name, without the `/`.
    pub name: String,
    /// What it does, in one line; may be empty.
    pub summary: String,
    /// What its argument is to be, where it takes one.
    pub hint: Option<String>,
}

impl CommandInfo {
    /// How it is written, such as `/skill NAME [INPUT]`. A hint in prose, as some skills have it, stands in `<…>`.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) if is_prose(hint) => format!("/{} <{hint}>", self.name),
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }
}

impl Session {
    pub(crate) fn new(host: Arc<Host>, taken: Taken, lock: SessionLock) -> Arc<Self> {
        let Taken { hold, row, persona, snapshot, last_seq, model, tokens, notice } = taken;
        let state = State { persona: Arc::new(persona), snapshot: Arc::new(snapshot) };
        let feed = Feed::new(hold.clone(), host.store.clone(), last_seq);
        let spending = Spending::new(tokens, host.tools.sandbox().limits().session_tokens);
        let place = Place { hold, agent: row.agent, workspace: row.workspace.clone() };
        let agent = Agent::new(
            place,
            Arc::clone(&feed),
            Arc::clone(&host.providers) as Arc<dyn patchbay_agent::Model>,
            Arc::clone(&host.tools),
            Arc::clone(&spending),
            host.compaction.clone(),
            Chosen::from_row(&model),
        );
        let over = CancellationToken::new();
        tokio::spawn(tell_notices(host.providers.notices(), Arc::clone(&feed), agent.id(), over.clone()));
        Arc::new(Self {
            host,
            agent,
            workspace: row.workspace,
            notice,
            state: Mutex::new(state),
            lines: tokio::sync::Mutex::default(),
            turns: Arc::default(),
            feed,
            spending,
            _telling: over.drop_guard(),
            _lock: lock,
        })
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.feed.session()
    }

    /// The right to write it.
    pub(crate) fn hold(&self) -> &Hold {
        self.feed.hold()
    }

    /// The workspace's canonical path.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// The number of its last row; 0 where it has none.
    pub fn last_seq(&self) -> u64 {
        self.feed.last_seq()
    }

    /// The snapshot that it works with at this moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.state().snapshot
    }

    /// What the person is told when the session begins: that a new session's workspace is or holds their home folder;
    /// files of the persona that are not used, and why.
    pub fn notices(&self) -> Vec<String> {
        self.notice.iter().chain(&self.state().persona.skipped).cloned().collect()
    }

    /// The model that the next message goes to.
    ///
    /// # Errors
    /// What the person is told where there is none.
    pub(crate) async fn model(&self) -> Result<Choice, Outcome> {
        let choice = self.agent.chosen().effective(self.host.providers.as_ref()).await?;
        self.host.providers.check_choice(&choice).await?;
        Ok(choice)
    }

    /// Which model answers, in one line for the greeting; or why none does.
    pub async fn model_line(&self) -> String {
        let chosen = self.agent.chosen();
        if chosen == Chosen::default()
            && let Ok(DefaultChoice { choice, configured: false }) = self.host.providers.default_choice().await
        {
            return format!(
                "{} answers: it only echoes. /model chooses a model; default_model in config.toml makes the choice last.",
                choice.model
            );
        }
        match self.model().await {
            Ok(choice) => format!("Model: {}", choice.as_argument()),
            Err(outcome) => {
                let why = outcome.message.lines().next().unwrap_or_default();
                let hint = if why.contains("/model") { "" } else { " /model chooses one." };
                format!("No model answers yet: {}.{hint}", why.trim_end_matches('.'))
            }
        }
    }

    /// That something was kept out of the snapshot, or limited; `None` if nothing was.
    pub fn exclusions(&self) -> Option<String> {
        let problems = self.snapshot().diagnostics().len();
        (problems > 0).then(|| format!("{problems} kept out or limited; /skills says why."))
    }

    /// The last message and its answer, in lines for the person who takes the session up again; nothing in a new session.
    ///
    /// # Errors
    /// The database.
    pub async fn last_exchange(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.feed.store().last_exchange(self.id(), self.agent.id()).await?;
        Ok(rows.map(|(said, answer)| recap::lines(&said, answer.as_ref())).unwrap_or_default())
    }

    /// Tells the fronts something that the person should know, in one line.
    pub(crate) fn notify(&self, text: &str) {
        self.feed.tell(self.agent.id(), EventKind::Notice { text: text::clean_line(text) });
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Events from row `from` on (1 is the first), replayed and then live.
    pub fn subscribe(&self, from: u64) -> Subscription {
        self.feed.subscribe(from)
    }

    /// The commands that work now: built-ins first, then aliases.
    pub fn commands(&self) -> Vec<CommandInfo> {
        commands(&self.snapshot())
    }

    /// Takes one line as a person typed it, and gives what it comes to. Commands are taken one after the other, also while a
    /// turn runs; turns are, too. What a line changes is committed when this answers. Dropping the future cancels a tool or
    /// a turn that runs; what came of a turn is still committed.
    pub async fn submit(self: &Arc<Self>, line: &str) -> Outcome {
        if line.len() > LINE_BYTES {
            let message =
                format!("a line of {} bytes is over the limit of {LINE_BYTES}; nothing of it was kept.", line.len());
            return Outcome::error(Code::LineTooLong, message);
        }
        // Before anything runs: a tool of a session that was taken over must have no effects.
        if let Err(error) = self.feed.store().check_hold(self.hold()).await {
            return not_kept(error);
        }
        match Line::parse(line) {
            Ok(Line::Conversation(text)) => {
                let turns = Arc::clone(&self.turns).lock_owned().await;
                let said = self.message(MessageKind::User, text, None);
                self.converse(turns, vec![said]).await
            }
            Ok(Line::Command { name, argument }) => {
                let running = self.lines.lock().await;
                let effect = self.command(name, argument).await;
                if effect.turn {
                    drop(running);
                    return self.command_turn(line, effect).await;
                }
                self.settle(line, effect).await
            }
            Err(outcome) => {
                let _running = self.lines.lock().await;
                self.settle(line, outcome.into()).await
            }
        }
    }

    /// Commits what a command comes to, with its own row, and gives its outcome.
    async fn settle(self: &Arc<Self>, line: &str, effect: Effect) -> Outcome {
        let Effect { outcome, persona, snapshot, chosen, mut messages, .. } = effect;
        messages.push(self.message(MessageKind::Command, line, serde_json::to_value(&outcome).ok()));
        let mut next = self.state();
        let change = SessionChange {
            persona: persona.as_ref().map(host::to_json),
            snapshot: snapshot.as_ref().map(|built| (built.stored(), built.snapshot.version())),
            model: chosen.as_ref().map(|chosen| (self.agent.id(), chosen.to_row())),
            tokens: self.spending.take_unsaved(),
            messages,
            ..SessionChange::default()
        };
        if let Some(persona) = persona {
            next.persona = Arc::new(persona);
        }
        if let Some(built) = snapshot {
            next.snapshot = Arc::new(built.snapshot);
        }
        let session = Arc::clone(self);
        let apply = move || {
            *session.state.lock().unwrap_or_else(PoisonError::into_inner) = next;
            if let Some(chosen) = chosen {
                session.agent.choose(chosen);
            }
        };
        match self.feed.commit(change, apply).await {
            Ok(_) => outcome,
            Err(error) => not_kept(error),
        }
    }

    /// A command that asks the model: its rows first, then the turn, then its own row.
    async fn command_turn(self: &Arc<Self>, line: &str, effect: Effect) -> Outcome {
        let turns = Arc::clone(&self.turns).lock_owned().await;
        let mut outcome = self.converse(turns, effect.messages).await;
        if let (Some(data), Some(more)) = (&mut outcome.data, effect.outcome.data)
            && let (Some(data), serde_json::Value::Object(more)) = (data.as_object_mut(), more)
        {
            data.extend(more);
        }
        let _running = self.lines.lock().await;
        // The answer has a row of its own.
        let mut result = outcome.clone();
        if result.is_ok() {
            result.message.clear();
        }
        let row = self.message(MessageKind::Command, line, serde_json::to_value(&result).ok());
        match self.commit(vec![row]).await {
            Ok(_) => outcome,
            Err(error) => {
                Outcome::error(Code::StoreFailed, format_args!("{error}. What came of the turn itself is kept."))
            }
        }
    }

    /// Commits what is said, and runs a turn on it, on a task of its own: whoever drops this cancels the turn, and what came
    /// of it is kept nevertheless.
    async fn converse(self: &Arc<Self>, turns: tokio::sync::OwnedMutexGuard<()>, said: Vec<NewMessage>) -> Outcome {
        let rows = match self.commit(said).await {
            Ok(rows) => rows,
            Err(error) => return not_kept(error),
        };
        let State { persona, snapshot } = self.state();
        let files = persona.files.iter().map(|file| file.text.clone());
        let cancel = CancellationToken::new();
        let turn = Turn {
            system: system_context(files, &snapshot, self.agent.id(), None),
            snapshot,
            began: rows.first().map_or(0, |row| row.seq),
            cancel: cancel.clone(),
        };
        let dropped: DropGuard = cancel.drop_guard();
        let session = Arc::clone(self);
        let running = tokio::spawn(async move {
            let outcome = session.agent.run(&turn).await;
            if !outcome.is_ok() {
                let notice = session.message(MessageKind::Notice, &outcome.line(), None);
                if let Err(error) = session.commit(vec![notice]).await {
                    tracing::error!("how a turn ended could not be kept: {error}");
                }
            }
            drop(turns);
            outcome
        });
        let outcome = running.await;
        drop(dropped.disarm());
        outcome
            .unwrap_or_else(|error| Outcome::error(Code::Internal, format_args!("the turn did not end well: {error}.")))
    }

    async fn commit(&self, messages: Vec<NewMessage>) -> Result<Vec<Message>, StoreError> {
        let change = SessionChange { tokens: self.spending.take_unsaved(), messages, ..SessionChange::default() };
        self.feed.commit(change, || {}).await
    }

    /// Waits until no turn runs. One that was cancelled keeps what came of it before it is over.
    pub async fn idle(&self) {
        drop(self.turns.lock().await);
    }

    /// Whether a turn runs at this moment.
    pub fn is_answering(&self) -> bool {
        self.turns.try_lock().is_err()
    }

    async fn command(self: &Arc<Self>, name: &str, argument: &str) -> Effect {
        let state = self.state();
        let specs = builtin::specs();
        match resolve(name, &specs, &*state.snapshot) {
            Err(outcome) => outcome.into(),
            Ok(Resolved::BuiltIn(place)) => match specs[place].check(argument) {
                Err(outcome) => outcome.into(),
                Ok(()) => builtin::TABLE[place].run(self, &state, argument).await,
            },
            Ok(Resolved::Alias(skill)) => {
                let command = format!("/{name}");
                invoke::skill(self, &state, skill.as_str(), argument, &command).await
            }
        }
    }

    pub(crate) fn message(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        NewMessage { agent: self.agent.id(), kind, content: content.to_owned(), data }
    }

    /// Who tells this session's fronts how a tool gets on.
    pub(crate) fn progress(&self, tool: &str) -> Arc<dyn Progress> {
        self.agent.progress(tool)
    }

    /// Who answers what a tool asks a model.
    pub(crate) fn inference(&self) -> Arc<dyn Inference> {
        Arc::new(AgentInference::new(&self.agent, CancellationToken::new()))
    }
}

/// Tells the fronts of a session what changes among the providers, until the session is over.
async fn tell_notices(
    mut notices: broadcast::Receiver<String>,
    feed: Arc<Feed>,
    agent: AgentId,
    over: CancellationToken,
) {
    while let Some(notice) = over.run_until_cancelled(notices.recv()).await {
        let text = match notice {
            Ok(text) => text,
            Err(RecvError::Lagged(missed)) => format!("{missed} more changes of providers. /providers lists them."),
            Err(RecvError::Closed) => return,
        };
        feed.tell(agent, EventKind::Notice { text: text::clean_line(&text) });
    }
}

/// Whether a hint is prose, and not a usage such as `PATTERN [GLOB]`: several words, none of them in capitals.
fn is_prose(hint: &str) -> bool {
    let in_capitals =
        |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || "_-[]|.".contains(c));
    hint.contains(char::is_whitespace) && !hint.starts_with('<') && !hint.split_whitespace().any(in_capitals)
}

fn not_kept(error: StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}. Nothing of this line was kept."))
}

/// The commands that work with `snapshot`: built-ins first, then the aliases that one skill alone claims.
pub(crate) fn commands(snapshot: &Snapshot) -> Vec<CommandInfo> {
    let built_in = builtin::specs().into_iter().map(|spec| CommandInfo {
        name: spec.name.to_owned(),
        summary: spec.summary.to_owned(),
        hint: spec.hint().map(str::to_owned),
    });
    let alias = snapshot.aliases().filter_map(|(alias, skills)| {
        let [skill] = skills else { return None };
        let manifest = &snapshot.skill(skill.as_str())?.manifest;
        Some(CommandInfo {
            name: alias.to_string(),
            summary: manifest.summary.clone(),
            hint: manifest.input_hint.clone(),
        })
    });
    built_in.chain(alias).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_in_prose_are_bracketed() {
        for (hint, expected) in [
            ("PATTERN [GLOB]", "/x PATTERN [GLOB]"),
            ("add TEXT | list | delete NUMBER", "/x add TEXT | list | delete NUMBER"),
            ("[FOCUS]", "/x [FOCUS]"),
            ("goal", "/x goal"),
            ("goal to plan for", "/x <goal to plan for>"),
            ("expression, such as 2^100 or 3 GiB", "/x <expression, such as 2^100 or 3 GiB>"),
            ("<goal to plan for>", "/x <goal to plan for>"),
        ] {
            let command = CommandInfo { name: "x".to_owned(), summary: String::new(), hint: Some(hint.to_owned()) };
            assert_eq!(command.usage(), expected);
        }
    }
}
