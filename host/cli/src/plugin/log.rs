//! `patchbay plugin log`: extracts the lines of one plugin from the host's log.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
    process::ExitCode,
    thread,
    time::Duration,
};

use patchbay_core::{Name, text};

use crate::{
    CliError,
    home::HomeDirs,
    log,
    out::{note, print_line},
};

/// How often a followed log is read.
const INTERVAL: Duration = Duration::from_millis(200);

/// Prints the last `count` lines of `skill`. With `follows`, also prints new lines until standard output is
/// closed.
pub(super) fn run(skill: &Name, count: usize, follows: bool) -> Result<ExitCode, CliError> {
    let home = HomeDirs::find()?;
    let current = home.paths.state.join(log::NAME);
    let mut last = VecDeque::new();
    for path in [current.with_extension("log.2"), current.with_extension("log.1"), current.clone()] {
        read(&path, 0, |line| {
            if let Some(line) = plugin_line(line, skill) {
                if last.len() == count {
                    last.pop_front();
                }
                last.push_back(line);
            }
        })
        .map_err(CliError::io(&path))?;
    }
    if last.is_empty() {
        note(&format!("{skill} has written nothing to the log."));
    }
    for line in last {
        if !print_line(format_args!("{line}")) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if follows { follow(&current, skill) } else { Ok(ExitCode::SUCCESS) }
}

/// Prints new lines until standard output is closed. After a rotation, the new file is read from its start.
fn follow(path: &Path, skill: &Name) -> Result<ExitCode, CliError> {
    let mut at = path.metadata().map_or(0, |found| found.len());
    loop {
        thread::sleep(INTERVAL);
        if path.metadata().map_or(0, |found| found.len()) < at {
            at = 0;
        }
        let mut open = true;
        at = read(path, at, |line| {
            if let Some(line) = plugin_line(line, skill) {
                open = open && print_line(format_args!("{line}"));
            }
        })
        .map_err(CliError::io(path))?;
        if !open {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Passes the complete lines of a file after byte `start` to `each`. Returns the offset at which they end, or 0 if the file does
/// not exist.
fn read(path: &Path, start: u64, mut each: impl FnMut(&str)) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    io::Seek::seek(&mut file, io::SeekFrom::Start(start))?;
    let (mut reader, mut at, mut line) = (BufReader::new(file), start, Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        at += line.len() as u64;
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    Ok(at)
}

/// Returns a shortened log line (time, level, tool, message) if the plugin wrote it. The host writes the plugin's name last, so a
/// message cannot imitate it.
fn plugin_line(line: &str, plugin: &Name) -> Option<String> {
    let (line, name) = line.strip_suffix('"')?.rsplit_once(" skill=\"")?;
    if name != plugin.as_str() {
        return None;
    }
    let (head, message) = line.split_once(": plugin: ")?;
    let mut words = head.split_whitespace();
    let (time, level) = (words.next()?, words.next()?);
    let time = time.get(..19).unwrap_or(time).replace('T', " ");
    let tool = head.split_once(" tool=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("-", |(tool, _)| tool);
    let tool = tool.rsplit_once("__").map_or(tool, |(_, bare)| bare);
    Some(format!("{time} {:<5} {tool}: {}", level.to_ascii_lowercase(), text::clean_line(message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_plugin_are_short() {
        let line = |message: &str, skill: &str| {
            format!(
                "2026-11-27T04:10:57.492658Z ERROR session{{id=95f7 line=01a2}}:call{{id=01a2 tool=\"greet__hello\" asker=person}}: \
                 plugin: {message} skill=\"{skill}\""
            )
        };
        let greet: Name = "greet".parse().unwrap();
        let shown = |line: &str| plugin_line(line, &greet);
        assert_eq!(shown(&line("a: b", "greet")).as_deref(), Some("2026-11-27 04:10:57 error hello: a: b"));
        assert_eq!(shown(&line("x", "other")), None);
        assert_eq!(shown(&line("x skill=\"greet\"", "other")), None);
        assert_eq!(shown("2026-11-27T04:10:57Z INFO the host: x"), None);
    }

    #[test]
    fn unfinished_lines_are_read_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(read(&path, 0, |_| panic!("no file")).unwrap(), 0);
        std::fs::write(&path, "a\nb\nc").unwrap();
        let mut lines = Vec::new();
        assert_eq!(read(&path, 2, |line| lines.push(line.to_owned())).unwrap(), 4);
        assert_eq!(lines, ["b"]);
    }
}
