//! Capabilities that the contract has and this host does not, yet. A component that imports them loads; a call is counted
//! and answers `unavailable`, so that a skill can do without.

use crate::{
    bindings::patchbay::host::{http, inference, tools, types::Error, workspace_read, workspace_write},
    call::State,
};

impl State {
    fn unavailable<T>(&mut self, capability: &str) -> wasmtime::Result<Result<T, Error>> {
        self.count_host_call()?;
        let message = format!("this version of Patchbay does not offer '{capability}' to skills");
        Ok(Err(Error { kind: "unavailable".to_owned(), message }))
    }
}

impl http::Host for State {
    async fn send(&mut self, _: http::Request) -> wasmtime::Result<Result<http::Response, Error>> {
        self.unavailable("http")
    }
}

impl workspace_read::Host for State {
    async fn read(&mut self, _: String, _: u64, _: u32) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        self.unavailable("workspace-read")
    }

    async fn walk(
        &mut self,
        _: String,
        _: Option<String>,
        _: u32,
    ) -> wasmtime::Result<Result<Vec<workspace_read::Entry>, Error>> {
        self.unavailable("workspace-read")
    }
}

impl workspace_write::Host for State {
    async fn write(&mut self, _: String, _: Vec<u8>) -> wasmtime::Result<Result<(), Error>> {
        self.unavailable("workspace-write")
    }

    async fn delete(&mut self, _: String) -> wasmtime::Result<Result<(), Error>> {
        self.unavailable("workspace-write")
    }
}

impl inference::Host for State {
    async fn complete(&mut self, _: String, _: String) -> wasmtime::Result<Result<String, Error>> {
        self.unavailable("inference")
    }
}

impl tools::Host for State {
    async fn call(&mut self, _: String, _: String) -> wasmtime::Result<Result<String, Error>> {
        self.unavailable("tools")
    }
}
