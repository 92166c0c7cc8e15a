//! Replaces variables such as `$parent` in the texts and inputs of commands. Called by `script`.

use std::cell::{Cell, OnceCell};

use patchbay_provider_sdk::{Piece, ToolResult};
use serde_json::Value;

use crate::{mail, own::Own};

/// The value of a variable that is unknown.
const NONE: &str = "none";
/// Maximum number of bytes of all values in one answer. Further values are `none`.
const MAX_BYTES: usize = 8 << 20;
/// The longest result that is read, in bytes. A full inbox and the longest mail are shorter.
const MAX_RESULT_BYTES: usize = 1 << 20;

/// Where a value is inserted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Text,
    /// The JSON input of a call: within quotes, or as a number.
    Json,
}

/// The variables of one answer. Results are read when the first variable needs them.
pub(crate) struct Variables<'a> {
    own: &'a Own<'a>,
    children: OnceCell<Vec<String>>,
    mails: OnceCell<Vec<Mail>>,
    messages: OnceCell<Vec<String>>,
    /// Bytes that values may still take.
    left: Cell<usize>,
}

/// A mail in the last listing of the inbox.
struct Mail {
    number: Option<String>,
    from: Option<String>,
}

/// A variable. Indexes begin at 0, unlike in the names.
enum Variable {
    Agent,
    Parent,
    Child(usize),
    Number(usize),
    From(usize),
    Message(usize),
    /// An indexed variable that cannot exist, such as `$child0`.
    Missing,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(own: &'a Own<'a>) -> Self {
        Self {
            own,
            children: OnceCell::new(),
            mails: OnceCell::new(),
            messages: OnceCell::new(),
            left: Cell::new(MAX_BYTES),
        }
    }

    /// Returns `text` with values for variables and `$` for `$$`. Any other `$` stays.
    pub(crate) fn fill(&self, text: &str, target: Target) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
            rest = if let Some(variable) = variable(&after[..end]) {
                filled.push_str(&self.value(&variable, target));
                &after[end..]
            } else {
                filled.push('$');
                after.strip_prefix('$').unwrap_or(after)
            };
        }
        filled + rest
    }

    fn value(&self, variable: &Variable, target: Target) -> String {
        let identity = self.own.identity.as_ref();
        let value = match *variable {
            Variable::Agent => identity.map(|identity| identity.agent),
            Variable::Parent => identity.and_then(|identity| identity.parent),
            Variable::Child(index) => self.children().get(index).map(String::as_str),
            Variable::Number(index) => self.mails().get(index).and_then(|mail| mail.number.as_deref()),
            Variable::From(index) => self.mails().get(index).and_then(|mail| mail.from.as_deref()),
            Variable::Message(index) => self.messages().get(index).map(String::as_str),
            Variable::Missing => None,
        };
        value.and_then(|value| self.take(value, target)).unwrap_or_else(|| NONE.to_owned())
    }

    /// Returns `value` as it is inserted, or `None` if the values of this answer are too long.
    fn take(&self, value: &str, target: Target) -> Option<String> {
        // An escaped value is not shorter; a value that does not fit ends the insertion of values.
        let left = self.left.replace(0);
        let value = (value.len() <= left).then(|| match target {
            Target::Text => value.to_owned(),
            Target::Json => escaped(value),
        })?;
        self.left.set(left.checked_sub(value.len())?);
        Some(value)
    }

    fn children(&self) -> &[String] {
        self.children.get_or_init(|| {
            let results = self.own.results().filter(|result| result.name == "fork").filter_map(success);
            results.filter_map(|result| string(&result["child_uuid"])).collect()
        })
    }

    fn mails(&self) -> &[Mail] {
        self.mails.get_or_init(|| {
            let listings = self.own.results().filter(|result| ["mail_check", "mail_filter"].contains(&&*result.name));
            let last = listings.rev().filter_map(success).find_map(|result| result["messages"].as_array().cloned());
            let mail = |mail: Value| Mail { number: number(&mail["number"]), from: string(&mail["from"]) };
            last.unwrap_or_default().into_iter().map(mail).collect()
        })
    }

    fn messages(&self) -> &[String] {
        self.messages.get_or_init(|| {
            let results = self.own.current_results_from_last().filter(|result| result.name == "mail_read");
            let mut messages: Vec<_> =
                results.filter_map(success).filter_map(|result| string(&result["message"])).collect();
            messages.reverse();
            if messages.is_empty() {
                messages = mail::messages(self.own);
            }
            messages
        })
    }
}

fn variable(name: &str) -> Option<Variable> {
    let (word, digits) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    let kind = match (word, digits) {
        ("self", "") => return Some(Variable::Agent),
        ("parent", "") => return Some(Variable::Parent),
        (_, "") => return None,
        ("child", _) => Variable::Child,
        ("mail", _) => Variable::Number,
        ("from", _) => Variable::From,
        ("message", _) => Variable::Message,
        _ => return None,
    };
    let index = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    Some(index.map_or(Variable::Missing, kind))
}

/// Returns the result in the envelope of a successful call.
fn success(result: &ToolResult) -> Option<Value> {
    let [Piece::Text(text)] = result.content.as_slice() else { return None };
    if result.is_error || text.len() > MAX_RESULT_BYTES {
        return None;
    }
    let mut envelope: Value = serde_json::from_str(text).ok()?;
    (envelope["tool_success"] == true).then(|| envelope["result"].take())
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number(value: &Value) -> Option<String> {
    value.as_u64().map(|number| number.to_string())
}

/// Returns `text` as it is written within the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
