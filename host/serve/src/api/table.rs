//! Every route of `/v1`, once. The router, the OpenAPI document, `docs/api.md` and the tests of bad input are made from this table.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    call::{ApiCall, ApiError, Reply},
    events, lines, questions, records, sessions,
};
use crate::state::ServeState;

/// Size limit of a request body without attachments, in bytes.
const SMALL: usize = 64 << 10;
/// Size limit of a line with its attachments in base64, in bytes.
const LINE: usize = 64 << 20;

pub(super) type Handler = fn(Arc<ServeState>, ApiCall) -> BoxFuture<'static, Result<Reply, ApiError>>;

pub(crate) struct ApiRoute {
    /// The HTTP method, in upper case.
    pub(crate) method: &'static str,
    /// The path, with `{NAME}` for each variable segment.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Query parameters, each with its description.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// Request headers that this route reads, each with its description.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) body_bytes: usize,
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) reply: fn(&mut SchemaGenerator) -> Schema,
    pub(crate) needs: RouteRight,
    pub(super) handler: Handler,
}

/// The right of the token that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteRight {
    Nothing,
    Lines,
    Answers,
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A route that reads.
const fn get(
    path: &'static str,
    summary: &'static str,
    reply: fn(&mut SchemaGenerator) -> Schema,
    handler: Handler,
) -> ApiRoute {
    ApiRoute {
        method: "GET",
        path,
        summary,
        query: &[],
        headers: &[],
        body: None,
        body_bytes: 0,
        status: 200,
        media_type: "application/json",
        reply,
        needs: RouteRight::Nothing,
        handler,
    }
}

/// A route that accepts JSON.
const fn post(
    path: &'static str,
    summary: &'static str,
    body: fn(&mut SchemaGenerator) -> Schema,
    reply: fn(&mut SchemaGenerator) -> Schema,
    handler: Handler,
) -> ApiRoute {
    ApiRoute {
        method: "POST",
        body: Some(body),
        body_bytes: SMALL,
        needs: RouteRight::Lines,
        ..get(path, summary, reply, handler)
    }
}

pub(crate) static ROUTES: &[ApiRoute] = &[
    ApiRoute {
        query: &[("workspace", "list only sessions in this workspace, given as a name or a path")],
        ..get(
            "/v1/sessions",
            "List sessions, most recently used first",
            schema::<sessions::ListedSessions>,
            |state, call| Box::pin(sessions::list(state, call)),
        )
    },
    ApiRoute {
        status: 201,
        ..post(
            "/v1/sessions",
            "Create a session",
            schema::<sessions::SessionToCreate>,
            schema::<sessions::OpenSessionBody>,
            |state, call| Box::pin(sessions::create(state, call)),
        )
    },
    get(
        "/v1/sessions/{session}",
        "Show a session's waiting lines, its open questions, and whether a turn is running",
        schema::<sessions::OpenSessionBody>,
        |state, call| Box::pin(sessions::show(state, call)),
    ),
    ApiRoute {
        method: "DELETE",
        needs: RouteRight::Lines,
        ..get(
            "/v1/sessions/{session}",
            "Remove a session with its conversation",
            schema::<sessions::Removed>,
            |state, call| Box::pin(sessions::remove(state, call)),
        )
    },
    ApiRoute {
        status: 202,
        body_bytes: LINE,
        query: &[("wait", "seconds to wait for the outcome, at most 600 [default: 0]")],
        headers: &[(
            "Idempotency-Key",
            "1 to 128 visible ASCII characters; a line that is sent again with its key within 24 hours does not run again",
        )],
        ..post(
            "/v1/sessions/{session}/lines",
            "Send a line: a message or a command",
            schema::<lines::NewLine>,
            schema::<lines::AcceptedLine>,
            |state, call| Box::pin(lines::send(state, call)),
        )
    },
    post(
        "/v1/sessions/{session}/stop",
        "Stop a line, or the turns of all agents",
        schema::<lines::StopRequest>,
        schema::<lines::Stopped>,
        |state, call| Box::pin(lines::stop(state, call)),
    ),
    get("/v1/sessions/{session}/questions", "List open questions", schema::<questions::QuestionList>, |state, call| {
        Box::pin(questions::list(state, call))
    }),
    ApiRoute {
        needs: RouteRight::Answers,
        ..post(
            "/v1/sessions/{session}/questions/{question}",
            "Answer a question; the first answer counts",
            schema::<questions::QuestionAnswer>,
            schema::<questions::Answered>,
            |state, call| Box::pin(questions::answer(state, call)),
        )
    },
    ApiRoute {
        media_type: "text/event-stream",
        query: &[("after", "start after this row; 0 for all rows [default: the last row]")],
        headers: &[(
            "Last-Event-ID",
            "the same, as browsers send it when they reconnect; takes precedence over `after`",
        )],
        ..get(
            "/v1/sessions/{session}/events",
            "Follow a session: the JSON of `patchbay exec --json`, with row numbers as ids, and answers in progress",
            schema::<serde_json::Value>,
            |state, call| Box::pin(events::follow(state, call)),
        )
    },
    ApiRoute {
        media_type: "application/octet-stream",
        ..get(
            "/v1/sessions/{session}/attachments/{digest}",
            "Download an attachment",
            schema::<String>,
            |state, call| Box::pin(records::attachment(state, call)),
        )
    },
    ApiRoute {
        query: &[("day", "only this day in UTC, such as 2026-11-27"), ("session", "only this session")],
        ..get(
            "/v1/usage",
            "Show the cost of models, without removed sessions",
            schema::<records::Rows>,
            |state, call| Box::pin(records::usage(state, call)),
        )
    },
    ApiRoute {
        query: &[
            ("session", "only calls of this session"),
            ("after", "start after this row [default: 0]"),
            ("limit", "maximum number of rows, up to 1000 [default: 100]"),
        ],
        ..get("/v1/journal", "List tool calls", schema::<records::Rows>, |state, call| {
            Box::pin(records::journal(state, call))
        })
    },
];
