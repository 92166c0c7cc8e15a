//! Writes packages, then checks them with our own version of the specification's schemas and reads them back.

use patchbay_schema::{PatternBudget, Schema};
use patchbay_skill::SECTION;
use tempfile::TempDir;
use wasm_encoder::{ComponentSection as _, CustomSection};

use super::*;

const GREET: &str = "---\nname: greet\nsummary: Greets people\nversion: 1.2.0\ncommand: greet\n---\nSay hello.\n";

struct Author(TempDir);

impl Author {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    /// Writes a component that contains a SKILL.md but no code.
    fn component(&self, path: &str, skill_md: &str) {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        CustomSection { name: SECTION.into(), data: skill_md.as_bytes().into() }.append_to_component(&mut bytes);
        self.file(path, bytes);
    }

    fn options(&self, out: &str) -> AgentPluginOptions {
        AgentPluginOptions { out: self.path(out), ..AgentPluginOptions::default() }
    }

    fn write(&self, folders: &[&str], options: &AgentPluginOptions) -> Result<WrittenAgentPlugin, BuildError> {
        let folders: Vec<_> = folders.iter().map(|folder| self.path(folder)).collect();
        write_agent_plugin(&folders, options)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).unwrap()
    }

    fn refusal(&self, folders: &[&str], out: &str) -> (Code, String) {
        match self.write(folders, &self.options(out)) {
            Err(BuildError::Skill { problem, .. }) => (problem.code, problem.message),
            other => panic!("{other:?}"),
        }
    }
}

/// Checks a file against our own version of the specification's schema.
fn conforms(schema: &str, file: &Value) -> Result<(), String> {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let schema = Schema::compile(&schema, &mut PatternBudget::default()).unwrap();
    schema.check(file).map_err(|rejection| rejection.to_string())
}

const PLUGIN_SCHEMA: &str = include_str!("schemas/plugin.json");
const MCP_SCHEMA: &str = include_str!("schemas/mcp.json");

#[test]
fn schemas_tell_good_from_bad() {
    let plugin = |name: &str| json!({"$schema": SpecVersion::V1_0.schema("plugin"), "name": name});
    assert_eq!(conforms(PLUGIN_SCHEMA, &plugin("acme.tools")), Ok(()));
    for name in ["", "-a", "a--b", "a..b", "A", &"x".repeat(65)] {
        assert!(conforms(PLUGIN_SCHEMA, &plugin(name)).is_err(), "{name}");
    }
    let server = |entry: Value| json!({"$schema": SpecVersion::V1_0.schema("mcp"), "mcpServers": {"s": entry}});
    assert_eq!(conforms(MCP_SCHEMA, &server(PackageServer::own_entry("${PLUGIN_ROOT}"))), Ok(()));
    for entry in [
        json!({"type": "stdio", "command": "../x"}),
        json!({"type": "stdio", "command": "x", "cwd": "/"}),
        json!({"type": "stdio", "command": "x", "url": "https://a.example"}),
        json!({"command": "x"}),
    ] {
        assert!(conforms(MCP_SCHEMA, &server(entry)).is_err());
    }
}

#[test]
fn skills_become_a_package() {
    let author = Author::new();
    author.component("greet.wasm", GREET);
    author.file("review/SKILL.md", "---\nsummary: Reviews\nversion: 1.2.0\ncapabilities: [kv]\n---\nReview it.\n");
    author.file("review/references/style.md", "Style.");
    let written = author.write(&["review", "greet.wasm"], &author.options("acme.tools")).unwrap();
    assert_eq!(written.folder, author.path("acme.tools"));
    assert_eq!(written.with_tools.iter().map(Name::as_str).collect::<Vec<_>>(), ["greet"]);
    assert_eq!(
        written.notes,
        ["review: without a component, its SKILL.md cannot keep these Patchbay keys: capabilities."]
    );
    assert_eq!(
        written.plugin.files.iter().map(|file| &*file.path).collect::<Vec<_>>(),
        [
            "mcp.json",
            "plugin.json",
            "skills/greet/SKILL.md",
            "skills/greet/greet.wasm",
            "skills/review/SKILL.md",
            "skills/review/references/style.md",
        ]
    );
    let paths: Vec<_> = written.plugin.skills.iter().map(|skill| &*skill.path).collect();
    assert_eq!(paths, ["skills/greet/greet.wasm", "skills/review"]);
    assert_eq!(
        fs::read(author.path("greet.wasm")).unwrap(),
        fs::read(author.path("acme.tools/skills/greet/greet.wasm")).unwrap()
    );
    assert_eq!(
        author.text("acme.tools/skills/greet/SKILL.md"),
        "---\nname: greet\ndescription: \"Greets people\"\nmetadata:\n  version: \"1.2.0\"\n  command: \"greet\"\n---\n\nSay hello.\n"
    );
    let (plugin, mcp) = (author.json("acme.tools/plugin.json"), author.json("acme.tools/mcp.json"));
    assert_eq!((conforms(PLUGIN_SCHEMA, &plugin), conforms(MCP_SCHEMA, &mcp)), (Ok(()), Ok(())));
    assert_eq!((&plugin["version"], &plugin["description"]), (&json!("1.2.0"), &json!("Skills: greet, review")));
    assert_eq!(
        mcp["mcpServers"],
        json!({"acme-tools": {"type": "stdio", "command": "patchbay", "args": ["mcp", "--package", "${PLUGIN_ROOT}"]}})
    );
    // The package in its final folder is the one that was checked.
    let again = AgentPlugin::read(&written.folder).unwrap();
    assert_eq!((again.files, again.notes), (written.plugin.files, vec![]));
}

#[test]
fn author_keeps_what_a_build_does_not_make() {
    let author = Author::new();
    author.component("greet.wasm", GREET);
    author.file("notes/SKILL.md", "---\nsummary: Notes\n---\nTake notes.\n");
    author.write(&["greet.wasm", "notes"], &author.options("acme")).unwrap();
    let mut plugin = author.json("acme/plugin.json");
    plugin["author"] = json!({"name": "Acme"});
    plugin["description"] = json!("All of Acme");
    author.file("acme/plugin.json", plugin.to_string());
    author.file("acme/README.md", "Acme");
    let mut mcp = author.json("acme/mcp.json");
    mcp["mcpServers"]["docs"] = json!({"type": "streamable-http", "url": "https://docs.example"});
    author.file("acme/mcp.json", mcp.to_string());

    let written = author.write(&["notes"], &author.options("acme")).unwrap();
    let paths: Vec<_> = written.plugin.skills.iter().map(|skill| &*skill.path).collect();
    assert_eq!(paths, ["skills/notes"]);
    assert!(!author.path("acme/skills/greet").exists());
    assert_eq!(author.text("acme/README.md"), "Acme");
    let plugin = author.json("acme/plugin.json");
    assert_eq!((&plugin["author"]["name"], &plugin["description"]), (&json!("Acme"), &json!("All of Acme")));
    // Nothing has tools any more, so Patchbay's own server is gone.
    assert_eq!(author.json("acme/mcp.json")["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["docs"]);
    author.file(
        "acme/mcp.json",
        json!({"$schema": SpecVersion::V1_0.schema("mcp"), "mcpServers": {"acme": 1}}).to_string(),
    );
    author.write(&["notes"], &author.options("acme")).unwrap();
    assert!(!author.path("acme/mcp.json").exists());
    assert_eq!(fs::read_dir(author.0.path()).unwrap().count(), 3, "staging folders are left");
}

#[test]
fn marketplace_and_claude_files_are_written_on_request() {
    let author = Author::new();
    author.component("greet.wasm", GREET);
    author.file(
        "acme/.agents/plugins/marketplace.json",
        r#"{"name": "shop", "plugins": [{"name": "other"}, {"name": "acme"}]}"#,
    );
    let options = AgentPluginOptions { marketplace: true, claude: true, ..author.options("acme") };
    let written = author.write(&["greet.wasm"], &options).unwrap();
    assert_eq!(written.folder, author.path("acme/plugins/acme"));
    let codex = author.json("acme/.agents/plugins/marketplace.json");
    let names: Vec<_> = codex["plugins"].as_array().unwrap().iter().map(|plugin| &plugin["name"]).collect();
    assert_eq!((&codex["name"], names), (&json!("shop"), vec![&json!("other"), &json!("acme")]));
    let claude = author.json("acme/.claude-plugin/marketplace.json");
    assert_eq!(
        claude,
        json!({
            "name": "acme", "owner": {"name": "acme"},
            "plugins": [{"name": "acme", "source": "./plugins/acme", "version": "1.2.0", "description": "Greets people"}],
        })
    );
    let server = &author.json("acme/plugins/acme/.mcp.json")["mcpServers"]["acme"];
    assert_eq!(server["args"], json!(["mcp", "--package", "${CLAUDE_PLUGIN_ROOT}"]));
    // Cursor would prefer `.claude-plugin`.
    assert!(!author.path("acme/plugins/acme/.claude-plugin").exists());
    let marketplace = patchbay_skill::agent_plugin::read_marketplace(&author.path("acme")).unwrap().unwrap();
    assert_eq!(marketplace.plugins[0].commands("acme"), ["patchbay plugin add acme/plugins/acme"]);
}

#[test]
fn long_instructions_are_noted() {
    let author = Author::new();
    author.file("long/SKILL.md", format!("---\nsummary: Long\n---\n{}\n", "x".repeat(READ_BY_CODEX)));
    let written = author.write(&["long"], &author.options("acme")).unwrap();
    assert_eq!(written.notes.len(), 1);
    assert!(written.notes[0].starts_with("long: SKILL.md has 80") && written.notes[0].contains("reads only 8000"));
}

#[test]
fn what_cannot_be_a_package_is_refused() {
    let author = Author::new();
    author.component("greet.wasm", GREET);
    author.file("notes/SKILL.md", "---\nsummary: Notes\n---\n");
    author.file("mute/SKILL.md", "---\nname: mute\n---\n");
    author.file("under_score/SKILL.md", "---\nsummary: x\n---\n");
    author.file("full/README.md", "");
    author.file("other/notes/SKILL.md", "---\nsummary: Other notes\n---\n");
    assert_eq!(author.refusal(&["notes"], "Acme").0, Code::PackageManifestInvalid);
    assert_eq!(author.refusal(&["notes"], "full").0, Code::PackageManifestMissing);
    assert_eq!(author.refusal(&["mute"], "acme").0, Code::MalformedFrontmatter);
    assert_eq!(author.refusal(&["under_score"], "acme").0, Code::InvalidName);
    assert_eq!(author.refusal(&["full"], "acme").0, Code::MissingSkillMd);
    assert!(author.refusal(&["notes", "other/notes"], "acme").1.starts_with("Two folders contain a skill 'notes'"));
    assert!(!author.path("acme").exists());

    author.write(&["notes"], &author.options("acme")).unwrap();
    author.file("acme/mcp.json", "{");
    assert_eq!(author.refusal(&["greet.wasm"], "acme").0, Code::PackageServersInvalid);
    author.file("acme/mcp.json", json!({"$schema": SpecVersion::V1_1.schema("mcp"), "mcpServers": {}}).to_string());
    let (code, message) = author.refusal(&["greet.wasm"], "acme");
    assert_eq!(code, Code::PackageServersInvalid);
    assert!(message.contains("it targets Agent Plugins 1.1.0, but plugin.json targets 1.0.0"), "{message}");
    // The earlier package is intact.
    assert_eq!(AgentPlugin::read(&author.path("acme")).unwrap().skills[0].path, "skills/notes");
}
