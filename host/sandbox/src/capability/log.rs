//! `patchbay:host/log`: diagnostics for the operator. Needs no grant; the number and size of lines are limited.

use patchbay_core::text;

use crate::{Failure, bindings::patchbay::host::log as wit, state::GuestState};

/// The severity of a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For developers of the skill.
    Debug,
    /// A message about normal operation.
    Info,
    /// A message about a possible problem.
    Warn,
    /// A message about a failure.
    Error,
}

/// Receives the lines that a guest logs.
pub trait LogSink: Send + Sync {
    /// Writes one line, which is cleaned and bounded.
    fn write(&self, level: LogLevel, message: &str);
}

/// The plugin that wrote the line.
#[derive(Clone, Copy, Debug)]
pub enum PluginLog<'a> {
    /// The skill with this name.
    Skill(&'a str),
    /// The provider with this name.
    Provider(&'a str),
}

/// Writes a plugin's line to the operator's log, with the target `plugin` and the plugin's name as
/// the field `skill` or `provider`.
pub fn log_plugin_line(plugin: PluginLog<'_>, level: LogLevel, message: &str) {
    let (skill, provider) = match plugin {
        PluginLog::Skill(name) => (Some(name), None),
        PluginLog::Provider(name) => (None, Some(name)),
    };
    match level {
        LogLevel::Debug => tracing::debug!(target: "plugin", skill, provider, "{message}"),
        LogLevel::Info => tracing::info!(target: "plugin", skill, provider, "{message}"),
        LogLevel::Warn => tracing::warn!(target: "plugin", skill, provider, "{message}"),
        LogLevel::Error => tracing::error!(target: "plugin", skill, provider, "{message}"),
    }
}

impl wit::Host for GuestState {
    async fn write(&mut self, level: wit::Level, message: String) -> wasmtime::Result<()> {
        self.count_host_call()?;
        self.log_lines += 1;
        self.log_bytes = self.log_bytes.saturating_add(message.len());
        let limits = &self.limits;
        if self.log_lines > limits.log_lines || self.log_bytes > limits.log_bytes {
            return Err(Failure::Log { lines: limits.log_lines, bytes: limits.log_bytes }.into());
        }
        let level = match level {
            wit::Level::Debug => LogLevel::Debug,
            wit::Level::Info => LogLevel::Info,
            wit::Level::Warn => LogLevel::Warn,
            wit::Level::Error => LogLevel::Error,
        };
        self.log.write(level, &text::clean_line(&message));
        Ok(())
    }
}
