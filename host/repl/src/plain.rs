//! The front without a terminal: lines from standard input, results on standard output, errors on standard error.

use std::{io::BufRead as _, sync::Arc};

use patchbay_session::Session;
use tokio::runtime::Handle;

use crate::{Interrupts, Next, ReplError, events_from_here, line, notice_task::NoticeTask, say, screen::Screen};

/// Runs every line of standard input; returns whether all of them succeeded.
pub(crate) fn run(runtime: &Handle, session: &Arc<Session>) -> Result<bool, ReplError> {
    let mut lines = std::io::stdin().lock().lines();
    let mut events = events_from_here(session);
    let mut all_ok = true;
    loop {
        // Write errors are ignored here: the next outcome detects a closed pipe.
        let notice_task = NoticeTask::start(runtime, events, |notice| drop(say(&notice)));
        let text = lines.next().transpose()?;
        events = notice_task.end(runtime).unwrap_or_else(|| events_from_here(session));
        let Some(text) = text else { return Ok(all_ok) };
        match line(runtime, session, &mut events, &text, &mut Interrupts::left_alone(), Screen::of_pipe())? {
            Next::Line => {}
            Next::AfterError => all_ok = false,
            Next::Leave => return Ok(all_ok),
        }
    }
}
