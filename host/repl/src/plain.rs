//! Without a terminal: lines in, messages out, nothing drawn.

use std::{io::BufRead as _, sync::Arc};

use patchbay_session::Session;
use tokio::runtime::Handle;

use crate::{Interrupts, Next, ReplError, events_from_here, line, listen::Listening, say};

pub(crate) fn run(runtime: &Handle, session: &Arc<Session>) -> Result<(), ReplError> {
    let mut lines = std::io::stdin().lock().lines();
    let mut events = events_from_here(session);
    loop {
        // Who has gone is noticed at the next line's own outcome.
        let listening = Listening::start(runtime, events, |notice| drop(say(&notice)));
        let text = lines.next().transpose()?;
        events = listening.end(runtime).unwrap_or_else(|| events_from_here(session));
        let Some(text) = text else { return Ok(()) };
        match line(runtime, session, &mut events, &text, &mut Interrupts::left_alone())? {
            Next::Line => {}
            Next::Leave => return Ok(()),
        }
    }
}
