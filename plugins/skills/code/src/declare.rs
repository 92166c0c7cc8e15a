//! TypeScript declarations of tools, made from their JSON Schemas.
//!
//! Schemas, names and descriptions are not trusted: a name is quoted unless it is an identifier, a comment cannot end
//! early, and the depth, the number and the size of everything are bounded. The same tools always produce the same text.

use std::fmt::Write as _;

use patchbay_sdk::{Result, tool_index::Tool};
use serde_json::{Map, Value};

use crate::tools::OWN;

/// Bytes of one result. A model reads all of it.
const BYTES: usize = 16 << 10;
/// Bytes of one tool's types; anything beyond is `unknown`.
const TOOL: usize = 4 << 10;
/// Characters of a tool's description, and of a property's.
const DESCRIPTION: usize = 600;
const PROPERTY_DESCRIPTION: usize = 160;
/// Characters of a description that are read for each character that is shown.
const READ_PER_SHOWN: usize = 8;
const DEPTH: usize = 6;
/// Properties of an object, and members of a union.
const PROPERTIES: usize = 40;
const MEMBERS: usize = 24;
/// Names of a `required` list that are read. It is read again for each expansion of a recursive object.
const REQUIRED: usize = 256;
const LITERAL: usize = 100;
/// Bytes of a reference. Longer references are not resolved.
const REFERENCE: usize = 512;

/// Declares tools, grouped by skill in the order of their first tool. Tools that do not fit are counted.
pub(crate) fn declarations(tools: &[Tool]) -> String {
    let mut root = Group::default();
    let (mut size, mut left_out) = (0, 0);
    for tool in tools {
        let path = path(&tool.name);
        let text = declaration(tool, path.len());
        size += text.len();
        if size > BYTES && size > text.len() {
            left_out += 1;
            continue;
        }
        root.add(&path, text);
    }
    if root.0.is_empty() {
        return "// No tool matches. To list the names of all tools: await tools.find()\n".to_owned();
    }
    let mut out = "declare const tools: {\n".to_owned();
    root.write(&mut out, 1);
    out.push_str("};\n");
    if left_out > 0 {
        let _ = writeln!(out, "// {left_out} more tools match; use other words to find them.");
    }
    out
}

/// Returns the path of each tool in the order of their names, such as `calc`, `eval`. `page` returns the tools after a name.
pub(crate) fn paths(page: impl Fn(Option<&str>) -> Result<Vec<Tool>>) -> Result<Vec<Vec<String>>> {
    let (mut paths, mut last) = (Vec::new(), None::<String>);
    loop {
        let tools = page(last.as_deref())?;
        let Some(end) = tools.last() else { return Ok(paths) };
        last = Some(end.name.clone());
        let listed = tools.iter().filter(|tool| tool.name != OWN);
        paths.extend(listed.map(|tool| path(&tool.name).into_iter().map(str::to_owned).collect()));
    }
}

/// Lists the names of all tools, a line for each skill. `page` returns the tools after a name.
pub(crate) fn names(page: impl Fn(Option<&str>) -> Result<Vec<Tool>>) -> Result<String> {
    let mut out = String::new();
    let (mut group, mut last) = (None::<String>, None::<String>);
    let mut left_out = 0;
    loop {
        let tools = page(last.as_deref())?;
        let Some(end) = tools.last() else { break };
        last = Some(end.name.clone());
        for tool in tools.iter().filter(|tool| tool.name != OWN) {
            if out.len() > BYTES {
                left_out += 1;
                continue;
            }
            let path = path(&tool.name);
            let Some((name, groups)) = path.split_last() else { continue };
            let of = groups.iter().map(|part| member(part)).collect::<String>();
            if group.as_ref() != Some(&of) {
                let _ = write!(out, "{}tools{of}: ", if out.is_empty() { "" } else { "\n" });
                group = Some(of);
            } else {
                out.push_str(", ");
            }
            out.push_str(&key(name));
        }
    }
    if left_out > 0 {
        let _ = write!(out, "\n// {left_out} more tools; find them by words: await tools.find(\"words\")");
    }
    Ok(if out.is_empty() { "// There are no tools.".to_owned() } else { out })
}

/// Splits a full name into the properties of `tools` that lead to it.
fn path(name: &str) -> Vec<&str> {
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) => vec!["mcp", server, tool],
        None => name.rsplit_once("__").map_or_else(|| vec![name], |(skill, tool)| vec![skill, tool]),
    }
}

/// Tools and groups of tools, in the order of their first tool.
#[derive(Default)]
struct Group(Vec<(String, Node)>);

enum Node {
    Tool(String),
    Group(Group),
}

impl Group {
    fn add(&mut self, path: &[&str], text: String) {
        match path {
            [] => {}
            [name] => self.0.push(((*name).to_owned(), Node::Tool(text))),
            [name, rest @ ..] => {
                let at = self.0.iter().position(|(other, node)| other == name && matches!(node, Node::Group(_)));
                let at = at.unwrap_or_else(|| {
                    self.0.push(((*name).to_owned(), Node::Group(Self::default())));
                    self.0.len() - 1
                });
                if let Some((_, Node::Group(group))) = self.0.get_mut(at) {
                    group.add(rest, text);
                }
            }
        }
    }

    fn write(&self, out: &mut String, level: usize) {
        for (name, node) in &self.0 {
            match node {
                Node::Tool(text) => out.push_str(text),
                Node::Group(group) => {
                    let _ = writeln!(out, "{}{}: {{", indent(level), key(name));
                    group.write(out, level + 1);
                    let _ = writeln!(out, "{}}};", indent(level));
                }
            }
        }
    }
}

fn declaration(tool: &Tool, level: usize) -> String {
    let mut types = Types { left: TOOL };
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Bool(true));
    let input = schema(&tool.input_schema);
    let output = tool.extra.iter().find(|pair| pair.name == "output-schema").map(|pair| schema(&pair.value));
    let all_optional = input.get("required").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let name = path(&tool.name).pop().unwrap_or_default().to_owned();
    let parameter = if all_optional { "input?" } else { "input" };
    let input = types.of(&input, &input, level, 0);
    let output = output.map_or_else(|| "any".to_owned(), |output| types.of(&output, &output, level, 0));
    let mut out = String::new();
    if let Some(comment) = comment(&tool.description, DESCRIPTION) {
        let _ = writeln!(out, "{}{comment}", indent(level));
    }
    let _ = writeln!(out, "{}{}({parameter}: {input}): Promise<{output}>;", indent(level), key(&name));
    out
}

/// Writes types within a budget of bytes. Only a bounded number of entries is read from each list in a schema, because a reference can
/// expand the same list many times.
struct Types {
    left: usize,
}

impl Types {
    /// Returns the type of a schema. `root` is the whole schema, in which references are resolved.
    fn of(&mut self, schema: &Value, root: &Value, level: usize, depth: usize) -> String {
        let text =
            if depth > DEPTH || self.left == 0 { "unknown".to_owned() } else { self.any(schema, root, level, depth) };
        self.left = self.left.saturating_sub(text.len().min(64));
        text
    }

    fn any(&mut self, schema: &Value, root: &Value, level: usize, depth: usize) -> String {
        let Value::Object(keywords) = schema else {
            return if *schema == Value::Bool(false) { "never" } else { "unknown" }.to_owned();
        };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').filter(|pointer| pointer.len() <= REFERENCE);
            let target = pointer.and_then(|pointer| root.pointer(pointer));
            return target.map_or_else(|| "unknown".to_owned(), |target| self.of(target, root, level, depth + 1));
        }
        if let Some(value) = keywords.get("const") {
            return literal(value);
        }
        if let Some(values) = keywords.get("enum").and_then(Value::as_array) {
            return self.literals(values);
        }
        for word in ["anyOf", "oneOf", "allOf"] {
            let Some(members) = keywords.get(word).and_then(Value::as_array) else { continue };
            let read = members.iter().take(MEMBERS + 1);
            let mut types: Vec<String> = read.map(|member| self.of(member, root, level, depth + 1)).collect();
            let unread = members.len() - types.len();
            if word != "allOf" {
                return union(types, unread);
            }
            if keywords.contains_key("properties") {
                types.push(self.object(keywords, root, level, depth));
            }
            return intersection(types, unread);
        }
        match keywords.get("type") {
            Some(Value::String(name)) => self.named(name, keywords, root, level, depth),
            Some(Value::Array(names)) => {
                // Each name is read only once, because 'object' expands all properties.
                let mut read = Vec::<&str>::new();
                for name in names.iter().take(MEMBERS + 1).filter_map(Value::as_str) {
                    if !read.contains(&name) {
                        read.push(name);
                    }
                }
                let types = read.into_iter().map(|name| self.named(name, keywords, root, level, depth)).collect();
                union(types, names.len().saturating_sub(MEMBERS + 1))
            }
            _ if keywords.contains_key("properties") => self.object(keywords, root, level, depth),
            _ => "unknown".to_owned(),
        }
    }

    /// Returns the type of an `enum`.
    fn literals(&mut self, values: &[Value]) -> String {
        let mut types = Vec::new();
        for value in values.iter().take(MEMBERS + 1) {
            if self.left == 0 {
                break;
            }
            let text = literal(value);
            self.left = self.left.saturating_sub(text.len());
            types.push(text);
        }
        let unread = values.len() - types.len();
        union(types, unread)
    }

    fn named(&mut self, name: &str, keywords: &Map<String, Value>, root: &Value, level: usize, depth: usize) -> String {
        match name {
            "string" | "boolean" | "null" => name.to_owned(),
            "number" | "integer" => "number".to_owned(),
            "array" => self.array(keywords, root, level, depth),
            "object" => self.object(keywords, root, level, depth),
            _ => "unknown".to_owned(),
        }
    }

    fn array(&mut self, keywords: &Map<String, Value>, root: &Value, level: usize, depth: usize) -> String {
        if let Some(items) = keywords.get("prefixItems").and_then(Value::as_array) {
            let read = items.iter().take(MEMBERS);
            let mut types: Vec<_> = read.map(|item| self.of(item, root, level, depth + 1)).collect();
            if items.len() > MEMBERS {
                types.push("...unknown[]".to_owned());
            }
            return format!("[{}]", types.join(", "));
        }
        match keywords.get("items") {
            Some(items) => format!("Array<{}>", self.of(items, root, level, depth + 1)),
            None => "unknown[]".to_owned(),
        }
    }

    fn object(&mut self, keywords: &Map<String, Value>, root: &Value, level: usize, depth: usize) -> String {
        let required: Vec<&str> = match keywords.get("required") {
            Some(Value::Array(names)) => names.iter().take(REQUIRED).filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let properties = keywords.get("properties").and_then(Value::as_object);
        let mut out = String::new();
        let inner = indent(level + 1);
        for (index, (name, schema)) in properties.into_iter().flatten().enumerate() {
            if index == PROPERTIES || self.left == 0 {
                let more = properties.map_or(0, |properties| properties.len() - index);
                let _ = writeln!(out, "{inner}// {more} more properties");
                break;
            }
            let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            if let Some(comment) = comment(description, PROPERTY_DESCRIPTION) {
                self.left = self.left.saturating_sub(comment.len());
                let _ = writeln!(out, "{inner}{comment}");
            }
            let optional = if required.contains(&name.as_str()) { "" } else { "?" };
            let name = key(name);
            self.left = self.left.saturating_sub(name.len() + inner.len());
            let _ = writeln!(out, "{inner}{name}{optional}: {};", self.of(schema, root, level + 1, depth + 1));
        }
        match keywords.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => {
                let _ = writeln!(out, "{inner}[name: string]: {};", self.of(schema, root, level + 1, depth + 1));
            }
            Some(Value::Bool(false)) if out.is_empty() => return "{}".to_owned(),
            _ if out.is_empty() => return "Record<string, unknown>".to_owned(),
            _ => {}
        }
        format!("{{\n{out}{}}}", indent(level))
    }
}

fn indent(level: usize) -> String {
    "  ".repeat(level)
}

/// Joins the members of a union, each once. `unread` is the number of further members, which were not read.
fn union(types: Vec<String>, unread: usize) -> String {
    let mut members = Vec::<String>::new();
    for member in types {
        if !members.contains(&member) {
            members.push(member);
        }
    }
    let more = unread + members.len().saturating_sub(MEMBERS);
    members.truncate(MEMBERS);
    let mut members = parenthesised(members);
    if more > 0 {
        members.push(format!("unknown /* {more} more */"));
    }
    if members.is_empty() { "never".to_owned() } else { members.join(" | ") }
}

/// Joins the members of an intersection. `unread` is the number of further members, which were not read.
fn intersection(types: Vec<String>, unread: usize) -> String {
    let mut members = parenthesised(types);
    if unread > 0 {
        members.push(format!("unknown /* {unread} more */"));
    }
    if members.is_empty() { "unknown".to_owned() } else { members.join(" & ") }
}

fn parenthesised(types: Vec<String>) -> Vec<String> {
    let is_compound = |member: &str| !member.starts_with('{') && !member.starts_with('"') && member.contains(" | ");
    types.into_iter().map(|member| if is_compound(&member) { format!("({member})") } else { member }).collect()
}

/// Returns the literal type of a value; the type of the value if it is long.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() <= LITERAL => quoted(text),
        Value::String(_) => "string".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) => "unknown[]".to_owned(),
        Value::Object(_) => "Record<string, unknown>".to_owned(),
    }
}

/// Returns a string literal. JSON escapes all characters that could end a line, except for two.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Returns a name as the key of a property: unchanged if it is an identifier, otherwise quoted.
fn key(name: &str) -> String {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
    let is_word = || name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    if name.len() <= LITERAL && is_word() {
        name.to_owned()
    } else {
        quoted(&name.chars().take(LITERAL).collect::<String>())
    }
}

/// Returns the code that accesses a property.
fn member(name: &str) -> String {
    let key = key(name);
    if key.starts_with('"') { format!("[{key}]") } else { format!(".{key}") }
}

/// Returns a comment of one line, of at most `most` characters; `None` for an empty text.
fn comment(text: &str, most: usize) -> Option<String> {
    // White space is collapsed, so more characters may be read than are shown.
    let end = text.char_indices().nth(READ_PER_SHOWN * most).map_or(text.len(), |(end, _)| end);
    let (read, unread) = text.split_at(end);
    let words: Vec<&str> =
        read.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    let mut shown: String = line.chars().take(most).collect();
    if shown.len() < line.len() || !unread.is_empty() {
        shown.push('…');
    }
    // The text must not end the comment.
    let shown = shown.replace("*/", "*\\/");
    (!shown.is_empty()).then(|| format!("/** {shown} */"))
}

#[cfg(test)]
mod tests;
