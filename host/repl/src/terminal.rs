//! The interactive front: one loop over keys, events, outcomes and questions. The composer lives while anything runs, and
//! finished lines are printed once, above the live area. `lib` starts it when both ends are a terminal.

mod agents;
mod answer;
mod attaching;
mod busy;
mod call_timer;
mod completion;
mod composer;
mod diff;
#[cfg(test)]
mod fake_terminal;
mod front_command;
mod history;
mod keys;
mod live;
mod marks;
mod menu;
mod outcome_text;
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
#[cfg(test)]
mod tests;
mod transcript;
mod typed_ahead;
mod typed_paths;
mod wrap;

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use crossterm::event::{Event, EventStream, KeyEvent, KeyEventKind};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, FuturesUnordered, SelectAll},
};
use patchbay_core::{AgentId, Code, DequeueReason, EventKind, LineId, Outcome, text};
use patchbay_session::{
    AgentInView, LineInput, ModelInUse, QueueView, Received, Session, Submitted, Subscription, Suggestion,
};
use tokio::sync::{mpsc, watch};

use crate::{FrontEnd, Options, ReplError, Welcome, events_from_here};
use busy::Busy;
use composer::Composer;
use history::InputHistory;
use live::LiveArea;
use menu::Menu;
use questions::{ApproverMessage, Questions};
use raw_mode::RawMode;
pub use raw_mode::restore_modes;
use screen::CommandHelp;
use search::HistorySearch;
use signals::{Signalled, Signals};
use style::Look;
use suspend::Edited;
use transcript::Transcript;

/// Shortest time between two frames, after a key or the end of a line.
const FRAME: Duration = Duration::from_millis(33);
/// Shortest time between two frames that only show more of an answer: each frame costs bytes.
const STREAM_FRAME: Duration = Duration::from_millis(50);
/// How often the seconds of the busy row and withdrawn questions are looked at.
const TICK: Duration = Duration::from_millis(250);
/// Events that are handled before the next frame.
const BURST: usize = 512;

/// Runs the front until the user leaves. `greeting` is printed first.
pub(crate) async fn run(session: Arc<Session>, options: Options<'_>, greeting: Welcome) -> Result<FrontEnd, ReplError> {
    let mut front = Front::new(session, options, greeting).await?;
    let _watch = front.session.watch_skills();
    let mut signals = Signals::new()?;
    let mut raw_mode = RawMode::enter()?;
    let mut typed = typed_ahead::take();
    let mut keys = key_events()?;
    let mut end = FrontEnd::Left;
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
            Some((id, outcome)) = front.running.next() => front.ended(id, &outcome).await?,
            line = if_any(&mut front.taking_back) => front.taken_back(line),
            (typed, suggestions) = if_any(&mut front.completing) => front.completed(&typed, suggestions),
            (typed, read) = if_any(&mut front.attaching) => front.attached(&typed, read),
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
    front.leave()?;
    Ok(end)
}

/// Returns the keys and the other events of the terminal. The stream is only polled after its own thread has read something:
/// each poll before that waits for the lock of this thread and yields the processor several times, which on a busy machine
/// delays each piece of an answer by up to 100 ms.
///
/// A terminal that was just closed is an error; the stream alone would panic.
fn key_events() -> io::Result<SelectAll<EventStream>> {
    crossterm::event::poll(Duration::ZERO)?;
    Ok(stream::select_all([EventStream::new()]))
}

/// Why the terminal is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// Ctrl+Z.
    Suspended,
    /// The text is edited in the user's editor.
    Editor,
}

/// What the front does after it was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterAway {
    GoOn,
    /// A signal asks the process to end.
    Leave,
}

/// A line that waits until a command has ended. It is shown then, so each result stands below its own line.
struct UnshownLine {
    line: LineId,
    /// The command that it waits for.
    after: LineId,
    /// Whether that one moves the view.
    is_behind_move: bool,
    text: String,
}

/// A line of this front that has not ended.
struct SubmittedLine {
    agent: AgentId,
    /// Whether it is `/help` without an argument, whose error gets a hint.
    is_bare_help: bool,
    moves_view: bool,
    /// How long it ran; `None` until it has ended, and if it only waited.
    took: Option<Duration>,
}

/// A line that was taken back from the queue.
struct TakenBackLine {
    text: String,
    /// The names of its files.
    attached: Vec<String>,
}

/// The state of the front.
struct Front {
    session: Arc<Session>,
    events: Subscription,
    /// The agent in view, as the events say: the session may have moved the view already.
    view: AgentInView,
    /// Whether the view has moved and nothing of the agent was printed yet.
    joining: bool,
    /// How the last turn of each agent ended, if that was printed.
    told: BTreeMap<AgentId, (Code, String)>,
    /// Whether the model or the unread mail of the agent in view may have changed.
    outdated: bool,
    /// Whether events were lost.
    lagged: bool,
    /// Whether the next Ctrl+D leaves although agents work.
    asked_to_leave: bool,
    running: FuturesUnordered<BoxFuture<'static, (LineId, Outcome)>>,
    completing: Option<BoxFuture<'static, (String, Vec<Suggestion>)>>,
    /// Reads the files of the text that was entered.
    attaching: Option<attaching::ReadingFiles>,
    /// Whether Tab was pressed before the suggestions were there.
    tab: bool,
    asked: mpsc::Receiver<ApproverMessage>,
    questions: Questions,
    composer: Composer,
    menu: Option<Menu>,
    command_help: CommandHelp,
    search: Option<HistorySearch>,
    transcript: Transcript,
    busy: Busy,
    /// The progress of compilation.
    compiling: watch::Receiver<Option<String>>,
    /// The lines that wait for their turn, as the session keeps them.
    queue: QueueView,
    /// The texts of waiting lines, which are printed when their turns begin.
    texts: BTreeMap<LineId, String>,
    /// A line that is being taken back from the queue.
    taking_back: Option<BoxFuture<'static, Option<TakenBackLine>>>,
    /// The model that answers, for the status row.
    model: Option<ModelInUse>,
    area: LiveArea,
    progress: marks::ProgressSign,
    title: marks::WindowTitle,
    columns: usize,
    rows: usize,
    /// Whether the window is in front; true where the terminal does not tell.
    focused: bool,
    interrupted: Option<Instant>,
    submitted: BTreeMap<LineId, SubmittedLine>,
    /// Commands that wait for others, in the order in which they were entered.
    unshown: Vec<UnshownLine>,
    /// Whether the waiting lines are sent as soon as what runs has stopped.
    send_after_stop: bool,
    /// A short message below the composer, until the next key.
    hint: Option<String>,
    /// A sequence that copies to the clipboard, to be written with the next frame.
    clipboard: Option<String>,
    drawn: Option<Instant>,
    changed: bool,
    /// Whether the user waits for the next frame: a key was pressed, or a line has ended.
    urgent: bool,
    leaving: bool,
    away: Option<Away>,
}

impl Front {
    async fn new(session: Arc<Session>, options: Options<'_>, greeting: Welcome) -> Result<Self, ReplError> {
        let history = InputHistory::open(options.history, session.workspace())?;
        let (columns, rows) = crossterm::terminal::size()?;
        let (sender, asked) = questions::channel();
        session.set_approver(Arc::new(sender));
        let view = session.agent_in_view_now().await.map_err(|error| ReplError::Store(error.to_string()))?;
        let mut events = events_from_here(&session);
        events.only_deltas_of([view.id]);
        let mut transcript = Transcript::new(view.id, columns.into(), Look::new(options.settings));
        greeting.lines.iter().for_each(|line| transcript.prose(line));
        if let Some(exchange) = &greeting.exchange {
            transcript.resumed(exchange);
        }
        transcript.set_context_tokens(view.context_tokens);
        let model = session.model_in_use().await;
        Ok(Self {
            events,
            joining: false,
            told: BTreeMap::new(),
            outdated: false,
            lagged: false,
            asked_to_leave: false,
            running: FuturesUnordered::new(),
            completing: None,
            attaching: None,
            tab: false,
            asked,
            questions: Questions::new(view.id, Instant::now()),
            composer: Composer::new(history),
            menu: None,
            command_help: CommandHelp::default(),
            search: None,
            transcript,
            busy: Busy::new(view.id),
            view,
            // Shown in the busy row.
            compiling: (options.compiling)(),
            texts: session.queue().lines.into_iter().map(|line| (line.id, line.text)).collect(),
            queue: session.queue(),
            taking_back: None,
            model,
            area: LiveArea::new(marks::rewraps()),
            progress: marks::ProgressSign::new(),
            title: marks::WindowTitle::new(session.workspace()),
            columns: columns.into(),
            rows: rows.into(),
            focused: true,
            interrupted: None,
            submitted: BTreeMap::new(),
            unshown: Vec::new(),
            send_after_stop: false,
            hint: None,
            clipboard: None,
            drawn: None,
            changed: true,
            urgent: true,
            leaving: false,
            away: None,
            session,
        })
    }

    fn terminal_event(&mut self, event: Event) {
        (self.changed, self.urgent) = (true, true);
        match event {
            Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => {}
            Event::Key(key) => {
                self.key(key, Instant::now());
            }
            Event::Paste(text) => {
                self.composer.paste(&text);
                self.edited();
            }
            Event::Resize(columns, rows) => {
                (self.columns, self.rows) = (columns.into(), rows.into());
                self.transcript.resize(self.columns);
                // The window may have the old width again, after another one that was never drawn.
                self.area.invalidate();
            }
            Event::FocusGained => self.focused = true,
            Event::FocusLost => self.focused = false,
            Event::Mouse(_) => {}
        }
    }

    /// Handles keys that were typed before raw mode was on. Behind a line with files, which are read first, the others wait.
    fn type_ahead(&mut self, typed: &mut VecDeque<KeyEvent>) {
        while self.attaching.is_none()
            && let Some(key) = typed.pop_front()
        {
            self.terminal_event(Event::Key(key));
        }
    }

    fn asked(&mut self, message: ApproverMessage) {
        self.changed = true;
        match message {
            ApproverMessage::Question(question) => {
                if question.agent() != self.view.id {
                    self.transcript.other_agent(&question.headline());
                    self.area.mark(marks::BELL);
                }
                self.questions.add(*question);
            }
            ApproverMessage::Stored(line) => self.transcript.notice(&line),
        }
    }

    /// Handles an event and those that are there already.
    async fn received(&mut self, received: Received) -> Result<(), ReplError> {
        self.show(received);
        self.drain(BURST).await?;
        self.join_if_due().await?;
        self.update_status().await
    }

    /// Handles the events that are there already, at most `limit`.
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
        self.changed = true;
        self.note_question(now);
        let Received::Event(event) = received else {
            self.lagged = true;
            return;
        };
        if event.kind == EventKind::ViewMoved {
            return self.view_moved(event.agent);
        }
        let in_view = event.agent == self.view.id;
        self.busy.event(event.agent, &event.kind, now);
        match &event.kind {
            EventKind::LineQueued { line, text } => {
                self.texts.insert(*line, text.clone());
                self.queue = self.session.queue();
            }
            EventKind::LineDequeued { line, reason } => {
                let text = self.texts.remove(line);
                if let Some(text) = text.filter(|_| *reason == DequeueReason::Began) {
                    if in_view {
                        self.transcript.entered(&text);
                    }
                    self.busy.begin(*line, event.agent, &text, now);
                }
                self.queue = self.session.queue();
            }
            EventKind::QueueHeld { .. } => {
                self.queue = self.session.queue();
                self.send_what_is_held();
            }
            // Lines of a resumed session have no future here.
            EventKind::LineEnded { line, outcome } => {
                let took = self.busy.end(*line, now);
                if let Some(submitted) = self.submitted.get_mut(line) {
                    submitted.took = took;
                }
                if in_view && !self.was_told(event.agent, outcome) {
                    self.ring_if_long(took);
                }
                // All of an answer is printed; other outcomes are printed by `ended`.
                if in_view && (outcome.code == Code::Answered || !self.submitted.contains_key(line)) {
                    self.end_output(outcome);
                }
            }
            _ => self.agent_event(&event, now),
        }
        if in_view && (!self.joining || matches!(event.kind, EventKind::Notice { .. })) {
            self.transcript.event(Received::Event(event), now);
        }
    }

    /// Shows the outcome of a line, after its events.
    async fn ended(&mut self, id: LineId, outcome: &Outcome) -> Result<(), ReplError> {
        self.drain(usize::MAX).await?;
        // The event may have been lost.
        let took = self.busy.end(id, Instant::now());
        self.queue = self.session.queue();
        let Some(line) = self.submitted.remove(&id) else { return Ok(()) };
        self.send_what_is_held();
        self.send_after_stop &= !self.busy.is_idle() && !self.queue.held;
        if outcome.code == Code::LineTakenBack {
            return Ok(());
        }
        (self.changed, self.urgent, self.outdated) = (true, true, true);
        // It was stopped while it waited for another command.
        if let Some(at) = self.unshown.iter().position(|unshown| unshown.line == id) {
            let UnshownLine { text, .. } = self.unshown.remove(at);
            self.transcript.entered(&text);
        }
        if outcome.code == Code::Quit {
            self.quit(outcome);
        } else if self.was_told(line.agent, outcome) {
            self.told.remove(&line.agent);
        } else {
            let ends_block = self.busy.is_idle() || outcome.code == Code::Answered;
            self.transcript.outcome_after(line.took.or(took), outcome, ends_block);
        }
        if line.is_bare_help && !outcome.is_ok() {
            self.transcript.notice(front_command::HELP_HINT);
        }
        if outcome.code != Code::Answered {
            self.end_output(outcome);
        }
        if outcome.code == Code::Killed {
            self.give_back(outcome);
        }
        self.show_lines_behind(id);
        // The command may have changed what commands there are.
        self.command_help = CommandHelp::default();
        self.join_if_due().await?;
        self.update_status().await
    }

    /// Shows the lines that wait for `ended`: they begin, and their results stand below them. Lines behind a move of the view
    /// belong to the agent that is in view now, and may wait in its queue.
    fn show_lines_behind(&mut self, ended: LineId) {
        let (next, waiting) = std::mem::take(&mut self.unshown).into_iter().partition(|line| line.after == ended);
        self.unshown = waiting;
        let next: Vec<UnshownLine> = next;
        for UnshownLine { line, is_behind_move, text, .. } in next {
            if !is_behind_move {
                self.transcript.entered(&text);
                continue;
            }
            let agent = self.session.view();
            self.submitted.entry(line).and_modify(|submitted| submitted.agent = agent);
            if self.queue.lines.iter().any(|waiting| waiting.id == line) {
                self.texts.insert(line, text);
            } else {
                self.transcript.entered(&text);
                self.busy.begin(line, agent, &text, Instant::now());
            }
        }
    }

    /// Sends the waiting lines if the user wanted them to be sent after a stop.
    fn send_what_is_held(&mut self) {
        if self.send_after_stop && self.queue.held {
            self.session.release_queue();
        }
    }

    /// Marks the end of a line's output for the terminal.
    fn end_output(&mut self, outcome: &Outcome) {
        if outcome.code != Code::LineTakenBack {
            self.transcript.end_output(outcome.is_ok());
        }
    }

    /// Runs the text of the composer, or puts it into the queue.
    fn submit(&mut self, input: impl Into<LineInput>) {
        let input = input.into();
        let line = &*input.text.clone();
        let submitted: Submitted = self.session.submit_input(input);
        let (id, agent) = (submitted.id(), submitted.agent());
        let is_bare_help = line.trim() == "/help";
        let moves_view = agents::moves_view(line);
        self.submitted.insert(id, SubmittedLine { agent, is_bare_help, moves_view, took: None });
        self.queue = self.session.queue();
        if !self.queue.lines.iter().any(|waiting| waiting.id == id) {
            match submitted.waits_for() {
                Some(after) => {
                    let is_behind_move = submitted.is_behind_move();
                    self.unshown.push(UnshownLine { line: id, after, is_behind_move, text: line.to_owned() });
                }
                None => self.transcript.entered(line),
            }
            if !submitted.is_behind_move() {
                self.busy.begin(id, agent, line, Instant::now());
            }
        }
        self.running.push(Box::pin(async move { (id, submitted.await) }));
    }

    /// Takes the last waiting line back into the composer.
    fn take_back(&mut self) {
        let Some(last) = self.queue.lines.last().filter(|_| self.taking_back.is_none()) else { return };
        let (session, id, attached) = (Arc::clone(&self.session), last.id, last.attached.clone());
        self.taking_back =
            Some(Box::pin(async move { Some(TakenBackLine { text: session.take_back(id).await?, attached }) }));
    }

    /// Shows a line that was taken back. The words that name its files attach them again.
    fn taken_back(&mut self, line: Option<TakenBackLine>) {
        self.taking_back = None;
        self.queue = self.session.queue();
        self.changed = true;
        if let Some(TakenBackLine { text, attached }) = line.filter(|_| self.composer.is_empty()) {
            attached.iter().for_each(|path| self.composer.choose(&typed_paths::word_of(path)));
            self.composer.set(&text);
            self.edited();
        }
    }

    /// Stops what the agent in view runs: its lines, and its turn if that has no line here.
    fn stop(&mut self) {
        for id in self.busy.running() {
            self.session.stop(id);
        }
        self.session.stop_turn();
    }

    fn frame_time(&self) -> Duration {
        if self.urgent { FRAME } else { STREAM_FRAME }
    }

    /// Waits until something has to be drawn again.
    fn wait_for_frame(&self) -> BoxFuture<'static, ()> {
        let wait = match (self.changed, self.drawn) {
            (true, Some(drawn)) => self.frame_time().saturating_sub(drawn.elapsed()),
            (true, None) => Duration::ZERO,
            (false, _) if !self.busy.is_idle() || self.questions.is_open() => TICK,
            (false, _) => return pending().boxed(),
        };
        tokio::time::sleep(wait).boxed()
    }

    /// Tells the transcript whether the agent in view waits for an answer of the user.
    fn note_question(&mut self, now: Instant) {
        self.transcript.set_question(self.questions.agent() == Some(self.view.id), now);
    }

    /// Draws a frame if something changed and the last frame is old enough.
    fn draw(&mut self) -> Result<(), ReplError> {
        let now = Instant::now();
        self.note_question(now);
        if self.drawn.is_some_and(|drawn| now.saturating_duration_since(drawn) < self.frame_time()) {
            return Ok(());
        }
        self.questions.withdraw();
        self.take_suggestions();
        self.update_command_help();
        let finished = self.transcript.take_finished();
        self.area.mark(&self.transcript.take_mark());
        let view = self.view(now);
        let frame = self.area.frame(self.columns, &finished, view);
        (self.changed, self.urgent) = (false, false);
        if let Some(sequence) = self.clipboard.take() {
            raw_mode::write(&sequence)?;
        }
        if let Some(sequence) = self.progress.update(!self.busy.is_idle(), now) {
            raw_mode::write(sequence)?;
        }
        if let Some(sequence) = self.title.update(!self.busy.is_idle()) {
            raw_mode::write(&sequence)?;
        }
        if !frame.is_empty() {
            raw_mode::write(&frame)?;
            self.drawn = Some(now);
        }
        // Measured after the write, which may take long.
        self.questions.drawn(Instant::now());
        Ok(())
    }

    fn clear_area(&mut self) -> Result<(), ReplError> {
        let finished = self.transcript.take_finished();
        self.area.mark(&self.transcript.take_mark());
        raw_mode::write(&self.area.leave(self.columns, &finished))?;
        Ok(())
    }

    /// Hands the terminal over, and returns from another program or from being suspended.
    async fn come_back(&mut self, away: Away, signals: &mut Signals) -> AfterAway {
        match away {
            Away::Suspended => suspend::suspend(),
            Away::Editor => match suspend::edit(&self.composer.expanded(), signals).await {
                Edited::Text(Ok(text)) => {
                    self.composer.set(text::clean(&text).trim_end_matches('\n'));
                    self.edited();
                }
                Edited::Text(Err(error)) => self.transcript.prose(&format!("Error: {error}")),
                Edited::Leave => return AfterAway::Leave,
            },
        }
        if let Ok((columns, rows)) = crossterm::terminal::size() {
            (self.columns, self.rows) = (columns.into(), rows.into());
        }
        self.area.forget();
        self.progress = marks::ProgressSign::new();
        self.title.forget();
        self.changed = true;
        AfterAway::GoOn
    }

    /// Prints what was received and removes the live area.
    fn leave(mut self) -> Result<(), ReplError> {
        self.transcript.end();
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
