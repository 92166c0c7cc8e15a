//! Messages between the host and the child: the order, and the report.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::support::Support;

/// A program to run. Sent to the child as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The program: a path, or a name that is looked up in `PATH` of `environment`.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The folder that it runs in.
    pub folder: PathBuf,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// What the program may do. `None` for the user's own programs, which may do whatever the user may.
    pub fence: Option<FenceOrder>,
}

/// Rights of a fenced program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FenceOrder {
    /// The parts of the fence. If the child cannot build all of them, it runs nothing.
    pub support: Support,
    /// Files and folders that can be read and executed.
    pub read: Vec<PathBuf>,
    /// Files and folders that can be changed as well.
    pub write: Vec<PathBuf>,
    /// Files and folders below `write` that cannot be changed, if there are namespaces. Missing ones are ignored.
    pub read_only: Vec<PathBuf>,
    /// Folders that cannot be renamed or removed, if there are namespaces, because they contain paths of `read_only`.
    pub fixed: Vec<PathBuf>,
    /// Whether the program may use the network.
    pub network: bool,
}

/// How a program ended. One field is set, or none if the order had no program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramEnd {
    /// The exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why it was killed, as the end of the sentence "it was killed because …".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<String>,
    /// Why it did not run: a sentence without its full stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl ProgramEnd {
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { failed: Some(why.into()), ..Self::default() }
    }

    pub(crate) fn killed(why: impl Into<String>) -> Self {
        Self { killed: Some(why.into()), ..Self::default() }
    }
}
