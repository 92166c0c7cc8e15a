//! Without a terminal: lines in, messages out, nothing drawn.

use std::{io::BufRead as _, sync::Arc};

use patchbay_session::Session;
use tokio::runtime::Handle;

use crate::{Interrupts, Next, ReplError, line};

pub(crate) fn run(runtime: &Handle, session: &Arc<Session>) -> Result<(), ReplError> {
    for text in std::io::stdin().lock().lines() {
        match line(runtime, session, &text?, &mut Interrupts::left_alone())? {
            Next::Line => {}
            Next::Leave => break,
        }
    }
    Ok(())
}
