//! Personas: files put into the system context. They are read when a session starts and at `/agent`, and kept with the
//! session.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use patchbay_core::{Code, Name, text};
use patchbay_skill::files;
use serde::{Deserialize, Serialize};

/// The files of a persona, in the order in which they are read.
const FILES: [&str; 4] = ["SOUL.md", "IDENTITY.md", "USER.md", "AGENTS.md"];
/// The largest file: it goes into every turn.
const FILE_BYTES: u64 = 256 << 10;
/// The persona of a new session.
pub(crate) const DEFAULT: &str = "default";
/// What the bundled `default` is, where nobody has put another one in its place.
const BUNDLED_SOUL: &str = include_str!("../personas/default/SOUL.md");

/// A persona with its text, as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Persona {
    pub(crate) name: Name,
    pub(crate) files: Vec<PersonaFile>,
    /// What is not used, and why, for the person to hear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PersonaFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Why a persona cannot be taken on.
#[derive(Debug, thiserror::Error)]
pub enum PersonaError {
    /// There is none of that name.
    #[error("agent '{}' was not found.", text::excerpt(.0, 80))]
    NotFound(String),
    /// It is there and cannot be read.
    #[error("agent '{name}' cannot be read: {file}: {source}.")]
    Unreadable {
        /// Its name.
        name: String,
        /// The file, or the folder.
        file: String,
        /// Why.
        source: io::Error,
    },
}

impl PersonaError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::PersonaNotFound,
            Self::Unreadable { .. } => Code::PersonaUnreadable,
        }
    }
}

/// Where personas are looked for.
pub(crate) struct Personas<'a> {
    /// `<config>/agents`.
    pub(crate) user: PathBuf,
    /// The workspace.
    pub(crate) workspace: &'a Path,
    /// Whether the person trusts the workspace. Until then its personas take no lower root's name.
    pub(crate) trusted: bool,
}

impl Personas<'_> {
    /// Reads the persona `name`: the workspace's, else the person's, else the bundled one; then the workspace's own
    /// AGENTS.md.
    pub(crate) fn read(&self, name: &str) -> Result<Persona, PersonaError> {
        let not_found = || PersonaError::NotFound(name.to_owned());
        let parsed: Name = name.parse().map_err(|_| not_found())?;
        let unreadable =
            |source| PersonaError::Unreadable { name: name.to_owned(), file: "its folder".to_owned(), source };
        // A person's folder may be a link to elsewhere; a workspace's may not lead out of it.
        let user = files::open_folder(&self.user.join(name)).map_err(unreadable)?;
        let below = user.is_some() || name == DEFAULT;
        let workspace = match below && !self.trusted {
            true => None,
            false => files::open_below(self.workspace, &format!("{IN_WORKSPACE}/{name}")).map_err(unreadable)?,
        };
        let mut files = match workspace.or(user) {
            Some(folder) => read_files(&folder, name)?,
            None if name == DEFAULT => {
                vec![PersonaFile { name: "SOUL.md".to_owned(), text: BUNDLED_SOUL.trim().to_owned() }]
            }
            None => return Err(not_found()),
        };
        // Whoever wrote the workspace must not be able to keep a person out of it: what cannot be read is named and left out.
        let mut skipped = Vec::new();
        match self.workspace_file() {
            Ok(Some(text)) => files.push(PersonaFile { name: "AGENTS.md of the workspace".to_owned(), text }),
            Ok(None) => {}
            Err(error) => skipped.push(format!("AGENTS.md of the workspace is not used: {error}")),
        }
        Ok(Persona { name: parsed, files, skipped })
    }

    fn workspace_file(&self) -> io::Result<Option<String>> {
        let Some(folder) = files::open_folder(self.workspace)? else { return Ok(None) };
        let bytes = files::read(&folder, "AGENTS.md", FILE_BYTES)?;
        Ok(bytes.map(clean))
    }

    /// The names that there are, sorted.
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

/// Where a workspace has its personas.
const IN_WORKSPACE: &str = ".patchbay/agents";

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
    let bytes = files::read(folder, file, FILE_BYTES).map_err(|source| PersonaError::Unreadable {
        name: persona.to_owned(),
        file: file.to_owned(),
        source,
    })?;
    Ok(bytes.map(clean))
}

fn clean(bytes: Vec<u8>) -> String {
    text::clean(&String::from_utf8_lossy(&bytes)).trim().to_owned()
}
