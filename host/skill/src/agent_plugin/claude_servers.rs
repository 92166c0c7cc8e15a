//! Reads MCP servers in Claude Code's format, from `.mcp.json` and the manifest. Each entry is rewritten into an entry of
//! `mcp.json`, and then checked by the same rules. Nothing is started, resolved or expanded here.

use std::collections::BTreeMap;

use cap_std::fs::Dir;
use patchbay_core::{Code, text};
use serde_json::{Map, Value};

use super::{
    claude::{CLAUDE_MANIFEST, place},
    json::{self, Fields, MANIFEST_BYTES, kind, reason},
    manifest::SpecVersion,
    servers::{PackageServer, SERVERS, ServerForm, ServerRefusal, ServerTransport, ServerVariables, server, transport},
    unused::NAMED,
};
use crate::{Problem, files};

/// The file that is read even if the manifest does not name it.
const FILE: &str = ".mcp.json";
/// The longest expression between `${` and `}`, in bytes. An unlimited search for the `}` would take time quadratic in the text's
/// length.
const EXPRESSION_BYTES: usize = 1_000;
/// Maximum number of variables of a server.
const VARIABLES: usize = 64;

/// Reads the servers in `.mcp.json` and in `declared`, the manifest's field: a path, a table of servers, or an array of these. A
/// later server replaces an earlier server of the same name. Returns them sorted by name, and a problem for everything that is left
/// out.
pub(super) fn read_servers(opened: &Dir, declared: Option<Value>) -> (Vec<PackageServer>, Vec<Problem>) {
    let mut declared = match declared {
        Some(Value::Array(values)) => values,
        other => other.into_iter().collect(),
    };
    let (mut entries, mut servers, mut problems) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut add = |place: &str, read: Result<BTreeMap<String, Value>, String>| {
        let place = text::excerpt(place, 80);
        match read {
            Ok(more) => entries.extend(more.into_iter().map(|(name, entry)| (name, (place.clone(), entry)))),
            Err(why) => {
                let message = format!("{place}: {why}. None of its servers are loaded.");
                problems.push(Problem::new(Code::PackageServersInvalid, message));
            }
        }
    };
    add(FILE, file(opened, FILE).map(Option::unwrap_or_default));
    if declared.len() > SERVERS {
        add(CLAUDE_MANIFEST, Err(format!("'mcpServers' has {} entries; the limit is {SERVERS}", declared.len())));
        declared.clear();
    }
    for value in declared {
        match value {
            Value::Object(table) => add(CLAUDE_MANIFEST, Ok(table.into_iter().collect())),
            Value::String(path) => add(&path, declared_file(opened, &path)),
            other => {
                let why = format!("'mcpServers': expected a path or an object, found {}", kind(&other));
                add(CLAUDE_MANIFEST, Err(why));
            }
        }
    }
    if entries.len() > SERVERS {
        let message = format!("{} servers; the limit is {SERVERS}. None of them are loaded.", entries.len());
        problems.push(Problem::new(Code::PackageServersInvalid, message));
        entries.clear();
    }
    for (name, (place, entry)) in entries {
        let mut left = Vec::new();
        match server(&place, ServerForm::Claude, &name, entry, |entry| rewritten(entry, &mut left)) {
            Ok(server) => servers.push(server),
            Err(problem) => problems.push(problem),
        }
        let name = text::excerpt(&name, 80);
        let unused = left.iter().take(NAMED).map(|field| format!("{place}: '{field}' of server '{name}' is not used."));
        problems.extend(unused.map(|message| Problem::new(Code::PackagePartUnused, message)));
    }
    (servers, problems)
}

fn declared_file(opened: &Dir, path: &str) -> Result<BTreeMap<String, Value>, String> {
    if !path.ends_with(".json") {
        return Err("only .json files are read".to_owned());
    }
    file(opened, &place(path)?)?.ok_or_else(|| "the file does not exist".to_owned())
}

/// Reads a file with servers by name, directly or in `mcpServers`; `None` if it does not exist.
fn file(opened: &Dir, path: &str) -> Result<Option<BTreeMap<String, Value>>, String> {
    let read = files::read(opened, path, MANIFEST_BYTES);
    let Some(bytes) = read.map_err(|error| format!("cannot be read: {}", reason(&error)))? else { return Ok(None) };
    let mut fields = json::object(&bytes)?;
    let entries = match fields.take("mcpServers") {
        None => fields,
        Some(entries) => Fields::of(entries).map_err(|error| format!("'mcpServers': {error}"))?,
    };
    Ok(Some(entries.sorted()))
}

/// Rewrites an entry into an entry of `mcp.json`, and reads it. `left` receives the fields that are not used.
fn rewritten(entry: Value, left: &mut Vec<String>) -> Result<(ServerTransport, ServerVariables), ServerRefusal> {
    let mut fields = Fields::of(entry)?;
    let kind = fields.string("type")?.unwrap_or_else(|| "stdio".to_owned());
    let (kind, used): (_, &[&str]) = match &*kind {
        "stdio" => ("stdio", &["command", "args", "env", "cwd"]),
        "http" | "streamable-http" => ("streamable-http", &["url", "headers"]),
        "sse" | "ws" => {
            let why = format!("Patchbay does not support the transport '{kind}', only 'stdio' and 'http'");
            return Err(ServerRefusal::Unsupported(why));
        }
        other => return Err(ServerRefusal::Invalid(format!("unknown type '{}'", text::excerpt(other, 80)))),
    };
    let mut variables = ServerVariables::new();
    let mut entry = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    for key in used {
        if let Some(value) = fields.take(key) {
            // The user approves a fixed address and program, and paths are checked here, before anything is expanded.
            let fixed = matches!(*key, "url" | "command" | "cwd").then_some(*key);
            let value = replaced(value, fixed, &mut variables)?;
            entry.insert((*key).to_owned(), value);
        }
    }
    *left = fields.left();
    if let Some(Value::String(command)) = entry.get_mut("command")
        && let Some(below) = command.strip_prefix("${PLUGIN_ROOT}/")
    {
        *command = format!("./{below}");
    }
    if kind == "stdio" {
        let env = entry.entry("env").or_insert_with(|| Map::new().into());
        for name in ["PLUGIN_ROOT", "PLUGIN_DATA"] {
            if let Value::Object(env) = env {
                env.entry(format!("CLAUDE_{name}")).or_insert_with(|| format!("${{{name}}}").into());
            }
        }
    }
    Ok((transport(entry.into(), SpecVersion::V1_0)?, variables))
}

/// Replaces the placeholders in all strings of a value.
fn replaced(value: Value, fixed: Option<&str>, variables: &mut ServerVariables) -> Result<Value, ServerRefusal> {
    Ok(match value {
        Value::String(text) => placeholders(&text, fixed, variables)?.into(),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| replaced(value, fixed, variables));
            values.collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| Ok((key, replaced(value, fixed, variables)?)));
            fields.collect::<Result<Map<_, _>, ServerRefusal>>()?.into()
        }
        other => other,
    })
}

/// Replaces the names of Claude Code's folders with ours, and collects all other variables with their defaults. In a `fixed` field,
/// a variable is replaced with its default.
fn placeholders(text: &str, fixed: Option<&str>, variables: &mut ServerVariables) -> Result<String, ServerRefusal> {
    let (mut written, mut rest) = (String::new(), text);
    while let Some((before, inner)) = rest.split_once("${") {
        written.push_str(before);
        let Some(end) = inner.bytes().take(EXPRESSION_BYTES).position(|byte| byte == b'}') else {
            written.push_str("${");
            rest = inner;
            continue;
        };
        let (expression, after) = (&inner[..end], &inner[end + 1..]);
        let (name, default) = match expression.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (expression, None),
        };
        rest = after;
        match name {
            "CLAUDE_PLUGIN_ROOT" | "PLUGIN_ROOT" => written.push_str("${PLUGIN_ROOT}"),
            "CLAUDE_PLUGIN_DATA" | "PLUGIN_DATA" => written.push_str("${PLUGIN_DATA}"),
            _ if name.starts_with("user_config.") => {
                let name = text::excerpt(name, 80);
                return Err(ServerRefusal::Unsupported(format!(
                    "it needs '{name}', which only Claude Code asks its user for"
                )));
            }
            _ if !is_variable(name) => {
                written.push_str("${");
                rest = inner;
            }
            _ => match fixed {
                Some(field) => written.push_str(default.ok_or_else(|| {
                    ServerRefusal::Invalid(format!("its {field} depends on the variable '{}'", text::excerpt(name, 80)))
                })?),
                None => {
                    if variables.len() == VARIABLES && !variables.contains_key(name) {
                        return Err(ServerRefusal::Invalid(format!("it has more than {VARIABLES} variables")));
                    }
                    variables.entry(name.to_owned()).or_insert_with(|| default.map(str::to_owned));
                    written.push_str(&format!("${{{name}}}"));
                }
            },
        }
    }
    Ok(written + rest)
}

/// Returns whether `name` can be the name of a variable.
fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
