//! Messages for exceptions: the error, with line and column in the program, and a hint for correcting it.

use patchbay_sdk::Failure;
use rquickjs::{Ctx, Error, Function, Value};

use crate::{bounded::excerpt, declare, host::Host, tools::OWN};

/// The name of a program in messages.
pub(crate) const FILE: &str = "code.js";
/// Inserted before a program that has `return` at its top level, on the same line as the program's line 1.
pub(crate) const BEFORE: &str = "(async () => {";
pub(crate) const AFTER: &str = "\n})()";

/// Bytes of a message, and lines of a stack.
pub(crate) const MESSAGE: usize = 4 << 10;
const FRAMES: usize = 5;

/// An exception that the program did not catch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Thrown {
    pub(crate) text: String,
    /// The calls that led to it, one per line.
    pub(crate) stack: String,
    /// The kind of the failure, for a failed call of a tool.
    pub(crate) kind: String,
    /// The full name of the tool, for a failed call.
    pub(crate) tool: String,
    /// A description of how the other calls ended.
    pub(crate) note: String,
}

impl Thrown {
    /// Describes an exception with the prelude's `explain`.
    pub(crate) fn of<'js>(ctx: &Ctx<'js>, explain: &Function<'js>, exception: Value<'js>) -> Self {
        match explain.call::<_, Vec<String>>((exception,)) {
            Ok(parts) => match <[String; 4]>::try_from(parts) {
                Ok([text, stack, kind, tool]) => Self { text, stack, kind, tool, ..Self::default() },
                Err(_) => Self::default(),
            },
            // Not enough memory is left to describe the error.
            Err(_) => {
                ctx.catch();
                Self { text: "InternalError: out of memory".to_owned(), ..Self::default() }
            }
        }
    }

    /// Describes an error of the interpreter, such as a failed allocation.
    pub(crate) fn of_engine<'js>(ctx: &Ctx<'js>, explain: &Function<'js>, error: Error) -> Self {
        match error {
            Error::Exception => Self::of(ctx, explain, ctx.catch()),
            other => Self { text: other.to_string(), ..Self::default() },
        }
    }

    /// Returns true for a `return` outside a function.
    pub(crate) fn is_return_at_top_level(&self) -> bool {
        self.text.starts_with("SyntaxError: return not in a function")
    }

    /// Returns the failure to show. `is_wrapped`: the program was wrapped in [`BEFORE`] and [`AFTER`].
    pub(crate) fn into_failure(self, is_wrapped: bool, host: &dyn Host) -> Failure {
        let mut message = excerpt(&self.text, MESSAGE);
        for frame in self.stack.lines().filter_map(|line| own_frame(line, is_wrapped)).take(FRAMES) {
            message.push_str("\n    at ");
            message.push_str(&frame);
        }
        let note = Some(self.note.clone()).filter(|note| !note.is_empty());
        for part in note.into_iter().chain(self.help(host)) {
            message.push('\n');
            message.push_str(&part);
        }
        let kind = match (&*self.kind, &*self.text) {
            ("", text) if text.starts_with("SyntaxError") => "syntax-error",
            ("", _) => "exception",
            (kind, _) => kind,
        };
        Failure::new(kind, message)
    }

    /// Returns a hint for correcting a call: the declaration of the tool, or tools with similar names.
    fn help(&self, host: &dyn Host) -> Option<String> {
        if self.tool == OWN {
            return None;
        }
        match &*self.kind {
            "invalid" => {
                let tool = host.find(&self.tool, 1).ok()?.into_iter().next().filter(|tool| tool.name == self.tool)?;
                Some(declare::declarations(&[tool]))
            }
            "not-found" => {
                let query = self.tool.replace("__", " ");
                let similar = host.find(&query, 5).ok()?.into_iter().map(|tool| tool.name).filter(|name| name != OWN);
                let similar: Vec<_> = similar.collect();
                let similar =
                    (!similar.is_empty()).then(|| format!("Tools with similar names: {}.", similar.join(", ")));
                Some(similar.unwrap_or_else(|| "To list all tools: await tools.find()".to_owned()))
            }
            _ => None,
        }
    }
}

/// Returns a line of a stack without its `at`, if its position is in the program. In line 1 of a wrapped program, the
/// wrapper's columns are subtracted. The outermost frame, which is the wrapper's own, is left out.
fn own_frame(line: &str, is_wrapped: bool) -> Option<String> {
    let line = line.trim().strip_prefix("at ").unwrap_or(line.trim());
    let (function, place) = line.split_once(FILE)?;
    let mut numbers = place.strip_prefix(':')?.trim_end_matches(')').split(':');
    let row: u32 = numbers.next()?.parse().ok()?;
    let column: u32 = numbers.next().unwrap_or("1").parse().ok()?;
    let column = if is_wrapped && row == 1 { column.saturating_sub(BEFORE.len() as u32).max(1) } else { column };
    let function = excerpt(function.trim_end_matches('('), 80);
    let function = function.trim();
    if is_wrapped && function == "<eval>" {
        return None;
    }
    Some(match function {
        "" | "<eval>" | "<anonymous>" => format!("{FILE}:{row}:{column}"),
        function => format!("{FILE}:{row}:{column} ({function})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_program_are_kept_with_their_columns() {
        assert_eq!(own_frame("    at f (code.js:3:9)", false).unwrap(), "code.js:3:9 (f)");
        assert_eq!(own_frame("    at <eval> (code.js:1:6)", false).unwrap(), "code.js:1:6");
        assert_eq!(own_frame("    at <anonymous> (code.js:1:20)", true).unwrap(), "code.js:1:6");
        assert_eq!(own_frame("    at <anonymous> (code.js:1:3)", true).unwrap(), "code.js:1:1");
        assert_eq!(own_frame("    at <eval> (code.js:2:1)", true), None);
        assert_eq!(own_frame("    at code.js:2:5", true).unwrap(), "code.js:2:5");
        assert_eq!(own_frame("    at pending (prelude.js:3:9)", false), None);
        assert_eq!(own_frame("    at map (native)", false), None);
    }
}
