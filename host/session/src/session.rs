use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind, Outcome, SessionId};
use patchbay_sandbox::Progress;
use patchbay_skill::Snapshot;
use patchbay_store::{NewMessage, SessionChange, SessionRow};
use tokio::sync::broadcast;

use crate::{
    Host, Subscription,
    builtin::{self, Effect},
    events, host, invoke,
    lock::SessionLock,
    persona::Persona,
};

/// The longest line, in bytes: a whole document fits.
const LINE_BYTES: usize = 1 << 20;

/// One session, held by this process alone.
pub struct Session {
    pub(crate) host: Arc<Host>,
    id: SessionId,
    agent: AgentId,
    workspace: String,
    state: Mutex<State>,
    /// One line at a time.
    lines: tokio::sync::Mutex<()>,
    live: broadcast::Sender<Event>,
    last_seq: Arc<AtomicU64>,
    _lock: SessionLock,
}

/// What a line may change. Replaced as a whole, after the change is committed.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) persona: Arc<Persona>,
    pub(crate) snapshot: Arc<Snapshot>,
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
    /// How it is written, such as `/skill NAME [INPUT]`.
    pub fn usage(&self) -> String {
        match &self.hint {
            Some(hint) => format!("/{} {hint}", self.name),
            None => format!("/{}", self.name),
        }
    }
}

impl Session {
    pub(crate) fn new(
        host: Arc<Host>,
        row: SessionRow,
        persona: Persona,
        snapshot: Snapshot,
        last_seq: u64,
        lock: SessionLock,
    ) -> Arc<Self> {
        let state = State { persona: Arc::new(persona), snapshot: Arc::new(snapshot) };
        Arc::new(Self {
            host,
            id: row.id,
            agent: row.agent,
            workspace: row.workspace,
            state: Mutex::new(state),
            lines: tokio::sync::Mutex::default(),
            live: broadcast::Sender::new(events::QUEUE),
            last_seq: Arc::new(AtomicU64::new(last_seq)),
            _lock: lock,
        })
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The workspace's canonical path.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// The number of its last row; 0 where it has none.
    pub fn last_seq(&self) -> u64 {
        self.last_seq.load(Ordering::Relaxed)
    }

    /// The snapshot that it works with at this moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.state().snapshot
    }

    /// What the person should hear when the session begins: files of the persona that are not used, and why.
    pub fn notices(&self) -> Vec<String> {
        self.state().persona.skipped.clone()
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Events from row `from` on (1 is the first), replayed and then live.
    pub fn subscribe(&self, from: u64) -> Subscription {
        // Subscribed before the replay: what is committed meanwhile comes twice, and is given once.
        Subscription::new(self.id, self.host.store.clone(), self.live.subscribe(), from)
    }

    /// The commands that work now: built-ins first, then aliases.
    pub fn commands(&self) -> Vec<CommandInfo> {
        commands(&self.snapshot())
    }

    /// Takes one line as a person typed it, and gives what it comes to. Lines are taken one after the other; what a line
    /// changes is committed when this answers. Dropping the future cancels a tool that runs.
    pub async fn submit(self: &Arc<Self>, line: &str) -> Outcome {
        let _turn = self.lines.lock().await;
        if line.len() > LINE_BYTES {
            let message =
                format!("a line of {} bytes is over the limit of {LINE_BYTES}; nothing of it was kept.", line.len());
            return Outcome::error(Code::LineTooLong, message);
        }
        let effect = match Line::read(line) {
            Err(outcome) => Effect::from(outcome),
            Ok(Line::Command { name, argument }) => self.command(name, argument).await,
            Ok(Line::Conversation(text)) => self.conversation(text),
        };
        let Effect { outcome, persona, snapshot, mut messages } = effect;
        if line.starts_with('/') {
            messages.push(self.message(MessageKind::Command, line, serde_json::to_value(&outcome).ok()));
        } else {
            messages.push(self.message(MessageKind::Notice, &outcome.message, None));
        }
        let mut next = self.state();
        let change = SessionChange {
            persona: persona.as_ref().map(host::to_json),
            snapshot: snapshot.as_ref().map(|built| (built.stored(), built.snapshot.version())),
            messages,
        };
        if let Some(persona) = persona {
            next.persona = Arc::new(persona);
        }
        if let Some(built) = snapshot {
            next.snapshot = Arc::new(built.snapshot);
        }
        match self.commit(change, next).await {
            Ok(()) => outcome,
            Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}. Nothing of this line was kept.")),
        }
    }

    /// Commits, then applies, then tells. On a task of its own: whoever drops the line meanwhile must not leave the store and
    /// this process of two minds.
    async fn commit(self: &Arc<Self>, change: SessionChange, next: State) -> Result<(), patchbay_store::StoreError> {
        let session = Arc::clone(self);
        let commit = async move {
            let rows = session.host.store.commit(session.id, change).await?;
            *session.state.lock().unwrap_or_else(PoisonError::into_inner) = next;
            for row in rows {
                session.last_seq.store(row.seq, Ordering::Relaxed);
                // Nobody may be listening.
                let _ = session.live.send(events::event(session.id, row));
            }
            Ok(())
        };
        tokio::spawn(commit).await.unwrap_or(Err(patchbay_store::StoreError::WriterGone))
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

    /// What a person says. No model can answer yet, and that is said each time; what was said is kept.
    fn conversation(&self, text: &str) -> Effect {
        let outcome = Outcome::error(
            Code::NoProvider,
            "no model provider is available, so that nothing can answer. Your message is kept in the conversation.",
        );
        Effect { messages: vec![self.message(MessageKind::User, text, None)], ..outcome.into() }
    }

    pub(crate) fn message(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        NewMessage { agent: self.agent, kind, content: content.to_owned(), data }
    }

    /// Who tells this session's fronts how a tool gets on.
    pub(crate) fn progress(&self, tool: &str) -> Arc<dyn Progress> {
        Arc::new(ToolProgress {
            session: self.id,
            agent: self.agent,
            tool: tool.to_owned(),
            live: self.live.clone(),
            last_seq: Arc::clone(&self.last_seq),
        })
    }
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

struct ToolProgress {
    session: SessionId,
    agent: AgentId,
    tool: String,
    live: broadcast::Sender<Event>,
    last_seq: Arc<AtomicU64>,
}

impl Progress for ToolProgress {
    fn report(&self, text: &str) {
        let kind = EventKind::Progress { tool: self.tool.clone(), text: text.to_owned() };
        let seq = self.last_seq.load(Ordering::Relaxed);
        let _ = self.live.send(events::live(self.session, self.agent, seq, kind));
    }
}
