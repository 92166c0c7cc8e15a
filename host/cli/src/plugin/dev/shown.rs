//! Describes a loaded plugin, and the differences between two loads or two calls.

use std::{fs, io};

use patchbay_core::text;
use patchbay_fixture::{ActualOutcome, CaseDifference};
use patchbay_plugin::{LocatedPlugin, PluginForm};
use patchbay_sandbox::inspect;
use patchbay_skill::Skill;
use serde_json::{Map, Value};

/// A plugin that was built and loaded.
pub(super) struct LoadedPlugin {
    pub(super) skill: Skill,
    imports: Vec<String>,
    /// Bytes of the component.
    size: u64,
}

impl LoadedPlugin {
    pub(super) fn new(plugin: &LocatedPlugin, skill: Skill) -> io::Result<Self> {
        let component = match &plugin.form {
            PluginForm::File(path) | PluginForm::Bare(path) | PluginForm::Adapter(path) => Some(path),
            PluginForm::Folder(_, component) => component.as_ref(),
        };
        let bytes = component.map(fs::read).transpose()?.unwrap_or_default();
        let mut imports = inspect::shape(&bytes).map(|shape| shape.imports).unwrap_or_default();
        imports.sort();
        Ok(Self { skill, imports, size: bytes.len() as u64 })
    }

    /// Returns a line such as `greet, 12 KB; tools: hello, bye`.
    pub(super) fn line(&self) -> String {
        let names: Vec<&str> = self.skill.tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "no tools".to_owned() } else { format!("tools: {}", names.join(", ")) };
        format!("{}, {}; {names}", self.skill.name, text::size(self.size))
    }

    /// Returns how this load differs from the previous load: tools, schemas, imports, requested capabilities and size.
    pub(super) fn changes(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let mut compare = |what: &str, expected: Value, actual: Value| {
            if expected != actual {
                changes.push(CaseDifference { what: what.to_owned(), expected, actual }.to_string());
            }
        };
        compare("tools", before.tools(), self.tools());
        for tool in self.skill.tools.iter() {
            if let Some(old) = before.skill.tool(tool.name.as_str()) {
                let what = format!("schema of {}", tool.name);
                compare(&what, old.input_schema.clone(), tool.input_schema.clone());
            }
        }
        compare("imports", lines(before.imports.iter()), lines(self.imports.iter()));
        compare("capabilities", before.asked(), self.asked());
        if before.size != self.size {
            changes.push(format!("size: {}", changed(before.size, self.size)));
        }
        changes
    }

    fn tools(&self) -> Value {
        let annotated = |(name, value): &(String, String)| format!(" [{name}: {value}]");
        lines(self.skill.tools.iter().map(|tool| {
            let extra: String = tool.extra.iter().map(annotated).collect();
            format!("{}: {}{extra}", tool.name, tool.description)
        }))
    }

    fn asked(&self) -> Value {
        lines(self.skill.manifest.capabilities.iter().map(|asked| asked.capability.to_string()))
    }
}

/// Joins lines for a comparison. Returns null if there are none.
fn lines(lines: impl Iterator<Item = impl AsRef<str>>) -> Value {
    let lines: Vec<String> = lines.map(|line| text::clean_line(line.as_ref())).collect();
    if lines.is_empty() { Value::Null } else { Value::String(lines.join("\n")) }
}

fn changed(before: u64, after: u64) -> String {
    let (sign, difference) = if after < before { ('-', before - after) } else { ('+', after - before) };
    format!("{} → {} ({sign}{})", text::with_commas(before), text::with_commas(after), text::with_commas(difference))
}

/// Returns how a repeated call differs from the previous run: result, store, files and fuel.
pub(super) fn call_changes(before: &ActualOutcome, after: &ActualOutcome) -> Vec<String> {
    let none = Map::new();
    let effects = (before.effects(), after.effects());
    let (old, new) = (effects.0.as_object().unwrap_or(&none), effects.1.as_object().unwrap_or(&none));
    let mut changes = Vec::new();
    for what in ["result", "kv", "files"] {
        let (expected, actual) =
            (old.get(what).cloned().unwrap_or_default(), new.get(what).cloned().unwrap_or_default());
        if expected != actual {
            changes.push(CaseDifference { what: what.to_owned(), expected, actual }.to_string());
        }
    }
    if before.usage.fuel != after.usage.fuel {
        changes.push(format!("fuel: {}", changed(before.usage.fuel, after.usage.fuel)));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_the_direction_of_the_change() {
        assert_eq!(changed(1_000, 1_250), "1,000 → 1,250 (+250)");
        assert_eq!(changed(1_250, 1_000), "1,250 → 1,000 (-250)");
    }
}
