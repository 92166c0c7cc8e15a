//! Tests of plugins in Claude Code's format.

use super::*;

fn claude(manifest: &Value) -> Package {
    Package::bare().file(".claude-plugin/plugin.json", &manifest.to_string())
}

/// Returns the plugin with these servers in `.mcp.json`.
fn with_servers(servers: &Value) -> AgentPlugin {
    claude(&json!({"name": "p"})).file(".mcp.json", &servers.to_string()).read().unwrap()
}

#[test]
fn commands_are_skills() {
    let commit = "---\ndescription: Commits\nallowed-tools: Bash(git add:*), Read\nargument-hint: [message]\n---\nCommit $ARGUMENTS.";
    let package = claude(&json!({"name": "git.tools", "version": "1.2", "author": {"name": "me"}, "license": "MIT"}))
        .skill("review")
        .file("commands/commit.md", commit)
        .file("commands/plain.md", "Say hello.")
        .file("commands/rule.md", "--- Say hello.")
        .file("commands/group/deploy.md", "\u{feff}---\n---\nDeploy.")
        .file("commands/README.md", "About.")
        .file("commands/review.md", "Another review.")
        .file("commands/notes.txt", "");
    let plugin = package.read().unwrap();
    assert_eq!((plugin.name.as_str(), plugin.version.as_deref()), ("git.tools", Some("1.2")));
    let bad = vec![("README", Code::InvalidName), ("review", Code::NameShadowed), ("rule", Code::MalformedFrontmatter)];
    assert_eq!(parts(&plugin), (vec!["commit", "deploy", "plain", "review"], bad, vec![]));
    assert_eq!(plugin.notes, []);
    let skill = |path: &str| {
        let skill = plugin.skills.iter().find(|skill| skill.path == path).unwrap();
        skill.found.candidate.as_ref().unwrap()
    };
    let candidate = skill("commands/commit.md");
    assert_eq!(
        (&*candidate.manifest.summary, candidate.instructions.as_deref()),
        ("Commits", Some("Commit $ARGUMENTS."))
    );
    assert_eq!(candidate.manifest.input_hint.as_deref(), Some("[message]"));
    assert_eq!(skill("commands/plain.md").instructions.as_deref(), Some("Say hello."));
    // The skill's only file is a SKILL.md with the bytes of the command.
    let read = candidate.read_files().unwrap();
    assert_eq!(read.candidate.digest(), candidate.digest());
    assert_eq!(&*read.files.get("SKILL.md").unwrap().contents, commit.as_bytes());
    assert_eq!(read.files.iter().count(), 1);
}

#[test]
fn command_that_changed_is_not_read() {
    let package = claude(&json!({"name": "p"})).file("commands/a.md", "One.");
    let plugin = package.read().unwrap();
    fs::write(package.0.path().join("commands/a.md"), "Two.").unwrap();
    assert!(plugin.skills[0].found.candidate.as_ref().unwrap().read_files().is_err());
}

#[test]
fn manifest_is_optional_and_open() {
    let package = Package::bare().file("my-tools/commands/a.md", "Do a.").file("my-tools/.mcp.json", "{}");
    let plugin = AgentPlugin::read(&package.0.path().join("my-tools")).unwrap();
    assert_eq!((plugin.name.as_str(), parts(&plugin).0), ("my-tools", vec!["a"]));
    let named = Package::bare().file("My Tools/commands/a.md", "Do a.");
    let problem = AgentPlugin::read(&named.0.path().join("My Tools")).unwrap_err();
    assert!(problem.message.starts_with("the name of the folder: 'My Tools' is not a valid package name"), "{problem}");
    for (manifest, words) in [
        (json!({}), "'name' is missing"),
        (json!({"name": "../x"}), "'../x' is not a valid package name"),
        (json!({"name": 7}), "'name' must be a string, not a number"),
        (json!([]), "expected an object, found an array"),
    ] {
        let (code, message) = claude(&manifest).refusal();
        assert!(code == Code::PackageManifestInvalid && message.contains(words), "{message}");
        assert!(message.starts_with(".claude-plugin/plugin.json: "), "{message}");
    }
    // An Agent Plugin's manifest takes precedence.
    let both = claude(&json!({"name": "claude"})).file("plugin.json", &manifest("standard").to_string());
    assert_eq!(both.read().unwrap().name.as_str(), "standard");
}

#[test]
fn paths_of_the_manifest_add_skills_and_replace_commands() {
    let package = |manifest: Value| {
        let skill_md = "---\ndescription: x\n---\n";
        claude(&manifest)
            .skill("a")
            .file("more/b/SKILL.md", skill_md)
            .file("single/SKILL.md", skill_md)
            .file("single/below/SKILL.md", skill_md)
            .file("commands/c.md", "")
            .file("extra/d.md", "")
            .file("extra-not/e.md", "")
            .read()
            .unwrap()
    };
    let names = |plugin: &AgentPlugin| parts(plugin).0.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let plugin = package(json!({"name": "p", "skills": ["./more/", "./single"], "commands": "./extra"}));
    assert_eq!(names(&plugin), ["d", "b", "single", "below", "a"].map(String::from).to_vec());
    assert_eq!(plugin.notes, []);
    let plugin = package(json!({"name": "p", "commands": ["./commands", "./extra/d.md"], "skills": "./"}));
    assert_eq!(names(&plugin), ["c", "d", "single", "a"].map(String::from).to_vec());
    let plugin = package(json!({"name": "p", "commands": {"x": {"source": "./extra/d.md"}, "y": {"content": "Hi"}}}));
    assert_eq!(names(&plugin), ["d", "a"].map(String::from).to_vec());
    let why = ".claude-plugin/plugin.json: 'commands': expected a path, found null.";
    assert_eq!(notes(&plugin), [(Code::PackagePartUnused, why)]);
    for (path, why) in [
        ("more", "path 'more' must begin with './'"),
        ("/etc", "path '/etc' must begin with './'"),
        ("./../x", "path './../x' may lead out of the plugin"),
        ("./a\\b", "path './a\\b' may lead out of the plugin"),
        ("./nothing", "there are no skills in './nothing'"),
    ] {
        let plugin = package(json!({"name": "p", "skills": path, "commands": []}));
        assert_eq!(names(&plugin), ["a"]);
        let why = format!(".claude-plugin/plugin.json: 'skills': {why}.");
        assert_eq!(notes(&plugin), [(Code::PackagePartUnused, &*why)]);
    }
}

#[test]
fn commands_count_as_skills() {
    let mut package = claude(&json!({"name": "p"})).skill("a");
    for number in 0..SKILLS {
        package = package.file(&format!("commands/c{number}.md"), "");
    }
    assert_eq!(
        package.refusal(),
        (
            Code::PackageLimit,
            "The package has 257 skills; the limit is 256. Make the package smaller or split it.".to_owned()
        )
    );
}

#[test]
fn servers_are_rewritten_as_entries_of_mcp_json() {
    let servers = json!({
        "local": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/server", "args": ["--data", "${CLAUDE_PLUGIN_DATA}/x"],
            "env": {"KEY": "${KEY}", "MODE": "${MODE:-fast}${MODE:-slow}", "SHELL_CODE": "${x%%y} ${"}},
        "remote": {"type": "http", "url": "${BASE:-https://a.example}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    });
    for file in [servers.clone(), json!({"mcpServers": servers})] {
        let plugin = with_servers(&file);
        assert_eq!((parts(&plugin).2, &plugin.notes[..]), (vec!["local", "remote"], &[][..]));
        let ServerTransport::Stdio { command, args, env, cwd } = &plugin.servers[0].transport else { panic!() };
        assert_eq!((&**command, &args[1][..], cwd), ("./bin/server", "${PLUGIN_DATA}/x", &None));
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            env,
            [
                "CLAUDE_PLUGIN_DATA=${PLUGIN_DATA}",
                "CLAUDE_PLUGIN_ROOT=${PLUGIN_ROOT}",
                "KEY=${KEY}",
                "MODE=${MODE}${MODE}",
                "SHELL_CODE=${x%%y} ${"
            ]
        );
        let variables = [("KEY".to_owned(), None), ("MODE".to_owned(), Some("fast".to_owned()))];
        assert_eq!(plugin.servers[0].variables, variables.into());
        let ServerTransport::StreamableHttp { url, headers } = &plugin.servers[1].transport else { panic!() };
        assert_eq!((url.as_str(), &*headers["Authorization"]), ("https://a.example/mcp", "Bearer ${TOKEN}"));
        assert_eq!(plugin.servers[1].variables, [("TOKEN".to_owned(), None)].into());
    }
    let digest = |entry: &str| {
        let file = format!(r#"{{"s": {entry}}}"#);
        claude(&json!({"name": "p"})).file(".mcp.json", &file).read().unwrap().servers[0].digest
    };
    let one = digest(r#"{"command": "x", "env": {"A": "${A:-1}"}}"#);
    assert_eq!(one, digest(r#"{"env": {"A": "${A:-1}"}, "command": "x"}"#));
    assert_ne!(one, digest(r#"{"command": "x", "env": {"A": "${A:-2}"}}"#));
}

/// The formats read '${TOKEN}' differently, so an allowance for one is not valid for the other.
#[test]
fn digest_of_an_entry_covers_its_form() {
    let servers = json!({"s": {"type": "stdio", "command": "x", "args": ["${TOKEN}"]}});
    let standard = Package::new(&manifest("p")).servers(&servers).read().unwrap();
    let claude = with_servers(&servers);
    assert!(standard.servers[0].variables.is_empty() && !claude.servers[0].variables.is_empty());
    assert_ne!(standard.servers[0].digest, claude.servers[0].digest);
}

#[test]
fn folder_and_program_are_fixed_before_they_are_judged() {
    let plugin = with_servers(&json!({
        "out": {"command": "x", "cwd": "${CLAUDE_PLUGIN_DATA}/${UP:-../../..}"},
        "unset": {"command": "x", "cwd": "./${FOLDER}"},
        "program": {"command": "${SHELL_PROGRAM:-/bin/sh}"},
        "bare": {"command": "${SHELL_PROGRAM}"},
        "below": {"command": "${RUNNER:-node}", "cwd": "${CLAUDE_PLUGIN_ROOT}/${FOLDER:-src}", "args": ["${B", "x"]},
    }));
    let left_out = notes(&plugin);
    for (name, why) in [
        ("out", "cwd '${PLUGIN_DATA}/../../..' leads out of the package"),
        ("unset", "its cwd depends on the variable 'FOLDER'"),
        ("program", "command '/bin/sh' is neither a program name"),
        ("bare", "its command depends on the variable 'SHELL_PROGRAM'"),
    ] {
        let start = format!(".mcp.json: server '{name}' is left out: {why}");
        assert!(left_out.iter().any(|(_, note)| note.starts_with(&start)), "{name}: {left_out:?}");
    }
    let [below] = &plugin.servers[..] else { panic!("{:?}", plugin.servers) };
    let ServerTransport::Stdio { command, cwd, args, .. } = &below.transport else { panic!() };
    assert_eq!((&**command, cwd.as_deref(), &*args[0]), ("node", Some("${PLUGIN_ROOT}/src"), "${B"));
    assert!(below.variables.is_empty());
}

#[test]
fn bad_server_costs_itself() {
    let servers = json!({
        "sse": {"type": "sse", "url": "https://a.example"},
        "socket": {"type": "ws", "url": "wss://a.example"},
        "typeless": {"url": "https://a.example"},
        "strange": {"type": "pipe"},
        "absolute": {"command": "/bin/sh"},
        "home": {"command": "${HOME}/x"},
        "setting": {"command": "x", "env": {"KEY": "${user_config.key}"}},
        "anywhere": {"type": "http", "url": "https://${HOST}/mcp"},
        "plain": {"type": "http", "url": "http://a.example/mcp"},
        "own": {"type": "stdio", "command": "patchbay", "args": ["mcp", "--package", "${CLAUDE_PLUGIN_ROOT}"]},
        "good": {"type": "http", "url": "https://a.example/mcp", "headersHelper": "./bin/token", "timeout": 5},
    });
    let plugin = with_servers(&servers);
    assert_eq!(parts(&plugin).2, ["good"]);
    let left_out = |name: &str| {
        let start = format!(".mcp.json: server '{name}' is left out: ");
        let found = notes(&plugin).into_iter().find_map(|(code, note)| Some((code, note.strip_prefix(&start)?)));
        found.unwrap_or_else(|| panic!("{name}: {:?}", plugin.notes))
    };
    for (name, code, why) in [
        (
            "sse",
            Code::PackageServerUnsupported,
            "Patchbay does not support the transport 'sse', only 'stdio' and 'http'.",
        ),
        (
            "socket",
            Code::PackageServerUnsupported,
            "Patchbay does not support the transport 'ws', only 'stdio' and 'http'.",
        ),
        ("typeless", Code::PackageServerInvalid, "'command' is missing."),
        ("strange", Code::PackageServerInvalid, "unknown type 'pipe'."),
        (
            "setting",
            Code::PackageServerUnsupported,
            "it needs 'user_config.key', which only Claude Code asks its user for.",
        ),
        ("anywhere", Code::PackageServerInvalid, "its url depends on the variable 'HOST'."),
        (
            "plain",
            Code::PackageServerInvalid,
            "url 'http://a.example/mcp' must be https; http is only for this machine.",
        ),
    ] {
        assert_eq!(left_out(name), (code, why));
    }
    assert!(left_out("absolute").1.contains("is neither a program name nor a path that begins with './'"));
    assert_eq!(left_out("home").1, "its command depends on the variable 'HOME'.");
    for field in ["headersHelper", "timeout"] {
        let note = format!(".mcp.json: '{field}' of server 'good' is not used.");
        assert!(notes(&plugin).contains(&(Code::PackagePartUnused, &note)), "{:?}", plugin.notes);
    }
}

#[test]
fn manifest_declares_servers_in_files_or_inline() {
    let one = |command: &str| json!({"command": command});
    let declared = json!(["./servers.json", {"inline": one("b"), "both": one("c")}, "./missing.json", "./x.mcpb", 7]);
    let plugin = claude(&json!({"name": "p", "mcpServers": declared}))
        .file(".mcp.json", &json!({"first": one("x"), "both": one("a")}).to_string())
        .file("servers.json", &json!({"mcpServers": {"file": one("a")}}).to_string())
        .read()
        .unwrap();
    assert_eq!(parts(&plugin).2, ["both", "file", "first", "inline"]);
    let ServerTransport::Stdio { command, .. } = &plugin.servers[0].transport else { panic!() };
    assert_eq!(command, "c");
    let end = "None of its servers are loaded.";
    assert_eq!(
        notes(&plugin),
        [
            (Code::PackageServersInvalid, &*format!("./missing.json: the file does not exist. {end}")),
            (Code::PackageServersInvalid, &*format!("./x.mcpb: only .json files are read. {end}")),
            (
                Code::PackageServersInvalid,
                &*format!(
                    ".claude-plugin/plugin.json: 'mcpServers': expected a path or an object, found a number. {end}"
                )
            ),
        ]
    );
    let many: serde_json::Map<_, _> = (0..33).map(|number| (format!("s{number}"), one("x"))).collect();
    for (file, words) in [
        ("[]".to_owned(), ".mcp.json: expected an object, found an array. "),
        (r#"{"a": {}, "a": {}}"#.to_owned(), ".mcp.json: duplicate key 'a'"),
        (r#"{"mcpServers": []}"#.to_owned(), ".mcp.json: 'mcpServers': expected an object, found an array. "),
        (Value::from(many).to_string(), "33 servers; the limit is 32. "),
    ] {
        let plugin = claude(&json!({"name": "p"})).skill("a").file(".mcp.json", &file).read().unwrap();
        assert_eq!(parts(&plugin), (vec!["a"], vec![], vec![]));
        assert!(notes(&plugin)[0].1.starts_with(words), "{:?}", plugin.notes);
    }
}

#[test]
fn parts_that_run_programs_are_named() {
    let plugin = claude(&json!({
        "name": "p", "description": "x", "hooks": "./h.json", "userConfig": {}, "lspServers": {}, "experimental": {"monitors": []},
    }))
    .skill("a")
    .file("hooks/hooks.json", "{}")
    .file("agents/reviewer.md", "You review.")
    .file("monitors/monitors.json", "[]")
    .file(".lsp.json", "{}")
    .file("bin/run", "")
    .file("settings.json", "{}")
    .read()
    .unwrap();
    let notes = notes(&plugin);
    for note in [
        ".claude-plugin/plugin.json: 'experimental' is not used.",
        ".claude-plugin/plugin.json: 'hooks' is not used.",
        ".claude-plugin/plugin.json: 'lspServers' is not used.",
        ".claude-plugin/plugin.json: 'userConfig' is not used.",
        "'.lsp.json' is not used: language servers of other clients.",
        "'agents/' is not used: agents of other clients.",
        "'bin/' is not used: programs that Claude Code puts on its PATH.",
        "'hooks/' is not used: hooks of other clients.",
        "'monitors/' is not used: programs that other clients start.",
        "'settings.json' is not used: settings of Claude Code.",
    ] {
        assert!(notes.contains(&(Code::PackagePartUnused, note)), "{note}: {notes:?}");
    }
    assert_eq!(notes.len(), 10);
}

#[test]
fn lines_that_claude_code_would_run_are_named() {
    let text = "Status: !`git status` and !`git diff`\nAgain: !`git status`\nRead @src/main.rs and (@README.md), not me@example.com or @ada.\n\
                Run ${CLAUDE_PLUGIN_ROOT}/x, `!` alone and an open !`one\n```!\nls\n```\n";
    let plugin = claude(&json!({"name": "p"})).file("commands/a.md", text).skill("b").read().unwrap();
    let quoted = "'!`git status`', '!`git diff`', '@src/main.rs' and 3 more";
    let start = "'commands/a.md': only Claude Code runs commands and inserts files in a text. Here this stays text: ";
    let note = format!("{start}{quoted}.");
    assert_eq!(notes(&plugin), [(Code::PackagePartUnused, &*note)]);
    let one = claude(&json!({"name": "p"})).file("commands/a.md", "```!\nls\n```\n").read().unwrap();
    assert_eq!(notes(&one)[0].1, format!("{start}'```!'."));
}
