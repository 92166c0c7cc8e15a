//! Parses the output of `exec --json`: one [`Answer`] per line, with the events before it. Use `Patchbay::answers` for a single
//! run, and [`Live`] if the test changes something between two lines.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::binary::Patchbay;

/// The result of running one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `{line, status, code, message, data}`.
    pub outcome: Value,
    /// The events since the previous line, in order.
    pub events: Vec<Value>,
    /// The events after the last line, until all agents were idle.
    pub after: Vec<Value>,
}

impl Answer {
    /// The stable code of the outcome, such as `tool_result`.
    pub fn code(&self) -> &str {
        self.outcome["code"].as_str().unwrap_or_default()
    }

    /// The message for the user.
    pub fn message(&self) -> &str {
        self.outcome["message"].as_str().unwrap_or_default()
    }

    /// The data for programs; null if the outcome has none.
    pub fn data(&self) -> &Value {
        &self.outcome["data"]
    }

    /// The stored messages among the events: the kind and the text of each.
    pub fn rows(&self) -> Vec<(&str, &str)> {
        let rows = self.events.iter().filter(|event| event["event"] == "message");
        rows.map(|row| (row["kind"].as_str().unwrap_or_default(), row["content"].as_str().unwrap_or_default()))
            .collect()
    }
}

/// Parses every line as a JSON object.
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| match serde_json::from_str(line) {
            Ok(object @ Value::Object(_)) => object,
            other => panic!("no JSON object: {line}: {other:?}"),
        })
        .collect()
}

impl Patchbay {
    /// Runs `lines` in a new session, all of them even if one fails, and returns their results.
    pub fn answers(&self, lines: &[&str]) -> Vec<Answer> {
        self.answers_in(&[], lines)
    }

    /// Like [`Patchbay::answers`], with additional options, such as `--session ID`.
    pub fn answers_in(&self, options: &[&str], lines: &[&str]) -> Vec<Answer> {
        let ran = self.run(&[&["exec", "--json", "--keep-going"], options, lines].concat());
        let mut objects = json_lines(&ran.out).into_iter();
        assert!(objects.next().is_some_and(|first| first["session"].is_string()), "{ran:?}");
        let (mut answers, mut events, mut idle) = (Vec::new(), Vec::new(), false);
        for object in objects {
            assert!(!idle, "an object after the end: {object}");
            if is_idle(&object) {
                idle = true;
            } else if object.get("line").is_some() {
                answers.push(Answer { outcome: object, events: std::mem::take(&mut events), after: Vec::new() });
            } else {
                events.push(object);
            }
        }
        assert!(idle, "the agents did not become idle: {ran:?}");
        if let Some(last) = answers.last_mut() {
            last.after = events;
        }
        answers
    }

    /// Starts an `exec` process that reads one line at a time, which lets a test change files between lines. Its standard error is
    /// the standard error of the test.
    pub fn live(&self, options: &[&str]) -> Live {
        let mut command = self.command(&[&["exec", "--json", "--keep-going"], options].concat());
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the binary starts");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let first = next(&mut output).expect("a session");
        let session = first["session"].as_str().expect("a session's id").to_owned();
        Live { child, input, output, session }
    }
}

/// A running `exec` process that waits for its next line. It is killed on drop.
pub struct Live {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    session: String,
}

impl Live {
    /// Returns the id of the process's session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one line and waits for its result.
    pub fn answer(&mut self, line: &str) -> Answer {
        writeln!(self.input.as_mut().expect("standard input"), "{line}").expect("it takes lines");
        let mut events = Vec::new();
        loop {
            let object = next(&mut self.output).expect("an answer");
            if object.get("line").is_some() {
                return Answer { outcome: object, events, after: Vec::new() };
            }
            events.push(object);
        }
    }

    /// Sends one line without waiting for its result.
    pub fn start(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("standard input"), "{line}").expect("it takes lines");
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("it ends");
    }

    /// Sends one line and returns the message of its result.
    pub fn message(&mut self, line: &str) -> String {
        self.answer(line).message().to_owned()
    }

    /// Closes the input of the process, waits for it to exit and returns its exit code; `None` if a signal ended it.
    pub fn wait_for_exit(mut self) -> Option<i32> {
        self.input = None;
        assert!(next(&mut self.output).is_none_or(|last| is_idle(&last)), "a line after the last one");
        assert_eq!(next(&mut self.output), None);
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Fails if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this is the last object of a run.
fn is_idle(object: &Value) -> bool {
    object["event"] == "idle"
}

fn next(output: &mut Lines<BufReader<ChildStdout>>) -> Option<Value> {
    let line = output.next()?.expect("standard output can be read");
    json_lines(&line).into_iter().next()
}
