//! Names the parts of a package that Patchbay does not use: files of other clients, and anything that would run a program.

use std::collections::BTreeSet;

use patchbay_core::{Code, text};

use super::PackageFile;
use crate::Problem;

/// Known parts: the name of a top-level entry, and a description for messages.
const KNOWN: &[(&str, &str)] = &[
    ("agents", "agents of other clients"),
    ("hooks", "hooks of other clients"),
    ("hooks.json", "hooks of other clients"),
    ("rules", "rules of other clients"),
    ("monitors", "programs that other clients start"),
    ("output-styles", "output styles of other clients"),
    ("themes", "themes of other clients"),
    (".lsp.json", "language servers of other clients"),
    (".app.json", "apps of other clients"),
    (".codex-plugin", "data of Codex"),
    (".cursor-plugin", "data of Cursor"),
];
/// Parts that are used only in Claude Code's format.
const ONLY_CLAUDE_USES: &[(&str, &str)] = &[
    ("commands", "commands of other clients"),
    (".mcp.json", "MCP servers in another form than mcp.json"),
    (".claude-plugin", "data of Claude Code"),
];
/// Parts that have a meaning only in Claude Code's format, and are not used there either.
const ONLY_CLAUDE_HAS: &[(&str, &str)] = &[
    ("bin", "programs that Claude Code puts on its PATH"),
    ("settings.json", "settings of Claude Code"),
    ("workflows", "workflows of Claude Code"),
];
/// Maximum number of parts that are named.
pub(super) const NAMED: usize = 20;

/// The top-level entries of a package.
pub(super) struct UnusedParts {
    /// Their names. Folder names end with `/`.
    entries: BTreeSet<String>,
    /// Whether the package has Claude Code's format.
    is_claude: bool,
}

impl UnusedParts {
    pub(super) fn of(files: &[PackageFile], is_claude: bool) -> Self {
        let entry = |file: &PackageFile| file.path.split_inclusive('/').next().unwrap_or_default().to_owned();
        Self { entries: files.iter().map(entry).collect(), is_claude }
    }

    /// Returns a note for each unused part. `namespaces` come from `extensions` in `plugin.json`.
    pub(super) fn notes(&self, namespaces: &[String]) -> Vec<Problem> {
        let mut notes: Vec<_> = self
            .known()
            .map(|(entry, what)| (entry.to_owned(), what))
            .chain(self.folders_of_namespaces().map(|entry| (text::excerpt(entry, 80), "files of another client")))
            .chain(namespaces.iter().map(|name| (format!("extensions.{name}"), "settings of another client")))
            .map(|(entry, what)| note(format!("'{entry}' is not used: {what}.")))
            .collect();
        for (place, kind) in [("skills", "folder"), ("mcp.json/", "file")] {
            if self.entries.contains(place) {
                notes.push(note(format!("'{}' is not used: it is not a {kind}.", place.trim_end_matches('/'))));
            }
        }
        let more = notes.len().saturating_sub(NAMED);
        notes.truncate(NAMED);
        if more > 0 {
            notes.push(note(format!("{more} more parts are not used.")));
        }
        notes
    }

    /// Creates the problem of a folder without `plugin.json`, which names the known parts that it has.
    pub(super) fn missing_manifest(&self) -> Problem {
        let known: Vec<_> = self.known().map(|(entry, _)| format!("'{entry}'")).collect();
        let found = match &known[..] {
            [] => String::new(),
            known => format!(" It has {}, which Patchbay does not load.", known.join(", ")),
        };
        let message = format!("The folder has no plugin.json, so it is not an Agent Plugin.{found}");
        Problem::new(Code::PackageManifestMissing, message)
    }

    fn known(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let more = if self.is_claude { ONLY_CLAUDE_HAS } else { ONLY_CLAUDE_USES };
        let known = move |entry: &String| {
            let name = entry.trim_end_matches('/');
            KNOWN.iter().chain(more).find(|(known, _)| *known == name).map(|(_, what)| *what)
        };
        self.entries.iter().filter_map(move |entry| Some((entry.as_str(), known(entry)?)))
    }

    /// Returns the folders that are named after a reverse domain.
    fn folders_of_namespaces(&self) -> impl Iterator<Item = &str> {
        let is_namespace = |name: &str| {
            let is_label = |label: &str| {
                !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            };
            name.contains('.') && name.split('.').all(is_label)
        };
        self.entries.iter().filter(move |entry| entry.strip_suffix('/').is_some_and(is_namespace)).map(String::as_str)
    }
}

fn note(message: String) -> Problem {
    Problem::new(Code::PackagePartUnused, message)
}
