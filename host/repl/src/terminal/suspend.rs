//! Handing the terminal to others: to the shell with Ctrl+Z, to the user's editor with Ctrl+G.

use std::{io, os::unix::process::ExitStatusExt as _, path::Path, process::ExitStatus, time::Duration};

use rustix::{
    process::{Pid, Signal, getpid, kill_process},
    termios::{OptionalActions, tcgetattr, tcsetattr},
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::{
    raw_mode,
    signals::{Signalled, Signals},
};

/// Why the terminal is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// Ctrl+Z.
    Suspended,
    /// The text is edited in the user's editor.
    Editor,
}

/// The next step of the front once the terminal is handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterAway {
    GoOn,
    /// A signal asks the process to end.
    Leave,
}

/// How long an editor may take to end after SIGTERM. Then it is killed.
const ENDING: Duration = Duration::from_secs(2);
/// Leaves the alternate screen, ends what full-screen programs turn on, and shows the cursor.
const RESET: &str = "\x1b[?1049l\x1b[<1u\x1b[?2004l\x1b[?1000l\x1b[?1004l\x1b[0m\x1b[?25h";

/// Stops the process as the shell's job control expects; returns when it is continued.
pub(super) fn suspend() {
    // Only this process is stopped, because its process group may contain a script that must continue.
    let _ = kill_process(getpid(), Signal::TSTP);
}

/// How the user's editor ended.
pub(super) enum Edited {
    /// The text, or why there is none.
    Text(Result<String, String>),
    /// A signal has asked this process to end. The editor has ended, and the terminal is restored.
    Leave,
}

/// Lets the user edit `text` in `$VISUAL` or `$EDITOR`. The result is an error if no editor is set, if the editor cannot be started
/// or fails, or if the edited text cannot be read.
pub(super) async fn edit(text: &str, signals: &mut Signals) -> Edited {
    let edited = async {
        let editor =
            ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let editor = editor.ok_or("no editor is set; set EDITOR, such as EDITOR=vi")?;
        let words = shlex::split(&editor).filter(|words| !words.is_empty()).ok_or("EDITOR is not a command line")?;
        let failed = |error: io::Error| format!("the editor '{editor}' failed: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join("message.md");
        std::fs::write(&file, text).map_err(failed)?;
        let Some(status) = run(&words, &file, signals).await.map_err(failed)? else { return Ok(None) };
        if !status.success() {
            return Err(format!("the editor '{editor}' failed: {status}"));
        }
        std::fs::read_to_string(&file).map(Some).map_err(failed)
    };
    match edited.await {
        Ok(Some(text)) => Edited::Text(Ok(text)),
        Ok(None) => Edited::Leave,
        Err(error) => Edited::Text(Err(error)),
    }
}

/// Runs an editor until it ends. Returns `None` if a signal asked this process to end, and the editor was ended because of it.
async fn run(words: &[String], file: &Path, signals: &mut Signals) -> io::Result<Option<ExitStatus>> {
    let modes = tcgetattr(io::stdin());
    let mut editor = Command::new(&words[0]).args(&words[1..]).arg(file).spawn()?;
    loop {
        tokio::select! {
            status = editor.wait() => return status.map(Some),
            signal = signals.next() => match signal {
                // Ctrl+C belongs to the editor, which has received it as well.
                Signalled::Interrupt => {}
                Signalled::Leave => break,
            },
        }
    }
    let status = end(&mut editor).await?;
    if let Ok(modes) = modes {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
    if status.signal().is_some() {
        // A signal ended the editor before it could restore the terminal. If it had done so, this reset would move the cursor.
        raw_mode::write(RESET)?;
    }
    Ok(None)
}

/// Sends SIGTERM to an editor, which lets it restore the terminal, and kills it if it does not end.
async fn end(editor: &mut Child) -> io::Result<ExitStatus> {
    if let Some(id) = editor.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = kill_process(id, Signal::TERM);
    }
    if let Ok(ended) = timeout(ENDING, editor.wait()).await {
        return ended;
    }
    editor.start_kill()?;
    editor.wait().await
}
