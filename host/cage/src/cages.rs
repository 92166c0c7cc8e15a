//! Starts programs, and keeps a spare child process ready for the next one: for a short program, most of the time goes into
//! starting the child.
//!
//! The spare is an ordinary child that is waiting for its order, and has done nothing that depends on the order. It has no
//! environment. It ends with this process, because its standard input is closed then. If the spare has died, the next program
//! simply starts in a new child.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::{
    order::Order,
    running::{CageChild, CageProgram, RunningProgram},
};

/// How long a spare child process is kept for the next program.
const IDLE: Duration = Duration::from_secs(300);

/// Starts programs in child processes, and keeps a spare child. Dropping this ends the spare, but not running programs.
#[derive(Debug)]
pub struct Cages {
    child: CageProgram,
    idle: Duration,
    state: Mutex<CagesState>,
}

#[derive(Debug, Default)]
struct CagesState {
    spare: Option<SpareChild>,
    is_closed: bool,
}

#[derive(Debug)]
struct SpareChild {
    child: CageChild,
    /// Discards the spare after the idle time.
    timer: AbortHandle,
}

impl Cages {
    /// Returns an instance without a spare child. [`Cages::prepare`] starts one.
    pub fn new(child: CageProgram) -> Arc<Self> {
        Self::with_idle_time(child, IDLE)
    }

    fn with_idle_time(child: CageProgram, idle: Duration) -> Arc<Self> {
        Arc::new(Self { child, idle, state: Mutex::default() })
    }

    /// Starts a spare child unless there is one. Call it when a program is likely to follow soon. Must be called within a tokio
    /// runtime.
    pub fn prepare(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.is_closed || state.spare.as_mut().is_some_and(SpareChild::is_alive) {
            return;
        }
        if let Some(ended) = state.spare.take() {
            ended.discard();
        }
        // If the child cannot be started, the next call of `start` reports why.
        let Ok(child) = self.child.spawn() else { return };
        let (cages, id, idle) = (Arc::downgrade(self), child.process.id(), self.idle);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(idle).await;
            discard_if(&cages, id);
        });
        state.spare = Some(SpareChild { child, timer: timer.abort_handle() });
    }

    /// Starts a program in the spare child, or in a new one. When the program ends, a new spare is started. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// If no child can be started. If the child cannot start the program, its [`ProgramEnd`](crate::ProgramEnd) reports it.
    pub fn start(self: &Arc<Self>, order: &Order) -> io::Result<RunningProgram> {
        let spare = self.state.lock().spare.take();
        let running = match spare.and_then(SpareChild::into_child) {
            Some(child) => RunningProgram::start_in(child, Some(self.child.clone()), order)?,
            None => RunningProgram::start(&self.child, order)?,
        };
        // A new spare has to wait until the program ends, because starting it would take processor time from the program.
        let (cages, mut end) = (Arc::downgrade(self), running.ending());
        tokio::spawn(async move {
            let _ = end.wait_for(Option::is_some).await;
            if let Some(cages) = cages.upgrade() {
                cages.prepare();
            }
        });
        Ok(running)
    }

    /// Ends the spare child, and starts no more spares. Programs can still be started.
    pub fn close(&self) {
        let spare = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.spare.take()
        };
        if let Some(spare) = spare {
            spare.discard();
        }
    }

    /// Returns the process id of the spare child, if there is one.
    #[cfg(test)]
    fn spare_id(&self) -> Option<u32> {
        self.state.lock().spare.as_ref()?.child.process.id()
    }
}

impl Drop for Cages {
    fn drop(&mut self) {
        self.close();
    }
}

impl SpareChild {
    fn is_alive(&mut self) -> bool {
        matches!(self.child.process.try_wait(), Ok(None))
    }

    /// Returns the child for a program; `None` if it has ended.
    fn into_child(mut self) -> Option<CageChild> {
        self.timer.abort();
        self.is_alive().then_some(self.child)
    }

    fn discard(self) {
        self.timer.abort();
        self.child.discard();
    }
}

/// Ends the spare child with this process id if it is still waiting.
fn discard_if(cages: &Weak<Cages>, id: Option<u32>) {
    let Some(cages) = cages.upgrade() else { return };
    let spare = cages.state.lock().spare.take_if(|spare| spare.child.process.id() == id);
    if let Some(spare) = spare {
        spare.discard();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::*;

    /// A script that prints its process id once it has an order, and then reports an exit code.
    const CHILD: &str = r#"read -r order && echo $$ && printf '{"exit_code":7}' >&2"#;

    fn child(script: &str) -> CageProgram {
        CageProgram { program: "/bin/sh".into(), arguments: vec!["-c".to_owned(), script.to_owned()] }
    }

    /// Runs a program, and returns the process id of its child.
    async fn run(cages: &Arc<Cages>) -> u32 {
        let order = Order {
            program: "true".to_owned(),
            arguments: Vec::new(),
            folder: "/".into(),
            environment: Vec::new(),
            fence: None,
        };
        let running = cages.start(&order).unwrap();
        let end = running.ended().await;
        assert_eq!(end.exit_code, Some(7), "{end:?}");
        running.output(|output| output.tail(100).text).trim().parse().unwrap()
    }

    async fn until(mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end, "it did not happen");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn pid(id: u32) -> Pid {
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    fn is_gone(id: u32) -> bool {
        test_kill_process(pid(id)).is_err()
    }

    #[tokio::test]
    async fn spare_runs_one_program_and_is_replaced() {
        let cages = Cages::new(child(CHILD));
        cages.prepare();
        let first = cages.spare_id().unwrap();
        cages.prepare();
        assert_eq!(cages.spare_id(), Some(first), "there is at most one");
        assert_eq!(run(&cages).await, first);
        until(|| cages.spare_id().is_some()).await;
        let second = cages.spare_id().unwrap();
        assert_ne!(second, first);
        assert_eq!(run(&cages).await, second);
    }

    #[tokio::test]
    async fn spare_that_has_ended_is_no_error() {
        let cages = Cages::new(child(CHILD));
        assert_ne!(run(&cages).await, 0, "there was no spare");
        cages.prepare();
        let spare = cages.spare_id().unwrap();
        kill_process(pid(spare), Signal::KILL).unwrap();
        until(|| !cages.state.lock().spare.as_mut().unwrap().is_alive()).await;
        assert_ne!(run(&cages).await, spare);
    }

    #[tokio::test]
    async fn spare_that_does_not_read_is_replaced_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        // Only the first child closes its input and stays alive.
        let deaf = format!(
            "if mkdir {0} 2>/dev/null; then exec 0<&-; echo $$ > {0}/id; sleep 300; fi; {CHILD}",
            closed.display()
        );
        let cages = Cages::new(child(&deaf));
        cages.prepare();
        let spare = cages.spare_id().unwrap();
        until(|| fs::read(closed.join("id")).is_ok_and(|id| id.ends_with(b"\n"))).await;
        assert_ne!(run(&cages).await, spare);
        until(|| is_gone(spare)).await;
    }

    #[tokio::test]
    async fn no_spare_is_left_at_the_end() {
        let cages = Cages::new(child(CHILD));
        cages.prepare();
        let spare = cages.spare_id().unwrap();
        cages.close();
        until(|| is_gone(spare)).await;
        cages.prepare();
        assert_eq!(cages.spare_id(), None, "it is closed");
        run(&cages).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(cages.spare_id(), None, "the program's end has made one");
        let cages = Cages::new(child(CHILD));
        cages.prepare();
        let spare = cages.spare_id().unwrap();
        drop(cages);
        until(|| is_gone(spare)).await;
    }

    #[tokio::test]
    async fn idle_spare_is_ended() {
        let cages = Cages::with_idle_time(child(CHILD), Duration::from_millis(100));
        cages.prepare();
        let spare = cages.spare_id().unwrap();
        until(|| cages.spare_id().is_none() && is_gone(spare)).await;
        assert_ne!(run(&cages).await, spare);
    }
}
