//! What `exec --json` prints, read: an answer for each line, with the events that came before it.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::binary::Patchbay;

/// What one line came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `{line, status, code, message, data}`.
    pub outcome: Value,
    /// What happened before that, in order.
    pub events: Vec<Value>,
}

impl Answer {
    /// The stable code.
    pub fn code(&self) -> &str {
        self.outcome["code"].as_str().unwrap_or_default()
    }

    /// What a person reads.
    pub fn message(&self) -> &str {
        self.outcome["message"].as_str().unwrap_or_default()
    }

    /// What a program reads; null where there is nothing.
    pub fn data(&self) -> &Value {
        &self.outcome["data"]
    }

    /// The stored rows among the events: the kind and the text of each.
    pub fn rows(&self) -> Vec<(&str, &str)> {
        let rows = self.events.iter().filter(|event| event["event"] == "message");
        rows.map(|row| (row["kind"].as_str().unwrap_or_default(), row["content"].as_str().unwrap_or_default()))
            .collect()
    }
}

/// Every line as a JSON object.
///
/// # Panics
/// Where a line is none.
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| match serde_json::from_str(line) {
            Ok(object @ Value::Object(_)) => object,
            other => panic!("no JSON object: {line}: {other:?}"),
        })
        .collect()
}

impl Patchbay {
    /// What each of `lines` comes to in a new session; later ones run whatever becomes of earlier ones.
    ///
    /// # Panics
    /// Where the output is not of the form that is documented.
    pub fn answers(&self, lines: &[&str]) -> Vec<Answer> {
        self.answers_in(&[], lines)
    }

    /// The same with further options, such as `--session ID`.
    ///
    /// # Panics
    /// Where the output is not of the form that is documented.
    pub fn answers_in(&self, options: &[&str], lines: &[&str]) -> Vec<Answer> {
        let ran = self.run(&[&["exec", "--json", "--keep-going"], options, lines].concat());
        let mut objects = json_lines(&ran.out).into_iter();
        assert!(objects.next().is_some_and(|first| first["session"].is_string()), "{ran:?}");
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        for object in objects {
            if object.get("line").is_some() {
                answers.push(Answer { outcome: object, events: std::mem::take(&mut events) });
            } else {
                events.push(object);
            }
        }
        assert_eq!(events, [] as [Value; 0], "events after the last line");
        answers
    }

    /// A process that takes lines one after the other, so that the world may change between them.
    ///
    /// # Panics
    /// Where it cannot be started; its own words are then on standard error.
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

/// A process that waits for its next line. It is ended when this goes.
pub struct Live {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    session: String,
}

impl Live {
    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives it one line and waits for what that comes to.
    ///
    /// # Panics
    /// Where it ends before it answers.
    pub fn answer(&mut self, line: &str) -> Answer {
        writeln!(self.input.as_mut().expect("standard input"), "{line}").expect("it takes lines");
        let mut events = Vec::new();
        loop {
            let object = next(&mut self.output).expect("an answer");
            if object.get("line").is_some() {
                return Answer { outcome: object, events };
            }
            events.push(object);
        }
    }

    /// Gives it one line and waits for nothing.
    ///
    /// # Panics
    /// Where it takes no lines.
    pub fn start(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("standard input"), "{line}").expect("it takes lines");
    }

    /// Kills it with SIGKILL.
    ///
    /// # Panics
    /// Where it cannot be waited for.
    pub fn kill(mut self) {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("it ends");
    }

    /// The message of the answer.
    ///
    /// # Panics
    /// Where it ends before it answers.
    pub fn message(&mut self, line: &str) -> String {
        self.answer(line).message().to_owned()
    }

    /// Closes its input and waits for its end: the exit code.
    ///
    /// # Panics
    /// Where it prints something more, or cannot be waited for.
    pub fn wait_for_exit(mut self) -> Option<i32> {
        self.input = None;
        assert_eq!(next(&mut self.output), None);
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next(output: &mut Lines<BufReader<ChildStdout>>) -> Option<Value> {
    let line = output.next()?.expect("standard output can be read");
    json_lines(&line).into_iter().next()
}
