//! Handing the terminal to others: to the shell with Ctrl+Z, to the user's editor with Ctrl+G.

use std::{io, process::Command};

/// Stops the process as the shell's job control expects; returns when it is continued.
pub(crate) fn suspend() {
    use rustix::process::{Signal, getpid, kill_process};
    // The process group may contain a script that must go on.
    let _ = kill_process(getpid(), Signal::TSTP);
}

/// Lets the user edit `text` in `$VISUAL` or `$EDITOR` and returns the result.
///
/// # Errors
/// No editor is set, it cannot be started or fails, or its text cannot be read.
pub(crate) fn edit(text: &str) -> Result<String, String> {
    let editor =
        ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.ok_or("no editor is set; set EDITOR, such as EDITOR=vi")?;
    let words = shlex::split(&editor).filter(|words| !words.is_empty()).ok_or("EDITOR is not a command line")?;
    let failed = |error: io::Error| format!("the editor '{editor}' failed: {error}");
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join("message.md");
    std::fs::write(&file, text).map_err(failed)?;
    let status = Command::new(&words[0]).args(&words[1..]).arg(&file).status().map_err(failed)?;
    if !status.success() {
        return Err(format!("the editor '{editor}' failed: {status}"));
    }
    std::fs::read_to_string(&file).map_err(failed)
}
