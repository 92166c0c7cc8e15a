//! A session with several agents, in the process of the test. The provider `demo` does not wait between its words.

use std::{fs, path::Path, sync::Arc, time::Duration};

use patchbay_core::{AgentId, Outcome};
use patchbay_sandbox::Limits;
use patchbay_session::{AgentInfo, Host, Session};
use tokio::time::timeout;

use crate::{binary::Patchbay, host::host_with, play::quick_demo, session_events::wait_for_end, tree_check};

/// The time limit of what must end.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open session with its home.
pub struct Agents {
    /// The home and the workspace.
    pub patchbay: Patchbay,
    /// The host of the home.
    pub host: Arc<Host>,
    /// The open session.
    pub session: Arc<Session>,
}

impl Agents {
    /// Opens a new session in a new home.
    pub async fn new(limits: Limits) -> Self {
        Self::in_home(Patchbay::new(), limits).await
    }

    /// Opens a new session in the home of `patchbay`.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn in_home(patchbay: Patchbay, limits: Limits) -> Self {
        let host = host_with(&patchbay, quick_demo(), limits);
        let session = host.new_session(&patchbay.workspace()).await.expect("a session");
        Self { patchbay, host, session }
    }

    /// Closes the session and resumes it in another host.
    ///
    /// # Panics
    /// If it cannot be resumed.
    pub async fn restarted(self, limits: Limits) -> Self {
        self.session.close().await;
        let Self { patchbay, host, session } = self;
        let id = session.id();
        drop((host, session));
        let host = host_with(&patchbay, quick_demo(), limits);
        let session = host.resume(id).await.expect("a stored session");
        Self { patchbay, host, session }
    }

    /// Returns the home as it is after `kill -9` at this moment: a copy in which nothing runs. No row may be written meanwhile.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn killed_home(&self) -> Patchbay {
        let copy = Patchbay::new();
        for folder in ["config", "data", "cache"] {
            copy_folder(&self.patchbay.home().join(folder), &copy.home().join(folder));
        }
        copy
    }

    /// Runs a line of the agent in view.
    pub async fn run(&self, line: &str) -> Outcome {
        wait_for_end(self.session.submit(line)).await
    }

    /// Runs a line that must succeed.
    ///
    /// # Panics
    /// If it fails.
    pub async fn ok(&self, line: &str) -> Outcome {
        let outcome = self.run(line).await;
        assert!(outcome.is_ok(), "{line}: {}", outcome.line());
        outcome
    }

    /// Runs a line and returns its code.
    pub async fn code(&self, line: &str) -> String {
        self.run(line).await.code.to_string()
    }

    /// Runs `/fork` with `argument` and returns the child, which is then in view.
    ///
    /// # Panics
    /// If it fails.
    pub async fn fork(&self, argument: &str) -> AgentId {
        let outcome = self.ok(format!("/fork {argument}").trim_end()).await;
        let data = outcome.data.expect("a child");
        data["child_uuid"].as_str().and_then(|id| id.parse().ok()).expect("a UUID")
    }

    /// Returns the living agents, the root first.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn living(&self) -> Vec<AgentInfo> {
        self.session.agent_tree().await.expect("the agents").living
    }

    /// Returns the agent `id`.
    ///
    /// # Panics
    /// If it is not alive.
    pub async fn agent(&self, id: AgentId) -> AgentInfo {
        self.living().await.into_iter().find(|agent| agent.id == id).expect("a living agent")
    }

    /// Returns the living agents besides the root.
    pub async fn children(&self) -> Vec<AgentId> {
        self.living().await.into_iter().skip(1).map(|agent| agent.id).collect()
    }

    /// Waits until `wanted` is true.
    ///
    /// # Panics
    /// If it is not true in time.
    pub async fn wait_until(&self, what: &str, mut wanted: impl AsyncFnMut() -> bool) {
        let waiting = async {
            while !wanted().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
    }

    /// Waits until nothing runs.
    ///
    /// # Panics
    /// If something still runs after a minute.
    pub async fn idle(&self) {
        timeout(PATIENCE, self.session.wait_idle()).await.expect("nothing runs");
    }

    /// Returns the texts of the rows of an agent of these kinds, such as `user`.
    ///
    /// # Panics
    /// If the database cannot be read.
    pub fn texts(&self, agent: AgentId, kind: &str) -> Vec<String> {
        let database = self.patchbay.database("patchbay.db");
        let mut query = database
            .prepare("SELECT content FROM messages WHERE agent = ? AND kind = ? ORDER BY seq")
            .expect("a query");
        let rows = query.query_map([agent.to_string(), kind.to_owned()], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }

    /// Checks the stored tree, when nothing runs.
    pub fn check(&self) {
        tree_check::check(&self.patchbay.database("patchbay.db"), &self.session.id().to_string());
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a copy");
        }
    }
}
