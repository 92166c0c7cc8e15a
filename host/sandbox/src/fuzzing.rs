//! The host functions without a component, for `tests/fuzz`. Behind the feature `fuzzing`.

use std::sync::Arc;

use patchbay_core::Digest;
use patchbay_policy::Permits;

use crate::{
    Budget, Failure, Limits, LogSink, Services,
    bindings::patchbay::host::{inference, progress},
    last_lines::DescribeLog,
    state::{CallAccess, GuestState},
};

pub use crate::bindings::patchbay::host::{http, kv, log, types::Error, workspace_read, workspace_write};

/// Calls host functions in place of a guest.
pub struct FuzzGuest(GuestState);

/// One call of a function of `patchbay:host`, with its arguments in the order of the contract.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the contract documents them")]
pub enum Ask {
    LogWrite(log::Level, String),
    ProgressReport(String),
    KvGet(kv::Scope, String),
    KvPut(kv::Scope, String, Vec<u8>, Option<u64>),
    KvDelete(kv::Scope, String),
    KvKeys(kv::Scope, String, Option<String>, u32),
    HttpSend(http::Request),
    WorkspaceRead(String, u64, u32),
    WorkspaceWalk(String, Option<String>, u32),
    WorkspaceWrite(String, Vec<u8>),
    WorkspaceDelete(String),
    InferenceComplete(String, String),
    /// The last value is the caller's remaining fuel.
    ToolsCall(String, String, u64),
}

/// The result of a host function.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the contract documents them")]
pub enum HostReply {
    Nothing,
    Entry(Option<kv::Entry>),
    Version(u64),
    Deleted(bool),
    Keys(Vec<String>),
    Response(http::Response),
    Bytes(Vec<u8>),
    Listing(Vec<workspace_read::Entry>),
    Text(String),
}

impl FuzzGuest {
    /// Returns a guest whose tool is called, within `limits`.
    pub fn called(limits: Limits, permits: Arc<Permits>, services: Services) -> Self {
        let log = Arc::clone(&services.log);
        Self::within(limits, log, Some((permits, services)))
    }

    /// Returns a guest that is asked for its tools.
    pub fn described(limits: Limits) -> Self {
        let log = Arc::new(DescribeLog::new(Digest::of(b"")));
        Self::within(limits, log, None)
    }

    fn within(limits: Limits, log: Arc<dyn LogSink>, called: Option<(Arc<Permits>, Services)>) -> Self {
        let budget = Budget::whole(&limits);
        let access = |(permits, services)| Arc::new(CallAccess::new(permits, services, budget.clock.clone()));
        let access = called.map(access);
        Self(GuestState::new(Arc::new(limits), budget, log, access))
    }

    /// Calls a host function. Returns its result or the error for the guest.
    ///
    /// # Errors
    /// The failure that stops the guest.
    pub async fn ask(&mut self, ask: Ask) -> Result<Result<HostReply, Error>, Failure> {
        let stopped = |error: wasmtime::Error| {
            error.downcast_ref().cloned().unwrap_or_else(|| Failure::trap(format!("no failure of ours: {error:#}")))
        };
        self.answer(ask).await.map_err(stopped)
    }

    async fn answer(&mut self, ask: Ask) -> wasmtime::Result<Result<HostReply, Error>> {
        let state = &mut self.0;
        Ok(match ask {
            Ask::LogWrite(level, message) => {
                log::Host::write(state, level, message).await?;
                Ok(HostReply::Nothing)
            }
            Ask::ProgressReport(text) => {
                progress::Host::report(state, text).await?;
                Ok(HostReply::Nothing)
            }
            Ask::KvGet(scope, key) => kv::Host::get(state, scope, key).await?.map(HostReply::Entry),
            Ask::KvPut(scope, key, value, expect) => {
                kv::Host::put(state, scope, key, value, expect).await?.map(HostReply::Version)
            }
            Ask::KvDelete(scope, key) => kv::Host::delete(state, scope, key).await?.map(HostReply::Deleted),
            Ask::KvKeys(scope, prefix, after, limit) => {
                kv::Host::keys(state, scope, prefix, after, limit).await?.map(HostReply::Keys)
            }
            Ask::HttpSend(request) => http::Host::send(state, request).await?.map(HostReply::Response),
            Ask::WorkspaceRead(path, offset, max) => {
                workspace_read::Host::read(state, path, offset, max).await?.map(HostReply::Bytes)
            }
            Ask::WorkspaceWalk(glob, after, limit) => {
                workspace_read::Host::walk(state, glob, after, limit).await?.map(HostReply::Listing)
            }
            Ask::WorkspaceWrite(path, contents) => {
                workspace_write::Host::write(state, path, contents).await?.map(|()| HostReply::Nothing)
            }
            Ask::WorkspaceDelete(path) => {
                workspace_write::Host::delete(state, path).await?.map(|()| HostReply::Nothing)
            }
            Ask::InferenceComplete(system, prompt) => {
                inference::Host::complete(state, system, prompt).await?.map(HostReply::Text)
            }
            Ask::ToolsCall(tool, input, fuel) => state.call_tool(tool, input, fuel).await?.0.map(HostReply::Text),
        })
    }
}
