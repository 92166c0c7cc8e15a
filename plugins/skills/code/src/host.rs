//! The program's interface to the host. Tests have their own host.

use patchbay_sdk::{
    Result, progress,
    tool_calls::{self, Outcome, Request},
    tool_index::{self, Tool},
};

pub(crate) trait Host {
    /// Starts calls and returns their ids.
    fn start(&self, calls: &[Request]) -> Result<Vec<u32>>;

    /// Waits until a call has ended, and returns all calls that have ended.
    fn wait(&self) -> Vec<Outcome>;

    /// Reports partial output to the caller.
    fn report(&self, text: &str);

    /// Returns the tools that match best.
    fn find(&self, query: &str, limit: u32) -> Result<Vec<Tool>>;

    /// Returns tools sorted by name.
    fn entries(&self, after: Option<&str>, limit: u32) -> Result<Vec<Tool>>;
}

/// The session that runs the skill.
pub(crate) struct Session;

impl Host for Session {
    fn start(&self, calls: &[Request]) -> Result<Vec<u32>> {
        Ok(tool_calls::start(calls)?)
    }

    fn wait(&self) -> Vec<Outcome> {
        tool_calls::wait()
    }

    fn report(&self, text: &str) {
        progress::report(text);
    }

    fn find(&self, query: &str, limit: u32) -> Result<Vec<Tool>> {
        Ok(tool_index::find(query, limit)?)
    }

    fn entries(&self, after: Option<&str>, limit: u32) -> Result<Vec<Tool>> {
        Ok(tool_index::entries(after, limit)?)
    }
}
