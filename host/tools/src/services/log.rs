//! Writes a skill's log lines to the operator's log, with the skill's name. The sandbox calls it for `patchbay:host/log`.

use patchbay_sandbox::{LogLevel, LogSink, PluginLog, log_plugin_line};

use super::CallServices;

impl LogSink for CallServices {
    fn write(&self, level: LogLevel, message: &str) {
        log_plugin_line(PluginLog::Skill(self.owner.name.as_str()), level, message);
    }
}
