//! Host calls with any arguments. Paths, globs and URLs mostly consist of parts that matter.

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use patchbay_sandbox::fuzzing::{Ask, http, kv, log};

#[derive(Arbitrary, Debug)]
pub enum AnyAsk {
    Log(u8, String),
    Progress(String),
    Get(Scope, Key),
    Put(Scope, Key, Vec<u8>, Option<u8>),
    Delete(Scope, Key),
    Keys(Scope, String, Option<String>, u32),
    Send(Url, String, Vec<(String, String)>, Vec<(String, String, Option<String>)>, Option<Vec<u8>>, Option<u32>),
    Read(Path, u8, u16),
    ReadFar(Path, u64, u32),
    Walk(Path, Option<Path>, u32),
    Write(Path, Vec<u8>),
    Remove(Path),
    Complete(String, String),
    Call(String, String, u64),
}

#[derive(Arbitrary, Debug)]
pub enum Scope {
    Session,
    Workspace,
    User,
}

/// A small set of keys, which makes calls use the same ones.
#[derive(Arbitrary, Debug)]
pub struct Key(u8);

/// An existing path, a path of known parts, or any text.
#[derive(Arbitrary, Debug)]
pub enum Path {
    Known(u8),
    Parts(Vec<Part>),
    Text(String),
}

#[derive(Arbitrary, Debug)]
pub enum Part {
    Known(u8),
    Text(String),
}

const PATHS: &[&str] = &[
    "a.txt",
    "dir/b.txt",
    "dir/deep/c.txt",
    "hidden",
    "inside",
    "out/secret",
    "absolute",
    "loop",
    "socket",
    ".git/config",
    ".patchbay/skill",
    "new/file",
    "**/*",
];

/// Names in the workspace, parts with which a path could leave it, and parts of globs.
const PARTS: &[&str] = &[
    "a.txt",
    "dir",
    "b.txt",
    "out",
    "secret",
    "absolute",
    "inside",
    "loop",
    "socket",
    ".git",
    "config",
    ".patchbay",
    ".gitignore",
    "hidden",
    "new",
    "..",
    ".",
    "",
    "**",
    "*",
    "?*",
    "{a,b}.txt",
    "[!a]*",
    "\\",
];

#[derive(Arbitrary, Debug)]
pub enum Url {
    Known { scheme: u8, host: u8, rest: String },
    Text(String),
}

const SCHEMES: &[&str] = &["https://", "http://", "HTTPS:\\\\", "ftp://", "https://u@"];
const HOSTS: &[&str] = &[
    "a.example",
    "A.EXAMPLE:443",
    "x.b.example:8443",
    "b.example:8443",
    "a.example.",
    "127.0.0.1",
    "[::1]",
    "c.example",
];

fn pick(list: &[&'static str], place: u8) -> &'static str {
    list[usize::from(place) % list.len()]
}

impl Path {
    fn text(self) -> String {
        match self {
            Self::Known(place) => pick(PATHS, place).to_owned(),
            Self::Text(text) => text,
            Self::Parts(parts) => {
                let part = |part| match part {
                    Part::Known(place) => pick(PARTS, place).to_owned(),
                    Part::Text(text) => text,
                };
                parts.into_iter().map(part).collect::<Vec<_>>().join("/")
            }
        }
    }
}

impl Url {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Known { scheme, host, rest } => format!("{}{}{rest}", pick(SCHEMES, scheme), pick(HOSTS, host)),
        }
    }
}

impl Scope {
    fn wit(&self) -> kv::Scope {
        match self {
            Self::Session => kv::Scope::Session,
            Self::Workspace => kv::Scope::Workspace,
            Self::User => kv::Scope::User,
        }
    }
}

impl Key {
    fn text(&self) -> String {
        format!("k{}", self.0 % 4)
    }
}

impl AnyAsk {
    pub fn into_ask(self) -> Ask {
        match self {
            Self::Log(level, message) => {
                let levels = [log::Level::Debug, log::Level::Info, log::Level::Warn, log::Level::Error];
                Ask::LogWrite(levels[usize::from(level) % levels.len()], message)
            }
            Self::Progress(text) => Ask::ProgressReport(text),
            Self::Get(scope, key) => Ask::KvGet(scope.wit(), key.text()),
            Self::Put(scope, key, value, expect) => {
                Ask::KvPut(scope.wit(), key.text(), value, expect.map(|expect| u64::from(expect % 4)))
            }
            Self::Delete(scope, key) => Ask::KvDelete(scope.wit(), key.text()),
            Self::Keys(scope, prefix, after, limit) => Ask::KvKeys(scope.wit(), prefix, after, limit),
            Self::Send(url, method, headers, credentials, body, timeout_ms) => {
                let pair = |(name, value)| http::Pair { name, value };
                let auth = |(credential, name, prefix): (String, String, Option<String>)| http::Auth {
                    credential,
                    placement: match prefix {
                        Some(value) => http::Placement::Header(http::Pair { name, value }),
                        None => http::Placement::Query(name),
                    },
                };
                Ask::HttpSend(http::Request {
                    method,
                    url: url.text(),
                    headers: headers.into_iter().map(pair).collect(),
                    auth: credentials.into_iter().map(auth).collect(),
                    body,
                    timeout_ms,
                })
            }
            Self::Read(path, offset, max) => Ask::WorkspaceRead(path.text(), offset.into(), max.into()),
            Self::ReadFar(path, offset, max) => Ask::WorkspaceRead(path.text(), offset, max),
            Self::Walk(glob, after, limit) => Ask::WorkspaceWalk(glob.text(), after.map(Path::text), limit),
            Self::Write(path, contents) => Ask::WorkspaceWrite(path.text(), contents),
            Self::Remove(path) => Ask::WorkspaceDelete(path.text()),
            Self::Complete(system, prompt) => Ask::InferenceComplete(system, prompt),
            Self::Call(tool, input, fuel) => Ask::ToolsCall(tool, input, fuel),
        }
    }
}
