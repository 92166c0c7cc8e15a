//! MCP servers of packages. They are off until the user allows them by name, are checked before each start, and are off again once
//! their entry changes.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use patchbay_tests::{
    acp::{Peer, prompt, said},
    answers::json_lines,
    binary::Patchbay,
    home::assert_in_no_file,
    mcp::{over_http, program},
    terminal::Terminal,
};
use serde_json::{Value, json};

use crate::{
    hot_add::notices,
    packages::{HELLO, agent_plugin, copy, overwrite, succeed},
    plugin_add::plugin,
};

/// Calls a tool that the server marks as read-only.
const ECHO: &str = r#"call mcp__run__echo {"text": "hi"}"#;
const WRITE: &str = r#"call mcp__run__write_it {"text": "hi"}"#;
const ENVIRONMENT: &str = "call mcp__run__environment {}";

/// The package `tools`, in a folder of the workspace.
struct Package {
    patchbay: Patchbay,
}

impl Package {
    fn new() -> Self {
        Self { patchbay: Patchbay::quick() }
    }

    /// The file in which programs of the package record that they ran.
    fn canary(&self, name: &str) -> PathBuf {
        self.patchbay.folder().join(format!("canary-{name}"))
    }

    /// Writes a version with these entries in `mcp.json`. Its programs write canaries.
    fn write(&self, version: &str, servers: &Value) {
        let noting = |name: &str, then: &str| format!("#!/bin/sh\necho ran >> {}\n{then}", self.canary(name).display());
        let run = noting("server", &format!("exec python3 {} \"$@\"\n", program().display()));
        let hook = noting("other", "");
        let hooks = json!({"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "${PLUGIN_ROOT}/bin/hook"}]}]}}).to_string();
        let schema = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json";
        let servers = json!({"$schema": schema, "mcpServers": servers}).to_string();
        let files: [(&str, &[u8]); 6] = [
            ("skills/hello/SKILL.md", HELLO),
            ("README.md", b"read me"),
            ("hooks/hooks.json", hooks.as_bytes()),
            ("bin/hook", hook.as_bytes()),
            ("bin/run", run.as_bytes()),
            ("mcp.json", servers.as_bytes()),
        ];
        agent_plugin(&self.patchbay, "workspace/tools", version, &files);
        for program in ["bin/hook", "bin/run"] {
            let path = self.patchbay.workspace().join("tools").join(program);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// Adds the package with the server `run`, and allows it.
    fn allowed(options: &[&str]) -> Self {
        let package = Self::new();
        package.write("1.0.0", &json!({"run": entry("plain")}));
        succeed(&package.patchbay, &["add", "tools", "--yes"]);
        package.allow(options);
        package
    }

    fn allow(&self, options: &[&str]) -> String {
        succeed(&self.patchbay, &[&["allow", "tools", "run", "--yes"], options].concat())
    }

    /// Runs one line and returns its result and the notices before it.
    fn line(&self, line: &str) -> (String, Vec<String>) {
        let answer = self.patchbay.answers(&[line]).remove(0);
        (answer.message().to_owned(), notices(&answer).map(str::to_owned).collect())
    }

    /// Asserts that the server is not running, and returns the notices with the reasons.
    fn is_off(&self) -> Vec<String> {
        let before = fs::read(self.canary("server")).ok();
        let (said, notices) = self.line(ECHO);
        assert!(said.contains("tool 'mcp__run__echo' not found"), "{said}");
        assert_eq!(fs::read(self.canary("server")).ok(), before, "the program was started");
        notices
    }

    fn runs(&self) {
        let (said, notices) = self.line(ECHO);
        assert!(said.contains("echo: hi"), "{said}, {notices:?}");
    }

    /// Asserts that a command fails with this exit code and stable code, and returns the error.
    fn refused(&self, arguments: &[&str], exit: i32, code: &str) -> String {
        let ran = plugin(&self.patchbay, arguments);
        assert!(ran.code == Some(exit) && ran.err.contains(&format!("[{code}]")), "{arguments:?}: {ran:?}");
        ran.err
    }

    /// Updates the package in a terminal, where the user confirms.
    fn update(&self) {
        let terminal = Terminal::open(&self.patchbay, &["plugin", "update", "tools"]);
        terminal.wait_for_containing("[y/N]");
        terminal.press("y\r");
        assert_eq!(terminal.wait_for_exit(), 0);
    }
}

/// An ACP client that answers each question with 'always'.
struct Asker<'a> {
    patchbay: &'a Patchbay,
    peer: Peer,
    id: i64,
}

impl<'a> Asker<'a> {
    fn new(package: &'a Package) -> Self {
        Self { patchbay: &package.patchbay, peer: Peer::initialized(&package.patchbay), id: 0 }
    }

    /// Calls a tool that writes in a new session, and returns the number of questions.
    fn questions(&mut self) -> usize {
        let Self { patchbay, peer, id } = self;
        *id += 2;
        let made = peer.call(*id, "session/new", json!({"cwd": patchbay.workspace(), "mcpServers": []}));
        let session = made["result"]["sessionId"].as_str().unwrap().to_owned();
        peer.take();
        peer.request(*id + 1, "session/prompt", prompt(&session, WRITE));
        let mut asked = 0;
        loop {
            let message = peer.next_message();
            if message["method"] == "session/request_permission" {
                asked += 1;
                peer.respond(&message, json!({"outcome": {"outcome": "selected", "optionId": "always"}}));
            } else if message["id"] == *id + 1 {
                let said = said(&peer.take());
                assert!(said.contains("write.it: hi"), "{said}");
                return asked;
            }
        }
    }
}

/// An entry that starts the package's own program, which behaves as `mode` says.
fn entry(mode: &str) -> Value {
    json!({"type": "stdio", "command": "./bin/run", "args": [mode], "env": {"DATA": "${PLUGIN_DATA}/x"}})
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn server_runs_only_after_it_was_allowed_by_name() {
    let package = Package::new();
    let patchbay = &package.patchbay;
    package.write("1.0.0", &json!({"run": entry("plain")}));
    let added = succeed(patchbay, &["add", "tools", "--yes"]);
    let line = "server run: 'DATA=${PLUGIN_DATA}/x' ./bin/run plain\n  off until you allow it: patchbay plugin allow tools run\n";
    assert!(added.contains(line), "{added}");
    let mut live = patchbay.live(&[]);
    live.message("/reload_skills");
    assert!(live.message(ECHO).contains("not found"));
    package.write("1.1.0", &json!({"run": entry("plain")}));
    succeed(patchbay, &["update", "--yes", "--to", "1.1.0"]);
    let installed = copy(patchbay, "tools");
    assert_eq!((mode(&installed.join("bin/run")), mode(&installed.join("README.md"))), (0o444, 0o444));
    assert_eq!(package.is_off(), [] as [&str; 0]);
    let checked = patchbay.run(&["mcp", "check", "tools/run"]);
    let words = "Error: server 'tools/run' is off; to allow it: patchbay plugin allow tools run [unavailable]\n";
    assert_eq!((checked.code, &*checked.err), (Some(1), words));
    assert!(patchbay.run(&["mcp", "list"]).out.contains("tools/run: 'DATA="));
    // Without a terminal and --yes, the command is shown and nothing is stored.
    let asked = plugin(patchbay, &["allow", "tools", "run"]);
    assert!(asked.code == Some(2) && asked.out.contains("./bin/run plain\n  its tools: mcp__run__TOOL\n"), "{asked:?}");
    package.is_off();
    assert!(!package.canary("server").exists() && !package.canary("other").exists());

    let allowed = package.allow(&[]);
    assert!(allowed.starts_with(&asked.out) && allowed.contains("To check it: patchbay mcp check run\n"), "{allowed}");
    assert!(live.message(ECHO).contains("echo: hi"), "an open session has it from the next turn on");
    assert_eq!((mode(&installed.join("bin/run")), mode(&installed.join("bin/hook"))), (0o555, 0o444));
    let (said, _) = package.line(WRITE);
    let denied = "tool 'mcp__run__write_it' may not be called: it is not allowed. The user can allow it when asked";
    assert!(said.contains(denied), "{said}");
    for name in ["run", "tools/run"] {
        let checked = patchbay.run(&["mcp", "check", name]);
        assert!(checked.out.starts_with("run: test server 7, MCP "), "{checked:?}");
    }
    let listed = patchbay.run(&["mcp", "list"]).out;
    assert!(listed.contains("\n  server run of package 'tools'\n") && listed.starts_with("run: "), "{listed}");
    assert!(succeed(patchbay, &["list"]).contains("./bin/run plain\n    allowed as 'run'\n"));
    succeed(patchbay, &["verify"]);
    assert!(package.canary("server").exists() && !package.canary("other").exists());

    let denied = succeed(patchbay, &["deny", "tools", "run"]);
    assert!(
        denied.ends_with("A running program is stopped at its session's next turn, or when the session ends.\n"),
        "{denied}"
    );
    package.is_off();
    assert!(live.message(ECHO).contains("not found"));
    package.refused(&["deny", "tools", "run"], 1, "grant_not_found");
}

#[test]
fn environment_of_a_server_is_closed() {
    let mut package = Package::allowed(&["--env", "SERVER_TOKEN", "--env", "NOT_SET"]);
    package.patchbay.set("SERVER_TOKEN", "sesame-0123456789");
    package.patchbay.set("ANOTHER_SECRET", "sentinel-0123456789");
    let (said, _) = package.line(ENVIRONMENT);
    for there in ["\"DATA\"", "\"PLUGIN_DATA\"", "\"PLUGIN_ROOT\"", "\"SERVER_TOKEN\"", "\"PATH\"", "[secret]"] {
        assert!(said.contains(&there.replace('"', "\\\"")) || said.contains(there), "{there}: {said}");
    }
    assert!(!said.contains("ANOTHER_SECRET") && !said.contains("sesame") && !said.contains("PATCHBAY"), "{said}");
    let home = package.patchbay.home();
    let installed = copy(&package.patchbay, "tools");
    assert!(said.contains(installed.to_str().unwrap()), "it is started in the root of its package: {said}");
    let data = home.join("data/package-data/tools");
    assert_eq!(mode(&data), 0o700);
    assert_in_no_file(&home, &["sesame-0123456789".to_owned(), "sentinel-0123456789".to_owned()]);

    // Its data survives updates, until the user deletes it by name.
    fs::write(data.join("kept"), "x").unwrap();
    package.write("1.1.0", &json!({"run": entry("plain")}));
    succeed(&package.patchbay, &["update", "--yes", "--to", "1.1.0"]);
    package.runs();
    let removed = succeed(&package.patchbay, &["remove", "tools"]);
    let running = "A running program is stopped at its session's next turn, or when the session ends.\n";
    for line in
        ["Its server 'run' is no longer allowed.\n", running, "What its skills and servers have stored is kept.\n"]
    {
        assert!(removed.contains(line), "{removed}");
    }
    assert!(data.join("kept").exists());
    succeed(&package.patchbay, &["add", "tools", "--yes"]);
    assert_eq!(package.is_off(), [] as [&str; 0], "a package that was removed has no allowances");
    succeed(&package.patchbay, &["remove", "tools", "--data"]);
    assert!(!data.exists());
}

#[test]
fn changed_package_is_not_started() {
    let package = Package::allowed(&[]);
    package.runs();
    let installed = copy(&package.patchbay, "tools");
    for (path, original) in
        [("README.md", &b"read me"[..]), ("bin/hook", &fs::read(installed.join("bin/hook")).unwrap())]
    {
        let mut changed = original.to_vec();
        changed[0] ^= 1;
        overwrite(&installed.join(path), &changed);
        let notices = package.is_off().join("\n");
        let words =
            "the files of package 'tools' do not match packages.lock ('patchbay plugin verify tools' lists them)";
        assert!(notices.contains(words), "{path}: {notices}");
        overwrite(&installed.join(path), original);
        package.runs();
    }
    // An additional file could be loaded instead of another one.
    fs::write(installed.join("more"), "x").unwrap();
    package.is_off();
    fs::remove_file(installed.join("more")).unwrap();
    // An entry whose digest differs from the lock is not used.
    let servers = fs::read(installed.join("mcp.json")).unwrap();
    overwrite(&installed.join("mcp.json"), &String::from_utf8_lossy(&servers).replace("plain", "other").into_bytes());
    let notices = package.is_off().join("\n");
    assert!(notices.contains("To see what changed: patchbay plugin verify tools"), "{notices}");
    package.refused(&["allow", "tools", "run", "--yes"], 1, "package_changed");
    assert_eq!(package.patchbay.run(&["mcp", "check", "run"]).code, Some(1));
    overwrite(&installed.join("mcp.json"), &servers);
    package.runs();
}

#[test]
fn changed_entry_needs_a_new_allowance_and_new_answers() {
    let package = Package::allowed(&[]);
    let mut asker = Asker::new(&package);
    let mut questions = || asker.questions();
    assert_eq!([questions(), questions()], [1, 0]);
    // A new version with the same entry: the stored answer still applies.
    package.write("1.1.0", &json!({"run": entry("plain")}));
    succeed(&package.patchbay, &["update", "--yes", "--to", "1.1.0"]);
    assert_eq!(questions(), 0);
    package.write("1.2.0", &json!({"run": entry("talks")}));
    package.refused(&["update", "--yes", "--to", "1.2.0"], 2, "package_asks_more");
    package.update();
    let notices = package.is_off();
    let words = "The MCP server 'run' is off: package 'tools' has changed it since you allowed it. To allow it again: patchbay plugin \
                 allow tools run";
    assert_eq!(notices, [words]);
    let off = "off, because it has changed; to allow it again: patchbay plugin allow tools run\n";
    assert!(succeed(&package.patchbay, &["list"]).contains(off));
    let listed = json_lines(&package.patchbay.run(&["mcp", "list", "--json"]).out);
    assert_eq!((&listed[0]["state"], &listed[0]["name"]), (&json!("changed"), &json!("run")));
    package.allow(&[]);
    assert_eq!([questions(), questions()], [1, 0]);
}

#[test]
fn stored_answers_end_with_the_allowance() {
    let package = Package::allowed(&[]);
    let mut asker = Asker::new(&package);
    assert_eq!([asker.questions(), asker.questions()], [1, 0]);
    succeed(&package.patchbay, &["deny", "tools", "run"]);
    package.allow(&[]);
    assert_eq!([asker.questions(), asker.questions()], [1, 0]);
    // A package of the same name and with the same entry, perhaps from a stranger.
    succeed(&package.patchbay, &["remove", "tools"]);
    succeed(&package.patchbay, &["add", "tools", "--yes"]);
    package.allow(&[]);
    assert_eq!(asker.questions(), 1);
}

#[test]
fn synced_package_from_elsewhere_has_no_allowances() {
    let (package, other) = (Package::allowed(&["--env", "SERVER_TOKEN"]), Package::new());
    // Only the source differs; the entry is the same.
    other.write("1.0.2", &json!({"run": entry("plain")}));
    let patchbay = &package.patchbay;
    package.runs();
    succeed(&other.patchbay, &["add", "tools", "--yes"]);
    let exported = other.patchbay.folder().join("exported");
    succeed(&other.patchbay, &["export", exported.to_str().unwrap()]);
    let list = exported.join("packages.lock");
    let sync = ["sync", list.to_str().unwrap(), "--from", exported.to_str().unwrap(), "--yes"];
    let synced = succeed(patchbay, &sync);
    let [new, old] = [&other, &package].map(|it| it.patchbay.workspace().join("tools").display().to_string());
    let line =
        format!("  comes from elsewhere now: {new}, before: {old}; its grants and allowed servers are removed\n");
    assert!(synced.contains(&line), "{synced}");
    assert_eq!(package.is_off(), [] as [&str; 0]);

    // The next version from the same source keeps its allowance.
    package.allow(&[]);
    other.write("1.0.3", &json!({"run": entry("plain")}));
    succeed(&other.patchbay, &["update", "--yes", "--to", "1.0.3"]);
    fs::remove_dir_all(&exported).unwrap();
    succeed(&other.patchbay, &["export", exported.to_str().unwrap()]);
    assert!(succeed(patchbay, &sync).contains(&format!("  from: {new}\n")));
    let (said, notices) = package.line(ECHO);
    assert!(said.contains("echo: hi"), "{said}, {notices:?}");
}

#[test]
fn names_and_settings_of_servers_are_checked() {
    let package = Package::new();
    let patchbay = &package.patchbay;
    let remote = json!({"type": "streamable-http", "url": "https://docs.example.org/mcp"});
    package.write("1.0.0", &json!({"run": entry("plain"), "My docs": remote, "taken": entry("plain")}));
    let config =
        "[mcp.taken]\ncommand = [\"no-such-program\"]\n[credentials.docs]\norigin = \"https://other.example.org\"\n";
    patchbay.write("home/config/config.toml", config);
    package.refused(&["allow", "tools", "run", "--yes"], 1, "package_not_found");
    succeed(patchbay, &["add", "tools", "--yes"]);
    succeed(patchbay, &["add", "tools", "--name", "again", "--rename", "hello=hi", "--yes"]);
    let unknown = package.refused(&["allow", "tools", "nope", "--yes"], 1, "mcp_server_not_found");
    assert!(unknown.contains("package 'tools' has no server 'nope'; it has My docs, run, taken."), "{unknown}");
    let taken = package.refused(&["allow", "tools", "taken", "--yes"], 1, "name_taken");
    assert!(taken.contains("Choose another name: patchbay plugin allow tools taken --as NAME"), "{taken}");
    let invalid = package.refused(&["allow", "tools", "My docs", "--yes"], 1, "invalid_name");
    assert!(invalid.contains("patchbay plugin allow tools 'My docs' --as NAME"), "{invalid}");
    package.allow(&[]);
    let taken = package.refused(&["allow", "again", "run", "--yes"], 1, "name_taken");
    assert!(taken.contains("server 'run' of package 'tools' has the name 'run'"), "{taken}");
    succeed(patchbay, &["allow", "again", "run", "--as", "second", "--yes"]);
    let (said, _) = package.line(r#"call mcp__second__echo {"text": "hi"}"#);
    assert!(said.contains("echo: hi"), "{said}");
    // Once a package is removed, its name is free again.
    succeed(patchbay, &["remove", "tools"]);
    succeed(patchbay, &["allow", "again", "run", "--as", "run", "--yes"]);
    package.runs();
    for (arguments, words) in [
        (&["run", "--credential", "docs"][..], "--credential is for servers with a URL."),
        (&["My docs", "--as", "docs", "--env", "A"], "--env is for programs."),
        (&["My docs", "--as", "docs", "--credential", "none"], "config.toml has no credential 'none'."),
        (
            &["My docs", "--as", "docs", "--credential", "docs"],
            "credential 'docs' is bound to https://other.example.org",
        ),
    ] {
        let error = package.refused(&[&["allow", "again", "--yes"], arguments].concat(), 1, "invalid_args");
        assert!(error.contains(words), "{error}");
    }
    for variable in ["PLUGIN_ROOT", "TOKEN=x"] {
        assert_eq!(plugin(patchbay, &["allow", "again", "run", "--env", variable]).code, Some(2), "{variable}");
    }
    // A table that is added later gets the name.
    patchbay.write("home/config/config.toml", "[mcp.run]\ncommand = [\"no-such-program\"]\n");
    let notices = package.is_off().join("\n");
    assert!(
        notices.contains("The MCP server 'run' of package 'again' is left out: config.toml has a table [mcp.run]."),
        "{notices}"
    );
}

#[test]
fn credential_is_sent_to_the_url_of_a_server() {
    let server = over_http("plain");
    let mut package = Package::new();
    package.patchbay.set("DOCS_TOKEN", "sesame-0123456789");
    let config = format!(
        "[providers.demo]\noptions = {{ delay-ms = \"0\" }}\n[credentials.docs]\norigin = \"http://{}\"\n",
        server.host()
    );
    package.patchbay.write("home/config/config.toml", config);
    let url = format!("http://{}/mcp", server.host());
    package.write("1.0.0", &json!({"run": {"type": "streamable-http", "url": url, "headers": {"X-Tenant": "acme"}}}));
    succeed(&package.patchbay, &["add", "tools", "--yes"]);
    package.is_off();
    assert!(server.requests().is_empty());
    package.allow(&["--credential", "docs"]);
    package.runs();
    let requests = server.requests();
    let carries = |request: &String| {
        request.contains("authorization: Bearer sesame-0123456789\r\n") && request.contains("x-tenant: acme\r\n")
    };
    assert!(!requests.is_empty() && requests.iter().all(carries), "{requests:?}");
}

#[test]
fn code_that_is_fetched_at_each_start_is_named() {
    let package = Package::new();
    let npx = json!({"type": "stdio", "command": "npx", "args": ["-y", "@acme/docs@1.0.0"]});
    package.write("1.0.0", &json!({"run": npx}));
    let line = "server run: npx -y @acme/docs@1.0.0 (fetches its code at each start)\n";
    let patchbay = &package.patchbay;
    assert!(succeed(patchbay, &["add", "tools", "--yes"]).contains(line));
    let asked = plugin(patchbay, &["allow", "tools", "run"]);
    let question = "package 'tools', server run: npx -y @acme/docs@1.0.0 (fetches its code at each start)\n";
    assert!(asked.code == Some(2) && asked.out.starts_with(question), "{asked:?}");
    assert!(succeed(patchbay, &["list"]).contains(line));
    let verified = succeed(patchbay, &["verify"]);
    let words = "tools: note: server 'run' fetches its code at each start, which no digest covers\n";
    assert!(verified.starts_with("tools: all files match") && verified.ends_with(words), "{verified}");
}
