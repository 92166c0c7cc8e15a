//! The mode of a session: which actions its tools may take without a question, and which are forbidden. Only the user
//! sets it; nothing that a model, a skill, a persona or a workspace contains can change it. It is read at each effect.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use patchbay_core::caseless;
use patchbay_policy::Denial;
use patchbay_sandbox::{EffectBody, FileEdit, GuestEffect};

/// How far the tools of a session may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Mode {
    /// The user is asked about everything that is not granted.
    #[default]
    Ask,
    /// Tools may write files in the workspace without a question, except files that start programs.
    Edits,
    /// Plan mode: tools may not change anything.
    Plan,
}

impl Mode {
    /// All modes, in the order in which a key cycles through them.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Edits, Self::Plan];

    /// Returns the name of the mode for `/mode`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Explains the mode in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ask => "Tools ask before they do anything that you have not granted.",
            Self::Edits => {
                "Tools write files in this workspace without asking. They still ask before they delete files, run \
                 programs, send requests or write files that start programs."
            }
            Self::Plan => "Nothing is changed: tools can read, and all changes are denied.",
        }
    }

    /// Returns the mode that follows when a key cycles through all of them.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Ask => Self::Edits,
            Self::Edits => Self::Plan,
            Self::Plan => Self::Ask,
        }
    }

    /// Returns the denial of an effect in this mode.
    pub(crate) fn denial(self, effect: GuestEffect<'_>) -> Option<Denial> {
        (self == Self::Plan).then(|| changed_by(effect)).flatten().map(Self::denied)
    }

    /// Returns the denial of an `action` in plan mode, such as `writing files`.
    pub(crate) fn denied(action: &str) -> Denial {
        Denial::PlanMode { action: action.to_owned() }
    }

    /// Returns whether this mode allows `effect` without an answer. The workspace's guard has already checked the path.
    pub(crate) fn allows(self, effect: GuestEffect<'_>) -> bool {
        let allowed = |edit: &FileEdit<'_>| edit.contents.is_some_and(|new| !starts_programs(edit.path, new));
        let edits = effect.edits();
        self == Self::Edits && !edits.is_empty() && edits.iter().all(allowed)
    }

    /// Returns whether the user is asked about `effect` in this mode.
    pub(crate) fn asks(self, effect: GuestEffect<'_>) -> bool {
        !(self == Self::Plan && matches!(effect, GuestEffect::Request { .. }))
    }
}

/// The mode of one session. Clones share it. It is not stored: a resumed session begins with [`Mode::Ask`].
#[derive(Clone, Debug, Default)]
pub struct ModeSlot(Arc<AtomicU8>);

impl ModeSlot {
    /// Returns the mode at this moment.
    pub fn get(&self) -> Mode {
        let index = usize::from(self.0.load(Ordering::Acquire));
        Mode::ALL.get(index).copied().unwrap_or_default()
    }

    /// Sets the mode for every effect from now on.
    pub fn set(&self, mode: Mode) {
        let index = Mode::ALL.iter().position(|other| *other == mode).unwrap_or_default();
        self.0.store(u8::try_from(index).unwrap_or_default(), Ordering::Release);
    }
}

/// Returns the kind of change that an effect makes; `None` if it only reads, or calls a tool whose effects are checked one by one.
fn changed_by(effect: GuestEffect<'_>) -> Option<&'static str> {
    match effect {
        GuestEffect::Write { .. } => Some("writing files"),
        GuestEffect::Delete { .. } => Some("deleting files"),
        GuestEffect::Change { .. } => Some("changing files"),
        GuestEffect::PutKey { .. } | GuestEffect::DeleteKey { .. } => Some("changing stored keys"),
        GuestEffect::Request { method: "GET", body: EffectBody::None, .. } => None,
        GuestEffect::Request { .. } => Some("any request but GET without a body"),
        GuestEffect::Read { .. }
        | GuestEffect::List { .. }
        | GuestEffect::Search { .. }
        | GuestEffect::Find { .. }
        | GuestEffect::GetKey { .. }
        | GuestEffect::ListKeys { .. }
        | GuestEffect::Complete { .. }
        | GuestEffect::Call { .. }
        | GuestEffect::FindTools { .. } => None,
    }
}

/// Files that developer tools run, or take commands from.
const PROGRAM_FILES: [&str; 36] = [
    "bitbucket-pipelines.yml",
    "brewfile",
    "build",
    "build.bazel",
    "build.rs",
    "build.xml",
    "build.zig",
    "cargo.toml",
    "cmakelists.txt",
    "compose.yaml",
    "compose.yml",
    "configure",
    "conftest.py",
    "deno.json",
    "docker-compose.yaml",
    "docker-compose.yml",
    "dockerfile",
    "gemfile",
    "gnumakefile",
    "jenkinsfile",
    "justfile",
    "makefile",
    "manage.py",
    "meson.build",
    "mix.exs",
    "noxfile.py",
    "package.json",
    "pom.xml",
    "procfile",
    "pyproject.toml",
    "rakefile",
    "setup.py",
    "taskfile.yml",
    "tox.ini",
    "vagrantfile",
    "workspace",
];
/// Extensions of other files that start programs.
const PROGRAM_ENDS: [&str; 14] =
    ["bash", "bat", "cmd", "command", "fish", "gradle", "kts", "mk", "ps1", "psm1", "service", "sh", "tcl", "zsh"];

/// Returns whether the file at `path` starts programs or might: a known name or extension, a hidden file or folder, or a script.
fn starts_programs(path: &str, contents: &[u8]) -> bool {
    let name = caseless(path.rsplit('/').next().unwrap_or(path));
    let end = name.rsplit_once('.').map(|(_, end)| end);
    path.split('/').any(|part| part.starts_with('.'))
        || PROGRAM_FILES.contains(&&*name)
        || end.is_some_and(|end| PROGRAM_ENDS.contains(&end))
        || name.contains(".config.")
        || contents.starts_with(b"#!")
}

#[cfg(test)]
mod tests {
    use patchbay_core::kv::Scope;

    use super::*;

    fn write(path: &str) -> GuestEffect<'_> {
        GuestEffect::Write { path, contents: b"x" }
    }

    /// Each kind of effect in each mode: denied, allowed without a question, or left to the grants. Written by hand.
    #[test]
    fn each_effect_has_its_place_in_each_mode() {
        let request =
            |method, body| GuestEffect::Request { method, url: "https://a.org/", headers: &[], auth: &[], body };
        let (scope, body) = (Scope::Session, EffectBody::Whole(b"x"));
        let edit = |path, contents| FileEdit { path, contents };
        let edits = [edit("a", Some(&b"x"[..])), edit("Makefile", Some(b"x")), edit("b", None)];
        let table = [
            (write("src/a.rs"), "asks free denied"),
            (write("Makefile"), "asks asks denied"),
            (GuestEffect::Delete { path: "a" }, "asks asks denied"),
            (GuestEffect::Change { edits: &edits[..1] }, "asks free denied"),
            (GuestEffect::Change { edits: &edits[..2] }, "asks asks denied"),
            (GuestEffect::Change { edits: &edits[2..] }, "asks asks denied"),
            (GuestEffect::PutKey { scope, key: "k", value: b"v" }, "asks asks denied"),
            (GuestEffect::DeleteKey { scope, key: "k" }, "asks asks denied"),
            (GuestEffect::GetKey { scope, key: "k" }, "asks asks asks"),
            (GuestEffect::ListKeys { scope, prefix: "" }, "asks asks asks"),
            (request("GET", EffectBody::None), "asks asks granted"),
            (request("GET", body), "asks asks denied"),
            (request("get", EffectBody::None), "asks asks denied"),
            (request("POST", EffectBody::None), "asks asks denied"),
            (GuestEffect::Read { path: "a" }, "asks asks asks"),
            (GuestEffect::List { glob: "*" }, "asks asks asks"),
            (GuestEffect::Search { pattern: "a", globs: &[] }, "asks asks asks"),
            (GuestEffect::Find { globs: &[] }, "asks asks asks"),
            (GuestEffect::Complete { system: "", prompt: "x" }, "asks asks asks"),
            (GuestEffect::Call { calls: &[("a__b", "{}")] }, "asks asks asks"),
            (GuestEffect::FindTools { query: None }, "asks asks asks"),
        ];
        for (effect, expected) in table {
            let found = Mode::ALL.map(|mode| match (mode.denial(effect), mode.allows(effect), mode.asks(effect)) {
                (Some(_), false, _) => "denied",
                (None, true, true) => "free",
                (None, false, true) => "asks",
                (None, false, false) => "granted",
                other => panic!("{effect:?} in {mode}: {other:?}"),
            });
            assert_eq!(found.join(" "), expected, "{effect:?}");
        }
    }

    #[test]
    fn files_that_start_programs_are_asked_about() {
        for path in
            ["MakeFile", "a/build.rs", "package.json", "x/run.SH", ".envrc", "a/.github/w.yml", "vite.config.ts"]
        {
            assert!(starts_programs(path, b"x"), "{path}");
        }
        for path in ["src/main.rs", "docs/a.md", "makefile.md", "a.shx", "config.toml"] {
            assert!(!starts_programs(path, b"x"), "{path}");
        }
        assert!(starts_programs("tools/release", b"#!/bin/sh\n"));
        assert!(PROGRAM_FILES.is_sorted() && PROGRAM_ENDS.is_sorted());
    }

    #[test]
    fn clones_share_the_mode() {
        let slot = ModeSlot::default();
        let other = slot.clone();
        for mode in Mode::ALL {
            other.set(mode);
            assert_eq!((slot.get(), mode.as_str().parse()), (mode, Ok(mode)));
        }
        assert_eq!((Mode::Plan.next(), "no".parse::<Mode>().ok()), (Mode::Ask, None));
    }
}
