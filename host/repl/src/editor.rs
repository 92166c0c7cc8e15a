//! The interactive loop: reads lines with reedline and runs them.

use std::{path::Path, sync::Arc};

use patchbay_session::Session;
use reedline::{
    ColumnarMenu, Emacs, ExternalPrinter, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder as _, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, default_emacs_keybindings,
};
use tokio::runtime::Handle;

use crate::{
    Interrupts, Next, ReplError, complete::SessionCompleter, events_from_here, hint::UsageHinter, line,
    notice_task::NoticeTask, prompt::Plain, screen::Screen,
};

/// Lines that the history file keeps.
const HISTORY: usize = 10_000;
/// Queue length of notices to draw above the prompt.
const NOTICES: usize = 256;
const MENU: &str = "completion";

pub(crate) fn run(runtime: &Handle, session: &Arc<Session>, history: &Path) -> Result<(), ReplError> {
    let printer = ExternalPrinter::new(NOTICES);
    let above = printer.sender();
    let mut editor = editor(runtime, session, history)?.with_external_printer(printer);
    let mut interrupts = Interrupts::taken(runtime)?;
    let mut events = events_from_here(session);
    let _watch = runtime.block_on(async { session.watch_skills() });
    loop {
        let above = above.clone();
        // A full queue drops notices instead of blocking the task.
        let notice_task = NoticeTask::start(runtime, events, move |notice| drop(above.try_send(notice)));
        let signal = editor.read_line(&Plain);
        events = notice_task.end(runtime).unwrap_or_else(|| events_from_here(session));
        match signal? {
            Signal::Success(text) => {
                let next = line(runtime, session, &mut events, &text, &mut interrupts, Screen::of_terminal())?;
                if next == Next::Leave {
                    return Ok(());
                }
            }
            Signal::CtrlC => {}
            Signal::CtrlD => {
                line(runtime, session, &mut events, "/quit", &mut interrupts, Screen::of_terminal())?;
                return Ok(());
            }
            _ => {}
        }
    }
}

fn editor(runtime: &Handle, session: &Arc<Session>, history: &Path) -> Result<Reedline, ReplError> {
    let history = FileBackedHistory::with_file(HISTORY, history.to_owned())
        .map_err(|error| ReplError::Io(std::io::Error::other(error.to_string())))?;
    let mut keys = default_emacs_keybindings();
    let open_or_next = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, open_or_next);
    let menu = ColumnarMenu::default().with_name(MENU).with_columns(1).with_marker("> ");
    Ok(Reedline::create()
        .with_history(Box::new(history))
        .with_completer(Box::new(SessionCompleter { runtime: runtime.clone(), session: Arc::clone(session) }))
        .with_hinter(Box::new(UsageHinter::new(Arc::clone(session))))
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .use_bracketed_paste(true)
        .with_edit_mode(Box::new(Emacs::new(keys))))
}
