//! Limits the share of a request that the skill list and the tool declarations may take. Used by `shown`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many skills and tools a model is shown. `[context]` in `config.toml` sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// Percent of the model's context window that the list of skills may take, but at least 4,000 bytes. A token counts as 4
    /// bytes.
    #[schemars(range(min = 1, max = 50))]
    pub listing_percent: u8,
    /// Size limit of the list of skills, in bytes, for windows of any size. All names come before any description. The model
    /// looks up the rest with `find_skills`.
    #[schemars(range(min = 1_000, max = 1_000_000))]
    pub listing_max_bytes: u32,
    /// Percent of the model's context window that the names, descriptions and schemas of tools may take, but at least 24,000
    /// bytes.
    #[schemars(range(min = 1, max = 50))]
    pub tools_percent: u8,
    /// Size limit of the names, descriptions and schemas of tools, in bytes, for windows of any size. The model finds tools that
    /// are left out with `find_tools` and calls them with `call_tool`.
    #[schemars(range(min = 1_000, max = 4_000_000))]
    pub tools_max_bytes: u32,
    /// Number of tools that are declared to a model. The host's own tools count, but are never left out. Together with the bundled
    /// skills they are about 15; the default leaves room for the tools of a few MCP servers.
    #[schemars(range(min = 1, max = 1_000))]
    pub tools_max: u32,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self { listing_percent: 2, listing_max_bytes: 16_000, tools_percent: 3, tools_max_bytes: 64_000, tools_max: 48 }
    }
}

/// Bytes per token, as usual for English text.
const BYTES_PER_TOKEN: u64 = 4;
/// Size of the list of skills in a small window, in bytes. Enough for the names of some 300 skills.
const LISTING_MIN_BYTES: u64 = 4_000;
/// Size of the declarations in a small window, in bytes. Enough for the tools of the host and the bundled skills.
const TOOLS_MIN_BYTES: u64 = 24_000;
/// The room of an untrusted workspace is the whole room divided by this.
const UNTRUSTED_PART: usize = 4;

/// How many bytes and how many tools the declarations in a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolRoom {
    pub(crate) bytes: usize,
    pub(crate) tools: usize,
}

impl ContextSettings {
    /// Returns the bytes of the list of skills for a model with a window of `window` tokens.
    pub(crate) fn listing_bytes(&self, window: u64) -> usize {
        share(window, self.listing_percent, LISTING_MIN_BYTES, self.listing_max_bytes)
    }

    /// Returns the room for the declarations of tools for a model with a window of `window` tokens.
    pub(crate) fn tool_room(&self, window: u64) -> ToolRoom {
        let bytes = share(window, self.tools_percent, TOOLS_MIN_BYTES, self.tools_max_bytes);
        ToolRoom { bytes, tools: usize::try_from(self.tools_max).unwrap_or(usize::MAX) }
    }
}

impl ToolRoom {
    /// Returns the room that an untrusted workspace may use.
    pub(crate) fn untrusted(self) -> Self {
        Self { bytes: untrusted(self.bytes), tools: untrusted(self.tools) }
    }

    /// Returns the room that remains after `used`.
    pub(crate) fn without(self, used: Self) -> Self {
        Self { bytes: self.bytes.saturating_sub(used.bytes), tools: self.tools.saturating_sub(used.tools) }
    }

    /// Returns the smaller number of bytes, and the smaller number of tools.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), tools: self.tools.min(other.tools) }
    }
}

/// Returns the part of `room` that an untrusted workspace may use.
pub(crate) fn untrusted(room: usize) -> usize {
    room / UNTRUSTED_PART
}

fn share(window: u64, percent: u8, least: u64, most: u32) -> usize {
    let bytes = window.saturating_mul(BYTES_PER_TOKEN) / 100 * u64::from(percent);
    usize::try_from(bytes.max(least).min(most.into())).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_least_and_a_most() {
        let settings = ContextSettings::default();
        for (window, listing, tools) in [
            (1_000, 4_000, 24_000),
            (128_000, 10_240, 24_000),
            (200_000, 16_000, 24_000),
            (400_000, 16_000, 48_000),
            (1_000_000, 16_000, 64_000),
            (u64::MAX, 16_000, 64_000),
        ] {
            assert_eq!(settings.listing_bytes(window), listing, "{window}");
            assert_eq!(settings.tool_room(window), ToolRoom { bytes: tools, tools: 48 }, "{window}");
        }
        let small = ContextSettings { listing_max_bytes: 1_000, ..settings };
        assert_eq!(small.listing_bytes(128_000), 1_000);
    }
}
