//! Personas: files that become part of the system context. They are read when a session starts and at `/agent`, and stored
//! with the session.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use patchbay_agent::Surroundings;
use patchbay_core::{Code, Name, text};
use patchbay_skill::files;
use patchbay_workspace::{FileError, ProtectedPaths, Workspace};
use serde::{Deserialize, Serialize};

/// File names of a persona, in the order of the system context.
const FILES: [&str; 4] = ["SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md"];
/// The workspace's instructions for agents: the first of these files that exists.
pub(crate) const RULES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// Size limit of a file in bytes. The file is part of every request.
const FILE_BYTES: u64 = 256 << 10;
/// The persona of a new session.
pub(crate) const DEFAULT: &str = "default";
/// SOUL.md of the bundled `default`, which a user's persona of that name replaces.
const BUNDLED_SOUL: &str = include_str!("../personas/default/SOUL.md");

/// A persona with its texts as they were when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Persona {
    pub(crate) name: Name,
    pub(crate) files: Vec<PersonaFile>,
    /// Messages about files that are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<String>,
    /// The facts about the session's start that the agents see. They are stored here, but stay the same when the session's
    /// persona changes.
    #[serde(default, skip_serializing_if = "Surroundings::is_empty")]
    pub(crate) surroundings: Surroundings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PersonaFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Why a persona cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PersonaError {
    /// No persona has this name.
    #[error("agent '{}' was not found.", text::excerpt(.0, 80))]
    NotFound(String),
    /// The persona's folder contains none of its files.
    #[error("agent '{0}' is empty: its folder has none of {files}.", files = FILES.join(", "))]
    Empty(String),
    /// The persona exists but cannot be read.
    #[error("agent '{name}' cannot be read: {file}: {why}.")]
    Unreadable {
        /// The name of the unreadable persona.
        name: String,
        /// The file, or the folder that should contain it.
        file: String,
        /// The reason, for the user.
        why: String,
    },
}

impl PersonaError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) | Self::Empty(_) => Code::PersonaNotFound,
            Self::Unreadable { .. } => Code::PersonaUnreadable,
        }
    }
}

/// The places that personas are read from.
pub(crate) struct Personas<'a> {
    /// The user's folder: `<config>/agents`.
    pub(crate) user: PathBuf,
    pub(crate) workspace: &'a Path,
    /// Whether the workspace is trusted. An untrusted workspace cannot replace personas of the user.
    pub(crate) trusted: bool,
    /// Patchbay's own folders, which links in the workspace must not lead to.
    pub(crate) protected: &'a ProtectedPaths,
}

impl Personas<'_> {
    /// Reads the persona `name`, followed by the workspace's AGENTS.md, or its CLAUDE.md if AGENTS.md does not exist.
    /// The workspace's persona takes precedence, then the user's, then the bundled one.
    pub(crate) fn read(&self, name: &str) -> Result<Persona, PersonaError> {
        let not_found = || PersonaError::NotFound(name.to_owned());
        let parsed: Name = name.parse().map_err(|_| not_found())?;
        let unreadable =
            |file: &str, why: String| PersonaError::Unreadable { name: name.to_owned(), file: file.to_owned(), why };
        let mut skipped = Vec::new();
        // A user's persona folder may be a link.
        let user = match files::open_folder(&self.user.join(name)) {
            // If 'agents' is a file, sessions still start.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory && !self.user.is_dir() => {
                skipped.push(
                    "your personas are not used: 'agents' in the config folder is a file; move it away".to_owned(),
                );
                None
            }
            opened => opened.map_err(|error| unreadable("its folder", error.to_string()))?,
        };
        let below = user.is_some() || name == DEFAULT;
        let guarded = match Workspace::open_for_host(self.workspace, self.protected) {
            Ok(guarded) => Some(guarded),
            // A stored session works without its workspace.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unreadable("the workspace", error.to_string())),
        };
        let of_workspace = match &guarded {
            Some(workspace) if self.trusted || !below => {
                let read = read_from_workspace(workspace, &format!("{IN_WORKSPACE}/{name}"));
                read.map_err(|(file, why)| unreadable(&file, why))?
            }
            _ => None,
        };
        let found = match (of_workspace, user) {
            (Some(files), _) => Some(files),
            (None, Some(folder)) => Some(read_files(&folder, name)?),
            (None, None) => None,
        };
        let mut files = match found {
            Some(files) if !files.is_empty() => files,
            // An empty folder must not prevent a session from starting.
            _ if name == DEFAULT => bundled(),
            Some(_) => return Err(PersonaError::Empty(name.to_owned())),
            None => return Err(not_found()),
        };
        // The author of a workspace must not be able to prevent sessions in it: unreadable files are named and left
        // out.
        for rules in RULES {
            let name = format!("{rules} of the workspace");
            match guarded.as_ref().map_or(Ok(None), |workspace| read_rules(workspace, rules, FILE_BYTES)) {
                Ok(None) => continue,
                Ok(Some(text)) => files.push(PersonaFile { name, text }),
                Err(why) => skipped.push(format!("{name} is not used: {why}")),
            }
            break;
        }
        Ok(Persona { name: parsed, files, skipped, surroundings: Surroundings::default() })
    }

    /// Returns the names of all personas, sorted.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([DEFAULT.to_owned()]);
        for root in [files::open_folder(&self.user), files::open_below(self.workspace, IN_WORKSPACE)] {
            let Ok(Some(folder)) = root else { continue };
            let Ok(entries) = folder.entries() else { continue };
            for entry in entries.flatten() {
                if let Ok(name) = entry.file_name().into_string()
                    && name.parse::<Name>().is_ok()
                    && folder.metadata(&name).is_ok_and(|metadata| metadata.is_dir())
                {
                    names.insert(name);
                }
            }
        }
        names
    }
}

/// The folder of personas in a workspace.
const IN_WORKSPACE: &str = ".patchbay/agents";

/// Reads the persona in the folder `folder` of a workspace; `None` if the folder does not exist. An error contains the file that
/// cannot be read, and the reason.
fn read_from_workspace(workspace: &Workspace, folder: &str) -> Result<Option<Vec<PersonaFile>>, (String, String)> {
    match workspace.open_folder(folder) {
        Ok(_) => {}
        Err(FileError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(("its folder".to_owned(), error.to_string())),
    }
    let mut read = Vec::new();
    for file in FILES {
        match read_rules(workspace, &format!("{folder}/{file}"), FILE_BYTES) {
            Ok(Some(text)) => read.push(PersonaFile { name: file.to_owned(), text }),
            Ok(None) => {}
            Err(why) => return Err((file.to_owned(), why)),
        }
    }
    Ok(Some(read))
}

/// Reads a file with instructions for agents, of at most `max` bytes, in a workspace or in a folder above it; `None` if the file
/// does not exist.
pub(crate) fn read_rules(workspace: &Workspace, path: &str, max: u64) -> Result<Option<String>, String> {
    match workspace.read_rules(path, max) {
        Ok(bytes) => Ok(Some(clean(bytes))),
        Err(FileError::NotFound { .. }) => Ok(None),
        Err(FileError::Directory { .. } | FileError::Special { .. }) => Err("not a regular file".to_owned()),
        Err(FileError::TooLong { max, .. }) => Err(format!("over {max} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

fn bundled() -> Vec<PersonaFile> {
    vec![PersonaFile { name: "SOUL.md".to_owned(), text: BUNDLED_SOUL.trim().to_owned() }]
}

fn read_files(folder: &files::Folder, persona: &str) -> Result<Vec<PersonaFile>, PersonaError> {
    let mut read = Vec::new();
    for file in FILES {
        if let Some(text) = read_text(folder, file, persona)? {
            read.push(PersonaFile { name: file.to_owned(), text });
        }
    }
    Ok(read)
}

fn read_text(folder: &files::Folder, file: &str, persona: &str) -> Result<Option<String>, PersonaError> {
    let bytes = files::read(folder, file, FILE_BYTES).map_err(|error| PersonaError::Unreadable {
        name: persona.to_owned(),
        file: file.to_owned(),
        why: error.to_string(),
    })?;
    Ok(bytes.map(clean))
}

fn clean(bytes: Vec<u8>) -> String {
    text::clean(&String::from_utf8_lossy(&bytes)).trim().to_owned()
}
