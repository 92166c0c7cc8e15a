//! `packages.lock`: the installed packages, with their origin and the digests of their content. Pure.
//!
//! The crate `plugin` writes the file. The crate `session` reads it for each snapshot, and leaves out packages whose skills
//! differ from its digests. The file grants nothing: grants are in the store.

use std::{collections::BTreeSet, fmt::Write as _};

use patchbay_core::{Digest, Name, PackageName};
use patchbay_policy::Capability;
use serde::{Deserialize, Serialize};

use crate::Fingerprint;

/// Size limit of the file, in bytes.
pub const LOCK_BYTES: u64 = 4 << 20;
/// The format that this build reads and writes.
const FORMAT: u32 = 1;
/// Maximum number of packages that one lock can have.
const PACKAGES: usize = 1_000;
/// Maximum number of skills in one package.
pub const PACKAGE_SKILLS: usize = 256;
/// Maximum number of servers in one package.
pub const PACKAGE_SERVERS: usize = 32;

/// The packages that are installed, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackagesLock {
    packages: Vec<LockedPackage>,
}

/// The form of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageKind {
    /// A single-file skill, `NAME.wasm`.
    File,
    /// The folder of one skill.
    Skill,
    /// A folder with a `plugin.json`, or a plugin in Claude Code's format.
    AgentPlugin,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// The name, unique in the lock.
    pub name: PackageName,
    /// The form of the package.
    pub kind: PackageKind,
    /// The source as the user typed it, but absolute. `plugin update` looks for new versions there.
    pub from: String,
    /// The exact source that was copied.
    pub found: String,
    /// The version that the package states, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of the file, or of the list that `plugin sums` prints.
    pub digest: Digest,
    /// The position in the order in which packages were added. If two packages want the same name or alias, the lower one keeps it.
    pub order: u64,
    /// The day on which the package was added, as YYYY-MM-DD in UTC.
    pub added: String,
    /// The day on which this version was installed, as YYYY-MM-DD in UTC.
    pub updated: String,
    /// The fingerprint of the pinned signing key; `None` if the package is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Fingerprint>,
    /// The skills, sorted by path.
    #[serde(rename = "skill", default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<LockedSkill>,
    /// The declared MCP servers, sorted by name.
    #[serde(rename = "server", default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<LockedServer>,
}

/// A skill of an installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedSkill {
    /// The name in sessions. With `--rename`, it differs from the folder's name.
    pub name: Name,
    /// The path of the folder, `.wasm` file or command's `.md` file in the package's folder, with `/` as the separator.
    pub path: String,
    /// The digest over the skill's files, as in grants.
    pub digest: Digest,
    /// The digest of its component; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<Digest>,
    /// The digest of its instructions.
    pub text: Digest,
    /// The digest of its tools with their descriptions and schemas.
    pub tools: Digest,
    /// The capabilities that it asks for, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Capability>,
}

/// An MCP server that an installed package declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedServer {
    /// The name in `mcp.json`.
    pub name: String,
    /// The digest of its entry.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    format: u32,
    #[serde(rename = "package", default, skip_serializing_if = "Vec::is_empty")]
    packages: Vec<LockedPackage>,
}

/// Why a file is not a valid `packages.lock`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LockError(pub(crate) String);

impl PackagesLock {
    /// Parses the text of a `packages.lock`.
    ///
    /// # Errors
    /// The text is longer than [`LOCK_BYTES`], is not TOML of this format, or names something twice.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        if text.len() as u64 > LOCK_BYTES {
            return Err(LockError(format!("it is larger than {} MiB", LOCK_BYTES >> 20)));
        }
        let file: LockFile = toml::from_str(text).map_err(|error| {
            // A newer format probably has more fields. Naming the format explains the problem better than naming an unknown field.
            match toml::from_str::<Head>(text) {
                Ok(Head { format }) if format != FORMAT => newer(format),
                _ => LockError(one_line(&error, text)),
            }
        })?;
        if file.format != FORMAT {
            return Err(newer(file.format));
        }
        Self::new(file.packages)
    }

    /// Creates a lock from packages in any order.
    ///
    /// # Errors
    /// There are too many packages, skills or servers, a name or an `order` occurs twice, or a path leads out of the package.
    pub fn new(mut packages: Vec<LockedPackage>) -> Result<Self, LockError> {
        let twice = |what: &str, name: &str| Err(LockError(format!("{what} '{name}' occurs twice")));
        if packages.len() > PACKAGES {
            return Err(LockError(format!("it has more than {PACKAGES} packages")));
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        let (mut names, mut orders) = (BTreeSet::new(), BTreeSet::new());
        for package in &mut packages {
            let LockedPackage { name, order, skills, servers, .. } = package;
            if !names.insert(name.clone()) {
                return twice("package", name.as_str());
            }
            if !orders.insert(*order) {
                return twice("order", &order.to_string());
            }
            if skills.len() > PACKAGE_SKILLS || servers.len() > PACKAGE_SERVERS {
                let most = format!("{PACKAGE_SKILLS} skills or {PACKAGE_SERVERS} servers");
                return Err(LockError(format!("package '{name}' has more than {most}")));
            }
            skills.sort_by(|a, b| a.path.cmp(&b.path));
            servers.sort_by(|a, b| a.name.cmp(&b.name));
            let mut own = BTreeSet::new();
            for skill in &mut *skills {
                skill.asks.sort();
                if !is_inside(&skill.path) {
                    let path = patchbay_core::text::excerpt(&skill.path, 80);
                    return Err(LockError(format!("package '{name}' has a skill with the invalid path '{path}'")));
                }
                if !own.insert(&skill.name) {
                    return twice("skill", skill.name.as_str());
                }
            }
            if let Some(two) =
                servers.windows(2).find(|two| two.first().map(|a| &a.name) == two.last().map(|b| &b.name))
            {
                return twice("server", &patchbay_core::text::excerpt(two.first().map_or("", |one| &one.name), 80));
            }
        }
        Ok(Self { packages })
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let mut text = "# The packages of this home. 'patchbay plugin add', 'update' and 'remove' write it; 'patchbay plugin sync' makes \
                        another home equal to it.\n"
            .to_owned();
        let file = LockFile { format: FORMAT, packages: self.packages.clone() };
        // Serializing tables of strings and numbers cannot fail.
        let _ = write!(text, "{}", toml::to_string(&file).unwrap_or_default());
        text
    }

    /// Returns the packages, sorted by name.
    pub fn packages(&self) -> &[LockedPackage] {
        &self.packages
    }

    /// Returns the packages in the order in which they were added.
    pub fn in_order(&self) -> Vec<&LockedPackage> {
        let mut packages: Vec<_> = self.packages.iter().collect();
        packages.sort_by_key(|package| package.order);
        packages
    }

    /// Returns the package with this name.
    pub fn package(&self, name: &str) -> Option<&LockedPackage> {
        self.packages.iter().find(|package| package.name.as_str() == name)
    }

    /// Returns a lock that contains only the package `name`, or an empty lock if there is no such package.
    #[must_use]
    pub fn only(&self, name: &str) -> Self {
        Self { packages: self.package(name).cloned().into_iter().collect() }
    }

    /// Returns the lock with `package` added. It replaces an existing package of the same name.
    ///
    /// # Errors
    /// The same as for [`PackagesLock::new`].
    pub fn with(&self, package: LockedPackage) -> Result<Self, LockError> {
        let mut packages = self.without(package.name.as_str()).packages;
        packages.push(package);
        Self::new(packages)
    }

    /// Returns the lock without the package `name`.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        Self { packages: self.packages.iter().filter(|package| package.name.as_str() != name).cloned().collect() }
    }

    /// Returns the `order` of the next package that is added.
    pub fn next_order(&self) -> u64 {
        self.packages.iter().map(|package| package.order).max().map_or(1, |last| last.saturating_add(1))
    }
}

impl LockedPackage {
    /// Returns the path of this version in the folder of packages.
    pub fn folder(&self) -> String {
        format!("{}/{}", self.name, self.digest.to_hex())
    }
}

impl LockedSkill {
    /// Returns the skill's own name, which is the name of its folder or file; `None` if that is not a valid name.
    pub fn own_name(&self) -> Option<Name> {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.strip_suffix(".wasm").or_else(|| name.strip_suffix(".md")).unwrap_or(name).parse().ok()
    }

    /// Returns whether a skill with these names, in sessions and in its package, is another version of this skill. Comparing only
    /// one name would let an update replace this skill with any other and inherit its grants.
    pub fn is_version_of(&self, name: &Name, own_name: &str) -> bool {
        self.name == *name && self.own_name().is_some_and(|own| own.as_str() == own_name)
    }
}

fn newer(format: u32) -> LockError {
    LockError(format!("its format is {format}, but this Patchbay reads {FORMAT}"))
}

/// Returns the message of a TOML error with its line number, but without the source excerpt.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = patchbay_core::text::excerpt(error.message(), 200);
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// Returns whether a skill's path stays inside its package.
fn is_inside(path: &str) -> bool {
    path.len() <= 255
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        && !path.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, order: u64) -> LockedPackage {
        let digest = Digest::of(name.as_bytes());
        let skill = |skill: &str| LockedSkill {
            name: skill.parse().unwrap(),
            path: format!("skills/{skill}"),
            digest,
            component: Some(digest),
            text: digest,
            tools: digest,
            asks: vec!["kv".parse().unwrap(), "http:*.example.org".parse().unwrap()],
        };
        LockedPackage {
            name: name.parse().unwrap(),
            kind: PackageKind::AgentPlugin,
            from: "/a \"folder\"\u{7}".to_owned(),
            found: "/a".to_owned(),
            version: Some("1.0".to_owned()),
            digest,
            order,
            added: "2026-11-27".to_owned(),
            updated: "2026-11-27".to_owned(),
            signer: None,
            skills: vec![skill("b"), skill("a")],
            servers: vec![LockedServer { name: "docs".to_owned(), digest }],
        }
    }

    #[test]
    fn lock_is_sorted_and_reads_back() {
        let lock = PackagesLock::new(vec![package("zoo", 1), package("ant", 2)]).unwrap();
        let text = lock.to_text();
        assert_eq!(PackagesLock::parse(&text).unwrap(), lock);
        assert_eq!(PackagesLock::parse(&text).unwrap().to_text(), text);
        let place = |needle: &str| text.find(needle).unwrap();
        assert!(place("name = \"ant\"") < place("name = \"zoo\""), "{text}");
        assert!(
            place("name = \"a\"") < place("name = \"b\"") && text.contains("asks = [\"kv\", \"http:*.example.org\"]"),
            "{text}"
        );
        let order: Vec<&str> = lock.in_order().iter().map(|package| package.name.as_str()).collect();
        assert_eq!((order, lock.next_order()), (vec!["zoo", "ant"], 3));
        assert!(lock.without("ant").package("ant").is_none());
        assert_eq!(PackagesLock::parse("format = 1").unwrap(), PackagesLock::default());
    }

    #[test]
    fn skill_is_the_same_only_with_both_names() {
        let mut skill = package("ant", 1).skills.remove(0);
        skill.name = "wave".parse().unwrap();
        assert!(skill.is_version_of(&"wave".parse().unwrap(), "b"));
        assert!(!skill.is_version_of(&"wave".parse().unwrap(), "wave"));
        assert!(!skill.is_version_of(&"b".parse().unwrap(), "b"));
    }

    #[test]
    fn invalid_locks_are_refused_with_a_reason() {
        let refused = |text: &str, words: &str| {
            let error = PackagesLock::parse(text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        };
        refused("", "format");
        refused("format = 2\nmore = 1", "its format is 2, but this Patchbay reads 1");
        refused("format = 1\n[[package]]\nname = \"../x\"", "line 3: '../x' is not a valid package name");
        refused(&"#".repeat(LOCK_BYTES as usize + 1), "larger than 4 MiB");
        let text = PackagesLock::new(vec![package("ant", 1)]).unwrap().to_text();
        refused(&text.replace("skills/a", "../a"), "invalid path '../a'");
        refused(&text.replace("sha256:", "sha1:"), "is not a digest");
        refused(&text.replace("order = 1", "order = 1\nextra = 1"), "extra");
        // An invalid signer must not be read as no pinned signer.
        refused(&text.replace("order = 1", "order = 1\nsigner = \"me\""), "'me' is neither a fingerprint");
        let again = text.split_once("[[package]]").unwrap().1;
        refused(&format!("{text}\n[[package]]{again}"), "package 'ant' occurs twice");
        refused(&text.replace("name = \"a\"", "name = \"b\""), "skill 'b' occurs twice");
        let second = again.replace("\"ant\"", "\"bee\"");
        refused(&format!("{text}\n[[package]]{second}"), "order '1' occurs twice");
    }
}
