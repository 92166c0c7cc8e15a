//! One session and its clients.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use patchbay_core::{Code, Outcome};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

use super::questions::{OpenQuestion, SharedQuestions};
use crate::{ClientIdentity, Session};

/// Capacity, in lines, of a client's queue of news about other clients.
const TOLD: usize = 64;

/// A session that stays open without a client.
pub struct SharedSession {
    pub(super) session: Arc<Session>,
    /// Locked from the look-up of a key until its line is submitted.
    pub(super) submitting: tokio::sync::Mutex<()>,
    questions: Arc<SharedQuestions>,
    clients: Mutex<SeatedClients>,
    last: AtomicU64,
    /// Number of prompts from all clients that have no answer yet.
    prompts: AtomicUsize,
    told: broadcast::Sender<Told>,
}

struct SeatedClients {
    seated: BTreeMap<u64, Option<ClientIdentity>>,
    /// When the last client left or something last ran. Initially the time when the session was opened.
    used: Instant,
}

/// A line about something that a client did and that concerns the others.
#[derive(Clone)]
struct Told {
    by: u64,
    line: Arc<str>,
}

/// An event that a client of a shared session has to learn.
pub enum SeatEvent {
    /// The questions that are open now.
    Questions(Vec<Arc<OpenQuestion>>),
    /// A line about something that another client did.
    Told(Arc<str>),
}

/// A client's seat in a session. Dropping the seat makes the client leave.
pub struct Seat {
    shared: Arc<SharedSession>,
    id: u64,
    identity: Option<ClientIdentity>,
    told: broadcast::Receiver<Told>,
    questions: watch::Receiver<Vec<Arc<OpenQuestion>>>,
    /// Number of prompts from this client that have no answer yet.
    prompts: usize,
}

impl SharedSession {
    pub(super) fn new(session: Arc<Session>, patience: Duration) -> Arc<Self> {
        let questions = SharedQuestions::new(&session, patience);
        session.set_approver(Arc::clone(&questions) as _);
        let clients = Mutex::new(SeatedClients { seated: BTreeMap::new(), used: Instant::now() });
        let told = broadcast::Sender::new(TOLD);
        Arc::new(Self {
            session,
            submitting: tokio::sync::Mutex::default(),
            questions,
            clients,
            last: AtomicU64::default(),
            prompts: AtomicUsize::default(),
            told,
        })
    }

    /// Returns the session.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Subscribes to the list of open questions.
    pub fn questions(&self) -> watch::Receiver<Vec<Arc<OpenQuestion>>> {
        self.questions.subscribe()
    }

    /// Returns the names of the clients, in the order in which they joined.
    pub fn clients(&self) -> Vec<Arc<str>> {
        self.clients.lock().seated.values().flatten().map(|identity| Arc::clone(&identity.name)).collect()
    }

    /// Adds a client.
    pub(super) fn join(self: &Arc<Self>, identity: Option<ClientIdentity>) -> Seat {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        self.clients.lock().seated.insert(id, identity.clone());
        let (told, mut questions) = (self.told.subscribe(), self.questions.subscribe());
        // Questions that are already open are new to this client.
        questions.mark_changed();
        Seat { shared: Arc::clone(self), id, identity, told, questions, prompts: 0 }
    }

    /// Returns whether there has been no client, no work and no question for longer than `idle`. If there is any, notes `now` as
    /// the last use.
    pub(super) fn is_unused_since(&self, now: Instant, idle: Duration) -> bool {
        let mut clients = self.clients.lock();
        if !clients.seated.is_empty() || !self.session.is_idle() || self.questions.is_any() {
            clients.used = now;
        }
        now.duration_since(clients.used) > idle
    }
}

impl Seat {
    /// Returns the session that the client has joined.
    pub fn shared(&self) -> &Arc<SharedSession> {
        &self.shared
    }

    /// Returns the client's identity; `None` for the front of the process.
    pub fn identity(&self) -> Option<&ClientIdentity> {
        self.identity.as_ref()
    }

    /// Waits for the client's next event. The first call returns the open questions immediately. Cancel safe.
    pub async fn next(&mut self) -> SeatEvent {
        loop {
            tokio::select! {
                biased;
                // An error is impossible: the session keeps the senders.
                _ = self.questions.changed() => return SeatEvent::Questions(self.questions.borrow_and_update().clone()),
                told = self.told.recv() => match told {
                    Ok(told) if told.by != self.id => return SeatEvent::Told(told.line),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }

    /// Sends the other clients a line about something that this client did.
    pub fn tell_others(&self, line: &str) {
        let Some(identity) = &self.identity else { return };
        let line = format!("{}: {line}", identity.name).into();
        // An error means that there are no others.
        let _ = self.shared.told.send(Told { by: self.id, line });
    }

    /// Announces a command of this client to the others if it changed something that all of them see.
    pub fn tell_ended(&self, typed: &str, outcome: &Outcome) {
        let changes = [Code::Switched, Code::AgentSet, Code::Forked, Code::Killed, Code::ModelSet, Code::ModeSet];
        if outcome.is_ok() && changes.contains(&outcome.code) {
            self.tell_others(&patchbay_core::text::excerpt(typed, 80));
        }
    }

    /// Sets the number of prompts from this client that have no answer yet.
    pub fn set_prompts(&mut self, prompts: usize) {
        let before = std::mem::replace(&mut self.prompts, prompts);
        self.shared.prompts.fetch_add(prompts, Ordering::Relaxed);
        self.shared.prompts.fetch_sub(before, Ordering::Relaxed);
    }

    /// Returns whether a prompt of another client has no answer yet.
    pub fn others_prompt(&self) -> bool {
        self.shared.prompts.load(Ordering::Relaxed) > self.prompts
    }

    /// Returns whether this is the only client.
    pub fn is_alone(&self) -> bool {
        self.shared.clients.lock().seated.len() == 1
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.set_prompts(0);
        let mut clients = self.shared.clients.lock();
        clients.seated.remove(&self.id);
        clients.used = Instant::now();
    }
}
