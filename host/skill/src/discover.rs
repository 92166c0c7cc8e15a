//! Candidates: what the roots hold, before anything is decided.

use std::{io, path::Path, sync::Arc};

use cap_std::{ambient_authority, fs::Dir};
use patchbay_core::{Code, Digest, Name, text};
use patchbay_policy::Root;

use crate::{Manifest, embedded_skill_md, files};

/// The largest SKILL.md: it goes into a conversation.
const SKILL_MD_BYTES: u64 = 256 << 10;
/// The largest component: twice what the largest language runtime that we know takes.
const COMPONENT_BYTES: u64 = 32 << 20;
/// Children of a root that are looked at.
const CHILDREN: usize = 10_000;

/// Something that was found under a name, good or bad.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name of the folder or file, cleaned: it may be no valid [`Name`].
    pub label: String,
    /// Where.
    pub root: Root,
    /// What it is, or why it cannot be a skill.
    pub candidate: Result<Candidate, Problem>,
}

/// A skill that can be read.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its name.
    pub name: Name,
    /// The whole SKILL.md.
    pub skill_md: String,
    /// What the SKILL.md says.
    pub manifest: Manifest,
    /// Its component, if it has one.
    pub component: Option<Component>,
}

/// The bytes of a component, and their digest.
#[derive(Clone, Debug)]
pub struct Component {
    /// The digest of the bytes.
    pub digest: Digest,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

/// Why something cannot be a skill of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The stable code.
    pub code: Code,
    /// What is wrong, on one line, without a path.
    pub message: String,
}

impl Problem {
    /// A problem.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn unreadable(what: &str, error: &io::Error) -> Self {
        let message = match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => format!("{what}: {error}."),
            // The system's words, without its path.
            kind => format!("{what} cannot be read: {kind}."),
        };
        Self::new(Code::MissingSkillMd, message)
    }
}

/// A skill that the binary brings along: its name, and either a component with its SKILL.md embedded or a SKILL.md.
#[derive(Clone, Copy, Debug)]
pub struct Bundled {
    /// Its name.
    pub name: &'static str,
    /// The bytes.
    pub bytes: &'static [u8],
}

/// Reads the skills that the binary brings along.
pub fn bundled(skills: &[Bundled]) -> Vec<Found> {
    let read = |skill: &Bundled| {
        let name = checked_name(skill.name)?;
        if skill.bytes.starts_with(b"\0asm") {
            packaged(name, skill.bytes.into())
        } else {
            let skill_md = String::from_utf8_lossy(skill.bytes).into_owned();
            let manifest = Manifest::read(&skill_md, &name)?;
            Ok(Candidate { name, skill_md, manifest, component: None })
        }
    };
    let found = |skill: &Bundled| Found { label: skill.name.to_owned(), root: Root::Bundled, candidate: read(skill) };
    skills.iter().map(found).collect()
}

/// Where a workspace has its skills.
const IN_WORKSPACE: &str = ".patchbay/skills";

/// Looks at the immediate children of a root: `NAME/` with a SKILL.md and at most one component, or `NAME.wasm`
/// with the SKILL.md embedded. Hidden children and other files are passed over. A folder that does not exist holds nothing.
///
/// `path` is the person's folder of skills, or the workspace. In a workspace nothing outside of it is read; a person's own
/// folder may hold links to folders elsewhere.
///
/// # Errors
/// Where the folder itself exists and cannot be read.
pub fn discover(root: Root, path: &Path) -> io::Result<Vec<Found>> {
    let folder = match root {
        Root::Workspace => files::open_below(path, IN_WORKSPACE)?,
        _ => files::open_folder(path)?,
    };
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in folder.entries()?.take(CHILDREN) {
        names.push(entry?.file_name());
    }
    names.sort();
    let mut found: Vec<Found> = Vec::new();
    for file_name in names {
        let Some(file_name) = file_name.to_str() else {
            let message = "A folder's or file's name is not UTF-8.";
            let label = text::excerpt(&file_name.to_string_lossy(), 80);
            found.push(Found { label, root, candidate: Err(Problem::new(Code::InvalidName, message)) });
            continue;
        };
        if file_name.starts_with('.') {
            continue;
        }
        let is_folder =
            folder.metadata(file_name).is_ok_and(|metadata| metadata.is_dir()) || leads_away(&folder, file_name);
        let (label, candidate) = if is_folder {
            (file_name, read_folder(root, path, &folder, file_name))
        } else if let Some(name) = file_name.strip_suffix(".wasm") {
            (name, read_file(&folder, file_name, name))
        } else {
            continue;
        };
        found.push(Found { label: text::excerpt(label, 80), root, candidate });
    }
    mark_doubles(&mut found);
    Ok(found)
}

/// Whether a child is a link that cannot be followed within the root.
fn leads_away(folder: &Dir, name: &str) -> bool {
    folder.metadata(name).is_err() && folder.symlink_metadata(name).is_ok_and(|metadata| metadata.is_symlink())
}

fn read_folder(root: Root, path: &Path, parent: &Dir, name: &str) -> Result<Candidate, Problem> {
    let parsed = checked_name(name)?;
    let opened = match root {
        Root::Workspace => parent.open_dir(name),
        _ => Dir::open_ambient_dir(path.join(name), ambient_authority()),
    };
    let folder = opened.map_err(|error| Problem::unreadable("The folder", &error))?;
    let skill_md = files::read(&folder, "SKILL.md", SKILL_MD_BYTES)
        .map_err(|error| Problem::unreadable("SKILL.md", &error))?
        .ok_or_else(|| Problem::new(Code::MissingSkillMd, "The folder has no SKILL.md."))?;
    let skill_md =
        String::from_utf8(skill_md).map_err(|_| Problem::new(Code::MalformedFrontmatter, "SKILL.md is not UTF-8."))?;
    let manifest = Manifest::read(&skill_md, &parsed)?;
    let components = components(&folder).map_err(|error| Problem::unreadable("The folder", &error))?;
    let component = match &components[..] {
        [] => None,
        [file] => Some(read_component(&folder, file)?),
        several => {
            let message = format!("Several components: {}; a skill has at most one.", several.join(", "));
            return Err(Problem::new(Code::SeveralComponents, message));
        }
    };
    Ok(Candidate { name: parsed, skill_md, manifest, component })
}

/// Names of the `*.wasm` files of a folder, sorted.
fn components(folder: &Dir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()?.take(CHILDREN) {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".wasm") && !name.starts_with('.')) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn read_file(folder: &Dir, file_name: &str, name: &str) -> Result<Candidate, Problem> {
    packaged(checked_name(name)?, read_component(folder, file_name)?.bytes)
}

fn read_component(folder: &Dir, file_name: &str) -> Result<Component, Problem> {
    let invalid = |message: String| Problem::new(Code::InvalidComponent, message);
    let bytes = files::read(folder, file_name, COMPONENT_BYTES)
        .map_err(|error| invalid(Problem::unreadable("The component", &error).message))?
        .ok_or_else(|| invalid("The component vanished while it was read.".to_owned()))?;
    Ok(Component { digest: Digest::of(&bytes), bytes: bytes.into() })
}

fn packaged(name: Name, bytes: Arc<[u8]>) -> Result<Candidate, Problem> {
    let skill_md = embedded_skill_md(&bytes)?.ok_or_else(|| {
        Problem::new(Code::MissingSkillMd, "The component has no SKILL.md; 'patchbay plugin build' embeds it.")
    })?;
    let manifest = Manifest::read(&skill_md, &name)?;
    let component = Some(Component { digest: Digest::of(&bytes), bytes });
    Ok(Candidate { name, skill_md, manifest, component })
}

fn checked_name(name: &str) -> Result<Name, Problem> {
    name.parse().map_err(|error| Problem::new(Code::InvalidName, format!("{error}.")))
}

/// `NAME/` beside `NAME.wasm`: nobody can say which of them is meant, so that neither is.
fn mark_doubles(found: &mut [Found]) {
    let labels: Vec<_> = found.iter().map(|found| found.label.clone()).collect();
    for one in found {
        if labels.iter().filter(|label| **label == one.label).count() > 1 {
            let message = format!("Both '{0}/' and '{0}.wasm' claim the name.", one.label);
            one.candidate = Err(Problem::new(Code::SeveralComponents, message));
        }
    }
}
