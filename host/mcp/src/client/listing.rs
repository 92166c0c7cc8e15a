//! Reads the tools that a server declares, page by page, with limits for each tool and for all of them. A tool that cannot be used
//! is left out and reported; the others stay usable.

use patchbay_core::text;
use rmcp::{
    RoleClient,
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams},
    service::Peer,
};
use serde::Deserialize;
use serde_json::Value;

use super::request::{ServerRequestError, request};

/// Limit of tools per server, already more than a model can choose from.
const TOOLS: usize = 256;
/// Limit of pages per list. It also stops a server that repeats a cursor.
const PAGES: usize = 64;
/// Size limit of all declarations of a server together, in bytes.
const LIST_BYTES: usize = 4 << 20;
/// Length limit of a tool's name, in bytes.
const NAME_BYTES: usize = 256;
/// Limit of reported problems.
const PROBLEMS: usize = 32;

/// The tools that a server has listed.
#[derive(Debug, Default)]
pub struct ToolList {
    /// The usable tools, in the order of the server.
    pub tools: Vec<ListedTool>,
    /// Sentences about the tools that were left out.
    pub problems: Vec<String>,
}

/// A tool as a server declares it, not yet checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTool {
    /// The name that the server uses for the tool.
    pub name: String,
    /// The server's description of the tool.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// Whether the server claims that the tool has no effects.
    pub only_reads: bool,
    /// Whether the server claims that the tool can delete or overwrite something.
    pub is_destructive: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Value>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolParts {
    name: String,
    #[serde(default)]
    description: Option<String>,
    input_schema: Value,
    #[serde(default)]
    annotations: Option<AnnotationParts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnnotationParts {
    #[serde(default)]
    read_only_hint: Option<bool>,
    #[serde(default)]
    destructive_hint: Option<bool>,
}

pub(super) async fn list(peer: &Peer<RoleClient>) -> Result<ToolList, ServerRequestError> {
    let mut list = ListReader::default();
    let mut cursor = None;
    for _ in 0..PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let wanted = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page: Page = serde_json::from_value(request(peer, wanted).await?)
            .map_err(|error| ServerRequestError::Answer(format!("its list of tools is invalid: {error}")))?;
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if !list.add(page.tools) || cursor.is_none() {
            return Ok(list.read);
        }
    }
    list.problem(format!("The list has more than {PAGES} pages; the rest is left out."));
    Ok(list.read)
}

#[derive(Default)]
struct ListReader {
    read: ToolList,
    bytes: usize,
}

impl ListReader {
    /// Adds a page. Returns false if the list is full.
    fn add(&mut self, tools: Vec<Value>) -> bool {
        for tool in tools {
            if self.read.tools.len() >= TOOLS {
                self.problem(format!("There are more than {TOOLS} tools; the rest is left out."));
                return false;
            }
            self.bytes += tool.to_string().len();
            if self.bytes > LIST_BYTES {
                self.problem(format!("The declarations have more than {LIST_BYTES} bytes; the rest is left out."));
                return false;
            }
            self.add_tool(tool);
        }
        true
    }

    fn add_tool(&mut self, tool: Value) {
        let claimed = tool.get("name").and_then(Value::as_str).map(|name| text::excerpt(name, 80)).unwrap_or_default();
        let ToolParts { name, description, input_schema, annotations } = match serde_json::from_value(tool) {
            Ok(parts) => parts,
            Err(error) => {
                return self.problem(format!("Tool '{claimed}' is left out: its declaration is invalid: {error}."));
            }
        };
        if name.is_empty() || name.len() > NAME_BYTES {
            return self.problem(format!("Tool '{claimed}' is left out: a name has from 1 to {NAME_BYTES} bytes."));
        }
        if self.read.tools.iter().any(|tool| tool.name == name) {
            return self.problem(format!("Tool '{claimed}' is declared twice; the first one is used."));
        }
        let AnnotationParts { read_only_hint, destructive_hint } = annotations.unwrap_or_default();
        let only_reads = read_only_hint == Some(true);
        self.read.tools.push(ListedTool {
            name,
            description: description.unwrap_or_default(),
            input_schema,
            only_reads,
            is_destructive: destructive_hint == Some(true) && !only_reads,
        });
    }

    fn problem(&mut self, problem: String) {
        if self.read.problems.len() < PROBLEMS {
            self.read.problems.push(text::clean_line(&problem));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Value {
        json!({"name": name, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn unusable_tools_cost_themselves_only() {
        let mut list = ListReader::default();
        let schema = json!({"type": "object"});
        assert!(list.add(vec![
            json!({"name": "a", "description": "Reads.", "inputSchema": schema, "annotations": {"readOnlyHint": true}}),
            json!({"name": "b"}),
            json!("c"),
            tool("a"),
            tool(""),
            tool(&"x".repeat(300)),
            json!({"name": "d", "inputSchema": schema, "annotations": {"destructiveHint": true}, "x": [1]}),
        ]));
        let ToolList { tools, problems } = list.read;
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["a", "d"]);
        assert_eq!((tools[0].only_reads, tools[0].is_destructive), (true, false));
        assert_eq!((tools[1].only_reads, tools[1].is_destructive), (false, true));
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(
            problems[0].starts_with("Tool 'b' is left out: its declaration is invalid: missing field"),
            "{problems:?}"
        );
    }

    #[test]
    fn list_is_bounded_in_count_and_bytes() {
        let mut list = ListReader::default();
        assert!(!list.add((0..TOOLS + 10).map(|number| tool(&number.to_string())).collect()));
        assert_eq!((list.read.tools.len(), list.read.problems.len()), (TOOLS, 1));
        let mut list = ListReader::default();
        let big = |number: usize| json!({"name": number.to_string(), "inputSchema": {"title": "x".repeat(1 << 20)}});
        assert!(!list.add((0..10).map(big).collect()));
        assert_eq!(list.read.tools.len(), 3);
        let mut list = ListReader::default();
        list.add(vec![json!(null); 1_000]);
        assert_eq!(list.read.problems.len(), PROBLEMS);
    }
}
