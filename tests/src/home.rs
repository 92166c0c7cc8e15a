//! The contents of a test's home folder: skills as commands, grants, the databases, the log. These are methods of [`Patchbay`] for
//! tests of the whole binary.

use std::{fs, path::Path, time::Duration};

use rusqlite::{Connection, Params, types::FromSql};

use crate::{binary::Patchbay, calls::relaying, guest::Guest};

impl Patchbay {
    /// Installs `guest` as the user's skill `name`, which the command `/NAME` calls. `frontmatter` is appended to the frontmatter
    /// of its SKILL.md; each of its lines ends with a newline.
    pub fn add_command(&self, name: &str, guest: &Guest, frontmatter: &str) {
        let skill_md =
            format!("---\ninvocation_mode: tool_dispatch\ncommand: {name}\ncommand_tool: run\n{frontmatter}---\n");
        self.write(&format!("home/config/skills/{name}.wasm"), guest.packaged(&skill_md));
    }

    /// Installs a skill whose command `/NAME` calls `tool` with `input` and returns the result. The skill has the grant `tools`.
    pub fn add_relay(&self, name: &str, tool: &str, input: &str) {
        self.add_command(name, &relaying(tool, input), "capabilities: [{name: tools}]\n");
        self.grant(name, &["tools"]);
    }

    /// Grants `capabilities` to the skill `skill`, as `patchbay grant add` does.
    pub fn grant(&self, skill: &str, capabilities: &[&str]) {
        for capability in capabilities {
            let ran = self.run(&["grant", "add", skill, capability]);
            assert_eq!((ran.code, &*ran.err), (Some(0), ""), "grant add {skill} {capability}");
        }
    }

    /// Opens a database of the home: `patchbay.db` or `kv.db`. Waits up to 10 seconds for a lock.
    pub fn database(&self, file: &str) -> Connection {
        let database = Connection::open(self.home().join("data").join(file)).expect("a database");
        database.busy_timeout(Duration::from_secs(10)).expect("a busy timeout");
        database
    }

    /// Returns the first column of the only row that a query of `patchbay.db` finds.
    pub fn query_one<T: FromSql>(&self, query: &str, parameters: impl Params) -> T {
        self.database("patchbay.db").query_row(query, parameters, |row| row.get(0)).expect("a row")
    }

    /// Returns the stored messages of a session in order: number, kind and text.
    pub fn stored_messages(&self, session: &str) -> Vec<(i64, String, String)> {
        let database = self.database("patchbay.db");
        let query = "SELECT seq, kind, content FROM messages WHERE session = ? ORDER BY seq";
        let mut query = database.prepare(query).expect("a query");
        let rows = query.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }

    /// Returns the host's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home().join("state/patchbay.log")).expect("a log")
    }
}

/// Asserts that no file below `folder` contains any of `needles`. This includes databases and their write-ahead logs, logs, and
/// caches.
pub fn assert_in_no_file(folder: &Path, needles: &[impl AsRef<str>]) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            assert_in_no_file(&path, needles);
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        for needle in needles.iter().map(AsRef::as_ref) {
            let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
            assert!(!found, "{needle} is in {}", path.display());
        }
    }
}
