//! Answers the requests of one connection: the list of tools, and calls. `stdio` and `http` create the handler, and `rmcp` calls
//! it.

use std::sync::Arc;

use patchbay_core::Asker;
use rmcp::{
    RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::Value;

use super::{
    ClientCall, ServedSession, answer,
    http::ClientSessions,
    open_session::{LazySession, OpenSession},
    progress,
};

/// Size limit of one page of the tool list, in bytes. Large enough for most lists, because some clients only read the
/// first page.
const PAGE_BYTES: usize = 2 << 20;

/// The methods of requests that this server answers.
const METHODS: [&str; 5] = ["initialize", "ping", "server/discover", "tools/call", "tools/list"];

/// Instructions for the models of clients, in addition to the tool descriptions.
const INSTRUCTIONS: &str = "These are tools of Patchbay skills. Each call runs in a sandbox, with what the operator granted to \
                            the skill. If a call is denied, its error names the command that grants what is missing: tell the \
                            user, and do not try to work around it.";

/// The handler of one connection, or of one request of a client without a connection.
pub(super) struct ToolServer {
    /// The session of the connection.
    own: LazySession,
    /// The sessions of a server over HTTP; `None` over standard input and output.
    sessions: Option<Arc<ClientSessions>>,
}

impl ToolServer {
    /// Returns the handler of a connection with the session `session`.
    pub(super) fn for_session(session: Arc<dyn ServedSession>) -> Self {
        Self { own: LazySession::opened(OpenSession::new(session)), sessions: None }
    }

    /// Returns the handler of a connection whose session is opened when it is needed.
    pub(super) fn over_http(sessions: Arc<ClientSessions>) -> Self {
        Self { own: LazySession::default(), sessions: Some(sessions) }
    }

    /// Returns the session of a request. Since revision 2026-07-28, requests over HTTP are not tied to a connection. Such a client
    /// has one session, found by the client's name.
    async fn session(&self, request: &RequestContext<RoleServer>) -> Result<Arc<OpenSession>, ErrorData> {
        let session = match &self.sessions {
            None => self.own.opened_session(),
            Some(sessions) if request.meta.protocol_version().is_some() => sessions.of_client(&asker(request)).await,
            Some(sessions) => self.own.get(sessions.source()).await,
        };
        session.map_err(|message| ErrorData::internal_error(message, None))
    }
}

/// Returns the client of a request, identified by the name that it provided.
fn asker(request: &RequestContext<RoleServer>) -> Asker {
    Asker::mcp_client(&request.client_info().map(|client| client.name).unwrap_or_default())
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("patchbay", env!("CARGO_PKG_VERSION")).with_title("Patchbay");
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(server).with_instructions(INSTRUCTIONS)
    }

    /// Answers a request that `rmcp` does not recognize: an unknown method, or a known method with invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(if METHODS.contains(&request.method.as_str()) {
            ErrorData::invalid_params("invalid parameters for the method", None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this server does not support the method", None)
        })
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        request: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let session = self.session(&request).await?;
        let tools = session.served.tools().await.into_iter().filter_map(answer::declaration).collect();
        list_page(tools, page.and_then(|page| page.cursor).as_deref())
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        request: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let session = self.session(&request).await?;
        let _running =
            session.begin_call().map_err(|message| ErrorData::new(ErrorCode::INTERNAL_ERROR, message, None))?;
        let _counted = self.sessions.as_ref().map(|sessions| sessions.begin_call());
        let (sink, notifications) = progress::notifications(&request.peer, request.meta.get_progress_token());
        let input = Value::Object(call.arguments.unwrap_or_default());
        let call = ClientCall { asker: asker(&request), tool: &call.name, input, progress: sink };
        // The call is dropped, which stops it, when the client cancels the request or disconnects.
        let Some(result) = request.ct.run_until_cancelled(session.served.call(call)).await else {
            return Err(ErrorData::internal_error("the call was cancelled", None));
        };
        notifications.finish().await;
        let version = request.protocol_version();
        let workspace = session.served.workspace();
        Ok(match result {
            Ok(content) => answer::result(content, workspace, version.as_ref()),
            Err(failed) => answer::failure(failed)?,
        }
        .into())
    }
}

/// Returns a page of `tools`, which begins at the tool with the number `cursor`.
fn list_page(tools: Vec<Tool>, cursor: Option<&str>) -> Result<ListToolsResult, ErrorData> {
    let first = cursor.map_or(Ok(0), str::parse::<usize>);
    let first = first.ok().filter(|first| *first == 0 || *first < tools.len());
    let first = first.ok_or_else(|| ErrorData::invalid_params("unknown cursor", None))?;
    let (mut bytes, mut page, count) = (0, Vec::new(), tools.len());
    for tool in tools.into_iter().skip(first) {
        bytes += serde_json::to_vec(&tool).map_or(0, |json| json.len());
        if bytes > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(tool);
    }
    let next = first + page.len();
    let mut list = ListToolsResult::with_all_items(page);
    list.next_cursor = (next < count).then(|| next.to_string());
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_every_tool_once() {
        let description = "d".repeat(PAGE_BYTES / 4);
        let names: Vec<String> = (0..9).map(|number| format!("many__{number}")).collect();
        let tools = || names.iter().map(|name| Tool::new(name.clone(), description.clone(), Arc::default())).collect();
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = list_page(tools(), cursor.as_deref()).unwrap();
            seen.extend(page.tools.iter().map(|tool| tool.name.to_string()));
            pages += 1;
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((seen, pages), (names.clone(), 3));
        for wrong in ["9", "-1", "x", ""] {
            assert_eq!(list_page(tools(), Some(wrong)).unwrap_err().code, ErrorCode::INVALID_PARAMS, "{wrong}");
        }
        assert_eq!(list_page(Vec::new(), None).unwrap().next_cursor, None);
    }
}
