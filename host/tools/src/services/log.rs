//! A skill's log goes to the operator's, with the skill's name.

use patchbay_sandbox::{Level, LogSink};

use super::CallServices;

impl LogSink for CallServices {
    fn write(&self, level: Level, message: &str) {
        let skill = self.owner.name.as_str();
        match level {
            Level::Debug => tracing::debug!(target: "plugin", skill, "{message}"),
            Level::Info => tracing::info!(target: "plugin", skill, "{message}"),
            Level::Warn => tracing::warn!(target: "plugin", skill, "{message}"),
            Level::Error => tracing::error!(target: "plugin", skill, "{message}"),
        }
    }
}
