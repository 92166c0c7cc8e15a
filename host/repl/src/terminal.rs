//! The interactive front: one loop over keys, events, outcomes and questions. The composer stays usable while anything runs,
//! and finished lines are printed once, above the live area. `lib` starts it when both ends are a terminal.

mod activity;
mod agent_text;
mod agents;
mod answer;
mod attaching;
mod busy;
mod call_text;
mod call_timer;
mod calls;
mod completion;
mod composer;
mod conversation;
mod diff;
#[cfg(test)]
mod fake_terminal;
mod front_command;
mod history;
mod input;
mod keys;
mod live;
mod marks;
mod menu;
mod other_sessions;
mod outcome_text;
mod own_programs;
mod paste;
mod prose;
mod questions;
mod raw_mode;
mod results;
mod screen;
mod search;
mod signals;
mod style;
mod suspend;
mod tasks;
#[cfg(test)]
mod tests;
mod transcript;
mod typed_ahead;
mod typed_paths;
mod window;
mod wrap;

use std::{
    collections::VecDeque,
    future::pending,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use crossterm::event::{Event, EventStream, KeyEvent, KeyEventKind};
use futures_util::{
    StreamExt as _,
    future::BoxFuture,
    stream::{self, SelectAll},
};
use patchbay_core::{Code, EventKind, LineId, Outcome, text};
use patchbay_session::{LineInput, Received, Session, Subscription};
use tokio::sync::mpsc;

use crate::{
    FrontEnd, NextSession, Options, ReplError, Welcome,
    approver::{self, ApproverMessage},
    events_from_here,
};
use activity::FrontActivity;
use conversation::FrontConversation;
use history::InputHistory;
use input::{CommandHelp, FrontInput, TakenBackLine};
use marks::TitleMark;
use own_programs::OwnPrograms;
use raw_mode::RawMode;
pub use raw_mode::restore_modes;
use signals::{Signalled, Signals};
use style::Look;
use suspend::{AfterAway, Away, Edited};
use transcript::Transcript;
use window::FrontWindow;

/// How many events are handled before the next frame.
const BURST: usize = 512;

/// Runs the front until the user leaves. `greeting` is printed first.
pub(crate) async fn run(
    session: Arc<Session>,
    mut options: Options<'_>,
    greeting: Welcome,
) -> Result<FrontEnd, ReplError> {
    let first = options.first.take();
    let mut front = Front::new(session, options, greeting).await?;
    let end = run_until_left(&mut front, first).await;
    front.own_programs.programs().settle().await;
    end
}

async fn run_until_left(front: &mut Front, first: Option<String>) -> Result<FrontEnd, ReplError> {
    let _watch = front.session.watch_skills();
    let mut signals = Signals::new()?;
    let mut raw_mode = RawMode::enter()?;
    let mut typed = typed_ahead::take();
    let mut keys = key_events()?;
    let mut end = FrontEnd::Left;
    if let Some(line) = first {
        front.run_line(&line, true);
    }
    while !front.leaving {
        front.type_ahead(&mut typed);
        front.draw()?;
        let next_frame = front.wait_for_frame();
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signalled::Interrupt => front.interrupt(Instant::now()),
                Signalled::Leave => {
                    end = FrontEnd::Signalled;
                    break;
                }
            },
            event = keys.next() => match event {
                Some(event) => front.terminal_event(event?),
                // The terminal is gone.
                None => break,
            },
            Some(message) = front.asked.recv() => front.asked(message),
            received = front.events.next() => match received {
                Ok(Some(received)) => front.received(received).await?,
                Ok(None) => break,
                Err(error) => return Err(ReplError::Store(error.to_string())),
            },
            Some((id, outcome)) = front.activity.running.next() => front.ended(id, &outcome).await?,
            list = if_any(&mut front.input.listing) => front.listed(&list),
            line = if_any(&mut front.input.taking_back) => front.taken_back(line),
            (typed, suggestions) = if_any(&mut front.input.completing) => front.completed(&typed, suggestions),
            (typed, read) = if_any(&mut front.input.attaching) => front.attached(&typed, read),
            change = front.own_programs.changed() => front.own_program(change),
            () = next_frame => {}
        }
        if let Some(away) = front.away.take() {
            // Another program uses the terminal in the meantime.
            front.clear_area()?;
            drop(keys);
            drop(raw_mode);
            if front.come_back(away, &mut signals).await == AfterAway::Leave {
                end = FrontEnd::Signalled;
                break;
            }
            raw_mode = RawMode::enter()?;
            typed.extend(typed_ahead::take());
            keys = key_events()?;
        }
    }
    if let Some(next) = front.next_session.take() {
        end = FrontEnd::Next(next);
    }
    front.leave()?;
    Ok(end)
}

/// Returns the keys and the other events of the terminal. `SelectAll` only polls the stream after the stream's own thread has
/// read something. Any earlier poll would wait for that thread's lock and yield the processor several times, which on a busy
/// machine delays each piece of an answer by up to 100 ms.
///
/// A terminal that was just closed is an error; the stream alone would panic.
fn key_events() -> io::Result<SelectAll<EventStream>> {
    crossterm::event::poll(Duration::ZERO)?;
    Ok(stream::select_all([EventStream::new()]))
}

/// The state of the front.
struct Front {
    session: Arc<Session>,
    events: Subscription,
    asked: mpsc::Receiver<ApproverMessage>,
    input: FrontInput,
    conversation: FrontConversation,
    activity: FrontActivity,
    window: FrontWindow,
    own_programs: OwnPrograms,
    away: Option<Away>,
    leaving: bool,
    /// The session in which the user continues after leaving this one.
    next_session: Option<NextSession>,
}

impl Front {
    async fn new(session: Arc<Session>, options: Options<'_>, greeting: Welcome) -> Result<Self, ReplError> {
        let history = InputHistory::open(options.history, session.workspace())?;
        let window = FrontWindow::new(session.workspace())?;
        let (sender, asked) = approver::channel();
        session.set_approver(Arc::new(sender));
        let own_programs = OwnPrograms::new(&session, options.programs);
        let view = session.agent_in_view_now().await.map_err(|error| ReplError::Store(error.to_string()))?;
        let mut events = events_from_here(&session);
        events.only_deltas_of([view.id]);
        let mut transcript = Transcript::new(view.id, window.columns, Look::new(&options.settings));
        greeting.lines.iter().for_each(|line| transcript.prose(line));
        if let Some(exchange) = &greeting.exchange {
            transcript.resumed(exchange);
        }
        transcript.set_context_tokens(view.context_tokens);
        let model = session.model_in_use().await;
        Ok(Self {
            events,
            asked,
            input: FrontInput::new(history),
            activity: FrontActivity::new(view.id, session.queue(), (options.compiling)()),
            conversation: FrontConversation::new(view, transcript, model),
            window,
            own_programs,
            away: None,
            leaving: false,
            next_session: None,
            session,
        })
    }

    fn terminal_event(&mut self, event: Event) {
        self.window.change_now();
        match event {
            Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => {}
            Event::Key(key) => {
                self.key(key, Instant::now());
            }
            Event::Paste(text) => {
                self.input.composer.paste(&text);
                self.edited();
            }
            Event::Resize(columns, rows) => {
                self.window.resize(columns, rows);
                self.conversation.transcript.resize(self.window.columns);
            }
            Event::FocusGained => self.window.is_focused = true,
            Event::FocusLost => self.window.is_focused = false,
            Event::Mouse(_) => {}
        }
    }

    /// Handles keys that were typed before raw mode was on. Keys after a line with files wait until the files have been read.
    fn type_ahead(&mut self, typed: &mut VecDeque<KeyEvent>) {
        while self.input.attaching.is_none()
            && let Some(key) = typed.pop_front()
        {
            self.terminal_event(Event::Key(key));
        }
    }

    fn asked(&mut self, message: ApproverMessage) {
        self.window.change();
        match message {
            ApproverMessage::Question(question) => {
                let headline = question.headline();
                if question.agent() != self.conversation.view.id {
                    self.conversation.transcript.other_agent(&headline);
                    if self.window.is_focused {
                        self.window.ring();
                    }
                }
                self.window.call(&headline);
                self.conversation.questions.add(*question);
            }
            ApproverMessage::Stored(line) => self.conversation.transcript.notice(&line),
        }
    }

    /// Handles an event and the events that have already arrived.
    async fn received(&mut self, received: Received) -> Result<(), ReplError> {
        self.show(received);
        self.drain(BURST).await?;
        self.join_if_due().await?;
        self.update_status().await
    }

    /// Handles the events that have already arrived, at most `limit`.
    async fn drain(&mut self, limit: usize) -> Result<(), ReplError> {
        for _ in 0..limit {
            match self.events.try_next().await {
                Ok(Some(received)) => self.show(received),
                Ok(None) => break,
                Err(error) => return Err(ReplError::Store(error.to_string())),
            }
        }
        Ok(())
    }

    fn show(&mut self, received: Received) {
        let now = Instant::now();
        self.window.change();
        self.conversation.note_question(now);
        let Received::Event(event) = received else {
            self.conversation.has_lagged = true;
            return;
        };
        if event.kind == EventKind::ViewMoved {
            return self.view_moved(event.agent);
        }
        let in_view = event.agent == self.conversation.view.id;
        self.activity.busy.event(event.agent, &event.kind, now);
        match &event.kind {
            EventKind::LineQueued { line, text } => {
                self.activity.texts.insert(*line, text.clone());
                self.activity.queue = self.session.queue();
            }
            EventKind::LineDequeued { line, reason } => {
                if let Some(text) = self.activity.left_queue(*line, *reason) {
                    if in_view {
                        self.conversation.transcript.entered(&text);
                    }
                    self.activity.busy.begin(*line, event.agent, &text, now);
                }
                self.activity.queue = self.session.queue();
            }
            EventKind::QueueHeld { .. } => {
                self.activity.queue = self.session.queue();
                self.activity.send_what_is_held(&self.session);
            }
            // For lines of a resumed session, there is no future in `running`.
            EventKind::LineEnded { line, outcome } => {
                let took = self.activity.busy.end(*line, now);
                if let Some(submitted) = self.activity.submitted.get_mut(line) {
                    submitted.took = took;
                }
                if in_view && !self.conversation.was_told(event.agent, outcome) {
                    self.window.ring_if_long(took);
                }
                // An answer has been printed completely by now; `ended` prints other outcomes.
                let submitted = self.activity.submitted.get(line);
                if in_view && submitted.is_none_or(|line| outcome.code == Code::Answered && !line.has_joined) {
                    self.end_output(outcome);
                }
            }
            _ => self.agent_event(&event, now),
        }
        if in_view && (!self.conversation.is_joining || matches!(event.kind, EventKind::Notice { .. })) {
            if event.kind.answer().is_some() {
                self.conversation.transcript.set_skills(self.session.snapshot());
            }
            self.conversation.transcript.event(Received::Event(event), now);
        }
    }

    /// Shows the outcome of a line, after its events.
    async fn ended(&mut self, id: LineId, outcome: &Outcome) -> Result<(), ReplError> {
        self.drain(usize::MAX).await?;
        // The `LineEnded` event may have been lost.
        let took = self.activity.busy.end(id, Instant::now());
        self.activity.queue = self.session.queue();
        let Some(line) = self.activity.submitted.remove(&id) else { return Ok(()) };
        self.activity.send_what_is_held(&self.session);
        self.activity.sends_after_stop &= !self.activity.is_idle() && !self.activity.queue.held;
        if outcome.code == Code::LineTakenBack {
            return Ok(());
        }
        self.window.change_now();
        self.conversation.is_outdated = true;
        // The line was stopped while it waited for another command.
        if let Some(text) = self.activity.take_unshown(id) {
            self.conversation.transcript.entered(&text);
        }
        if outcome.code == Code::Quit {
            self.quit(outcome);
        } else if !line.has_joined && !self.conversation.take_told(line.agent, outcome) {
            let ends_block = self.activity.is_idle() || outcome.code == Code::Answered;
            self.conversation.transcript.outcome_after(line.took.or(took), outcome, ends_block);
        }
        if line.is_bare_help && !outcome.is_ok() {
            self.conversation.transcript.notice(front_command::HELP_HINT);
        }
        if outcome.code != Code::Answered && !line.has_joined {
            self.end_output(outcome);
        }
        self.give_back(outcome);
        for line in self.activity.begin_lines_behind(id, self.session.view()) {
            self.conversation.transcript.entered(&line);
        }
        // The command may have changed which commands exist.
        self.input.command_help = CommandHelp::default();
        self.join_if_due().await?;
        self.update_status().await
    }

    /// Marks the end of a line's output for the terminal.
    fn end_output(&mut self, outcome: &Outcome) {
        if outcome.code != Code::LineTakenBack {
            self.conversation.transcript.end_output(outcome.is_ok());
        }
    }

    /// Runs a line from the composer, or puts it into the queue.
    fn submit(&mut self, input: impl Into<LineInput>) {
        let mut input = input.into();
        let line = input.text.clone();
        self.own_programs.attach_output(&mut input);
        let submitted = self.session.submit_input(input);
        if self.activity.add(&line, submitted, &self.session) {
            self.conversation.transcript.entered(&line);
        }
    }

    /// Takes the last waiting line back into the composer.
    fn take_back(&mut self) {
        let Some(last) = self.activity.queue.lines.last().filter(|_| self.input.taking_back.is_none()) else { return };
        let (session, id, attached) = (Arc::clone(&self.session), last.id, last.attached.clone());
        self.input.taking_back =
            Some(Box::pin(async move { Some(TakenBackLine { text: session.take_back(id).await?, attached }) }));
    }

    /// Shows a line that was taken back. The words that name its files attach them again.
    fn taken_back(&mut self, line: Option<TakenBackLine>) {
        self.input.taking_back = None;
        self.activity.queue = self.session.queue();
        self.window.change();
        if let Some(TakenBackLine { text, attached }) = line.filter(|_| self.input.composer.is_empty()) {
            attached.iter().for_each(|path| self.input.composer.choose(&typed_paths::word_of(path)));
            self.input.composer.set(&text);
            self.edited();
        }
    }

    /// Stops the work of the agent in view: its lines, and its turn if no line here started it.
    fn stop(&mut self) {
        for id in self.activity.busy.running() {
            self.session.stop(id);
        }
        self.session.stop_turn();
    }

    /// Waits until something has to be drawn again.
    fn wait_for_frame(&self) -> BoxFuture<'static, ()> {
        let works = !self.activity.is_idle() || self.own_programs.row().is_some();
        self.window.next_frame(works || self.conversation.questions.is_open())
    }

    /// Draws a frame if something changed and the last frame is old enough.
    fn draw(&mut self) -> Result<(), ReplError> {
        let now = Instant::now();
        self.conversation.note_question(now);
        if !self.window.is_due(now) {
            return Ok(());
        }
        self.conversation.questions.withdraw();
        self.take_suggestions();
        self.update_command_help();
        let finished = self.conversation.transcript.take_finished();
        let mark = self.conversation.transcript.take_mark();
        let view = self.view(now);
        let title = match self.activity.is_idle() {
            _ if !self.conversation.questions.is_empty() => TitleMark::Asking,
            true => TitleMark::Idle,
            false => TitleMark::Busy,
        };
        self.window.draw(&finished, &mark, view, title, now)?;
        // Measured after the write, which may take a while.
        self.conversation.questions.drawn(Instant::now());
        Ok(())
    }

    fn clear_area(&mut self) -> Result<(), ReplError> {
        let finished = self.conversation.transcript.take_finished();
        let mark = self.conversation.transcript.take_mark();
        Ok(self.window.clear(&finished, &mark)?)
    }

    /// Hands the terminal to the editor or the shell, and takes it back afterwards.
    async fn come_back(&mut self, away: Away, signals: &mut Signals) -> AfterAway {
        match away {
            Away::Suspended => suspend::suspend(),
            Away::Editor => match suspend::edit(&self.input.composer.expanded(), signals).await {
                Edited::Text(Ok(text)) => {
                    self.input.composer.set(text::clean(&text).trim_end_matches('\n'));
                    self.edited();
                }
                Edited::Text(Err(error)) => self.conversation.transcript.prose(&format!("Error: {error}")),
                Edited::Leave => return AfterAway::Leave,
            },
        }
        self.window.come_back();
        AfterAway::GoOn
    }

    /// Prints the received text and removes the live area.
    fn leave(&mut self) -> Result<(), ReplError> {
        self.conversation.transcript.end();
        self.clear_area()
    }
}

/// Waits for a future that may be absent.
async fn if_any<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
