//! Reads plugins in Claude Code's format (code.claude.com/docs/en/plugins/manifest-reference), for folders without a `plugin.json`.
//!
//! Skills, commands and MCP servers are used. A command is a single Markdown file that becomes a skill. Parts that start programs,
//! such as hooks, or that configure Claude Code, are only named in the notes. The notes also quote the parts of instructions that
//! Claude Code would run or replace before a model reads them; here they stay plain text.

use std::{collections::BTreeSet, path::Path};

use cap_std::fs::Dir;
use patchbay_core::{Code, text};
use serde_json::Value;

use super::{
    AgentPlugin, PackageFile, PackageServer, PackageSkill, SKILLS,
    claude_servers::read_servers,
    json::{self, Fields, MANIFEST_BYTES, kind, reason},
    package_name, read_skill, read_skills, skill_folders, too_many_skills,
    unused::{NAMED, UnusedParts},
};
use crate::{Problem, files};

/// The manifest, which is optional.
pub const CLAUDE_MANIFEST: &str = ".claude-plugin/plugin.json";
/// The entries of a folder that make it a plugin even without a manifest.
pub const CLAUDE_PARTS: [&str; 3] = ["skills", "commands", ".mcp.json"];
/// Fields of the manifest that only describe the plugin, and are ignored here.
const DESCRIPTIVE: [&str; 16] = [
    "$schema",
    "author",
    "defaultEnabled",
    "description",
    "displayName",
    "documentationUrl",
    "homepage",
    "icon",
    "keywords",
    "license",
    "metadata",
    "privacyPolicyUrl",
    "repository",
    "supportUrl",
    "termsOfServiceUrl",
    "types",
];
/// The longest version that is kept, in characters. A longer version is cut.
const VERSION_CHARS: usize = 1_024;
/// Maximum number of commands, files and variables of Claude Code that a note quotes from a text.
const QUOTED: usize = 3;
/// The longest command, path or variable of Claude Code that is recognised, in characters.
const PLACE_CHARS: usize = 1_000;

/// Returns whether these are the files of a plugin in Claude Code's format.
pub(super) fn is_plugin(files: &[PackageFile]) -> bool {
    let top = |file: &PackageFile| CLAUDE_PARTS.contains(&file.path.split('/').next().unwrap_or_default());
    files.iter().any(|file| file.path == CLAUDE_MANIFEST || top(file))
}

/// Reads the plugin in `folder`, which has no `plugin.json`.
///
/// # Errors
/// `package_manifest_invalid` and `package_limit`.
pub(super) fn read(folder: &Path, opened: &Dir, files: Vec<PackageFile>) -> Result<AgentPlugin, Problem> {
    let mut manifest = read_manifest(opened)?;
    let name = match &mut manifest {
        Some(fields) => package_name(CLAUDE_MANIFEST, &fields.required("name").map_err(invalid)?)?,
        None => {
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
            package_name("the name of the folder", &folder.file_name().unwrap_or_default().to_string_lossy())?
        }
    };
    let mut fields = manifest.unwrap_or_default();
    let version = fields.string("version").map_err(invalid)?.map(|version| text::excerpt(&version, VERSION_CHARS));
    let mut notes = Vec::new();
    let mut skills = skills(folder, opened, &files, &mut fields, &mut notes)?;
    leave_out_repeated(&mut skills);
    skills.sort_by(|one, other| one.path.cmp(&other.path));
    for skill in &skills {
        let texts = skill.found.candidate.as_ref().ok().and_then(|candidate| candidate.instructions.as_ref());
        notes.extend(texts.and_then(|text| text_note(&skill.path, text)));
    }
    let (servers, problems) = read_servers(opened, fields.take("mcpServers"));
    notes.extend(problems);
    let left = fields.left();
    let unused_fields = left.iter().filter(|field| !DESCRIPTIVE.contains(&&***field)).take(NAMED);
    notes.extend(unused_fields.map(|field| unused(format!("'{field}' is not used"))));
    notes.extend(UnusedParts::of(&files, true).notes(&[]));
    Ok(AgentPlugin { name, version, skills, servers, files, notes })
}

/// Reads only the servers of the plugin.
///
/// # Errors
/// `package_manifest_invalid`.
pub(super) fn read_declared_servers(opened: &Dir) -> Result<Vec<PackageServer>, Problem> {
    let declared = read_manifest(opened)?.and_then(|mut fields| fields.take("mcpServers"));
    Ok(read_servers(opened, declared).0)
}

/// Reads the manifest; `None` if there is none.
fn read_manifest(opened: &Dir) -> Result<Option<Fields>, Problem> {
    match files::read(opened, CLAUDE_MANIFEST, MANIFEST_BYTES) {
        Ok(bytes) => bytes.map(|bytes| json::object(&bytes)).transpose().map_err(invalid),
        Err(error) => Err(invalid(format!("cannot be read: {}", reason(&error)))),
    }
}

fn invalid(why: String) -> Problem {
    Problem::new(Code::PackageManifestInvalid, format!("{CLAUDE_MANIFEST}: {why}."))
}

fn unused(what: String) -> Problem {
    Problem::new(Code::PackagePartUnused, format!("{CLAUDE_MANIFEST}: {what}."))
}

/// Reads the skills and commands. Paths in the manifest add folders of skills, but replace the folder of commands.
fn skills(
    root: &Path,
    opened: &Dir,
    files: &[PackageFile],
    fields: &mut Fields,
    notes: &mut Vec<Problem>,
) -> Result<Vec<PackageSkill>, Problem> {
    let mut folders = skill_folders(files, "skills");
    for place in places(fields.take("skills"), "skills", notes) {
        let mut more = skill_folders(files, &place);
        let own = format!("{place}/SKILL.md");
        more.extend(files.iter().any(|file| file.path == own).then(|| place.clone()));
        if more.is_empty() {
            notes.push(unused(format!("'skills': there are no skills in './{}'", text::excerpt(&place, 80))));
        }
        folders.extend(more);
    }
    let declared = fields.take("commands");
    let default = declared.is_none().then(|| "commands".to_owned());
    let mut commands = BTreeSet::new();
    for place in default.into_iter().chain(places(declared, "commands", notes)) {
        let is_in = |path: &str| match path.strip_prefix(&*place) {
            Some(below) => below.is_empty() || below.starts_with('/') || place.is_empty(),
            None => false,
        };
        let found = files.iter().map(|file| &file.path).filter(|path| path.ends_with(".md") && is_in(path));
        commands.extend(found.cloned());
    }
    let mut skills = read_skills(root, opened, files, folders)?;
    if skills.len() + commands.len() > SKILLS {
        return Err(too_many_skills(skills.len() + commands.len()));
    }
    skills.extend(commands.into_iter().map(|path| read_skill(root, path)));
    Ok(skills)
}

/// Returns the paths in the plugin that a field names. The field is a path, an array of paths, or a table with a path as each
/// `source`.
fn places(value: Option<Value>, field: &str, notes: &mut Vec<Problem>) -> Vec<String> {
    let values = match value {
        None => Vec::new(),
        Some(Value::Array(values)) => values,
        Some(Value::Object(table)) => {
            let source = |entry: Value| entry.get("source").cloned().unwrap_or_default();
            table.into_iter().map(|(_, entry)| source(entry)).collect()
        }
        Some(value) => vec![value],
    };
    if values.len() > SKILLS {
        notes.push(unused(format!("'{field}' has {} paths; the limit is {SKILLS}", values.len())));
        return Vec::new();
    }
    let read = |value: &Value| match value {
        Value::String(written) => place(written),
        other => Err(format!("expected a path, found {}", kind(other))),
    };
    let mut places = Vec::new();
    for value in &values {
        match read(value) {
            Ok(place) => places.push(place),
            Err(why) => notes.push(unused(format!("'{field}': {why}"))),
        }
    }
    places
}

/// Normalizes a path of the manifest: removes `./` and surplus slashes.
pub(super) fn place(written: &str) -> Result<String, String> {
    let shown = text::excerpt(written, 80);
    let below = if written == "." { Some("") } else { written.strip_prefix("./") };
    let below = below.ok_or_else(|| format!("path '{shown}' must begin with './'"))?;
    let names: Vec<&str> = below.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    match names.contains(&"..") || below.contains('\\') {
        true => Err(format!("path '{shown}' may lead out of the plugin")),
        false => Ok(names.join("/")),
    }
}

/// Leaves out skills with repeated names. Folders of skills come first, so they take precedence over commands.
fn leave_out_repeated(skills: &mut [PackageSkill]) {
    let mut names = BTreeSet::new();
    for skill in skills {
        let Ok(candidate) = &skill.found.candidate else { continue };
        let name = candidate.name.clone();
        if !names.insert(name.clone()) {
            let message = format!("The package has another skill '{name}'.");
            skill.found.candidate = Err(Problem::new(Code::NameShadowed, message));
        }
    }
}

/// Quotes the places in a text that Claude Code would run or replace: `` !`COMMAND` ``, `@FILE` and `${CLAUDE_…}`.
fn text_note(path: &str, text: &str) -> Option<Problem> {
    let mut seen = BTreeSet::new();
    let found: Vec<&str> = text.lines().flat_map(special_places).filter(|place| seen.insert(*place)).collect();
    let quoted: Vec<String> =
        found.iter().take(QUOTED).map(|place| format!("'{}'", text::excerpt(place, 60))).collect();
    let more = match found.len().saturating_sub(QUOTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "'{}': only Claude Code runs commands and inserts files in a text. Here this stays text: {}{more}.",
        text::excerpt(path, 120),
        quoted.join(", ")
    );
    (!found.is_empty()).then(|| Problem::new(Code::PackagePartUnused, message))
}

fn special_places(line: &str) -> Vec<&str> {
    // An unlimited search for the end would take time quadratic in the line's length.
    let until = |at: usize, skipped: usize, end: char| {
        let rest = &line[at..];
        let (length, _) = rest[skipped..].char_indices().take(PLACE_CHARS).find(|(_, c)| *c == end)?;
        Some(&rest[..=skipped + length])
    };
    let block = line.trim_start().starts_with("```!").then(|| line.trim());
    let is_first = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let commands = line.match_indices("!`").filter(|(at, _)| is_first(*at)).filter_map(|(at, _)| until(at, 2, '`'));
    let variables = line.match_indices("${CLAUDE_").filter_map(|(at, _)| until(at, 0, '}'));
    let words =
        line.split_whitespace().map(|word| word.trim_matches(['`', '(', ')', '"', '\'', ',', ';', ':', '.', '?', '!']));
    let files = words.filter(|word| {
        let path = word.strip_prefix('@').unwrap_or_default();
        path.starts_with(|c: char| c.is_ascii_alphanumeric() || "./~$_".contains(c)) && path.contains(['/', '.', '$'])
    });
    block.into_iter().chain(commands).chain(variables).chain(files).collect()
}
